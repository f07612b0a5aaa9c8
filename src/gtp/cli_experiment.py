"""`gtp experiment`: the paper's tables and figures, each one command."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console

from gtp.errors import UserError


@dataclasses.dataclass(frozen=True)
class Options:
    """Run one of the paper's experiments; one that was interrupted goes on where it stopped."""

    scale: Literal["small", "full"] = "full"
    """full: the paper's tasks and updates. small: the same on the multi-goal data, minutes on two cores."""
    out: Path | None = None
    """Folder of the runs and the summary; by default experiments/NAME-SCALE."""
    seeds: int | None = None
    """Seeds of each run; 5 at full scale and 2 at small by default."""
    steps: int | None = None
    """Updates of each run instead of the experiment's own."""


def main(argv: list[str]) -> int:
    """`gtp experiment NAME …`."""
    from gtp import experiment_cells, experiment_tables, experiment_times, experiments

    if not argv or argv[0].startswith("-"):
        print(
            "gtp experiment NAME [--scale small] [--out DIR] [--seeds N] [--steps N], where NAME is one of:\n"
        )
        for name, experiment in experiments.EXPERIMENTS.items():
            print(f"  {name:20} {experiment.title}")
        return 0
    name, experiment = argv[0], experiments.find(argv[0])
    options = tyro.cli(Options, prog=f"gtp experiment {name}", description=experiment.title, args=argv[1:])
    for flag in ("seeds", "steps"):
        if (value := getattr(options, flag)) is not None and value < 1:
            raise UserError(f"--{flag} must be 1 or more, not {value}")
    root = options.out or Path("experiments") / f"{name}-{options.scale}"
    planned, missing = experiment_cells.cells(experiment, options.scale, options.seeds, options.steps)
    experiment_cells.check(planned)
    console = Console(stderr=True)
    for sentence in missing:
        console.print(sentence)
    if not planned:
        raise UserError(f"nothing of {name} can be run")
    if experiment.kind == "cost":
        rows = _measure(planned, root, options, console)
    else:
        rows = _train(planned, root, experiment.title, console)
    experiment_tables.write_table(root, experiment.title, rows)
    if experiment.kind == "picture":
        from gtp import experiment_picture

        experiment_picture.draw(root, planned)
        print(root / "multigoal.png")
    files = [root / "summary.csv"] if experiment.kind == "cost" else [cell.folder(root) for cell in planned]
    labels = [""] if experiment.kind == "cost" else [cell.method for cell in planned]
    if experiment.kind == "steps":
        files, labels = [*files, experiment_times.measure_latency(root, planned)], [*labels, ""]
    print(_page(files, labels, root / "page", experiment.title))
    width = max(shutil.get_terminal_size().columns, 80)
    Console(width=None if sys.stdout.isatty() else width).print(_table(experiment.title, rows))
    print(root / "summary.md")
    return 0


def _page(files: list[Path], labels: list[str], out: Path, title: str) -> Path:
    """The runs, or measured times, as a page, in place of an older one."""
    from gtp import report

    new = out.with_name("page.new")
    shutil.rmtree(new, ignore_errors=True)
    report.write(files, new, title, labels)
    shutil.rmtree(out, ignore_errors=True)
    new.replace(out)
    return out / "index.html"


def _train(planned: list[Any], root: Path, title: str, console: Console) -> list[dict[str, Any]]:
    """All runs, one after the other; the summary is written anew after each, so that it is never old."""
    from gtp import experiment_cells, experiment_tables, scoring
    from gtp.progress import bar

    for i, cell in enumerate(planned):
        label = f"{i + 1}/{len(planned)} {cell.method} on {cell.settings.data}"
        with bar(console, label, cell.settings.steps) as move:

            def follow(run: Any, step: int, report: Any, move: Any = move) -> None:
                move(step, report.metrics, report.alive)
                for member, why in report.stopped.items():
                    name = scoring.name_of(run.members.labels()[member])
                    console.print(f"[red]{name} stopped at update {step:,}: {why}[/]")

            experiment_cells.perform(cell, root, follow)
        experiment_tables.write_table(root, title, experiment_tables.summarise(root, planned))
    return experiment_tables.summarise(root, planned)


def _measure(planned: list[Any], root: Path, options: Options, console: Console) -> list[dict[str, Any]]:
    """Times of all methods; those that were measured before are read."""
    import json

    from gtp import experiment_times
    from gtp.checkpoint import write_json

    rows = []
    for cell in planned:
        path = cell.folder(root) / "cost.json"
        if not path.exists():
            console.print(f"timing {cell.method}")
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, experiment_times.measure_cost(cell, options.scale, options.steps))
        rows.append(json.loads(path.read_text()))
    return rows


def _table(title: str, rows: list[dict[str, Any]]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    names = ("method", "data", "variant", "act", "sampling_steps", "seeds", "last", "last_std", "best")
    names = (*names, "update_ms", "action_ms")
    shown = [name for name in names if any(str(row.get(name, "")) for row in rows)]
    for name in shown:
        table.add_column(name)
    for row in rows:
        cells = (row[name] for name in shown)
        table.add_row(*(f"{x:.3g}" if isinstance(x, float) else str(x) for x in cells))
    return table
