"""D4RL's kitchen: an arm that must bring four things into their places, seen through noise.

The model is gymnasium-robotics', which behaves as D4RL's; its environment is not used, since it shows other
numbers, a hundredth of the noise, and commands the arm from what it shows.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import gymnasium
import numpy as np

from gtp.envs import physics

FRAME_SKIP = 40
ARM = 9
"""Joints of the arm and its fingers, the first of all; the others are the kitchen's."""
SPEED = 2.0
"""Radians a second that an action of 1 asks of a joint."""
NEAR = 0.3
"""A thing this near to its goal is in its place."""
LOW = np.array([-2.9, -1.8, -2.9, -3.1, -2.9, 0.0, -2.9, 0.0, 0.0])
HIGH = np.array([2.9, 1.8, 2.9, 0.0, 2.9, 3.8, 2.9, 0.04, 0.04])
"""Positions the arm may be sent to."""
NOISE = np.repeat([1e-2, 5e-4, 5e-5, 5e-4, 1e-2, 5e-4, 1e-2, 5e-4], [9, 2, 6, 3, 3, 3, 3, 1])
"""Half-width of the uniform noise on each position as it is seen."""
# fmt: off
START = np.array([
    0.148388023, -1.76848573, 1.84390296, -2.4768576, 0.260252026, 0.712533105,
    1.59515394, 0.0479267505, 0.0371350919, -0.00026627985, -5.18043486e-05, 3.1287722e-05,
    -4.51199853e-05, -3.90842156e-06, -4.22629655e-05, 6.28065475e-05, 4.04984708e-05, 0.000462730939,
    -0.000226906415, -0.000465501369, -0.00644129196, -0.00177048263, 0.00108009684, -0.26939744,
    0.350383255, 1.61944683, 1.00618764, 0.0040639512, -0.00662095997, -0.000268278933,
])
# fmt: on
"""All positions at the start of every episode."""
GOALS = {
    "bottom burner": (slice(11, 13), (-0.88, -0.01)),
    "light switch": (slice(17, 19), (-0.69, -0.05)),
    "slide cabinet": (slice(19, 20), (0.37,)),
    "microwave": (slice(22, 23), (-0.75,)),
    "kettle": (slice(23, 30), (-0.23, 0.75, 1.62, 0.99, 0.0, 0.0, -0.06)),
}
"""For each thing its positions and where they should be."""
TASKS = {
    "complete": ("microwave", "kettle", "light switch", "slide cabinet"),
    "partial": ("microwave", "kettle", "light switch", "slide cabinet"),
    "mixed": ("microwave", "kettle", "bottom burner", "light switch"),
}
"""What each of D4RL's datasets is about."""


@cache
def model() -> Any:
    """The compiled kitchen, shared by all its environments; nothing writes to it."""
    return physics.robotics_model("kitchen_franka/kitchen_assets/kitchen_env_model.xml")


def in_place(seen: np.ndarray, thing: str) -> bool:
    """Whether a thing is where it should be."""
    where, goal = GOALS[thing]
    return bool(np.linalg.norm(seen[where] - goal) < NEAR)


def goal_of(task: str) -> np.ndarray:
    """The goal as the observation carries it, zero where there is none."""
    goal = np.zeros(len(START))
    for thing in TASKS[task]:
        where, values = GOALS[thing]
        goal[where] = values
    return goal


class Kitchen(gymnasium.Env):
    """One reward for each thing brought to its place; the episode ends when all are."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, task: str, render_mode: None = None):
        self.things = TASKS[task]
        self.goal = goal_of(task)
        self.model = model()
        self._mj = physics.mujoco()
        self.data = self._mj.MjData(self.model)
        self.render_mode = render_mode
        self.left = set(self.things)
        self.seen = START
        self.dt = self.model.opt.timestep * FRAME_SKIP
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2 * len(START),), np.float32)
        self.action_space = gymnasium.spaces.Box(-1, 1, (ARM,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Always the same state; what is seen of it is not."""
        super().reset(seed=seed)
        self.left = set(self.things)
        physics.set_state(self.model, self.data, START, np.zeros(self.model.nv))
        return self.look(), {"success": False}

    def step(self, action: np.ndarray):
        """Send the arm to where its seen position and the action, a velocity, would bring it."""
        target = self.seen[:ARM] + SPEED * np.clip(action, -1, 1) * self.dt
        self.advance(np.clip(target, LOW, HIGH))
        obs = self.look()
        done = {thing for thing in self.left if in_place(self.seen, thing)}
        self.left -= done
        success = not self.left
        return obs, float(len(done)), success, False, {"success": success}

    def advance(self, target: np.ndarray) -> None:
        """Hold the arm's targets for the length of a step."""
        self.data.ctrl[:] = target
        self._mj.mj_step(self.model, self.data, FRAME_SKIP)

    def look(self) -> np.ndarray:
        """See all positions anew, through noise; the observation is them and the goal."""
        self.seen = self.data.qpos + NOISE * self.np_random.uniform(-1, 1, len(NOISE))
        return np.concatenate([self.seen, self.goal], dtype=np.float32)
