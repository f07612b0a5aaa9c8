"""The multi-goal world seen from above: the same task, observed as small pictures drawn by numpy."""

from __future__ import annotations

import gymnasium
import numpy as np

from gtp.envs import multigoal

SIZE = 64
"""Pixels a side."""
VIEW = multigoal.DISTANCE + 1.5
"""The picture shows [-VIEW, VIEW]²; a point beyond is drawn at its edge."""
POINT_RADIUS = 0.5
COLOURS = np.array([[230, 60, 60], [60, 200, 60], [70, 110, 240], [230, 200, 50]], np.float32)
"""Of the goals; the point is white, the ground black."""
SPACE = gymnasium.spaces.Box(0, 255, (SIZE, SIZE, 3), np.uint8)


def _discs(centres: np.ndarray, radius: float) -> np.ndarray:
    """How much of each pixel a disc covers, (discs, SIZE, SIZE); its edge is soft, so no motion is lost."""
    pixel = 2 * VIEW / SIZE
    along = (np.arange(SIZE, dtype=np.float32) + 0.5) * pixel - VIEW
    dx = along[None, None, :] - centres[:, 0, None, None]
    dy = -along[None, :, None] - centres[:, 1, None, None]
    distance = np.sqrt(dx * dx + dy * dy)
    return np.clip((radius - distance) / pixel + 0.5, 0, 1)


def _ground() -> np.ndarray:
    """The goals on black, which no step changes."""
    goals = _discs(multigoal.GOALS, multigoal.RADIUS)
    return np.einsum("gyx,gc->yxc", goals, COLOURS)


_GROUND = _ground()


def draw(positions: np.ndarray) -> np.ndarray:
    """Pictures of points at (n, 2) positions: uint8 (n, SIZE, SIZE, 3), y upwards."""
    point = _discs(np.clip(positions, -VIEW, VIEW), POINT_RADIUS)[..., None]
    return np.rint(_GROUND * (1 - point) + 255 * point).astype(np.uint8)


def make() -> gymnasium.Env:
    """One point, seen from above."""
    env = multigoal.MultiGoalEnv()
    return gymnasium.wrappers.TransformObservation(env, lambda obs: draw(obs[None])[0], SPACE)


def make_many(num_envs: int = 1) -> gymnasium.vector.VectorEnv:
    """Many points, each seen alone."""
    envs = multigoal.MultiGoalVectorEnv(num_envs)
    batch = gymnasium.vector.utils.batch_space(SPACE, num_envs)
    return gymnasium.wrappers.vector.TransformObservation(envs, draw, batch, SPACE)
