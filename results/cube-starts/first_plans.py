"""Data of the oracle's first plans only: python first_plans.py ROWS FOLDER, which needs OGBench.

Every episode is one plan from a random pose of the hand, as evaluations start, where OGBench's data go on for
eleven plans. The file is read by `GTP_DATA=FOLDER gtp train … --data ogbench:cube-single-play-…`.
"""

import multiprocessing
import sys
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import ogbench  # noqa: F401  (registers its environments)
from ogbench.manipspace.oracles.plan.cube_plan import CubePlanOracle

from gtp.generate.manipulation import NOISE, SMOOTHING

KEYS = ("observations", "actions", "terminals", "qpos", "qvel")
PARTS = 2
"""Processes, each with a seed of its own."""


def plans(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Whole plans, one after another, until there are as many rows."""
    env: Any = gymnasium.make("cube-single-v0", terminate_at_goal=False, mode="data_collection")
    np.random.seed(seed)  # noqa: NPY002 — the oracle draws from numpy's global generator.
    oracle = CubePlanOracle(env=env, noise=NOISE, noise_smoothing=SMOOTHING)
    log: dict[str, list[Any]] = {key: [] for key in KEYS}
    obs, info = env.reset(seed=seed)
    while len(log["terminals"]) < rows:
        oracle.reset(obs, info)
        while not oracle.done:
            action = np.clip(oracle.select_action(obs, info), -1, 1)
            following, _, _, _, info = env.step(action)
            row = (obs, action, oracle.done, info["prev_qpos"], info["prev_qvel"])
            for key, value in zip(KEYS, row, strict=True):
                log[key].append(value)
            obs = following
        obs, info = env.reset()
    return {key: np.array(value, bool if key == "terminals" else np.float32) for key, value in log.items()}


def main() -> None:
    """Writes the file."""
    rows, folder = int(sys.argv[1]), Path(sys.argv[2]) / "ogbench"
    with multiprocessing.Pool(PARTS) as pool:
        parts = pool.map(partial(plans, -(-rows // PARTS)), range(PARTS))
    folder.mkdir(parents=True, exist_ok=True)
    joined = {key: np.concatenate([part[key] for part in parts]) for key in KEYS}
    np.savez(folder / "cube-single-play-v0.npz", **joined)


if __name__ == "__main__":
    main()
