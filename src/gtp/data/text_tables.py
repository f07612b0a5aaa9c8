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
LARGEST = float(np.finfo(np.float32).max)
NAMES_TOLD = 10
"""Of a table's columns, in a sentence about one that is not there."""


class Columns(NamedTuple):
    """Which columns of a table are what; a pattern such as `sensor_*` stands for all that match."""

    observations: Sequence[str] = ()
    actions: Sequence[str] = ()
    rewards: str = ""
    terminals: str = ""
    timeouts: str = ""
    episodes: str = ""
    """Anything that stays the same within an episode, such as the number of a recording."""


class Cells(NamedTuple):
    """What is asked of a table."""

    numbers: np.ndarray
    labels: list[str]
    """Of the column that tells episodes apart, if there is one."""
    lines: list[int]
    """Where in the file each row ends, for whoever must look there."""


def read(path: Path, columns: Columns) -> Log:
    """The log in a table with a line of names at its top.

    Raises:
        UserError: with the column and the line of what is wrong.
    """
    _check_asked(path, columns)
    with _opened(path) as (header, rows):
        asked = columns._asdict()
        label = _places(path, header, asked.pop("episodes"))
        places = {key: _places(path, header, names) for key, names in asked.items() if names}
        flat = [place for group in places.values() for place in group]
        twice = next((header[place] for place in flat if flat.count(place) > 1), None)
        if twice is not None:
            raise UserError(f"{path}: column {twice} is given as two things; it can be one.")
        cells = _cells(path, header, rows, flat, label)
    widths = np.cumsum([len(group) for group in places.values()])[:-1]
    arrays = dict(zip(places, np.split(cells.numbers, widths, axis=1), strict=True))
    if label:
        ends = _ends(path, cells)[:, None]
        terminals, timeouts = (arrays.get(key, np.zeros(ends.shape)) for key in ("terminals", "timeouts"))
        # Where an episode truly ended it was not cut; what is no flag stays, to be found below.
        arrays["timeouts"] = np.where(ends & (terminals != 1) & (timeouts == 0), 1.0, timeouts)
    if faults := own.faults(arrays):
        fault = faults[0]
        where = path if fault.row is None else f"{path}, line {cells.lines[fault.row]}"
        raise UserError(f"{where}: {fault.key}: {fault.text}.")
    logged = own.to_rows(arrays)
    ends = logged.terminals | logged.timeouts
    return Log(logged, transitions, ends, metadata={"made": f"from {path.name}"})


def _check_asked(path: Path, columns: Columns) -> None:
    if not path.is_file():
        raise UserError(f"{path}: there is no such file.")
    missing = [f"--{key}" for key in ("observations", "actions", "rewards") if not getattr(columns, key)]
    if not (columns.terminals or columns.timeouts or columns.episodes):
        missing.append("one of --terminals, --timeouts and --episodes")
    if missing:
        raise UserError(f"{path} is a table: say which columns are what with {', '.join(missing)}.")


@contextmanager
def _opened(path: Path) -> Generator[tuple[list[str], Iterator[tuple[int, list[str]]]]]:
    """The names at the top, and the rows below them as text, each with the line it ends at."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            file.seek(0)
            tabs = path.suffix.lower() == ".tsv"
            reader = csv.reader(file, delimiter="\t" if tabs else max(",;\t", key=first.count))
            header = [" ".join(name.split()) for name in next(reader, [])]
            if not any(header):
                raise UserError(f"{path}: there is no line of names at its top.")
            yield header, ((reader.line_num, row) for row in reader if row)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: cannot be read as a table ({error}).") from error


def _places(path: Path, header: list[str], asked: str | Sequence[str]) -> list[int]:
    """Where the columns are that these names and patterns stand for."""
    names = [asked] if isinstance(asked, str) and asked else asked
    places: dict[int, None] = {}
    for name in names:
        found = [name] if name in header else fnmatch.filter(header, name)
        if not found:
            more = ", …" if len(header) > NAMES_TOLD else ""
            meant = did_you_mean(name, header, f"there are {', '.join(header[:NAMES_TOLD])}{more}")
            raise UserError(f"{path}: there is no column {name!r}{meant}")
        for one in found:
            if header.count(one) > 1:
                raise UserError(f"{path}: {header.count(one)} columns are called {one!r}.")
        places |= dict.fromkeys(map(header.index, found))
    if isinstance(asked, str) and len(places) > 1:
        raise UserError(f"{path}: {asked!r} stands for {len(places)} columns, and one is wanted.")
    return list(places)


def _cells(
    path: Path, header: list[str], rows: Iterator[tuple[int, list[str]]], places: list[int], label: list[int]
) -> Cells:
    blocks, labels, lines = [np.empty((0, len(places)))], [], []
    while chunk := list(islice(rows, CHUNK)):
        for line, row in chunk:
            if len(row) != len(header):
                raise UserError(
                    f"{path}, line {line}: {len(row)} cells, and {len(header)} columns have names."
                )
        try:
            block = np.array([[row[place] for place in places] for _, row in chunk], np.float64)
            usual = bool((np.abs(block) <= LARGEST).all())
        except ValueError:
            usual = False
        if not usual:  # A word, or a mistake: one by one, to say where it is.
            block = np.array(
                [[_number(path, line, header[i], row[i]) for i in places] for line, row in chunk]
            )
        blocks.append(block)
        labels += [row[place].strip() for place in label for _, row in chunk]
        lines += [line for line, _ in chunk]
    return Cells(np.concatenate(blocks), labels, lines)


def _number(path: Path, line: int, name: str, cell: str) -> float:
    """A cell as a number; true and false are 1 and 0."""
    word = cell.strip().lower()
    try:
        value = WORDS[word] if word in WORDS else float(word)
    except ValueError:
        value = float("nan")
    if abs(value) <= LARGEST:
        return value
    what = repr(cell) if word else "an empty cell"
    raise UserError(f"{path}, line {line}, column {name}: {what} is no finite number.")


def _ends(path: Path, cells: Cells) -> np.ndarray:
    """In which rows an episode ends: where the next row has another label, and the last."""
    ends, seen = [], set()
    for line, label, after in zip(cells.lines, cells.labels, [*cells.labels, None][1:], strict=True):
        if label in seen:
            raise UserError(
                f"{path}, line {line}: episode {label!r} is there again after another: sort them."
            )
        if label != after:
            seen.add(label)
        ends.append(label != after)
    return np.array(ends, bool)
