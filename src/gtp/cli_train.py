"""`gtp train AGENT …`: a command line made of an agent's settings, and a run that is followed to its end."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import itertools
import signal
import textwrap
import threading
from collections.abc import Generator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from gtp.errors import UserError


def main(argv: list[str]) -> int:
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
    from gtp.plan import Settings

    preset, rest = _pop(rest, "--preset")
    chosen = preset_table.Preset({}, {})
    if preset is not None:
        data = next((v for f, v in itertools.pairwise(rest) if f == "--data"), None)
        if data is None:
            raise UserError("--preset needs --data, to know which cell of the table is meant")
        chosen = preset_table.find(name, preset, data)
    numbers = config.sweepable(module.Config)
    agent_flags = flags(module.Config, chosen.agent, numbers)
    settings_flags: Any = flags(Settings, chosen.settings, [])
    help_out = "Run directory to create; by default runs/AGENT-DATA-TIME."
    everything = dataclasses.make_dataclass(
        "Train",
        [
            ("settings", _unnamed(settings_flags)),
            ("out", Annotated[Path | None, tyro.conf.arg(help=help_out)], dataclasses.field(default=None)),
            ("agent", agent_flags, dataclasses.field(default_factory=agent_flags)),
        ],
    )
    also = "Also: --preset NAME (`gtp presets AGENT` lists them), --resume RUN (go on with a run)."
    manual = f"{module.__doc__}\n\n{also}"
    parsed: Any = tyro.cli(everything, prog=f"gtp train {name}", description=manual, args=rest)
    given = {f.name: getattr(parsed.agent, f.name) for f in dataclasses.fields(parsed.agent)}
    for number in numbers:
        if not given[number]:
            raise UserError(f"--agent.{number} needs at least one value")
    sweep = {k: given[k] for k in numbers if len(given[k]) > 1}
    agent_config = module.Config(**{k: v[0] if k in numbers else v for k, v in given.items()})
    settings = Settings(**dataclasses.asdict(parsed.settings))
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    label = Path(settings.data.replace(":", "-")).stem if settings.data else "data"
    out = parsed.out or Path("runs") / f"{name}-{label}-{stamp}"
    return follow(runs.start(out, name, agent_config, settings, sweep))


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
    return follow(run, state, alive)


@contextlib.contextmanager
def _request_to_stop() -> Generator[threading.Event]:
    """Set by what a cluster sends before it takes a machine back: the run is saved to go on elsewhere."""
    asked = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: asked.set())
    try:
        yield asked
    finally:
        signal.signal(signal.SIGTERM, before)


def follow(run: Any, state: Any = None, alive: Any = None) -> int:
    """Train with a progress bar, and say at the end what there is."""
    import numpy as np
    from rich.console import Console

    from gtp import run as runs
    from gtp import scoring
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
                failed[member] = f"{scoring.name_of(labels[member])} stopped at update {report.step:,}: {why}"
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
