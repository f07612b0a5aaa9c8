"""The command line: `gtp VERB …`; verbs with a file of their own are in `cli_VERB.py`."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
from pathlib import Path

from gtp.errors import UserError

VERBS = {
    "demo": "train on the built-in 2-D multi-goal data and draw the picture; minutes on two CPU cores",
    "train": "train an agent:  gtp train AGENT --data SPEC [--preset paper] [--seeds 5] [--agent.FIELD …]",
    "eval": "score a policy:  gtp eval RUN [--episodes N] [--act softmax --candidates 50] [--offline]",
    "experiment": "run a table or figure of the paper:  gtp experiment NAME [--scale small] [--out DIR]",
    "presets": "the exact command of every cell of published tables:  gtp presets [AGENT]",
    "report": "scores as one web page and as tables:  gtp report RUN… --out DIR",
    "distill": "the average of 50 candidates as one small network:  gtp distill RUN --out STUDENT",
    "export": "a policy in one file, ONNX or JAX:  gtp export RUN --format onnx --out FILE",
    "data": "list, show, check, convert, get or make data",
    "bench": "how fast agents train and policies act on this machine:  gtp bench train | act",
}


def main(argv: list[str] | None = None) -> int:
    """Run one command: 0 on success, 2 for a user's mistake, 1 where training failed, 130 when stopped.

    141 is for a reader of the output, such as `head`, who has left.
    """
    try:
        try:
            return command(sys.argv[1:] if argv is None else argv)
        finally:
            sys.stdout.flush()
    except UserError as error:
        print(f"gtp: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("gtp: stopped; what was saved so far is kept", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # What is left in the buffer must not be tried again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def command(argv: list[str]) -> int:
    """What the words say, or the list of commands."""
    if not argv or argv[0] in ("-h", "--help"):
        print("gtp: offline reinforcement learning with generative policies\n")
        print("\n".join(f"  gtp {verb:10} {words}" for verb, words in VERBS.items()))
        print("\nEach has its own --help.")
        return 0
    if argv[0] == "--version":
        from gtp import __version__

        print(__version__)
        return 0
    verb, rest = argv[0], argv[1:]
    if verb not in VERBS:
        raise UserError(f"there is no command {verb!r}; there are {', '.join(VERBS)}")
    here = {"demo": demo, "presets": presets}
    # Verbs with a file of their own are imported only when asked for.
    run = here.get(verb) or importlib.import_module(f"gtp.cli_{verb}").main
    return run(rest)


def presets(argv: list[str]) -> int:
    """`gtp presets [AGENT]`."""
    from gtp import agents
    from gtp import presets as table

    if argv and argv[0] in ("-h", "--help"):
        print(VERBS["presets"])
        return 0
    known = [name for name in agents.NAMES if table.presets(name)]
    if argv and argv[0] not in known:
        raise UserError(f"there are no presets for {argv[0]!r}; there are for {', '.join(known)}")
    for name in argv[:1] or known:
        print("\n".join(table.commands(name)))
    if not argv:
        from gtp import experiments

        print("\n".join(experiments.commands()))
    return 0


@dataclasses.dataclass(frozen=True)
class Demo:
    """Train GTP, GTP-BC and a Gaussian BC on the 2-D multi-goal data, and draw what they do."""

    out: Path = Path("demo")
    """Folder for demo.png and figures.json."""
    json: bool = False
    """Print the figures as json."""


def demo(argv: list[str]) -> int:
    """`gtp demo`."""
    import tyro
    from rich.console import Console

    options = tyro.cli(Demo, prog="gtp demo", args=argv)
    from gtp import demo as demonstration

    figures = demonstration.run(options.out, Console(stderr=True))
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        Console().print(demonstration.table(figures))
        print(options.out / "demo.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
