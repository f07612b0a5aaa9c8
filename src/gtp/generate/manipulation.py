"""Episodes of OGBench's play data: scripted oracles that set themselves one target after another."""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from gtp.errors import UserError

ROWS = 1001
"""Rows of an episode."""
NOISE, SMOOTHING = 0.1, 0.5
"""Of the oracles' plans."""
ORACLES = {
    "cube-single": "cube",
    "cube-double": "cube",
    "scene": "cube button drawer window",
    "puzzle-3x3": "button",
}
"""The oracles each environment needs."""


def require() -> None:
    """Say in one sentence what to install where OGBench is missing."""
    try:
        import_module("ogbench")
    except ImportError:
        raise UserError('This needs OGBench, which is not installed: pip install "gtp[ogbench]".') from None


def shard(env_name: str, seed: int, index: int) -> dict[str, np.ndarray]:
    """Episode number `index` in OGBench's arrays."""
    env, oracles = _world(env_name)
    stream = np.random.SeedSequence((seed, index))
    env_seed, oracle_seed = (int(word) for word in stream.generate_state(2))
    np.random.seed(oracle_seed)  # noqa: NPY002 — the oracles draw from numpy's global generator.
    options = {"seed": env_seed}
    while True:
        episode = _episode(env, env_name, oracles, **options)
        if env_name != "scene" or _cube_in_sight(episode["qpos"]):
            return episode
        options = {}


@cache
def _world(env_name: str) -> tuple[Any, dict[str, Any]]:
    """The environment and its oracles, made once a process."""
    require()
    gymnasium = import_module("gymnasium")
    with warnings.catch_warnings(action="ignore"):  # Of its own spaces' precision.
        env = gymnasium.make(
            f"{env_name}-v0", terminate_at_goal=False, mode="data_collection", max_episode_steps=ROWS
        )
    oracles = {}
    for name in ORACLES[env_name].split():
        module = import_module(f"ogbench.manipspace.oracles.plan.{name}_plan")
        oracle = getattr(module, f"{name.capitalize()}PlanOracle")
        closed = {"gripper_always_closed": True} if env_name.startswith("puzzle") else {}
        oracles[name] = oracle(env=env, noise=NOISE, noise_smoothing=SMOOTHING, **closed)
    return env, oracles


def _episode(env: Any, env_name: str, oracles: dict[str, Any], **options: int) -> dict[str, np.ndarray]:
    """Follow the oracles for a whole episode; a new target whenever one is done."""
    obs, info = env.reset(**options)
    stacking = {"p_stack": _stacking(env_name)}
    oracle = oracles[info["privileged/target_task"]]
    oracle.reset(obs, info)
    log: dict[str, list[Any]] = {key: [] for key in ("observations", "actions", "terminals", "qpos", "qvel")}
    buttons: list[Any] = []
    done = False
    while not done:
        action = np.clip(oracle.select_action(obs, info), -1, 1)
        following, _, terminated, truncated, info = env.step(action)
        done = terminated or truncated
        if oracle.done:
            new_obs, new_info = env.unwrapped.set_new_target(**stacking)
            oracle = oracles[new_info["privileged/target_task"]]
            oracle.reset(new_obs, new_info)
        row = (obs, action, done, info["prev_qpos"], info["prev_qvel"])
        for values, value in zip(log.values(), row, strict=True):
            values.append(value)
        if "prev_button_states" in info:
            buttons.append(info["prev_button_states"])
        obs = following
    out = {key: np.array(value, bool if key == "terminals" else np.float32) for key, value in log.items()}
    return out | ({"button_states": np.array(buttons, np.int64)} if buttons else {})


def _stacking(env_name: str) -> float:
    """How likely a cube is put on another one, drawn once an episode."""
    if env_name == "cube-single":
        return 0.0
    if env_name == "cube-double":
        return np.random.uniform(0, 0.25)  # noqa: NPY002 — the oracles' own stream, seeded with them.
    return 0.5


def _cube_in_sight(qpos: np.ndarray) -> bool:
    """Whether the scene's cube stayed where goal images can show it: on the table or in the drawer."""
    y, z = qpos[:, 15], qpos[:, 16]
    lost_left = (y <= -0.3) & ((z < 0.06) | (z > 0.08))
    return not ((y >= 0.29).any() or lost_left.any())
