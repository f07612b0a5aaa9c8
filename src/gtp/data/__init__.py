"""Data by name: `load` turns one SPEC string into transitions. Numpy and h5py only, no simulator.

A SPEC is `d4rl:hopper-medium-v2`, `minari:D4RL/pen/human-v2`, `ogbench:cube-single-play-singletask-task1-v0`
(`@post` behind it takes success from the next state), `toy:multigoal`, or a path to an `.npz` or HDF5 file or
a Minari folder of your own. After `d4rl:`, `minari:` and `ogbench:` a path may stand too, to read a file by
that format's rules wherever it lies.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from gtp.data import catalogue, d4rl, minari, ogbench, own, rewards, text_tables
from gtp.data.arrays import HDF5_SUFFIXES
from gtp.data.cache import cached
from gtp.data.dataset import (
    Dataset,
    Log,
    Rows,
    action_range,
    episode_sums,
    fingerprint,
    scale_actions,
    transitions,
)
from gtp.errors import UserError, did_you_mean

__all__ = ["load", "locate", "read_log"]

KINDS = ("d4rl", "minari", "ogbench", "toy")


def load(spec: str, reward: str = "none") -> Dataset:
    """The dataset a SPEC names.

    Args:
        spec: see the top of this file.
        reward: name of the reward transform, see `gtp.data.rewards`.

    Raises:
        UserError: where there is no such data, or they are not sound.
    """
    if reward not in rewards.NAMES:
        rewards.transform(reward, np.zeros(0, np.float32), None)
    if spec.startswith("toy:"):
        from gtp.data import toy

        return _transformed(toy.load(spec.removeprefix("toy:")), reward, None)
    source = locate(spec)
    sources = list(minari.files(source)) if source.is_dir() else [source]
    if missing := [file for file in sources if not file.is_file()]:
        raise UserError(f"{missing[0]}: there is no such file.")
    return cached(sources, f"{spec} {reward}", lambda: build(spec, read_log(spec), reward))


def locate(spec: str) -> Path:
    """The file or folder a SPEC stands for.

    Raises:
        UserError: where there is none, with what to do about it.
    """
    kind, colon, name = spec.partition(":")
    if not colon or kind not in KINDS:
        return _own_path(spec)
    if kind == "toy":
        raise UserError(f"{spec} is made when it is loaded; there is no file of it.")
    if kind == "ogbench":
        folder, _, last = name.rpartition("/")
        data = ogbench.parse(last.removesuffix(".npz")).data
        path = Path(folder) / f"{data}.npz" if folder else catalogue.find(f"ogbench:{data}")
        spec = f"ogbench:{data}"
    elif Path(name).suffix.lower() in (".npz", *HDF5_SUFFIXES) or Path(name).is_dir():
        path = Path(name)
    else:
        path = catalogue.find(spec)
    if path is None:
        raise UserError(_how_to_get(spec))
    if not path.exists():
        raise UserError(f"{path}: there is no such file.")
    return path


def _own_path(spec: str) -> Path:
    path = Path(spec)
    if path.is_dir() or path.suffix.lower() in (".npz", *HDF5_SUFFIXES):
        if not path.exists():
            raise UserError(f"{path}: there is no such file.")
        return path
    if path.suffix.lower() in text_tables.SUFFIXES and path.is_file():
        raise UserError(f"{spec} is a table; {text_tables.CONVERT}.")
    raise UserError(
        f"'{spec}' names no data: give d4rl:NAME, minari:ID, ogbench:NAME, toy:NAME or a path ending in .npz "
        "or .hdf5; 'gtp data list' shows the names."
    )


def _how_to_get(spec: str) -> str:
    where = (
        f"{spec} is not on this machine (looked in {catalogue.data_folder()} and in its own library's folder)"
    )
    entry = catalogue.entries().get(spec)
    if spec.startswith("minari:"):
        return f"{where}: download it with Minari's own tool, or give the path of its folder."
    if entry is None:
        meant = did_you_mean(spec, catalogue.entries(), catalogue.SHOWN)
        return f"{where}, and there is no such name{meant}"
    ways = [f"'gtp data get {spec}' downloads it"] + [
        f"'gtp data make {spec}' regenerates it"
    ] * entry.can_make
    return f"{where}: {', '.join(ways)}."


def read_log(spec: str) -> Log:
    """The rows a SPEC names, as logged, with what is known about them."""
    kind, _, name = spec.partition(":")
    if kind == "toy":
        return _toy_log(name)
    path = locate(spec)
    if kind == "d4rl":
        return d4rl.read(path, catalogue.d4rl_name(path) if Path(name).suffix else name)
    if kind == "ogbench":
        return ogbench.read(path, ogbench.parse(name.rpartition("/")[2].removesuffix(".npz")))
    return minari.read(path) if path.is_dir() else own.read(path)


def _toy_log(name: str) -> Log:
    """Toy data come as transitions; as a log, an episode ends where the next row is not what follows."""
    from gtp.data import toy

    data = toy.load(name)
    t, low, high = data.transitions, data.action_low, data.action_high
    terminals = t.bootstrap == 0
    apart = (t.next_obs[:-1] != t.obs[1:]).reshape(data.size - 1, -1).any(1)
    ends = terminals | np.append(apart, True)
    actions = (t.action + 1) / 2 * (high - low) + low
    rows = Rows(t.obs, actions.astype(np.float32), t.reward, terminals, ends & ~terminals, t.next_obs)
    return Log(rows, transitions, ends, low, high, data.env, data.metadata)


def build(name: str, log: Log, reward: str) -> Dataset:
    """Transitions of a log: paired, actions scaled to [-1, 1], fingerprinted, rewards transformed."""
    t = log.pair(log.rows)
    if not len(t.reward):
        raise UserError(f"{name}: no transition is left: no row is followed by another of its episode.")
    low, high = log.action_low, log.action_high
    if low is None or high is None:
        low, high = action_range(t.action)
    t = t._replace(action=np.clip(t.action, low, high), next_action=np.clip(t.next_action, low, high))
    t = scale_actions(t, low, high)
    dataset = Dataset(name, t, low, high, log.env, dict(log.metadata), fingerprint(t))
    return _transformed(dataset, reward, episode_sums(log.rows.rewards, log.ends))


def _transformed(dataset: Dataset, reward: str, returns: np.ndarray | None) -> Dataset:
    """The dataset with other rewards.

    It keeps its fingerprint: a transform is a setting of the agent that wants it, and agents that learned
    from the same log are to be compared, whatever they made of its rewards.
    """
    if reward == "none":
        return dataset
    t = dataset.transitions
    return dataclasses.replace(
        dataset, transitions=t._replace(reward=rewards.transform(reward, t.reward, returns))
    )
