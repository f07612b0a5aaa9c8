"""How high the hand comes near the cube, and how soon it is lifted: python lifts.py, which writes lifts.csv.

It reads the data that `GTP_DATA` has of `ogbench:cube-single-play-v0`. One row an episode that starts beyond
0.2 m from the cube: how far off it starts, at which step and how high the hand first is within 0.2 m (along
the table), and how many steps later the cube is 3 cm above where it lay, be it by the first plan or, where
that misses, by a later one. Episodes that never lift it are left out; in the data of results there are none.
"""

import csv
from pathlib import Path

import numpy as np

from gtp.data import load

TARGET = Path(__file__).parent / "lifts.csv"
EPISODE = 1000
NEAR, LIFTED = 0.2, 0.03
HAND, CUBE = slice(12, 15), slice(19, 22)
"""Where positions stand in OGBench's observation, ten times as large as in metres."""


def first_plans(observations: np.ndarray) -> list[dict[str, str]]:
    """What becomes of each episode's first way to the cube."""
    rows = []
    for number, episode in enumerate(observations.reshape(-1, EPISODE, observations.shape[-1])):
        hand, cube = episode[:, HAND] / 10, episode[:, CUBE] / 10
        apart = np.linalg.norm((hand - cube)[:, :2], axis=1)
        near, lifted = apart < NEAR, cube[:, 2] > cube[0, 2] + LIFTED
        if near[0] or not near.any() or not lifted.any() or lifted.argmax() <= near.argmax():
            continue
        rows.append(
            {
                "episode": str(number),
                "distance": f"{apart[0]:.4f}",
                "step": str(near.argmax()),
                "height": f"{hand[near.argmax(), 2]:.4f}",
                "steps_to_lift": str(lifted.argmax() - near.argmax()),
            }
        )
    return rows


if __name__ == "__main__":
    rows = first_plans(np.asarray(load("ogbench:cube-single-play-singletask-task1-v0").transitions.obs))
    with TARGET.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
