"""Many copies of an environment, one episode each, stepped together. No JAX: worker processes import this."""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any, Protocol

import gymnasium
import numpy as np

import gtp.envs  # noqa: F401  (registers our environments)
from gtp.errors import UserError

FEWEST = 4
"""Worlds that a process of their own is worth its start."""

MOST, MOST_ARMS = 500, 50
"""Simulators alive at once; of OGBench's robot arms fewer, whose meshes take about 150 MB each."""


class Worlds(Protocol):
    """Several copies of an environment. `reset` with a seed makes a world's next episode reproducible."""

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """Shape of one world's observation."""
        ...

    @property
    def action_shape(self) -> tuple[int, ...]:
        """Shape of one world's action."""
        ...

    def reset(self, seeds: list[int]) -> np.ndarray:
        """Observations at the start."""
        ...

    def step(self, actions: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, ...]:
        """Observation, reward, over, success of each world; those not active may be anything."""
        ...

    def close(self) -> None:
        """Let go of simulators and processes."""
        ...


class VectorWorlds:
    """Environments that are vectorised themselves."""

    def __init__(self, spec: gymnasium.envs.registration.EnvSpec, count: int) -> None:
        self._env: Any = gymnasium.make_vec(spec.id, num_envs=count, vectorization_mode="vector_entry_point")
        self.obs_shape = tuple(self._env.single_observation_space.shape)
        self.action_shape = tuple(self._env.single_action_space.shape)

    def reset(self, seeds: list[int]) -> np.ndarray:
        """Observations at the start."""
        return self._env.reset(seed=seeds)[0]

    def step(self, actions: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, ...]:
        """One step of all worlds."""
        obs, reward, terminated, truncated, info = self._env.step(actions)
        return obs, reward, terminated | truncated, np.asarray(info["success"], float)

    def close(self) -> None:
        """Let go of them."""
        self._env.close()


class ListedWorlds:
    """Ordinary environments, stepped in turn while their episode lasts."""

    def __init__(self, spec: gymnasium.envs.registration.EnvSpec, count: int) -> None:
        # Gymnasium's checker is for those who write environments; it would warn once per world.
        self._envs = [gymnasium.make(spec, disable_env_checker=True) for _ in range(count)]
        self.obs_shape = tuple(self._envs[0].observation_space.shape or ())
        self.action_shape = tuple(self._envs[0].action_space.shape or ())

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

    def close(self) -> None:
        """Let go of them."""
        for env in self._envs:
            env.close()


class StackedWorlds:
    """Worlds of pictures, each observation being the last `stack` of them, joined on their channels."""

    def __init__(self, worlds: Worlds, stack: int) -> None:
        self._worlds, self._stack = worlds, stack
        self.obs_shape = (*worlds.obs_shape[:-1], worlds.obs_shape[-1] * stack)
        self.action_shape = worlds.action_shape

    def reset(self, seeds: list[int]) -> np.ndarray:
        """Observations at the start: the first picture stands for those before it."""
        self._seen = np.concatenate([self._worlds.reset(seeds)] * self._stack, axis=-1)
        return self._seen

    def step(self, actions: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, ...]:
        """One step; the oldest picture makes room for the new one."""
        obs, *news = self._worlds.step(actions, active)
        self._seen = np.concatenate([self._seen[..., obs.shape[-1] :], obs], axis=-1)
        return (self._seen, *news)

    def close(self) -> None:
        """Let go of them."""
        self._worlds.close()


def find(env_id: str) -> gymnasium.envs.registration.EnvSpec:
    """What gymnasium knows of an environment."""
    installed = importlib.util.find_spec("ogbench") is not None
    if env_id not in gymnasium.registry and installed:
        importlib.import_module("ogbench")  # It registers its tasks when imported.
    try:
        return gymnasium.spec(env_id)
    except (gymnasium.error.Error, ImportError) as error:
        hint = "" if installed else " (OGBench's are there after pip install 'gtp[ogbench]')"
        raise UserError(f"cannot make the environment {env_id}: {error}{hint}") from None


def most_at_once(env_id: str) -> int:
    """How many simulators of an environment may be alive at once."""
    return MOST_ARMS if str(find(env_id).entry_point).startswith("ogbench.manipspace") else MOST


def open_worlds(env_id: str, count: int, workers: int = 0, frame_stack: int = 1) -> Worlds:
    """Copies of an environment: vectorised where it can be, else in `workers` processes (0: one a core).

    What is played does not depend on `workers`. Few worlds stay in this process.
    """
    if frame_stack > 1:
        return StackedWorlds(open_worlds(env_id, count, workers), frame_stack)
    from gtp.envs.workers import WorkerWorlds

    spec = find(env_id)
    try:
        if spec.vector_entry_point is not None:
            return VectorWorlds(spec, count)
        workers = min(workers or cores(), count // FEWEST)
        # An environment that is defined in the running program exists in no other process.
        if workers > 1 and isinstance(spec.entry_point, str):
            return WorkerWorlds(spec, count, workers)
        return ListedWorlds(spec, count)
    except gymnasium.error.Error as error:
        raise UserError(f"cannot make the environment {env_id}: {error}") from None


def cores() -> int:
    """Processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check(env_id: str, obs_shape: tuple[int, ...], action_size: int, frame_stack: int = 1) -> None:
    """Find out before training, not after it, whether a policy of these shapes can be played."""
    world = open_worlds(env_id, 1, frame_stack=frame_stack)
    have = (world.obs_shape, world.action_shape)
    world.close()
    if have != (obs_shape, (action_size,)):
        raise UserError(
            f"{env_id} has observations {have[0]} and actions {have[1]}, "
            f"the data {obs_shape} and {(action_size,)}: name another with --env"
        )
