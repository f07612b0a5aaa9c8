"""A user's own `.npz` or HDF5 file: what it must hold, every way it can be wrong, and its rows."""

from __future__ import annotations

import difflib
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gtp.data.arrays import array_names, brief, read_arrays, read_metadata
from gtp.data.dataset import Log, Rows, transitions
from gtp.errors import UserError

NEEDED = ("observations", "actions", "rewards")
ENDS = ("terminals", "timeouts", "truncations")
KEYS = (*NEEDED, *ENDS, "next_observations")
NEAR_MISSES = {
    "obs": "observations",
    "states": "observations",
    "next_obs": "next_observations",
    "next_states": "next_observations",
    "dones": "terminals",
    "terminations": "terminals",
}
"""Names other libraries give these arrays; they are pointed out, never guessed at."""


class Fault(NamedTuple):
    """One thing wrong with a file."""

    key: str
    """The array it is in."""
    row: int | None
    """The first row it is in, counted from 0; None where it concerns the whole array."""
    text: str
    """What is wrong and what to do about it, without the names of file and array."""

    def sentence(self, path: Path) -> str:
        """The fault as one sentence that names file, array and row."""
        place = self.key if self.row is None else f"{self.key}, row {self.row}"
        return f"{path}: {place}: {self.text}."


def faults(arrays: dict[str, np.ndarray], names: Iterable[str] = ()) -> list[Fault]:
    """Everything that keeps these arrays from being a log, in the order of the keys; empty when sound.

    `names` are all names in the file, among which a misnamed array is looked for.
    """
    found = _missing(arrays, [name for name in names if name not in KEYS])
    found += [fault for key in KEYS if key in arrays for fault in _shape(key, arrays[key])]
    lengths = {key: len(arrays[key]) for key in KEYS if key in arrays and arrays[key].ndim}
    rows = lengths.get("observations", max(lengths.values(), default=0))
    if lengths and rows < 2:
        found.append(Fault("observations", None, f"the log has {rows} rows, and one transition takes two"))
    for key, length in lengths.items():
        if length != rows:
            found.append(Fault(key, None, f"{length} rows where observations has {rows}"))
    if {"observations", "next_observations"} <= lengths.keys():
        have, want = arrays["next_observations"].shape[1:], arrays["observations"].shape[1:]
        if have != want:
            found.append(
                Fault("next_observations", None, f"rows of shape {have} where observations has {want}")
            )
    return found + [fault for key in KEYS if key in arrays for fault in _values(key, arrays[key])]


def _missing(arrays: dict[str, np.ndarray], others: list[str]) -> list[Fault]:
    absent = [key for key in NEEDED if key not in arrays]
    found = [Fault(key, None, "this array is missing" + _hint(key, others)) for key in absent]
    if not any(key in arrays for key in ENDS):
        text = (
            "nothing marks where episodes end: add one flag per row, True where the episode truly ended, "
            "and 'timeouts' for episodes that were only cut"
        )
        found.append(Fault("terminals", None, text + _hint("terminals", others)))
    return found


def _hint(key: str, others: list[str]) -> str:
    close = [name for name in others if NEAR_MISSES.get(name) == key] or difflib.get_close_matches(
        key, others, 1
    )
    return f" (is {close[0]!r} meant to be it?)" if close else ""


def _shape(key: str, array: np.ndarray) -> list[Fault]:
    if key == "actions":
        good, wanted = array.ndim == 2, "(rows, dimensions)"
        if array.ndim == 1 and array.dtype.kind in "iu":
            wanted += "; these look like discrete actions, and policies here are continuous"
    elif key in ("observations", "next_observations"):
        good = array.ndim == 2 or (array.ndim == 4 and array.dtype == np.uint8)
        wanted = "(rows, features), or (rows, height, width, channels) of uint8"
    else:
        good, wanted = array.shape in {(array.size,), (array.size, 1)}, "(rows,)"
    if good and array.size == 0 and len(array):
        good, wanted = False, "at least one number a row"
    return [] if good else [Fault(key, None, f"shape {array.shape}, wanted {wanted}")]


def _values(key: str, array: np.ndarray) -> list[Fault]:
    if key in ENDS:
        wrong, text = ~np.isin(array, (0, 1)), "a flag is 0 or 1"
    elif array.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            wrong = ~np.isfinite(array.astype(np.float32))
        text = "not a finite 32-bit number"
    else:
        return []
    places = np.argwhere(wrong)
    if not len(places):
        return []
    rows = len(np.unique(places[:, 0])) if array.ndim else 1
    row = int(places[0, 0]) if array.ndim else None
    value = array[tuple(places[0])]
    more = f" (and {rows - 1:,} more rows)" if rows > 1 else ""
    return [Fault(key, row, f"{text}, found {value!s}{more}")]


def to_rows(arrays: dict[str, np.ndarray]) -> Rows:
    """The log in the types agents train on; the arrays are known to be sound."""
    count = len(arrays["rewards"])

    def flags(*keys: str) -> np.ndarray:
        present = [arrays[key].reshape(count).astype(bool) for key in keys if key in arrays]
        return np.logical_or.reduce(present) if present else np.zeros(count, bool)

    return Rows(
        observations=numbers(arrays["observations"]),
        actions=numbers(arrays["actions"]).astype(np.float32, copy=False),
        rewards=arrays["rewards"].reshape(count).astype(np.float32),
        terminals=flags("terminals"),
        timeouts=flags("timeouts", "truncations"),
        next_observations=numbers(arrays["next_observations"]) if "next_observations" in arrays else None,
    )


def numbers(array: np.ndarray) -> np.ndarray:
    """Images stay bytes; everything else becomes 32-bit floats."""
    if array.ndim == 4 and array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    return np.ascontiguousarray(array, dtype=np.float32)


def check(path: Path, arrays: dict[str, np.ndarray], names: Iterable[str] = ()) -> None:
    """Raise the first fault of these arrays as a UserError; `gtp data check` lists them all."""
    found = faults(arrays, names)
    if found:
        rest = f" ({len(found) - 1} more: gtp data check {path})" if len(found) > 1 else ""
        raise UserError(found[0].sentence(path) + rest)


def sound_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file in D4RL's layout, checked."""
    arrays = read_arrays(path, KEYS)
    check(path, arrays, array_names(path))
    return arrays


def read(path: Path) -> Log:
    """The log of a user's file.

    Raises:
        UserError: with the first fault.
    """
    rows = to_rows(sound_arrays(path))
    metadata = read_metadata(path)
    return Log(rows, transitions, rows.terminals | rows.timeouts, env=metadata.get("env"), metadata=metadata)


@contextmanager
def wrong_shape(path: Path, key: str) -> Generator[None]:
    """Say in one sentence that an array has not the width its use needs."""
    try:
        yield
    except (IndexError, ValueError) as error:
        raise UserError(f"{path}: {key}: not the shape this dataset should have ({brief(error)}).") from error
