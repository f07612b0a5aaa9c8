"""A log that is a table of text, as loggers and spreadsheets write it: which of its columns are what."""

from __future__ import annotations

import csv
import fnmatch
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gtp.data import own
from gtp.data.dataset import Log, transitions
from gtp.errors import UserError, did_you_mean

SUFFIXES = (".csv", ".tsv")
CONVERT = (
    "make a data file of it: gtp data convert TABLE FILE.npz --observations COLUMN … --actions COLUMN … "
    "--rewards COLUMN --episodes COLUMN"
)
CHUNK = 10_000
"""Lines that are text at a time: before them all is numbers, after them nothing is read yet."""
WORDS = {"true": 1.0, "false": 0.0}


class Columns(NamedTuple):
    """Which columns of a table are what; a pattern such as `sensor_*` stands for all that match."""

    observations: Sequence[str] = ()
    actions: Sequence[str] = ()
    rewards: str = ""
    terminals: str = ""
    timeouts: str = ""
    episodes: str = ""
    """Anything that stays the same within an episode, such as the number of a recording."""


def read(path: Path, columns: Columns) -> Log:
    """The log in a table with a line of names at its top.

    Raises:
        UserError: with the column and the line of what is wrong.
    """
    _check_asked(path, columns)
    with _lines(path) as (header, lines):
        places = {key: _places(path, header, asked) for key, asked in columns._asdict().items() if asked}
        label = places.pop("episodes", [None])[0]
        flat = [place for group in places.values() for place in group]
        numbers, labels = _cells(path, header, lines, flat, label)
    widths = np.cumsum([len(group) for group in places.values()])[:-1]
    arrays = dict(zip(places, np.split(numbers, widths, axis=1), strict=True))
    if columns.episodes:
        # An episode ends where the next row has another label; where it truly ended, that is no time-out.
        ends = np.array([now != after for now, after in zip(labels, [*labels, None][1:], strict=True)], bool)
        never = np.zeros((len(ends), 1))
        ends = ends[:, None] & (arrays.get("terminals", never) != 1)
        arrays["timeouts"] = ends | (arrays.get("timeouts", never) == 1)
    if faults := own.faults(arrays):
        raise UserError(faults[0].sentence(path))
    rows = own.to_rows(arrays)
    return Log(rows, transitions, rows.terminals | rows.timeouts, metadata={"made": f"from {path.name}"})


def _check_asked(path: Path, columns: Columns) -> None:
    missing = [f"--{key}" for key in ("observations", "actions", "rewards") if not getattr(columns, key)]
    if not (columns.terminals or columns.timeouts or columns.episodes):
        missing.append("one of --terminals, --timeouts and --episodes")
    if missing:
        raise UserError(f"{path} is a table: say which columns are what with {', '.join(missing)}.")


@contextmanager
def _lines(path: Path) -> Generator[tuple[list[str], Iterator[tuple[int, list[str]]]]]:
    """The names at the top, and the lines below them, as text with their numbers."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            mark = max(",;\t", key=first.count)
            header = [name.strip() for name in next(csv.reader([first], delimiter=mark), [])]
            twice = sorted({name for name in header if header.count(name) > 1})
            if twice:
                raise UserError(f"{path}: two columns are called {twice[0]!r}.")
            lines = enumerate(csv.reader(file, delimiter=mark), start=2)
            yield header, ((number, cells) for number, cells in lines if cells)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: cannot be read as a table ({error}).") from error


def _places(path: Path, header: list[str], asked: str | Sequence[str]) -> list[int]:
    """Where the columns are that these names and patterns stand for."""
    places: dict[int, None] = {}
    for name in [asked] if isinstance(asked, str) else asked:
        found = [name] if name in header else fnmatch.filter(header, name)
        if not found:
            meant = did_you_mean(name, header, f"there are {', '.join(header)}")
            raise UserError(f"{path}: there is no column {name}{meant}")
        places |= dict.fromkeys(map(header.index, found))
    if isinstance(asked, str) and len(places) > 1:
        raise UserError(f"{path}: {asked} stands for {len(places)} columns, and one is wanted.")
    return list(places)


def _cells(
    path: Path,
    header: list[str],
    lines: Iterator[tuple[int, list[str]]],
    places: list[int],
    label: int | None,
) -> tuple[np.ndarray, list[str]]:
    """The columns at these places as numbers, and that at `label`, if any, as it stands."""
    blocks, labels = [np.empty((0, len(places)))], []
    while chunk := list(islice(lines, CHUNK)):
        for line, cells in chunk:
            if len(cells) != len(header):
                raise UserError(
                    f"{path}, line {line}: {len(cells)} cells, and {len(header)} columns have names."
                )
        try:
            block = np.array([[cells[place] for place in places] for _, cells in chunk], np.float64)
        except ValueError:  # A word, or a mistake: one by one, to say where it is.
            block = np.array(
                [[_number(path, line, header[i], cells[i]) for i in places] for line, cells in chunk]
            )
        blocks.append(block)
        labels += [cells[label] for _, cells in chunk] if label is not None else []
    return np.concatenate(blocks), labels


def _number(path: Path, line: int, name: str, cell: str) -> float:
    """A cell as a number; true and false are 1 and 0."""
    word = cell.strip().lower()
    try:
        return WORDS[word] if word in WORDS else float(word)
    except ValueError:
        what = repr(cell) if word else "an empty cell"
        raise UserError(f"{path}, line {line}, column {name}: {what} is no number.") from None
