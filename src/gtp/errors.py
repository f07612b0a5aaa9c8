"""The one exception that means "the user can fix this", and a hint for how."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake in what the user gave, said in one sentence; the command line prints it and exits with 2."""


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """The end of a sentence about a name that is not among those known: the one that it is closest to.

    Where none is close it is `otherwise`.
    """
    close = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]}?" if close else f"; {otherwise}."
