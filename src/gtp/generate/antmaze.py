"""Episodes of D4RL's AntMaze data: a walking ant, sent from cell to cell by a planner."""

from __future__ import annotations

from collections import deque
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gtp.envs.antmaze import CELL, REACH, AntMaze, cells, centre, draw_goal, grid
from gtp.generate import policy as policies

Cell = tuple[int, int]
NOISE = 0.2
"""Spread of what D4RL added to the policy's actions."""
GOAL_DISTANCE = 10.0
"""The walking policy is always told of a goal this far away."""


class Recipe(NamedTuple):
    """How one of D4RL's AntMaze datasets was collected."""

    maze: str
    rows: int
    """Rows of an episode; the genuine slices have one more than the step limit."""
    goals: tuple[Cell, ...]
    """Cells the ant is sent to."""
    many_starts: bool
    """From any free cell that is no goal, or always from the origin."""
    stream: int = 0
    """Sets apart what is drawn for two datasets of one recipe and seed."""


MEDIUM_GOALS = ((2, 6), (5, 1), (6, 5))
LARGE_GOALS = ((1, 6), (3, 5), (3, 10), (5, 2), (7, 4), (7, 6), (7, 9))
RECIPES = {
    "umaze": Recipe("umaze", 701, ((3, 1),), many_starts=False),
    "umaze-diverse": Recipe("umaze", 1001, ((3, 1),), many_starts=True),
    "medium-play": Recipe("medium", 1001, MEDIUM_GOALS, many_starts=True),
    "medium-diverse": Recipe("medium", 1001, MEDIUM_GOALS, many_starts=True, stream=1),
    "large-play": Recipe("large", 1001, LARGE_GOALS, many_starts=True),
    "large-diverse": Recipe("large", 1001, LARGE_GOALS, many_starts=True, stream=1),
}
"""By the middle of the dataset's name. Play and diverse differ in name only, as they do in D4RL's generator,
whose option for many goals is read for nothing but the name of the file."""


def evaluation_goal(name: str, seed: int) -> np.ndarray:
    """The goal all rewards of a made dataset are counted against, one for the whole file as in D4RL."""
    recipe = RECIPES[name]
    return draw_goal(np.random.default_rng((seed, 2**32 - 1, recipe.stream)), cells(recipe.maze, "G")[0])


def draw_errand(rng: np.random.Generator, cell: Cell) -> np.ndarray:
    """Where to send the ant in a cell.

    Goals in the genuine files lie up to 2.6 m off the cell's centre along an axis, at times in a wall, where
    goals of an evaluation lie within 1.5 m. The sum of two uniform draws is fitted to the 11 we have.
    """
    return centre(cell) + rng.uniform(0, 1, 2) + rng.uniform(0, 2, 2)


def shard(name: str, policy: str, episodes: int, seed: int, index: int) -> dict[str, np.ndarray]:
    """Whole episodes number `index * episodes` and on, in D4RL's AntMaze arrays.

    Rewards and terminals are relabelled against the evaluation goal; nothing ends an episode but its length.
    """
    recipe, actor = RECIPES[name], policies.load(Path(policy))
    numbers = range(index * episodes, (index + 1) * episodes)
    streams = [np.random.default_rng((seed, number, recipe.stream)) for number in numbers]
    log = rollout(recipe, actor, streams)
    near = np.linalg.norm(log["infos/qpos"][:, :2] - evaluation_goal(name, seed), axis=1) <= REACH
    return log | {"rewards": near.astype(np.float32), "terminals": near}


def rollout(
    recipe: Recipe, actor: policies.Policy, streams: list[np.random.Generator]
) -> dict[str, np.ndarray]:
    """One episode per random stream, stepped together so that the policy sees one batch."""
    envs = [AntMaze(recipe.maze, fixed_goal=True) for _ in streams]
    goals = np.stack([_begin(recipe, env, rng) for env, rng in zip(envs, streams, strict=True)])
    obs = np.stack([env.observation() for env in envs])
    log: dict[str, list[np.ndarray]] = {
        key: [] for key in ("observations", "actions", "infos/qpos", "infos/qvel")
    }
    for _ in range(recipe.rows):
        action = _act(recipe, actor, obs, goals, streams)
        log["observations"].append(obs)
        log["actions"].append(action)
        obs = np.stack([env.step(a)[0] for env, a in zip(envs, action, strict=True)])
        log["infos/qpos"].append(np.stack([env.data.qpos for env in envs]).astype(np.float32))
        log["infos/qvel"].append(np.stack([env.data.qvel for env in envs]).astype(np.float32))
    out = {key: np.concatenate(np.stack(value, axis=1)) for key, value in log.items()}
    out["infos/goal"] = np.repeat(goals, recipe.rows, axis=0).astype(np.float32)
    out["timeouts"] = np.tile(np.arange(recipe.rows) == recipe.rows - 1, len(envs))
    return out


def next_cell(maze: str, position: np.ndarray, goal: np.ndarray) -> Cell:
    """The cell to walk to from a position on the shortest way to a goal."""
    return _ways(maze, cell_of(goal)).get(cell_of(position), cell_of(goal))


def cell_of(position: np.ndarray) -> Cell:
    """(row, column) as D4RL's planner rounds a position."""
    x, y = np.maximum(position[:2], 1e-4)
    return int(1 + y / CELL), int(1 + x / CELL)


@cache
def _ways(maze: str, goal: Cell) -> dict[Cell, Cell]:
    """For every cell that touches a way to the goal, walls too, the next cell on it (breadth first)."""
    free = set(cells(maze, "0RG"))
    rows, columns = len(grid(maze)), len(grid(maze)[0])
    ways, queue = {goal: goal}, deque([goal])
    while queue:
        row, column = here = queue.popleft()
        for there in ((row, column - 1), (row, column + 1), (row + 1, column), (row - 1, column)):
            if there not in ways and 0 <= there[0] < rows and 0 <= there[1] < columns:
                ways[there] = here
                if there in free:
                    queue.append(there)
    return ways


def _begin(recipe: Recipe, env: AntMaze, rng: np.random.Generator) -> np.ndarray:
    """Put the ant at its start; returns the goal it is sent to."""
    start = None
    if recipe.many_starts:
        starts = [cell for cell in cells(recipe.maze, "0RG") if cell not in recipe.goals]
        start = np.maximum(centre(starts[rng.integers(len(starts))]) + rng.uniform(0, 1, 2), 0)
    env.place(rng, start)
    return draw_errand(rng, recipe.goals[rng.integers(len(recipe.goals))])


def _act(
    recipe: Recipe,
    actor: policies.Policy,
    obs: np.ndarray,
    goals: np.ndarray,
    streams: list[np.random.Generator],
) -> np.ndarray:
    """The walking policy's actions towards each ant's next waypoint, with D4RL's noise on top."""
    towards = np.stack(
        [
            _waypoint(recipe.maze, o, goal, rng) - o[:2]
            for o, goal, rng in zip(obs, goals, streams, strict=True)
        ]
    )
    towards *= GOAL_DISTANCE / np.linalg.norm(towards, axis=1, keepdims=True)
    noise = np.stack([rng.standard_normal((2, actor.actions)) for rng in streams]).astype(np.float32)
    seen = np.concatenate([obs[:, 2:], towards], axis=1, dtype=np.float32)
    action, _ = policies.sample(actor, seen, noise[:, 0])
    return np.clip(action + np.float32(NOISE) * noise[:, 1], -1, 1)


def _waypoint(maze: str, position: np.ndarray, goal: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random point in the next cell, or the goal itself once its cell is next."""
    cell = next_cell(maze, position, goal)
    return goal if cell == cell_of(goal) else centre(cell) + rng.uniform(0, 1, 2)
