"""Transitions kept ready to load: read and hashed once, then a plain copy from disk.

An entry is one uncompressed npz, whose every array carries a checksum. It is used only while path, size and
times of its sources, the format and the options are those it was made from; anything else rebuilds it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gtp.data.arrays import read_arrays
from gtp.data.dataset import Dataset
from gtp.data.write import replaced
from gtp.errors import UserError
from gtp.types import Transition

FORMAT = 2
ABOUT = "about"
BOUNDS = ("action_low", "action_high")
SMALL = 4 * 2**20
"""Sources below this many bytes are read faster than they are looked up."""


def cache_folder() -> Path:
    """Where entries lie: $GTP_CACHE, else ~/.cache/gtp/transitions."""
    return Path(os.environ.get("GTP_CACHE") or Path.home() / ".cache" / "gtp" / "transitions")


def cached(sources: Sequence[Path], options: str, build: Callable[[], Dataset]) -> Dataset:
    """The dataset `build` makes of `sources`, from the cache where that is possible."""
    stats = [source.stat() for source in sources]
    if sum(stat.st_size for stat in stats) < SMALL:
        return build()
    key = {
        "format": FORMAT,
        "options": options,
        "sources": [
            [str(source.resolve()), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
            for source, stat in zip(sources, stats, strict=True)
        ],
    }
    identity = json.dumps([options, *(source[0] for source in key["sources"])])
    entry = cache_folder() / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.npz"
    dataset = _load(entry, key)
    if dataset is None:
        dataset = build()
        _save(entry, key, dataset)
    return dataset


def _load(entry: Path, key: dict[str, Any]) -> Dataset | None:
    """The dataset of an entry; None where there is none, or it is stale or damaged."""
    if not entry.is_file():
        return None
    try:
        arrays = read_arrays(entry, (ABOUT, *Transition._fields, *BOUNDS))
        about = json.loads(arrays[ABOUT].tobytes())
        if about["key"] != key:
            return None
        t = Transition(*(arrays[name] for name in Transition._fields))
        low, high = (arrays[name] for name in BOUNDS)
        return Dataset(transitions=t, action_low=low, action_high=high, **about["dataset"])
    except (UserError, ValueError, KeyError, TypeError):
        return None


def _save(entry: Path, key: dict[str, Any], dataset: Dataset) -> None:
    """Write an entry; a full or read-only disk costs only the time saved next time."""
    arrays = dict(dataset.transitions._asdict())
    arrays |= {name: getattr(dataset, name) for name in BOUNDS}
    plain = {
        field.name: getattr(dataset, field.name)
        for field in dataclasses.fields(dataset)
        if field.name not in ("transitions", *BOUNDS)
    }
    about = json.dumps({"key": key, "dataset": plain}).encode()
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(entry.parent).free < 2 * sum(array.nbytes for array in arrays.values()):
            return
        with replaced(entry) as temporary:
            np.savez(temporary, **arrays, **{ABOUT: np.frombuffer(about, np.uint8)})
    except OSError:
        return
