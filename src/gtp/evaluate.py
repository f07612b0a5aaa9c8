"""Evaluation: episodes side by side, one row each, every row saying what was measured and how.

Episode i of a member is played in a world seeded with `seed + i`, and its actions' noise depends on its place
and time alone, so the same policy gives the same episodes whenever it is asked.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np

import gtp.envs  # noqa: F401  (registers our environments)
from gtp.envs import scores
from gtp.errors import UserError
from gtp.types import Acting

Act = Callable[[np.ndarray, int], np.ndarray]
"""(observations of all worlds, time) -> actions in the world's units."""


class Episode(NamedTuple):
    """How one episode went."""

    episode: int
    total: float
    """Undiscounted return."""
    length: int
    success: bool | None
    """None where the environment does not say."""


class Worlds(Protocol):
    """Several copies of an environment, one episode each."""

    def reset(self, seeds: list[int]) -> np.ndarray:
        """Observations at the start."""
        ...

    def step(self, actions: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, ...]:
        """Observation, reward, over, success of each world; those not active may be anything."""
        ...


class VectorWorlds:
    """Environments that are vectorised themselves."""

    def __init__(self, env_id: str, count: int) -> None:
        self._env: Any = gymnasium.make_vec(env_id, num_envs=count, vectorization_mode="vector_entry_point")

    def reset(self, seeds: list[int]) -> np.ndarray:
        """Observations at the start."""
        return self._env.reset(seed=seeds)[0]

    def step(self, actions: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, ...]:
        """One step of all worlds."""
        obs, reward, terminated, truncated, info = self._env.step(actions)
        return obs, reward, terminated | truncated, np.asarray(info["success"], float)


class ListedWorlds:
    """Ordinary environments, stepped in turn while their episode lasts."""

    def __init__(self, env_id: str, count: int) -> None:
        self._envs = [gymnasium.make(env_id) for _ in range(count)]

    def reset(self, seeds: list[int]) -> np.ndarray:
        """Observations at the start."""
        self._obs = np.stack([env.reset(seed=seed)[0] for env, seed in zip(self._envs, seeds, strict=True)])
        return self._obs.copy()

    def step(self, actions: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, ...]:
        """One step of the active worlds."""
        count = len(self._envs)
        reward, over, success = np.zeros(count), np.zeros(count, bool), np.full(count, np.nan)
        for i in np.flatnonzero(active):
            self._obs[i], reward[i], terminated, truncated, info = self._envs[i].step(actions[i])
            over[i] = terminated or truncated
            success[i] = float(info.get("success", info.get("is_success", np.nan)))
        return self._obs.copy(), reward, over, success


def open_worlds(env_id: str, count: int) -> Worlds:
    """Copies of an environment, vectorised where it can be."""
    if env_id not in gymnasium.registry and importlib.util.find_spec("ogbench"):
        importlib.import_module("ogbench")  # It registers its tasks when imported.
    try:
        vectorised = gymnasium.spec(env_id).vector_entry_point is not None
        return VectorWorlds(env_id, count) if vectorised else ListedWorlds(env_id, count)
    except gymnasium.error.Error as error:
        raise UserError(f"cannot make the environment {env_id}: {error}") from None


def play(act: Act, worlds: Worlds, seeds: list[int]) -> list[Episode]:
    """Play one episode in each world; all are acted on in one batch, whose size never changes."""
    count = len(seeds)
    obs = worlds.reset(seeds)
    total, length = np.zeros(count), np.zeros(count, int)
    active, success = np.ones(count, bool), np.full(count, np.nan)
    time = 0
    while active.any():
        obs, reward, over, won = worlds.step(act(obs, time), active)
        total[active] += reward[active]
        length[active] += 1
        success[active] = won[active]
        active &= ~over
        time += 1
    return [
        Episode(i, float(total[i]), int(length[i]), None if np.isnan(success[i]) else bool(success[i]))
        for i in range(count)
    ]


def rows(episodes: list[Episode], env_id: str, acting: Acting, about: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows for eval.csv; `about` says whose: agent, data, fingerprint, provenance, seed, step, variant."""
    physics = scores.physics(env_id)
    return [
        {
            "agent": about["agent"],
            "data": about["data"],
            "env": env_id,
            "physics": physics,
            "seed": about["seed"],
            "step": about["step"],
            "weights": acting.weights,
            "act": acting.rule,
            "candidates": acting.candidates,
            "sampling_steps": "" if acting.sampling_steps is None else acting.sampling_steps,
            "return": repr(e.total),
            "normalised_score": _blank(scores.normalised_score(env_id, e.total)),
            "length": e.length,
            "success": "" if e.success is None else int(e.success),
            "episode": e.episode,
            "variant": about["variant"],
            "fingerprint": about["fingerprint"],
            "provenance": about["provenance"],
        }
        for e in episodes
    ]


def _blank(value: float | None) -> str:
    return "" if value is None else repr(float(value))
