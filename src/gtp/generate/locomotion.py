"""Episodes of D4RL's robots under a behaviour policy, many at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gtp.envs.locomotion import Locomotion
from gtp.generate import policy as policies

LIMIT = 1000
"""Steps after which D4RL cut an episode."""


def shard(task: str, policy: str | None, episodes: int, seed: int, index: int) -> dict[str, np.ndarray]:
    """Whole episodes number `index * episodes` and on, one after the other, in D4RL's arrays.

    Each episode has its own random stream, so that what a shard holds does not depend on who makes it.
    """
    actor = None if policy is None else policies.load(Path(policy))
    numbers = range(index * episodes, (index + 1) * episodes)
    return rollout(task, actor, [np.random.default_rng((seed, number)) for number in numbers])


def rollout(
    task: str, actor: policies.Policy | None, streams: list[np.random.Generator], limit: int = LIMIT
) -> dict[str, np.ndarray]:
    """One episode per random stream, stepped together: the policy sees one batch. None acts at random."""
    envs = [Locomotion(task) for _ in streams]
    size = envs[0].model.nu
    noise = np.stack([_noise(rng, (limit, size), actor is None) for rng in streams])
    obs = np.stack(
        [env.reset(seed=int(rng.integers(2**31)))[0] for env, rng in zip(envs, streams, strict=True)]
    )
    log = _empty(len(envs), limit, envs[0])
    lengths = np.full(len(envs), limit)
    running = np.arange(len(envs))
    for t in range(limit):
        action, log_prob = _act(actor, obs[running], noise[running, t])
        log["observations"][running, t] = obs[running]
        log["actions"][running, t] = action
        log["infos/action_log_probs"][running, t] = log_prob
        for row, i in enumerate(running):
            env = envs[i]
            log["infos/qpos"][i, t] = env.data.qpos
            log["infos/qvel"][i, t] = env.data.qvel
            obs[i], log["rewards"][i, t], fallen, _, _ = env.step(action[row])
            if t + 1 == limit:
                log["timeouts"][i, t] = True
            elif fallen:
                log["terminals"][i, t] = True
                lengths[i] = t + 1
        log["next_observations"][running, t] = obs[running]
        running = running[lengths[running] > t + 1]
        if not len(running):
            break
    return {
        key: np.concatenate([a[:n] for a, n in zip(value, lengths, strict=True)])
        for key, value in log.items()
    }


def _noise(rng: np.random.Generator, shape: tuple[int, int], uniform: bool) -> np.ndarray:
    drawn = rng.uniform(-1, 1, shape) if uniform else rng.standard_normal(shape)
    return drawn.astype(np.float32)


def _act(actor: policies.Policy | None, obs: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A random policy's actions are its noise, uniform over the box [-1, 1]."""
    if actor is not None:
        return policies.sample(actor, obs, noise)
    return noise, np.full(len(noise), -noise.shape[1] * np.log(2.0), np.float32)


def _empty(episodes: int, limit: int, env: Locomotion) -> dict[str, np.ndarray]:
    """D4RL's arrays with axes (episode, step, ...)."""
    features, actions = env.observation_space.shape, env.action_space.shape
    layout = {
        "observations": (features, np.float32),
        "next_observations": (features, np.float32),
        "actions": (actions, np.float32),
        "rewards": ((), np.float32),
        "terminals": ((), np.bool_),
        "timeouts": ((), np.bool_),
        "infos/action_log_probs": ((), np.float32),
        "infos/qpos": ((env.model.nq,), np.float64),
        "infos/qvel": ((env.model.nv,), np.float64),
    }
    return {key: np.zeros((episodes, limit, *(shape or ())), dtype) for key, (shape, dtype) in layout.items()}
