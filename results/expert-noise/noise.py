"""How much noise a behaviour policy bears, one row an episode: python noise.py ROBOT POLICY.npz [...].

A clone misses the actions it learns by a little, so an expert whose return falls at once when its actions are
a little off may be hard to clone, however good it is itself.
Each row is one episode in D4RL's physics: `sampled` acts as the data do, `mean` by the mean action with
Gaussian noise of the given deviation added and the sum clipped to the action range.
"""

import csv
import sys
from pathlib import Path

import numpy as np

from gtp.envs.locomotion import Locomotion
from gtp.envs.scores import normalised_score
from gtp.generate import policy as policies

EPISODES, LIMIT, NOISE = 10, 1000, (0.0, 0.05, 0.1, 0.2, 0.3)


def play(robot: str, actor: policies.Policy, noise: float | None, seed: int) -> float:
    """Return of one episode; `noise` None samples the policy."""
    env, rng = Locomotion(robot), np.random.default_rng(seed)
    obs, _ = env.reset(seed=seed)
    total = 0.0
    for _ in range(LIMIT):
        draw = rng.standard_normal((1, actor.actions))
        action, _ = policies.sample(actor, obs[None], draw if noise is None else np.zeros_like(draw))
        if noise is not None:
            action = action + noise * draw
        obs, reward, fallen, _, _ = env.step(np.clip(action[0], -1, 1))
        total += reward
        if fallen:
            break
    return total


def main() -> None:
    """One row an episode, on standard output."""
    robot, *paths = sys.argv[1:]
    write = csv.writer(sys.stdout, lineterminator="\n").writerow
    write(["robot", "policy", "act", "noise", "episode", "return", "normalised_score"])
    for path in map(Path, paths):
        actor = policies.load(path)
        for noise in (None, *NOISE):
            for seed in range(EPISODES):
                total = play(robot, actor, noise, seed)
                score = normalised_score(robot, total)
                act = "sampled" if noise is None else "mean"
                write([robot, path.stem, act, noise or 0.0, seed, f"{total:.1f}", f"{score:.1f}"])


if __name__ == "__main__":
    main()
