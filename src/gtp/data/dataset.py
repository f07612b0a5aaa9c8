"""Logged rows, and the transitions an agent trains on. Numpy only."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gtp.errors import UserError
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
class Log:
    """What a reader hands on: the rows as logged, and how to make transitions of them."""

    rows: Rows
    pair: Callable[[Rows], Transition]
    """`transitions`, or `qlearning` where a benchmark fixes the rule."""
    ends: np.ndarray
    """True in the last row of each episode, which is not the same as `terminals`."""
    action_low: np.ndarray | None = None
    """Bounds the format states; found from the actions where None."""
    action_high: np.ndarray | None = None
    env: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What the reader had to repair, a sentence each."""


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
    """SHA-256 of the transitions, rewards as they were logged."""

    @property
    def size(self) -> int:
        """Number of transitions."""
        return len(self.transitions.reward)


def transitions(rows: Rows) -> Transition:
    """Pair each row with what followed it; drop the rows whose successor was not logged.

    A terminal row needs no successor: its next observation never counts, and is whatever row stands behind
    it. A time-out row, and the last row of the log, have a successor only if `next_observations` were
    logged; without them they are dropped.
    """
    count = len(rows.rewards)
    follows = ~(rows.terminals | rows.timeouts)
    follows[-1:] = False
    keep = np.flatnonzero(follows | rows.terminals | (rows.next_observations is not None))
    behind = np.minimum(keep + 1, count - 1)
    logged = rows.next_observations
    return Transition(
        obs=rows.observations[keep],
        action=rows.actions[keep],
        reward=rows.rewards[keep].astype(np.float32),
        next_obs=rows.observations[behind] if logged is None else logged[keep],
        next_action=rows.actions[np.where(follows[keep], behind, keep)],
        bootstrap=1.0 - rows.terminals[keep].astype(np.float32),
    )


def qlearning(rows: Rows) -> Transition:
    """D4RL's `qlearning_dataset` to the letter: what follows is the next row, whatever else was logged.

    Rows marked as time-outs are dropped even where they are terminal too, and so is the last row of the log.
    """
    dropped = rows.timeouts.copy()
    dropped[-1:] = True
    rows = rows._replace(terminals=rows.terminals & ~dropped, timeouts=dropped, next_observations=None)
    return transitions(rows)


def episode_sums(values: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The sum of `values` over each episode, `ends` being True in each one's last row.

    An episode still running where the log stops counts as one.
    """
    starts = np.flatnonzero(np.concatenate([[True], ends[:-1]]))
    return np.add.reduceat(values.astype(np.float64), starts)


def episode_numbers(t: Transition) -> np.ndarray:
    """The episode of each transition: a new one begins behind a true end, and where rows do not connect.

    Rows of an episode stand together and in order, as every reader leaves them.
    """
    apart = (t.next_obs[:-1] != t.obs[1:]).reshape(len(t.reward) - 1, -1).any(1)
    begins = np.concatenate([[False], apart | (t.bootstrap[:-1] == 0)])
    return np.cumsum(begins)


def look_ahead(t: Transition, steps: int, discount: float) -> Transition:
    """The same transitions with n-step returns: r the discounted rewards of n = `steps`, s' what comes then.

    Near an episode's end they look as far as it goes. The discount of the steps between is put into
    `bootstrap`, so that r + γ·bootstrap·V(s') is the n-step target.
    """
    rows, episode = np.arange(len(t.reward)), episode_numbers(t)
    last, reward, goes_on = rows, t.reward.astype(np.float64), np.ones(len(rows), bool)
    for ahead in range(1, steps):
        later = np.minimum(rows + ahead, rows[-1])
        goes_on = goes_on & (rows + ahead == later) & (episode[later] == episode)
        reward = reward + goes_on * discount**ahead * t.reward[later]
        last = np.where(goes_on, later, last)
    return t._replace(
        reward=reward.astype(np.float32),
        next_obs=t.next_obs[last],
        next_action=t.next_action[last],
        bootstrap=(t.bootstrap[last] * discount ** (last - rows)).astype(np.float32),
    )


def join_actions(t: Transition, count: int) -> Transition:
    """The same transitions, each action joined with those after it in its episode, `count` in all.

    Where an episode ends before, the last action known of it stands for those that are missing. A goal that
    is reached is such an end, also where a log goes on behind it, as OGBench's and AntMaze's do.

    Raises:
        UserError: where no episode is as long as that.
    """
    rows, episode = np.arange(len(t.reward)), episode_numbers(t)
    longest = int(np.bincount(episode).max())
    if longest < count:
        raise UserError(
            f"{count} actions cannot be learned as one: the longest episode has {longest} transitions"
        )
    last = np.searchsorted(episode, episode, side="right") - 1
    played = rows[:, None] + np.arange(count)
    known = (played <= last[:, None])[..., None]
    joined = np.where(known, t.action[np.minimum(played, last[:, None])], t.next_action[last][:, None])
    more = (rows < last)[:, None, None]
    following = np.where(more, np.roll(joined, -1, axis=0), t.next_action[:, None])
    return t._replace(action=joined.reshape(len(rows), -1), next_action=following.reshape(len(rows), -1))


def hold_out(t: Transition, fraction: float, seed: int = 0) -> np.ndarray:
    """True in the transitions of a share of the episodes; the draw has its own seed, so all runs agree.

    Raises:
        UserError: where that leaves no episode on one of the sides.
    """
    if not fraction:
        return np.zeros(len(t.reward), bool)
    episode = episode_numbers(t)
    count = int(episode[-1]) + 1
    held = round(fraction * count)
    if not 0 < held < count:
        raise UserError(f"a holdout of {fraction:g} leaves {held} of {count} episodes out: one side is empty")
    chosen = np.random.default_rng(seed).permutation(count)[:held]
    return np.isin(episode, chosen)


def action_range(actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds that become [-1, 1]: exactly ±1 where the data fit in there, else each dimension's extremes."""
    low, high = actions.min(0), actions.max(0)
    if (low >= -1).all() and (high <= 1).all():
        return np.full_like(low, -1), np.full_like(high, 1)
    constant = low == high
    return np.where(constant, low - 1, low), np.where(constant, high + 1, high)


def scale_actions(t: Transition, low: np.ndarray, high: np.ndarray) -> Transition:
    """Map actions from [low, high] to [-1, 1]; bounds of ±1 leave every bit as it is."""
    centre, half = (high + low) / 2, (high - low) / 2

    def scale(action: np.ndarray) -> np.ndarray:
        return ((action - centre) / half).astype(np.float32)

    return t._replace(action=scale(t.action), next_action=scale(t.next_action))


def fingerprint(t: Transition) -> str:
    """SHA-256 over names, types, shapes and bytes of the arrays."""
    digest = hashlib.sha256()
    for name, array in zip(t._fields, t, strict=True):
        array = np.ascontiguousarray(array)
        digest.update(f"{name} {array.dtype} {array.shape};".encode())
        digest.update(array.data)
    return digest.hexdigest()
