"""Evaluation: all members' episodes side by side, one row each, every row saying what was measured and how.

Episode i of every member is played in a world seeded with `first seed + i`, and its actions' noise depends on
the member's seed, i and the time alone. So the same policy gives the same episodes whenever it is asked,
however many there are and whatever processes step them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gtp.envs import scores
from gtp.envs.worlds import Worlds, most_at_once, open_worlds
from gtp.types import Acting

BLOCK = 10
"""Episodes of each member that one call of a policy acts on, always.

The last bits of a matrix product depend on its shape. A shape that never changes, padded where there are
fewer episodes, keeps an episode what it is whatever is played beside it.
"""

Act = Callable[[np.ndarray, np.ndarray, int, int], np.ndarray]
"""(obs, active, first, time) -> actions in the world's units.

`obs` is (members, episodes, …), its episodes being numbers `first`, `first + 1`, …; actions of those that are
not active may be anything.
"""


class Episode(NamedTuple):
    """How one episode went."""

    total: float
    """Undiscounted return."""
    length: int
    success: bool | None
    """None where the environment does not say."""


def as_one(act: Act, members: int, who: list[int]) -> Act:
    """One player that does in the mean what `who` of `members` would do in its place."""

    def mean(obs: np.ndarray, active: np.ndarray, first: int, time: int) -> np.ndarray:
        every = act(np.repeat(obs, members, axis=0), np.repeat(active, members, axis=0), first, time)
        return every[who].mean(axis=0, keepdims=True)

    return mean


def one_by_one(act: Act, chunk: int) -> Act:
    """What `act` does where each of its answers is `chunk` actions, to be played out before the next."""
    if chunk == 1:
        return act
    joined = np.empty(0)

    def next_one(obs: np.ndarray, active: np.ndarray, first: int, time: int) -> np.ndarray:
        nonlocal joined
        if time % chunk == 0:
            joined = act(obs, active, first, time)
        return joined[:, :, time % chunk]

    return next_one


class Stage:
    """Where all members of a run play: worlds that are opened when first needed and kept until `close`."""

    def __init__(
        self, env_id: str, members: int, episodes: int, workers: int = 0, frame_stack: int = 1
    ) -> None:
        self.env_id, self.members, self.episodes = env_id, members, episodes
        self._workers, self._frame_stack = workers, frame_stack
        self._worlds: Worlds | None = None

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the worlds."""
        if self._worlds is not None:
            self._worlds.close()
            self._worlds = None

    def play(self, act: Act, seed: int, who: list[int]) -> list[list[Episode]]:
        """The episodes of each of the members `who`; number i is played in a world seeded with `seed + i`."""
        # What goes beyond as many simulators as may be alive at once is played afterwards.
        at_once = min(self.episodes, max(1, most_at_once(self.env_id) // self.members // BLOCK) * BLOCK)
        if self._worlds is None:
            self._worlds = open_worlds(self.env_id, self.members * at_once, self._workers, self._frame_stack)
        found: list[list[Episode]] = [[] for _ in who]
        for first in range(0, self.episodes, at_once):
            active = np.zeros((self.members, at_once), bool)
            active[who, : self.episodes - first] = True
            played = play(act, self._worlds, seed, first, active)
            for mine, member in zip(found, who, strict=True):
                mine += played[member][: self.episodes - first]
        return found


def play(act: Act, worlds: Worlds, seed: int, first: int, active: np.ndarray) -> list[list[Episode]]:
    """One episode in each active world, (members, episodes) of them, all acted on together step by step."""
    shape = active.shape
    obs = worlds.reset([seed + first + i for i in range(shape[1])] * shape[0])
    total, length = np.zeros(shape), np.zeros(shape, int)
    active, success = active.copy(), np.full(shape, np.nan)
    time = 0
    while active.any():
        actions = act(obs.reshape(*shape, *obs.shape[1:]), active, first, time)
        obs, *news = worlds.step(actions.reshape(active.size, -1), active.ravel())
        reward, over, won = (x.reshape(shape) for x in news)
        total[active] += reward[active]
        length[active] += 1
        success[active] = won[active]
        active &= ~over
        time += 1
    return [
        [Episode(float(t), int(n), None if np.isnan(s) else bool(s)) for t, n, s in zip(*member, strict=True)]
        for member in zip(total, length, success, strict=True)
    ]


def rows(episodes: list[Episode], env_id: str, acting: Acting, about: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one member's episodes; `about` says whose: agent, data, provenance, seed, step, variant."""
    physics = scores.physics(env_id)
    return [
        {
            "agent": about["agent"],
            "data": about["data"],
            "env": env_id,
            "physics": physics,
            "seed": about["seed"],
            "step": about["step"],
            "weights": acting.weights,
            "act": acting.rule,
            "candidates": acting.candidates,
            "sampling_steps": "" if acting.sampling_steps is None else acting.sampling_steps,
            "return": repr(e.total),
            "normalised_score": _blank(scores.normalised_score(env_id, e.total)),
            "length": e.length,
            "success": "" if e.success is None else int(e.success),
            "episode": number,
            "variant": about["variant"],
            "fingerprint": about["fingerprint"],
            "provenance": about["provenance"],
        }
        for number, e in enumerate(episodes)
    ]


def _blank(value: float | None) -> str:
    return "" if value is None else repr(float(value))
