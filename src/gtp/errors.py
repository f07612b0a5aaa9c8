"""The one exception that means "the user can fix this"."""


class UserError(Exception):
    """A mistake in what the user gave, said in one sentence; the command line prints it and exits with 2."""
