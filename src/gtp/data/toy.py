"""Data for the built-in worlds, made on the spot.

`toy:multigoal`: a demonstrator picks one of the four goals at random and walks there along the middle of its
bridge, wandering: its heading is off a little at every step, its speed varies. Data are as multi-modal as can
be at the origin, where all goals are equally good.
`toy:multigoal-pixels`: the same, seen from above in 64 × 64 pictures.
"""

from __future__ import annotations

import numpy as np

from gtp.data.dataset import Dataset, Rows, fingerprint, transitions
from gtp.envs import multigoal, pixels
from gtp.errors import UserError

EPISODES = 4000
WORLDS = {
    "multigoal": (EPISODES, "gtp/MultiGoal-v0"),
    "multigoal-pixels": (EPISODES // 2, "gtp/MultiGoalPixels-v0"),
}
"""Name -> episodes of it, and the world they were made in; pictures are large, so there are fewer."""
WANDER = 0.13
"""Standard deviation of the heading's error, in radians."""
SPEEDS = (0.85, 1.0)
"""Between which a step's speed varies."""
LOOKAHEAD = 1.5
"""How far ahead on its bridge the demonstrator aims."""


def load(name: str) -> Dataset:
    """The dataset called toy:NAME."""
    if name not in WORLDS:
        raise UserError(f"there is no toy dataset called {name!r}; there are {', '.join(WORLDS)}")
    episodes, env = WORLDS[name]
    rows = multigoal_rows(episodes)
    t = transitions(pixel_rows(rows) if name == "multigoal-pixels" else rows)
    return Dataset(
        name=f"toy:{name}",
        transitions=t,
        action_low=np.full(2, -1, np.float32),
        action_high=np.full(2, 1, np.float32),
        env=env,
        metadata={"made": f"{episodes} episodes of a wandering demonstrator, seed 0"},
        fingerprint=fingerprint(t),
    )


def pixel_rows(rows: Rows) -> Rows:
    """The same rows, seen from above: positions become pictures."""
    after = rows.next_observations
    seen = None if after is None else pixels.draw(after)
    return rows._replace(observations=pixels.draw(rows.observations), next_observations=seen)


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
