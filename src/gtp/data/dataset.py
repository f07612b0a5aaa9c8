"""Logged rows, and the transitions an agent trains on. Numpy only."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gtp.types import Transition


class Rows(NamedTuple):
    """A log in D4RL's layout: row i holds what was seen, done and received at time i."""

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminals: np.ndarray
    """True where the episode truly ended: nothing follows."""
    timeouts: np.ndarray
    """True where the episode was only cut: life went on unseen."""
    next_observations: np.ndarray | None = None
    """What followed each row; without it, row i + 1 does."""


@dataclass(frozen=True)
class Dataset:
    """Transitions ready to train on, with all that a run must remember of where they came from."""

    name: str
    """The SPEC it was loaded by."""
    transitions: Transition
    action_low: np.ndarray
    """What action -1 means in the units of the data."""
    action_high: np.ndarray
    """What action +1 means."""
    env: str | None = None
    """Gymnasium id to evaluate in, where one is known."""
    metadata: dict[str, str] = field(default_factory=dict)
    """Physics, protocol, behaviour policy: whatever a score on these data must carry."""
    fingerprint: str = ""
    """SHA-256 of the transitions."""

    @property
    def size(self) -> int:
        """Number of transitions."""
        return len(self.transitions.reward)


def transitions(rows: Rows) -> Transition:
    """Pair each row with what followed it; drop the rows whose successor was not logged.

    A terminal row needs no successor. A time-out row, and the last row of the log, have one only if
    `next_observations` were logged; without them they are dropped, as D4RL's `qlearning_dataset` does.
    """
    count = len(rows.rewards)
    follows = np.zeros(count, bool)
    follows[:-1] = ~(rows.terminals | rows.timeouts)[:-1]
    index = np.arange(count)
    successor = np.where(follows, index + 1, index)
    if rows.next_observations is None:
        keep = follows | rows.terminals
        next_obs = rows.observations[successor]
    else:
        keep = np.ones(count, bool)
        next_obs = rows.next_observations
    return Transition(
        obs=rows.observations[keep],
        action=rows.actions[keep],
        reward=rows.rewards[keep].astype(np.float32),
        next_obs=next_obs[keep],
        next_action=rows.actions[successor][keep],
        bootstrap=1.0 - rows.terminals[keep].astype(np.float32),
    )


def action_range(actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds that become [-1, 1]: exactly ±1 where the data fit in there, else each dimension's extremes."""
    low, high = actions.min(0), actions.max(0)
    if (low >= -1).all() and (high <= 1).all():
        return np.full_like(low, -1), np.full_like(high, 1)
    constant = low == high
    return np.where(constant, low - 1, low), np.where(constant, high + 1, high)


def scale_actions(t: Transition, low: np.ndarray, high: np.ndarray) -> Transition:
    """Map actions from [low, high] to [-1, 1]."""

    def scale(action: np.ndarray) -> np.ndarray:
        return ((action - low) / (high - low) * 2 - 1).astype(np.float32)

    return t._replace(action=scale(t.action), next_action=scale(t.next_action))


def fingerprint(t: Transition) -> str:
    """SHA-256 over names, types, shapes and bytes of the arrays."""
    digest = hashlib.sha256()
    for name, array in zip(t._fields, t, strict=True):
        array = np.ascontiguousarray(array)
        digest.update(f"{name} {array.dtype} {array.shape};".encode())
        digest.update(array.data)
    return digest.hexdigest()
