"""The paper's 2-D multi-goal world: a point, four goals of equal value, no reason to prefer any.

The point starts near the origin and moves by SPEED·action a step, action in [-1, 1]². Goals lie at DISTANCE
from the origin at the ends of four bridges of half-width BRIDGE. A step costs 1; coming within RADIUS of a
goal ends the episode, a success; stepping off the bridges ends it too, at the price of LIMIT. After LIMIT
steps the episode is cut. Everything is numpy and vectorised over points.

The bridges are ours. Without them a Gaussian policy does well: it matches the first two moments of the
demonstrations, and a free point diffuses away from the origin just as fast with either. Steps are long for a
reason too: one is enough to leave the neighbourhood of the origin, where every policy that remembers nothing
must choose its goal anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

SPEED = 1.0
DISTANCE = 3.0
RADIUS = 0.6
LIMIT = 20
START_STD = 0.1
BRIDGE = 0.45
GOALS = DISTANCE * np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], np.float32)

_BOX = DISTANCE + LIMIT * SPEED
OBSERVATION_SPACE = gymnasium.spaces.Box(-_BOX, _BOX, (2,), np.float32)
ACTION_SPACE = gymnasium.spaces.Box(-1, 1, (2,), np.float32)


def move(position: np.ndarray, action: np.ndarray) -> np.ndarray:
    """Where the points are a step later."""
    return (position + SPEED * np.clip(action, -1, 1)).astype(np.float32)


def reached(position: np.ndarray) -> np.ndarray:
    """Index of the goal each point has reached, -1 for none."""
    distance = np.linalg.norm(position[..., None, :] - GOALS, axis=-1)
    return np.where(distance.min(-1) <= RADIUS, distance.argmin(-1), -1)


def fallen(position: np.ndarray) -> np.ndarray:
    """Whether each point has left the bridges; a goal's disc is firm ground."""
    return (np.min(np.abs(position), axis=-1) > BRIDGE) & (reached(position) < 0)


class MultiGoalVectorEnv(VectorEnv):
    """Many points at once. A point whose episode ended stays where it is until all are reset."""

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012

    def __init__(self, num_envs: int = 1) -> None:
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = OBSERVATION_SPACE, ACTION_SPACE
        self.observation_space = gymnasium.vector.utils.batch_space(OBSERVATION_SPACE, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(ACTION_SPACE, num_envs)
        self._position = np.zeros((num_envs, 2), np.float32)
        self._over = np.zeros(num_envs, bool)
        self._time = 0

    def reset(self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None):
        """All points back to the origin's neighbourhood; one seed per point makes each reproducible alone."""
        del options
        seeds = _seeds(seed, self.num_envs)
        starts = [np.random.default_rng(s).normal(0, START_STD, 2) for s in seeds]
        self._position = np.array(starts, np.float32)
        self._over = np.zeros(self.num_envs, bool)
        self._time = 0
        return self._position.copy(), {}

    def step(self, actions: np.ndarray):
        """Move every point that is still on its way."""
        self._time += 1
        self._position = np.where(self._over[:, None], self._position, move(self._position, actions))
        goal, fell = reached(self._position), fallen(self._position)
        terminated = (goal >= 0) | fell
        truncated = ~terminated & (self._time >= LIMIT)
        reward = np.where(self._over, 0.0, np.where(fell, -float(LIMIT), -1.0))
        self._over |= terminated | truncated
        return self._position.copy(), reward, terminated, truncated, {"success": goal >= 0, "goal": goal}


def _seeds(seed: int | list[int] | None, count: int) -> Sequence[int | None]:
    """One seed per point, as gymnasium's vector environments count them."""
    if seed is None:
        return [None] * count
    if isinstance(seed, int | np.integer):
        return [int(seed) + i for i in range(count)]
    return seed


class MultiGoalEnv(gymnasium.Env):
    """One point, as an ordinary gymnasium environment."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = OBSERVATION_SPACE, ACTION_SPACE
        self._many = MultiGoalVectorEnv(1)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Put the point near the origin."""
        super().reset(seed=seed)
        obs, info = self._many.reset(seed=[seed if seed is not None else int(self.np_random.integers(2**31))])
        return obs[0], info

    def step(self, action: np.ndarray):
        """Move the point."""
        obs, reward, terminated, truncated, info = self._many.step(np.asarray(action)[None])
        details = {"success": bool(info["success"][0]), "goal": int(info["goal"][0])}
        return obs[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), details
