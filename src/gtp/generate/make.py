"""`gtp data make`: a dataset from its name, a policy and a seed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import gtp
from gtp.errors import UserError
from gtp.generate import files, shards
from gtp.generate.recipes import Recipe, full_name, recipe

FORMAT = "1"
"""Of the shards; unfinished work of another format is not continued."""


def make(
    name: str,
    out: Path | str,
    policy: Sequence[Path | str] | None = None,
    steps: int | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: bool = True,
) -> Path:
    """Make a dataset on all cores and write it whole or not at all; returns where it is.

    The same name, policies, steps and seed give the same rows on any number of workers. What is interrupted
    goes on where it was when asked for again: finished work waits beside `out` under its name with `.parts`.
    `steps` counts the rows of the file; None is the official number. For data in npz the validation file is
    written beside `out`, under its name with `-val`.
    """
    name = full_name(name)
    paths = [Path(file) for file in policy or ()]
    plan = recipe(name, paths, steps, seed)
    target = _target(Path(out), name, plan)
    metadata = plan.metadata | _versions()
    folder = target.with_name(target.name + ".parts")
    key = metadata | {"steps": str(steps), "format": FORMAT}
    try:
        with shards.open_folder(folder, key):
            with _bar(name, sum(part.rows for part in plan.parts), progress) as report:
                pieces = [
                    files.Piece(
                        part.collect(folder / str(number), workers or shards.default_workers(), report),
                        part.rows,
                        part.whole,
                    )
                    for number, part in enumerate(plan.parts)
                ]
            _write(target, plan, pieces, metadata)
            shutil.rmtree(folder)
    except OSError as error:
        raise UserError(f"{target} could not be made: {error}.") from None
    return target


def validation_path(path: Path) -> Path:
    """Where the validation rows of an npz dataset are."""
    return path.with_name(f"{path.stem}-val{path.suffix}")


def _write(target: Path, plan: Recipe, pieces: list[files.Piece], metadata: dict[str, str]) -> None:
    """The validation file first, so that the dataset's own name means that all of it is there."""
    if plan.validation:
        (piece,) = pieces
        train, rest = piece.paths[: -plan.validation], piece.paths[-plan.validation :]
        note = metadata | {"split": "validation"}
        files.write_npz(validation_path(target), piece._replace(paths=rest), note)
        files.write_npz(target, piece._replace(paths=train), metadata)
    elif plan.suffix == ".npz":
        files.write_npz(target, pieces[0], metadata)
    else:
        files.write_hdf5(target, pieces, metadata)


def _target(out: Path, name: str, plan: Recipe) -> Path:
    """The file to write; a folder gets the dataset's own name."""
    if out.is_dir():
        out = out / (name.partition(":")[2] + plan.suffix)
    if out.suffix != plan.suffix:
        raise UserError(
            f"{name} is written as {plan.suffix}, so --out must end in that and {out.name} does not."
        )
    if not out.parent.is_dir():
        raise UserError(f"There is no folder {out.parent} to write {out.name} into.")
    if out.exists():
        raise UserError(f"{out} exists already and is not overwritten.")
    return out


def _versions() -> dict[str, str]:
    found = {"gtp": gtp.__version__}
    for package in ("mujoco", "ogbench", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return {f"{package}_version": number for package, number in found.items()}


@contextmanager
def _bar(name: str, rows: int, shown: bool) -> Generator[Callable[[int], object]]:
    """A progress bar on stderr, counted in rows."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TextColumn("rows"), TimeRemainingColumn())
    console = Console(file=sys.stderr)
    with Progress(*columns, console=console, disable=not shown) as bar:
        task = bar.add_task(name, total=rows)

        def advance(count: int) -> None:
            # Whole episodes overshoot the rows wanted.
            bar.update(task, completed=min(bar.tasks[task].completed + count, rows))

        yield advance
