"""The command line: `gtp VERB …`; verbs with a file of their own are in `cli_VERB.py`."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib
import inspect
import itertools
import json
import signal
import sys
import textwrap
import threading
from collections.abc import Generator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from gtp.errors import UserError

VERBS = {
    "demo": "train on the built-in 2-D multi-goal data and draw the picture; minutes on two CPU cores",
    "train": "train an agent:  gtp train AGENT --data SPEC [--preset paper] [--seeds 5] [--agent.FIELD …]",
    "eval": "score a policy:  gtp eval RUN [--episodes N] [--act softmax --candidates 50] [--offline]",
    "experiment": "run a table or figure of the paper:  gtp experiment NAME [--scale small] [--out DIR]",
    "presets": "the exact command of every cell of the paper's tables:  gtp presets [AGENT]",
    "report": "scores as one web page and as tables:  gtp report RUN… --out DIR",
    "export": "a policy in one file, ONNX or JAX:  gtp export RUN --format onnx --out FILE",
    "data": "list, show, check, convert, get or make data",
    "bench": "how fast agents train and policies act on this machine:  gtp bench train | act",
}


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 on success, 2 for a user's mistake, 1 where training failed."""
    argv = sys.argv[1:] if argv is None else argv
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
    try:
        if verb not in VERBS:
            raise UserError(f"there is no command {verb!r}; there are {', '.join(VERBS)}")
        here = {"demo": demo, "train": train, "eval": evaluate, "presets": presets}
        # Verbs with a file of their own are imported only when asked for.
        run = here.get(verb) or importlib.import_module(f"gtp.cli_{verb}").main
        return run(rest)
    except UserError as error:
        print(f"gtp: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("gtp: stopped; what was saved so far is kept", file=sys.stderr)
        return 130


def field_docs(cls: type) -> dict[str, str]:
    """The docstring under each field of a dataclass."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in itertools.pairwise(body.body):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
            found[ast.unparse(field.target)] = inspect.cleandoc(ast.literal_eval(below.value))
    return found


def flags(cls: Any, defaults: dict[str, Any], several: list[str]) -> type:
    """A dataclass for the command line: fields in `several` take one value or more, each has its help."""
    import tyro

    from gtp.config import field_types

    kinds, docs, fields = field_types(cls), field_docs(cls), []
    for field in dataclasses.fields(cls):
        default = defaults.get(field.name, field.default)
        kind = kinds[field.name]
        if field.name in several:
            kind, default = tuple[float, ...], (default,)
        annotated = Annotated[kind, tyro.conf.arg(help=docs[field.name])]
        if default is dataclasses.MISSING:
            fields.append((field.name, annotated))
        else:
            fields.append((field.name, annotated, dataclasses.field(default=default)))
    return dataclasses.make_dataclass(cls.__name__, fields, frozen=True)


def _unnamed(kind: Any) -> Any:
    """Flags of a group without the group's name in front."""
    import tyro

    return Annotated[kind, tyro.conf.arg(name="")]


def train(argv: list[str]) -> int:
    """`gtp train AGENT …`."""
    from gtp import agents

    if not argv or argv[0] in ("-h", "--help"):
        print("gtp train AGENT --data SPEC …, where AGENT is one of:\n")
        for name in agents.NAMES:
            print(f"  {name:12} {(agents.get(name).__doc__ or '').splitlines()[0]}")
        print("\n`gtp train AGENT --help` is the manual of its settings.")
        return 0
    name, rest = argv[0], argv[1:]
    module = agents.get(name)
    if "--resume" in rest:
        return _resume(name, rest)

    import tyro

    from gtp import config
    from gtp import presets as preset_table
    from gtp import run as runs

    preset, rest = _pop(rest, "--preset")
    chosen = preset_table.Preset({}, {})
    if preset is not None:
        data = next((v for f, v in itertools.pairwise(rest) if f == "--data"), None)
        if data is None:
            raise UserError("--preset needs --data, to know which cell of the table is meant")
        chosen = preset_table.find(name, preset, data)
    numbers = config.sweepable(module.Config)
    agent_flags = flags(module.Config, chosen.agent, numbers)
    settings_flags: Any = flags(runs.Settings, chosen.settings, [])
    help_out = "Run directory to create; by default runs/AGENT-DATA-TIME."
    everything = dataclasses.make_dataclass(
        "Train",
        [
            ("settings", _unnamed(settings_flags)),
            ("out", Annotated[Path | None, tyro.conf.arg(help=help_out)], dataclasses.field(default=None)),
            ("agent", agent_flags, dataclasses.field(default_factory=agent_flags)),
        ],
    )
    manual = f"{module.__doc__}\n\nAlso: --preset NAME (published settings), --resume RUN (go on with a run)."
    parsed: Any = tyro.cli(everything, prog=f"gtp train {name}", description=manual, args=rest)
    given = {f.name: getattr(parsed.agent, f.name) for f in dataclasses.fields(parsed.agent)}
    for number in numbers:
        if not given[number]:
            raise UserError(f"--agent.{number} needs at least one value")
    sweep = {k: given[k] for k in numbers if len(given[k]) > 1}
    agent_config = module.Config(**{k: v[0] if k in numbers else v for k, v in given.items()})
    settings = runs.Settings(**dataclasses.asdict(parsed.settings))
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    label = Path(settings.data.replace(":", "-")).stem if settings.data else "data"
    out = parsed.out or Path("runs") / f"{name}-{label}-{stamp}"
    return _follow(runs.start(out, name, agent_config, settings, sweep))


def _pop(argv: list[str], flag: str) -> tuple[str | None, list[str]]:
    """The value of a flag, and the arguments without it."""
    for i, word in enumerate(argv):
        if word.startswith(f"{flag}="):
            return word.split("=", 1)[1], argv[:i] + argv[i + 1 :]
        if word == flag:
            if i + 1 == len(argv):
                raise UserError(f"{flag} needs a value")
            return argv[i + 1], argv[:i] + argv[i + 2 :]
    return None, argv


def _resume(name: str, argv: list[str]) -> int:
    from gtp import run as runs

    folder, rest = _pop(argv, "--resume")
    if rest:
        raise UserError(f"--resume goes on with a run as it was started; it takes no {rest[0]}")
    run, state, alive = runs.resume(Path(str(folder)))
    if run.agent != name:
        raise UserError(f"{folder} is a run of {run.agent}, not of {name}")
    return _follow(run, state, alive)


@contextlib.contextmanager
def _request_to_stop() -> Generator[threading.Event]:
    """Set by what a cluster sends before it takes a machine back: the run is saved to go on elsewhere."""
    asked = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: asked.set())
    try:
        yield asked
    finally:
        signal.signal(signal.SIGTERM, before)


def _follow(run: Any, state: Any = None, alive: Any = None) -> int:
    """Train with a progress bar, and say at the end what there is."""
    import numpy as np
    from rich.console import Console

    from gtp import run as runs
    from gtp.progress import bar

    console = Console(stderr=True)
    labels = run.members.labels()
    done = 0 if state is None else int(np.max(state.step))
    if done >= run.settings.steps:
        console.print(f"{run.folder} has all its {done:,} updates already")
        return 0
    console.print(
        f"[bold]{run.agent}[/] on {run.dataset.name}: {run.dataset.size:,} transitions, "
        f"{len(labels)} member{'s'[: len(labels) > 1]}, {run.settings.steps:,} updates → {run.folder}"
    )
    failed: dict[int, str] = {}
    with bar(console, "compiling", run.settings.steps, done) as move, _request_to_stop() as asked:
        for report in runs.go(run, state, alive, asked.is_set):
            for member, why in report.stopped.items():
                failed[member] = f"{labels[member]} stopped at update {report.step:,}: {why}"
                console.print(f"[red]{failed[member]}; its last good state is kept[/]")
            done = report.step
            move(done, report.metrics, report.alive)
    if asked.is_set() and done < run.settings.steps:
        print(f"gtp: stopped after {done:,} updates; gtp train {run.agent} --resume {run.folder} goes on")
        return 128 + signal.SIGTERM
    from gtp import logs
    from gtp.tables import evaluation_table, offline_table

    for name, table in (("eval.csv", evaluation_table), ("offline.csv", offline_table)):
        rows = [r for r in logs.read(run.folder / name) if int(r["step"]) == run.settings.steps]
        if rows:
            Console().print(table(rows))
    print(run.folder)
    return 1 if failed else 0


@dataclasses.dataclass(frozen=True)
class Eval:
    """Play episodes with a trained policy, or score it on its data, and print what comes out."""

    episodes: int = 10
    """Episodes per member."""
    act: Literal["single", "softmax", "argmax"] | None = None
    """How to act; by default one sample and, where there is a critic, softmax over 50 candidates."""
    candidates: int | None = None
    """Samples to choose from; 50 by default for softmax and argmax."""
    sampling_steps: int | None = None
    """K; by default the agent's own."""
    weights: Literal["online", "ema"] = "online"
    """Act with the trained actor or with its moving average."""
    env: str = ""
    """Environment; by default the one of the data."""
    workers: int = 0
    """Processes that step environments; 0 takes one a core. Episodes are the same whatever their number."""
    offline: bool = False
    """Take scores from the run's data instead of an environment, of its newest checkpoint."""
    fqe: int = 0
    """With --offline: updates of fitted Q evaluation, 0 for none; 20000 is a fair number."""
    save: bool = False
    """Add the rows to RUN/eval.csv, or to RUN/offline.csv."""
    json: bool = False
    """Print the rows as json."""


def evaluate(argv: list[str]) -> int:
    """`gtp eval RUN …`."""
    import tyro

    if not argv or argv[0].startswith("-"):
        tyro.cli(Eval, prog="gtp eval RUN", args=["--help"])
    from rich.console import Console

    from gtp import logs, policy
    from gtp import run as runs
    from gtp.tables import evaluation_table, offline_table
    from gtp.types import Acting

    folder = Path(argv[0])
    options = tyro.cli(Eval, prog="gtp eval RUN", args=argv[1:])
    if options.episodes < 1 or options.workers < 0:
        raise UserError("--episodes must be 1 or more, --workers 0 or more")
    if options.fqe and not options.offline:
        raise UserError("--fqe goes with --offline")
    pi = policy.load(folder)
    ways = runs.ways_to_act(pi.rules)
    if options.act is not None or options.candidates is not None:
        rule = options.act or ("softmax" if "softmax" in pi.rules else "single")
        ways = [Acting(rule, options.candidates or (1 if rule == "single" else 50))]
    ways = [
        policy.check_acting(
            w._replace(sampling_steps=options.sampling_steps, weights=options.weights), pi.rules
        )
        for w in ways
    ]
    rows = _offline(folder, options.fqe, ways) if options.offline else _episodes(folder, pi, options, ways)
    if options.save:
        logs.append(folder / ("offline.csv" if options.offline else "eval.csv"), rows)
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        Console().print(offline_table(rows) if options.offline else evaluation_table(rows))
    return 0


def _offline(folder: Path, fqe_steps: int, ways: list[Any]) -> list[dict[str, Any]]:
    """Offline scores of a run's newest checkpoint."""
    from rich.console import Console

    from gtp import run as runs
    from gtp.progress import bar

    if fqe_steps < 0:
        raise UserError(f"--fqe must be 0 or more, not {fqe_steps}")
    run, state, alive = runs.resume(folder)
    if state is None or alive is None:
        raise UserError(f"{folder} has no checkpoint yet")
    if not fqe_steps:
        return runs.offline_scores(run, state, alive, ways=ways)
    with bar(Console(stderr=True), "fitted Q evaluation", fqe_steps) as move:
        return runs.offline_scores(run, state, alive, fqe_steps, ways, lambda step: move(step, {}, alive))


def _episodes(folder: Path, pi: Any, options: Eval, ways: list[Any]) -> list[dict[str, Any]]:
    """Episodes of a run's policy."""
    from gtp import run as runs
    from gtp.evaluate import Stage

    env = options.env or pi.about["env"]
    if not env:
        raise UserError(
            f"{folder} was trained on data without an environment; name one with --env, or score it --offline"
        )
    members = len(pi.about["members"])
    stack = pi.about.get("frame_stack", 1)
    with Stage(env, members, options.episodes, options.workers, stack) as where:
        return runs.score(pi, where, list(range(members)), ways)


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
