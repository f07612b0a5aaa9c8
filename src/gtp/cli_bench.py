"""`gtp bench train | act`: how fast agents train, and how fast policies act, on this machine."""

from __future__ import annotations

import importlib

from gtp.errors import UserError

SUBJECTS = {
    "train": "updates a second for a grid of seeds and sampling steps:  gtp bench train [AGENT…]",
    "act": "microseconds an action takes, beside numpy and PyTorch:  gtp bench act [RUN]",
}


def main(argv: list[str]) -> int:
    """`gtp bench SUBJECT …`; each subject has a file of its own."""
    if not argv or argv[0] in ("-h", "--help"):
        print("\n".join(f"  gtp bench {name:6} {words}" for name, words in SUBJECTS.items()))
        print("\nEach has its own --help.")
        return 0
    if argv[0] not in SUBJECTS:
        raise UserError(f"there is no benchmark {argv[0]!r}; there are {', '.join(SUBJECTS)}")
    return importlib.import_module(f"gtp.bench_{argv[0]}").main(argv[1:])
