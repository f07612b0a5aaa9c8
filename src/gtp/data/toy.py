"""Data for the built-in worlds, made on the spot.

`toy:multigoal`: a demonstrator picks one of the four goals at random and walks there along the middle of its
bridge, wandering: its heading is off a little at every step, its speed varies. Data are as multi-modal as can
be at the origin, where all goals are equally good.
"""

from __future__ import annotations

import numpy as np

from gtp.data.dataset import Dataset, Rows, fingerprint, transitions
from gtp.envs import multigoal
from gtp.errors import UserError

EPISODES = 4000
WANDER = 0.13
"""Standard deviation of the heading's error, in radians."""
SPEEDS = (0.85, 1.0)
"""Between which a step's speed varies."""
LOOKAHEAD = 1.5
"""How far ahead on its bridge the demonstrator aims."""


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


def multigoal_rows(episodes: int = EPISODES, seed: int = 0, wander: float = WANDER) -> Rows:
    """Episodes of the demonstrator, one after another, in D4RL's layout."""
    rng = np.random.default_rng(seed)
    position = rng.normal(0, multigoal.START_STD, (episodes, 2)).astype(np.float32)
    bridge = multigoal.GOALS[rng.integers(len(multigoal.GOALS), size=episodes)] / multigoal.DISTANCE
    going = np.ones(episodes, bool)
    steps = []
    for time in range(multigoal.LIMIT):
        ahead = np.minimum(np.sum(position * bridge, axis=1) + LOOKAHEAD, multigoal.DISTANCE)
        aim = np.arctan2(*(ahead[:, None] * bridge - position).T[::-1])
        speed = rng.uniform(*SPEEDS, episodes)
        action = _towards(aim + rng.normal(0, wander, episodes), speed)
        # A demonstrator about to step off looks where it is going.
        careless = multigoal.fallen(multigoal.move(position, action))
        action = np.where(careless[:, None], _towards(aim, speed), action)
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
