"""Files in the layouts the readers read: D4RL's HDF5, npz, Minari's folder. Written whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np

from gtp.data.arrays import HDF5_SUFFIXES, METADATA, brief
from gtp.data.dataset import Log, Rows
from gtp.errors import UserError


@contextmanager
def replaced(path: Path) -> Generator[Path]:
    """A temporary path that takes the place of `path` once the block is through, and is gone if it fails."""
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)


def write(log: Log, path: Path) -> None:
    """Write a log as `.npz`, as D4RL's `.hdf5`, or, where the path has no suffix, as a Minari folder.

    Raises:
        UserError: where something is there already, or the suffix is another.
    """
    if path.exists():
        raise UserError(f"{path}: something is there already, and nothing is overwritten.")
    suffix = path.suffix.lower()
    if suffix not in (".npz", "", *HDF5_SUFFIXES):
        raise UserError(
            f"{path}: data are written to .npz, to .hdf5, or to a Minari folder without a suffix."
        )
    try:
        _write(log, path, suffix)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({brief(error)}).") from error


def _write(log: Log, path: Path, suffix: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    about = log.metadata | ({"env": log.env} if log.env else {})
    arrays = {key: value for key, value in log.rows._asdict().items() if value is not None}
    with replaced(path) as temporary:
        if suffix == ".npz":
            text = np.frombuffer(json.dumps(about).encode(), np.uint8)
            np.savez_compressed(temporary, **arrays, **{METADATA: text})
        elif suffix:
            with h5py.File(temporary, "w") as file:
                for key, value in arrays.items():
                    file.create_dataset(key, data=value, compression="gzip", compression_opts=4)
                file.attrs[METADATA] = np.bytes_(json.dumps(about))
        else:
            _write_minari(log, temporary, path.name)


def _write_minari(log: Log, folder: Path, name: str) -> None:
    rows, ends = log.rows, log.ends.copy()
    ends[-1:] = True
    stops = np.flatnonzero(ends) + 1
    starts = np.concatenate([[0], stops[:-1]])
    (folder / "data").mkdir(parents=True)
    episodes = steps = 0
    with h5py.File(folder / "data" / "main_data.hdf5", "w", track_order=True) as file:
        for start, stop in zip(starts, stops, strict=True):
            arrays = _minari_episode(rows, start, stop)
            if not len(arrays["rewards"]):
                continue
            group = file.create_group(f"episode_{episodes}")
            group.attrs["id"] = episodes
            group.attrs["total_steps"] = len(arrays["rewards"])
            for key, value in arrays.items():
                group.create_dataset(key, data=value)
            episodes += 1
            steps += len(arrays["rewards"])
    low = log.action_low if log.action_low is not None else np.full(rows.actions.shape[1], -np.inf)
    high = log.action_high if log.action_high is not None else np.full(rows.actions.shape[1], np.inf)
    infinity = np.full(rows.observations.shape[1:], np.inf)
    images = rows.observations.dtype == np.uint8
    about = {
        "dataset_id": name,
        "data_format": "hdf5",
        "total_episodes": episodes,
        "total_steps": steps,
        "minari_version": "0.5.0",
        # Images are stored as they are, not as JPEG.
        "jpeg_encoding": False,
        "observation_space": _box(0 * infinity, 0 * infinity + 255, "uint8")
        if images
        else _box(-infinity, infinity),
        "action_space": _box(low, high),
        **log.metadata,
    }
    if log.env:
        about["env_spec"] = json.dumps({"id": log.env})
    (folder / "data" / "metadata.json").write_text(json.dumps(about, indent=2))


def _minari_episode(rows: Rows, start: int, stop: int) -> dict[str, np.ndarray]:
    """One episode with its closing observation.

    Where that was not logged, the last row of an episode that was cut gives up its own; after a true end it
    never counts, and the last one is repeated.
    """
    last = stop - 1
    if rows.next_observations is not None:
        closing = rows.next_observations[last:stop]
    elif rows.terminals[last]:
        closing = rows.observations[last:stop]
    else:
        closing, stop = rows.observations[last:stop], last
    part = slice(start, stop)
    truncations = rows.timeouts[part] & ~rows.terminals[part]
    if stop > start and not rows.terminals[stop - 1]:
        truncations[-1] = True
    return {
        "observations": np.concatenate([rows.observations[part], closing]),
        "actions": rows.actions[part],
        "rewards": rows.rewards[part],
        "terminations": rows.terminals[part],
        "truncations": truncations,
    }


def _box(low: np.ndarray, high: np.ndarray, dtype: str = "float32") -> str:
    return json.dumps(
        {"type": "Box", "dtype": dtype, "shape": list(low.shape), "low": low.tolist(), "high": high.tolist()}
    )
