"""The four tasks of the Adroit hand as D4RL's data know them: door, hammer, pen, relocate.

The models are gymnasium-robotics', which are D4RL's; its environments are not used. They reward a palm far
from the door's handle, the hammer or the ball, where D4RL punishes it, and go on where the pen is dropped.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from gtp.envs import physics

FRAME_SKIP = 5
GAINS = {"WRJ": 10.0, "FFJ": 1.0, "MFJ": 1.0, "RFJ": 1.0, "LFJ": 1.0, "THJ": 1.0}
"""Stiffness of the actuators of the wrist and the fingers, by their names; D4RL changes the models' own."""


class Outcome(NamedTuple):
    """What a step led to."""

    reward: float
    reached: bool
    """The goal is reached in this very step."""
    failed: bool = False
    """The episode ends, lost."""


class Task(NamedTuple):
    """What tells one task of the hand from another."""

    xml: str
    """Model among gymnasium-robotics' assets."""
    hold: int
    """D4RL calls an episode a success where the goal was reached in more steps than this."""
    place: Callable[[Any, np.random.Generator], None]
    """(model, rng): lay out a new episode; what differs between two is in the model, not in the state."""
    observe: Callable[[Any], np.ndarray]
    """(simulation) -> observation."""
    judge: Callable[[Any], Outcome]
    """(simulation) -> reward and ends."""


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Between two points."""
    return float(np.linalg.norm(a - b))


def place_door(model: Any, rng: np.random.Generator) -> None:
    """The frame of the door somewhere in front of the hand."""
    model.body("frame").pos[:] = rng.uniform((-0.3, 0.25, 0.252), (-0.2, 0.35, 0.35))


def observe_door(data: Any) -> np.ndarray:
    """Joints but the arm's slide, latch, hinge, palm, handle, palm from handle, and whether it is open."""
    palm, handle = data.site("S_grasp").xpos, data.site("S_handle").xpos
    hinge, latch = data.qpos[-2:]
    opened = 1.0 if hinge > 1.0 else -1.0
    return np.concatenate([data.qpos[1:-2], [latch, hinge], palm, handle, palm - handle, [opened]])


def judge_door(data: Any) -> Outcome:
    """Palm to the handle, hinge towards 90 degrees, calmly; bonuses as the door opens."""
    hinge = float(data.qpos[-2])
    reward = -0.1 * distance(data.site("S_grasp").xpos, data.site("S_handle").xpos)
    reward -= 0.1 * (hinge - 1.57) ** 2 + 1e-5 * float(np.square(data.qvel).sum())
    reward += 2 * (hinge > 0.2) + 8 * (hinge > 1.0) + 10 * (hinge > 1.35)
    return Outcome(reward, hinge >= 1.35)


def place_hammer(model: Any, rng: np.random.Generator) -> None:
    """The board with the nail at some height."""
    model.body("nail_board").pos[2] = rng.uniform(0.1, 0.25)


def observe_hammer(data: Any) -> np.ndarray:
    """Joints, the hammer's clipped velocity, palm, hammer, its Euler angles, nail, and the blow on it."""
    hammer, speed = data.body("Object"), np.clip(data.qvel[-6:], -1, 1)
    palm, nail = data.site("S_grasp").xpos, data.site("S_target").xpos
    blow = np.clip(data.sensor("S_nail").data, -1, 1)
    return np.concatenate([data.qpos[:-6], speed, palm, hammer.xpos, euler(hammer.xmat), nail, blow])


def judge_hammer(data: Any) -> Outcome:
    """Palm to the hammer, its head to the nail, the nail into the board, calmly; bonuses on the way."""
    hammer, head = data.body("Object").xpos, data.site("tool").xpos
    nail, goal = data.site("S_target").xpos, data.site("nail_goal").xpos
    depth = distance(nail, goal)
    reward = -0.1 * distance(data.site("S_grasp").xpos, hammer) - distance(head, nail) - 10 * depth
    reward -= 1e-2 * float(np.linalg.norm(data.qvel))
    reward += 2 * bool(hammer[2] > 0.04 and head[2] > 0.04) + 25 * (depth < 0.02) + 75 * (depth < 0.01)
    return Outcome(reward, depth < 0.01)


def euler(matrix: np.ndarray) -> np.ndarray:
    """Angles about x, y and z of a rotation matrix, in the convention of D4RL's observations."""
    r = matrix.reshape(3, 3)
    angles = np.arctan2(r[1, 2], r[2, 2]), np.arctan2(-r[0, 2], np.hypot(r[2, 2], r[1, 2]))
    return -np.array([*angles, np.arctan2(r[0, 1], r[0, 0])])


def place_pen(model: Any, rng: np.random.Generator) -> None:
    """The wanted orientation: turned about x, then about its own y, by up to a radian each."""
    half = rng.uniform(-1, 1, 2) / 2
    (sx, sy), (cx, cy) = np.sin(half), np.cos(half)
    model.body("target").quat[:] = cx * cy, sx * cy, cx * sy, sx * sy


def _pen(data: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Position of the pen, where it should be, its direction, and the wanted one."""
    ends = [data.site(f"{what}_{end}").xpos for what in ("object", "target") for end in ("top", "bottom")]
    pen, wanted = ends[0] - ends[1], ends[2] - ends[3]
    directions = pen / np.linalg.norm(pen), wanted / np.linalg.norm(wanted)
    return data.body("Object").xpos, data.site("eps_ball").xpos, *directions


def observe_pen(data: Any) -> np.ndarray:
    """Joints, the pen's position, velocity and direction, the wanted direction, and both differences."""
    pen, place, direction, wanted = _pen(data)
    return np.concatenate(
        [data.qpos[:-6], pen, data.qvel[-6:], direction, wanted, pen - place, direction - wanted]
    )


def judge_pen(data: Any) -> Outcome:
    """The pen in its place and direction; bonuses for both, a penalty and the end where it is dropped."""
    pen, place, direction, wanted = _pen(data)
    away, likeness = distance(pen, place), float(direction @ wanted)
    dropped = bool(pen[2] < 0.075)
    reached = away < 0.075 and likeness > 0.95
    reward = likeness - away + 10 * (away < 0.075 and likeness > 0.9) + 50 * reached - 5 * dropped
    return Outcome(reward, reached, dropped)


def place_relocate(model: Any, rng: np.random.Generator) -> None:
    """The ball somewhere on the table, its destination somewhere above it."""
    model.body("Object").pos[:2] = rng.uniform((-0.15, -0.15), (0.15, 0.3))
    model.site("target").pos[:] = rng.uniform((-0.2, -0.2, 0.15), (0.2, 0.2, 0.35))


def observe_relocate(data: Any) -> np.ndarray:
    """Joints, then palm from ball, palm from destination, ball from destination."""
    palm, ball, goal = data.site("S_grasp").xpos, data.body("Object").xpos, data.site("target").xpos
    return np.concatenate([data.qpos[:-6], palm - ball, palm - goal, ball - goal])


def judge_relocate(data: Any) -> Outcome:
    """Palm to the ball; once it is lifted, palm and ball to the destination; bonuses for being near."""
    palm, ball, goal = data.site("S_grasp").xpos, data.body("Object").xpos, data.site("target").xpos
    away = distance(ball, goal)
    reward = -0.1 * distance(palm, ball)
    if ball[2] > 0.04:
        reward += 1.0 - 0.5 * distance(palm, goal) - 0.5 * away
    reward += 10 * (away < 0.1) + 20 * (away < 0.05)
    return Outcome(reward, away < 0.1)


TASKS = {
    "door": Task("adroit_door.xml", 25, place_door, observe_door, judge_door),
    "hammer": Task("adroit_hammer.xml", 25, place_hammer, observe_hammer, judge_hammer),
    "pen": Task("adroit_pen.xml", 20, place_pen, observe_pen, judge_pen),
    "relocate": Task("adroit_relocate.xml", 25, place_relocate, observe_relocate, judge_relocate),
}


@cache
def base_model(task: str) -> Any:
    """The compiled hand and its task; environments take copies, since episodes write to the model."""
    model = physics.robotics_model(f"adroit_hand/{TASKS[task].xml}")
    for i in range(model.nu):
        gain = GAINS.get(model.actuator(i).name[2:5])
        if gain is not None:
            model.actuator_gainprm[i, :3], model.actuator_biasprm[i, :3] = (gain, 0, 0), (0, -gain, 0)
    return model


class Adroit(gymnasium.Env):
    """A hand of up to 30 joints and one task. The limit of 100 or 200 steps is gymnasium's wrapper's."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, task: str, render_mode: None = None):
        self.task = TASKS[task]
        self.model = copy.copy(base_model(task))
        self._mj = physics.mujoco()
        self.data = self._mj.MjData(self.model)
        self.render_mode = render_mode
        self.held = 0
        low, high = self.model.actuator_ctrlrange.T
        self._centre, self._half = (high + low) / 2, (high - low) / 2
        self.set_state(self.model.qpos0, np.zeros(self.model.nv))
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, self.observation().shape, np.float32)
        self.action_space = gymnasium.spaces.Box(-1, 1, (self.model.nu,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Lay out the task anew; the hand itself always starts in its own pose, at rest."""
        super().reset(seed=seed)
        self.task.place(self.model, self.np_random)
        self.set_state(self.model.qpos0, np.zeros(self.model.nv))
        self.held = 0
        return self.observation(), {"success": False}

    def step(self, action: np.ndarray):
        """Apply one action for five simulator steps.

        Sites and bodies are seen as of the last simulator step's beginning, as the old environment saw them.
        """
        self.data.ctrl[:] = self._centre + np.clip(action, -1, 1) * self._half
        self._mj.mj_step(self.model, self.data, FRAME_SKIP)
        outcome = self.task.judge(self.data)
        self.held += outcome.reached
        success = self.held > self.task.hold
        return self.observation(), float(outcome.reward), outcome.failed, False, {"success": success}

    def set_state(self, qpos: np.ndarray, qvel: np.ndarray) -> None:
        """Put hand and object into a state, as if the episode began there."""
        physics.set_state(self.model, self.data, qpos, qvel)

    def observation(self) -> np.ndarray:
        """What the task shows; float32 as in the data."""
        return self.task.observe(self.data).astype(np.float32)
