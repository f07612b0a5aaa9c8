"""AntMaze as D4RL built it: its ant, its walls, its goals."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from functools import cache
from typing import Any

import gymnasium
import numpy as np

from gtp.envs import physics
from gtp.envs.locomotion import large_noise

CELL = 4.0
"""Side of a cell of the maze."""
GEAR = 30.0
"""Torque of an action of 1."""
FRAME_SKIP = 5
REACH = 0.5
"""A goal this near counts as reached."""

WALLS = {
    "umaze": "11111 1R001 11101 1G001 11111",
    "medium": "11111111 1R011001 10010001 11000111 10010001 10100101 100010G1 11111111",
    "large": "111111111111 1R0001000001 101101010101 100000010001 101111011101 100101000001 110101010111"
    " 100100010G01 111111111111",
}
"""Rows of cells: 1 a wall, R the start, G the goal of evaluation."""


def grid(maze: str) -> list[str]:
    """The rows of a maze."""
    return WALLS[maze].split()


def cells(maze: str, kinds: str) -> list[tuple[int, int]]:
    """(row, column) of every cell marked with one of the characters."""
    return [(i, j) for i, row in enumerate(grid(maze)) for j, mark in enumerate(row) if mark in kinds]


def centre(cell: tuple[int, int]) -> np.ndarray:
    """Middle of a cell in x and y. All three mazes start in cell (1, 1), which is the origin."""
    return np.array([cell[1] - 1, cell[0] - 1]) * CELL


def draw_goal(rng: np.random.Generator, cell: tuple[int, int]) -> np.ndarray:
    """A goal in a cell, spread as D4RL spreads it."""
    return np.maximum(centre(cell) + rng.uniform(0, 1, 2) + rng.uniform(0, 0.5, 2), 0)


def describe(maze: str) -> str:
    """The ant in its maze, as text for the simulator."""
    root = ElementTree.fromstring(physics.asset("ant.xml"))
    _require(root, "option").set("timestep", "0.02")
    _require(root, "default/geom").attrib.update(solimp=".8 .8 .01", solref=".02 1")
    for motor in root.iter("motor"):
        motor.attrib.update(gear="1", ctrlrange=f"{-GEAR} {GEAR}")
    world = _require(root, "worldbody")
    half = CELL / 2
    for cell in cells(maze, "1"):
        x, y = centre(cell)
        ElementTree.SubElement(
            world, "geom", type="box", pos=f"{x} {y} 1", size=f"{half} {half} 1", contype="1", conaffinity="1"
        )
    return ElementTree.tostring(root, "unicode")


def _require(root: ElementTree.Element, path: str) -> ElementTree.Element:
    found = root.find(path)
    if found is None:
        raise ValueError(f"gymnasium's ant.xml has no {path}")
    return found


@cache
def model(maze: str) -> Any:
    """The compiled maze, shared by all its environments; nothing writes to it."""
    return physics.compile_model(describe(maze))


class AntMaze(gymnasium.Env):
    """Walk to a goal that is not in the observation; reward 1 and the end where it is reached."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, maze: str, fixed_goal: bool, render_mode: None = None):
        self.maze = maze
        self.fixed_goal = fixed_goal
        self.model = model(maze)
        self._mj = physics.mujoco()
        self.data = self._mj.MjData(self.model)
        self.render_mode = render_mode
        self.goal: np.ndarray | None = None
        features = self.model.nq + self.model.nv
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (features,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1, 1, (self.model.nu,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Start at the origin; draw a goal, unless one is fixed already. A seed begins life anew."""
        super().reset(seed=seed)
        if self.goal is None or not self.fixed_goal or seed is not None:
            self.goal = draw_goal(self.np_random, cells(self.maze, "G")[0])
        self.place(self.np_random)
        return self.observation(), {"success": False}

    def place(self, rng: np.random.Generator, xy: np.ndarray | None = None) -> None:
        """Put the ant near its own pose, at the origin or exactly at xy."""
        dq, dv = large_noise(rng, self.model.nq, self.model.nv)
        qpos = self.model.qpos0 + dq
        if xy is not None:
            qpos[:2] = xy
        self.set_state(qpos, dv)

    def step(self, action: np.ndarray):
        """Apply one action for five simulator steps."""
        self.data.ctrl[:] = np.clip(action, -1, 1) * GEAR
        self._mj.mj_step(self.model, self.data, FRAME_SKIP)
        success = self.goal is not None and bool(np.linalg.norm(self.data.qpos[:2] - self.goal) <= REACH)
        return self.observation(), float(success), success, False, {"success": success}

    def set_state(self, qpos: np.ndarray, qvel: np.ndarray) -> None:
        """Put the ant into a state, as if the episode began there."""
        physics.set_state(self.model, self.data, qpos, qvel)

    def observation(self) -> np.ndarray:
        """All positions, then all velocities; float32 as in the data."""
        return np.concatenate([self.data.qpos, self.data.qvel], dtype=np.float32)
