"""How far the hand starts from the cube: python starts.py, which needs OGBench, writes two tables beside it.

starts.csv has the worlds that evaluations play in, one row a task and episode. oracle.csv has the scripted
oracle that made the data, one row a plan: whether it is the first of its episode, how far from the cube it
began, how many steps it took, and whether it left the cube within 4 cm of where it meant to, which is
OGBench's measure of success.
"""

import csv
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import ogbench  # noqa: F401  (registers its environments)
from ogbench.manipspace.oracles.plan.cube_plan import CubePlanOracle

from gtp.generate.manipulation import NOISE, SMOOTHING
from gtp.scoring import EVAL_SEED

HERE = Path(__file__).parent
TASKS, EPISODES, PLANS, SEED = range(1, 6), 50, 300, 0


def distance(info: dict[str, Any]) -> float:
    """Between hand and cube, in metres along the table."""
    apart = info["proprio/effector_pos"] - info["privileged/block_0_pos"]
    return float(np.linalg.norm(apart[:2]))


def worlds(task: int) -> list[dict[str, Any]]:
    """The worlds of a task's evaluation episodes."""
    env = gymnasium.make(f"cube-single-singletask-task{task}-v0", disable_env_checker=True)
    starts = [distance(env.reset(seed=EVAL_SEED + i)[1]) for i in range(EPISODES)]
    return [{"task": task, "episode": i, "distance": f"{d:.4f}"} for i, d in enumerate(starts)]


def plans(first: bool) -> list[dict[str, Any]]:
    """What becomes of plans that begin an episode, or of later ones, all in one; the noise is the data's."""
    env: Any = gymnasium.make("cube-single-v0", terminate_at_goal=False, mode="data_collection")
    np.random.seed(SEED)  # noqa: NPY002 — the oracle draws from numpy's global generator.
    oracle, rows = CubePlanOracle(env=env, noise=NOISE, noise_smoothing=SMOOTHING), []
    for number in range(PLANS + 1):
        if first or number == 0:
            obs, info = env.reset(seed=SEED + number)
        else:
            obs, info = env.unwrapped.set_new_target(p_stack=0.0)
        oracle.reset(obs, info)
        start, aim, length = distance(info), info["privileged/target_block_pos"].copy(), 0
        while not oracle.done:
            obs, _, _, _, info = env.step(np.clip(oracle.select_action(obs, info), -1, 1))
            length += 1
        missed = np.linalg.norm(info["privileged/block_0_pos"] - aim)
        row = {
            "first": int(first),
            "distance": f"{start:.4f}",
            "length": length,
            "placed": int(missed <= 0.04),
        }
        rows.append(row)
    # The one that begins the episode of later ones is none of them.
    return rows[:PLANS] if first else rows[1:]


def write(name: str, rows: list[dict[str, Any]]) -> None:
    """The rows as a table beside this file."""
    with (HERE / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    write("starts.csv", [row for task in TASKS for row in worlds(task)])
    write("oracle.csv", plans(first=True) + plans(first=False))
