"""Hopper, Walker2d, HalfCheetah and Ant as D4RL's v2 data know them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from gtp.envs import physics


class Task(NamedTuple):
    """What tells one robot's task from another's."""

    xml: str
    """Robot description among gymnasium's assets."""
    frame_skip: int
    """Simulator steps an action lasts."""
    hidden: int
    """Leading positions left out of the observation: the robot does not know where it is."""
    speed_limit: float
    """The observation clips velocities at this."""
    padding: int
    """Zeros that end the observation: contact forces which the old simulator never filled in."""
    control_cost: float
    """Weight of the squared action in the reward."""
    alive_bonus: float
    """Reward a step for not having fallen."""
    reset_noise: Callable[[np.random.Generator, int, int], tuple[np.ndarray, np.ndarray]]
    """(rng, positions, velocities) -> what a reset adds to the initial state."""
    alive: Callable[[np.ndarray, np.ndarray], bool]
    """(positions, velocities) -> whether the episode goes on."""


def small_noise(rng: np.random.Generator, nq: int, nv: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise of the robots that stand on one or two legs."""
    return rng.uniform(-0.005, 0.005, nq), rng.uniform(-0.005, 0.005, nv)


def large_noise(rng: np.random.Generator, nq: int, nv: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise of the robots that cannot topple at once."""
    return rng.uniform(-0.1, 0.1, nq), 0.1 * rng.standard_normal(nv)


def hopper_alive(qpos: np.ndarray, qvel: np.ndarray) -> bool:
    """Upright, above 0.7 and with no coordinate out of bounds."""
    rest = np.concatenate([qpos[2:], qvel])
    return bool(np.all(np.abs(rest) < 100) and qpos[1] > 0.7 and abs(qpos[2]) < 0.2)


def walker_alive(qpos: np.ndarray, qvel: np.ndarray) -> bool:
    """Between 0.8 and 2 high and leaning less than one radian."""
    return bool(0.8 < qpos[1] < 2.0 and -1.0 < qpos[2] < 1.0)


def ant_alive(qpos: np.ndarray, qvel: np.ndarray) -> bool:
    """The torso between 0.2 and 1 high."""
    return bool(0.2 <= qpos[2] <= 1.0 and np.isfinite(qpos).all() and np.isfinite(qvel).all())


def always_alive(qpos: np.ndarray, qvel: np.ndarray) -> bool:
    """A half-cheetah cannot fail."""
    return True


TASKS = {
    "hopper": Task("hopper.xml", 4, 1, 10.0, 0, 1e-3, 1.0, small_noise, hopper_alive),
    "walker2d": Task("walker2d.xml", 4, 1, 10.0, 0, 1e-3, 1.0, small_noise, walker_alive),
    "halfcheetah": Task("half_cheetah.xml", 5, 1, np.inf, 0, 0.1, 0.0, large_noise, always_alive),
    "ant": Task("ant.xml", 5, 2, np.inf, 84, 0.5, 1.0, large_noise, ant_alive),
}


@cache
def model(name: str) -> Any:
    """The compiled robot, shared by all its environments; nothing writes to it."""
    return physics.compile_model(physics.asset(TASKS[name].xml))


class Locomotion(gymnasium.Env):
    """Run forward. Episodes end where the robot falls; the limit of 1000 steps is gymnasium's wrapper's."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, task: str, render_mode: None = None):
        self.task = TASKS[task]
        self.model = model(task)
        self._mj = physics.mujoco()
        self.data = self._mj.MjData(self.model)
        self.render_mode = render_mode
        self.dt = self.model.opt.timestep * self.task.frame_skip
        features = self.model.nq - self.task.hidden + self.model.nv + self.task.padding
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (features,), np.float32)
        low, high = self.model.actuator_ctrlrange.T.astype(np.float32)
        self.action_space = gymnasium.spaces.Box(low, high, dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Start near the model's own pose."""
        super().reset(seed=seed)
        dq, dv = self.task.reset_noise(self.np_random, self.model.nq, self.model.nv)
        self.set_state(self.model.qpos0 + dq, dv)
        return self.observation(), {}

    def step(self, action: np.ndarray):
        """Apply one action for `frame_skip` simulator steps."""
        before = self.x()
        self.data.ctrl[:] = action
        self._mj.mj_step(self.model, self.data, self.task.frame_skip)
        speed = (self.x() - before) / self.dt
        cost = self.task.control_cost * float(np.square(action, dtype=np.float64).sum())
        reward = speed + self.task.alive_bonus - cost
        alive = self.task.alive(self.data.qpos, self.data.qvel)
        return self.observation(), reward, not alive, False, {}

    def set_state(self, qpos: np.ndarray, qvel: np.ndarray) -> None:
        """Put the robot into a state, as if the episode began there."""
        physics.set_state(self.model, self.data, qpos, qvel)

    def observation(self) -> np.ndarray:
        """Positions but the hidden ones, clipped velocities, padding; float32 as in the data."""
        out = np.zeros(self.observation_space.shape or (), np.float32)
        shown = self.model.nq - self.task.hidden
        out[:shown] = self.data.qpos[self.task.hidden :]
        limit = self.task.speed_limit
        out[shown : shown + self.model.nv] = self.data.qvel.clip(-limit, limit)
        return out

    def x(self) -> float:
        """Where the robot is, as its reward sees it.

        For the ant that is the torso as of the last simulator step's beginning, one step behind, since
        the old environment read it so; `set_state` alone brings it up to date.
        """
        return float(self.data.xpos[1, 0] if self.task.hidden == 2 else self.data.qpos[0])
