"""D4RL's HDF5 files, read without D4RL: Gym, AntMaze with its misplaced time-outs, Adroit, Kitchen."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from gtp.data import own
from gtp.data.arrays import read_metadata
from gtp.data.dataset import Log, Rows, qlearning

GYM = {"hopper": "Hopper", "walker2d": "Walker2d", "halfcheetah": "HalfCheetah", "ant": "Ant"}
HAND = ("pen", "door", "hammer", "relocate")
LIMITS = dict.fromkeys(GYM, 1000) | {"pen": 100, "door": 200, "hammer": 200, "relocate": 200, "kitchen": 280}
JUMP = 1.0
"""Metres between two rows that no ant walks in one step: 0.38 is the most in the genuine files."""


class Task(NamedTuple):
    """What a D4RL name says beyond the file."""

    env: str | None
    """Environment to evaluate in."""
    limit: int | None
    """Steps after which an episode was cut."""
    jumps: bool
    """Whether time-outs may be missing where the position jumps."""


def task(name: str) -> Task:
    """The task of a name such as `antmaze-medium-play-v2`."""
    family, *rest = name.split("-")
    if family in GYM:
        return Task(f"gtp/{GYM[family]}-d4rl-v2", LIMITS[family], False)
    if family in HAND:
        return Task(f"gtp/{family.capitalize()}-d4rl-v1", LIMITS[family], False)
    if family == "kitchen" and rest and rest[0] in ("complete", "partial", "mixed"):
        return Task(f"gtp/Kitchen-{rest[0]}-d4rl-v0", LIMITS[family], False)
    if family == "antmaze" and rest and rest[0] in ("umaze", "medium", "large"):
        env = f"gtp/AntMaze-{rest[0]}-{rest[-1]}" if rest[-1] in ("v0", "v2") else None
        return Task(env, 700 if rest[0] == "umaze" else 1000, True)
    return Task(None, LIMITS.get(family), False)


def read(path: Path, name: str) -> Log:
    """The log of one file, by the rule of D4RL's `qlearning_dataset`.

    AntMaze's time-outs do not stand where its episodes end (D4RL issue 77): a transition that jumps across
    the maze gets the time-out it lacks. The time-outs in the file stay, as D4RL leaves them. Its terminals
    are no ends of episodes either: a walk goes on at the goal, one terminal row after the other.
    """
    arrays = own.sound_arrays(path)
    rows = own.to_rows(arrays)
    facts = task(name)
    notes = []
    if "timeouts" not in arrays and facts.limit:
        rows = rows._replace(timeouts=limit_timeouts(rows.terminals, facts.limit))
        notes.append(f"The file has no time-outs; episodes are cut after {facts.limit} steps, as D4RL does.")
    ends = rows.terminals | rows.timeouts
    if facts.jumps:
        far = jumps(rows)
        lost = far & ~ends
        rows = rows._replace(timeouts=rows.timeouts | lost)
        ends = rows.timeouts | far  # A walk goes on after its goal is reached, terminal after terminal.
        if lost.any():
            notes.append(f"Ends of episodes without a time-out, found by a jump in position: {lost.sum():,}.")
    ones = np.ones(rows.actions.shape[1], np.float32)
    metadata = read_metadata(path)
    return Log(
        rows,
        qlearning,
        ends,
        -ones,
        ones,
        metadata.get("env", facts.env),
        metadata,
        tuple(notes),
    )


def jumps(rows: Rows) -> np.ndarray:
    """True in each row after which the ant is where it cannot have walked."""
    moved = np.linalg.norm(np.diff(rows.observations[:, :2], axis=0), axis=1)
    return np.append(moved > JUMP, False)


def limit_timeouts(terminals: np.ndarray, limit: int) -> np.ndarray:
    """Time-outs where `limit` rows have passed since an episode began."""
    index = np.arange(len(terminals))
    starts = np.concatenate([[0], np.flatnonzero(terminals) + 1])
    since = index - starts[np.searchsorted(starts, index, side="right") - 1]
    return (since % limit == limit - 1) & ~terminals
