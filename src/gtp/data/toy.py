"""Data for the built-in worlds, made on the spot.

`toy:multigoal`: a demonstrator picks one of the four goals at random and walks there, wandering: its heading
carries a slowly changing error, its speed varies. Data are as multi-modal as can be at the origin, where all
goals are equally good.
"""

from __future__ import annotations

import numpy as np

from gtp.data.dataset import Dataset, Rows, fingerprint, transitions
from gtp.envs import multigoal
from gtp.errors import UserError

EPISODES = 2000


def load(name: str) -> Dataset:
    """The dataset called toy:NAME."""
    if name != "multigoal":
        raise UserError(f"there is no toy dataset called {name!r}; there is toy:multigoal")
    t = transitions(multigoal_rows())
    return Dataset(
        name="toy:multigoal",
        transitions=t,
        action_low=np.full(2, -1, np.float32),
        action_high=np.full(2, 1, np.float32),
        env="gtp/MultiGoal-v0",
        metadata={"made": f"{EPISODES} episodes of a wandering demonstrator, seed 0"},
        fingerprint=fingerprint(t),
    )


def multigoal_rows(episodes: int = EPISODES, seed: int = 0, wander: float = 0.4) -> Rows:
    """Episodes of the demonstrator, one after another, in D4RL's layout.

    `wander` is the standard deviation (radians) of the heading's error, correlated over about ten steps.
    """
    rng = np.random.default_rng(seed)
    position = rng.normal(0, multigoal.START_STD, (episodes, 2)).astype(np.float32)
    goal = multigoal.GOALS[rng.integers(len(multigoal.GOALS), size=episodes)]
    heading_error = rng.normal(0, wander, episodes)
    going = np.ones(episodes, bool)
    steps = []
    for time in range(multigoal.LIMIT):
        to_goal = np.arctan2(*(goal - position).T[::-1])
        heading_error = 0.9 * heading_error + np.sqrt(1 - 0.9**2) * rng.normal(0, wander, episodes)
        speed = rng.uniform(0.6, 1.0, episodes)
        action = _towards(to_goal + heading_error, speed)
        # A demonstrator about to step off looks where it is going.
        careless = multigoal.fallen(multigoal.move(position, action))
        action = np.where(careless[:, None], _towards(to_goal, speed), action)
        after = multigoal.move(position, action)
        terminal = multigoal.reached(after) >= 0
        timeout = ~terminal & (time == multigoal.LIMIT - 1)
        steps.append((position, action, terminal, timeout, after, going.copy()))
        position = np.where(going[:, None], after, position)
        going &= ~(terminal | timeout)
    # Time runs along the first axis here; a log wants one episode after the other.
    obs, action, terminal, timeout, after, alive = (
        np.stack(x).swapaxes(0, 1) for x in zip(*steps, strict=True)
    )
    return Rows(
        observations=obs[alive],
        actions=action[alive],
        rewards=np.full(alive.sum(), -1, np.float32),
        terminals=terminal[alive],
        timeouts=timeout[alive],
        next_observations=after[alive],
    )


def _towards(heading: np.ndarray, speed: np.ndarray) -> np.ndarray:
    return (speed[:, None] * np.stack([np.cos(heading), np.sin(heading)], 1)).astype(np.float32)
