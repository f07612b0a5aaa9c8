"""Minari's folders, read without Minari: metadata.json and data/main_data.hdf5, one group an episode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from gtp.data import own
from gtp.data.arrays import check_total, damaged, hdf5_dataset, hdf5_leaves
from gtp.data.dataset import Log, transitions
from gtp.errors import UserError

PARTS = ("observations", "actions", "rewards", "terminations", "truncations")
KEPT = ("dataset_id", "minari_version", "algorithm_name", "ref_min_score", "ref_max_score", "made", "chunk")
"""What of the metadata, Minari's or our own, a run remembers."""


def files(folder: Path) -> tuple[Path, Path]:
    """The two files of a dataset: its metadata and its episodes."""
    return folder / "data" / "metadata.json", folder / "data" / "main_data.hdf5"


def read(folder: Path) -> Log:
    """The log of one folder. Dictionaries of observations are laid side by side in the order of their keys.

    An episode holds one observation more than actions, so every step has its successor, time-outs too.
    """
    about, data = files(folder)
    metadata = _metadata(about)
    if not data.is_file():
        raise UserError(f"{folder}: there is no data/main_data.hdf5; only Minari's HDF5 format is read.")
    with damaged(data), h5py.File(data, "r") as file:
        episodes = _episodes(data, file)
    arrays = {
        "observations": np.concatenate([e["observations"][:-1] for e in episodes]),
        "next_observations": np.concatenate([e["observations"][1:] for e in episodes]),
        "actions": np.concatenate([e["actions"] for e in episodes]),
        "rewards": np.concatenate([e["rewards"] for e in episodes]),
        "terminals": np.concatenate([e["terminations"] for e in episodes]),
        "timeouts": np.concatenate([e["truncations"] for e in episodes]),
    }
    own.check(data, arrays)
    rows = own.to_rows(arrays)
    ends = np.zeros(len(rows.rewards), bool)
    ends[np.cumsum([len(e["rewards"]) for e in episodes]) - 1] = True
    # A collector that was stopped leaves an episode whose last step says nothing; it was cut there.
    rows = rows._replace(timeouts=rows.timeouts | (ends & ~rows.terminals))
    low, high = _action_bounds(metadata, rows.actions.shape[1])
    kept = {key: str(metadata[key]) for key in KEPT if metadata.get(key) is not None}
    return Log(rows, transitions, ends, low, high, _env(metadata), kept)


def _metadata(path: Path) -> dict[str, Any]:
    try:
        metadata = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        metadata = None
    if not isinstance(metadata, dict):
        raise UserError(f"{path}: this is not the metadata of a Minari dataset.")
    return metadata


def _episodes(path: Path, file: h5py.File) -> list[dict[str, np.ndarray]]:
    count = sum(name.startswith("episode_") for name in file)
    names = [f"episode_{index}" for index in range(count)]
    if not names:
        raise UserError(f"{path}: there are no episodes in it.")
    layout = {part: hdf5_leaves(path, file, f"{names[0]}/{part}") for part in PARTS}
    found = {}
    for name in names:
        for part, leaves in layout.items():
            nodes = [hdf5_dataset(path, file, f"{name}/{part}{leaf}") for leaf in leaves]
            found[name, part] = [node for node in nodes if node is not None and node.shape]
            if not nodes or len(found[name, part]) < len(nodes):
                raise UserError(f"{path}: {name} has no array {part}, or not the arrays of {names[0]}.")
    check_total(path, sum(node.size * node.dtype.itemsize for nodes in found.values() for node in nodes))
    return [_episode(path, name, {part: found[name, part] for part in PARTS}) for name in names]


def _episode(path: Path, name: str, nodes: dict[str, list[Any]]) -> dict[str, np.ndarray]:
    steps = nodes["rewards"][0].shape[0]
    episode = {}
    for part in PARTS:
        arrays = [np.asarray(node[()]) for node in nodes[part]]
        wanted = steps + (part == "observations")
        if steps == 0 or any(len(array) != wanted for array in arrays):
            raise UserError(f"{path}: {name}: {part} has {len(arrays[0])} rows, wanted {wanted}.")
        episode[part] = arrays[0] if len(arrays) == 1 else np.hstack([a.reshape(wanted, -1) for a in arrays])
    return episode


def _action_bounds(metadata: dict[str, Any], dimensions: int) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The bounds of a box of actions; None where there are none that are finite."""
    try:
        space = json.loads(metadata["action_space"])
        low, high = (np.asarray(space[key], np.float32).reshape(dimensions) for key in ("low", "high"))
    except (KeyError, TypeError, ValueError):
        return None, None
    if np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all():
        return low, high
    return None, None


def _env(metadata: dict[str, Any]) -> str | None:
    try:
        env = json.loads(metadata["env_spec"])["id"]
    except (KeyError, TypeError, ValueError):
        return None
    return env if isinstance(env, str) else None
