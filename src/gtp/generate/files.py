"""Writing made data: D4RL's HDF5 layout and OGBench's npz layout, whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from gtp.generate.shards import Arrays, count_rows, read

METADATA = "gtp_metadata"
"""Where a made file says how it was made: a root attribute in HDF5, an array of one text in npz."""


class Piece(NamedTuple):
    """Shards of whole episodes in a row, and how much of them to keep."""

    paths: list[Path]
    rows: int
    """Keep this many rows at most."""
    whole: bool = False
    """Cut back to the last end of an episode, as D4RL did before it joined two files."""


def write_hdf5(path: Path, pieces: list[Piece], metadata: dict[str, str]) -> None:
    """Join pieces into one file in D4RL's layout."""
    cuts = [_cut(piece) for piece in pieces]
    total = sum(cuts)

    def write(temporary: Path) -> None:
        with h5py.File(temporary, "w") as file:
            file.attrs[METADATA] = np.bytes_(json.dumps(metadata))
            at = 0
            for piece, cut in zip(pieces, cuts, strict=True):
                for arrays in _taken(piece.paths, cut):
                    count = len(arrays["actions"])
                    for key, value in arrays.items():
                        _dataset(file, key, value, total)[at : at + count] = value
                    at += count

    _replace(path, write)


def write_npz(path: Path, piece: Piece, metadata: dict[str, str]) -> None:
    """Join a piece into one npz in OGBench's layout."""
    parts = list(_taken(piece.paths, _cut(piece)))
    joined: dict[str, Any] = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    joined[METADATA] = np.array(json.dumps(metadata))

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez_compressed(file, **joined)

    _replace(path, write)


def _dataset(file: h5py.File, key: str, like: np.ndarray, rows: int) -> h5py.Dataset:
    """The dataset of that name, made at its full length the first time it is needed."""
    if key not in file:
        file.create_dataset(
            key, (rows, *like.shape[1:]), like.dtype, compression="gzip", compression_opts=1, shuffle=True
        )
    found = file[key]
    assert isinstance(found, h5py.Dataset)
    return found


def _taken(paths: Iterable[Path], rows: int) -> Iterable[Arrays]:
    """Arrays of each shard, cut so that together they have that many rows."""
    for arrays in read(list(paths)):
        count = min(rows, len(arrays["actions"]))
        if not count:
            return
        yield {key: value[:count] for key, value in arrays.items()}
        rows -= count


def _cut(piece: Piece) -> int:
    """Rows to keep of a piece."""
    if not piece.whole:
        return min(piece.rows, sum(count_rows(path) for path in piece.paths))
    at = last = 0
    for arrays in _taken(piece.paths, piece.rows):
        ends = np.flatnonzero(arrays["terminals"] | arrays["timeouts"])
        last = at + int(ends[-1]) + 1 if len(ends) else last
        at += len(arrays["actions"])
    return last


def _replace(path: Path, write: Callable[[Path], None]) -> None:
    """Write beside the path, then rename; nothing half-written is left under either name."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
