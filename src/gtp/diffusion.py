"""Denoising diffusion in a few discrete steps (DDPM), with Diffusion-QL's variance-preserving schedule.

Step i = 1 … N is noisier than the one before; ᾱ_i is the share of the action's variance that is left of it:

    a_i = √ᾱ_i·a + √(1 − ᾱ_i)·z,   ᾱ_i = α_1 ⋯ α_i,   α_i = exp(−β_min/N − (β_max − β_min)·(2i − 1)/(2N²))

A network ε(a_i, i) is trained to find z. Functions here take it with its observation already bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gtp.errors import UserError
from gtp.flow import column
from gtp.nn import FlowNetwork
from gtp.objectives import squared
from gtp.types import Acting, Array

NoiseNetwork = Callable[[Array, Array], Array]
"""ε(a_i, i) -> the noise in a_i."""


class Schedule(NamedTuple):
    """α_i and ᾱ_i for i = 1 … N, and ᾱ_{i−1} beside them (1 before the first)."""

    alpha: Array
    alpha_bar: Array
    alpha_bar_before: Array


def vp_schedule(steps: int, beta_min: float = 0.1, beta_max: float = 10.0) -> Schedule:
    """The variance-preserving SDE in N equal pieces; from the last, hardly anything of the action is left."""
    i = jnp.arange(1, steps + 1)
    alpha = jnp.exp(-beta_min / steps - (beta_max - beta_min) * (2 * i - 1) / (2 * steps**2))
    alpha_bar = jnp.cumprod(alpha)
    return Schedule(alpha, alpha_bar, jnp.concatenate([jnp.ones(1), alpha_bar[:-1]]))


def noised(a: Array, z: Array, i: Array, schedule: Schedule) -> Array:
    """a_i = √ᾱ_i·a + √(1 − ᾱ_i)·z."""
    kept = column(schedule.alpha_bar[i - 1])
    return jnp.sqrt(kept) * a + jnp.sqrt(1 - kept) * z


def denoising(network: NoiseNetwork, a: Array, key: Array, schedule: Schedule) -> Array:
    """‖z − ε(a_i, i)‖² at a uniform step i, one number per sample."""
    key_step, key_z = jax.random.split(key)
    i = jax.random.randint(key_step, a.shape[:-1], 1, schedule.alpha.shape[0] + 1)
    z = jax.random.normal(key_z, a.shape)
    return squared(network(noised(a, z, i, schedule), i) - z)


def sample(network: NoiseNetwork, key: Array, shape: tuple[int, ...], schedule: Schedule) -> Array:
    """Actions of this shape by DDPM's ancestral steps; the clean guess is clipped to ±1 in every step."""
    key_start, key_steps = jax.random.split(key)
    steps = schedule.alpha.shape[0]

    def step(x: Array, now: tuple[Array, Array, Schedule]) -> tuple[Array, None]:
        i, key, (alpha, alpha_bar, before) = now
        clean = (x - jnp.sqrt(1 - alpha_bar) * network(x, i)) / jnp.sqrt(alpha_bar)
        clean = jnp.clip(clean, -1.0, 1.0)
        share = (1 - alpha) * jnp.sqrt(before) / (1 - alpha_bar)
        mean = share * clean + (1 - before) * jnp.sqrt(alpha) / (1 - alpha_bar) * x
        deviation = jnp.sqrt((1 - alpha) * (1 - before) / (1 - alpha_bar))  # 0 in the last step.
        return mean + deviation * jax.random.normal(key, x.shape), None

    start = jax.random.normal(key_start, shape)
    indices, keys = jnp.arange(1, steps + 1), jax.random.split(key_steps, steps)
    # The usual handful of steps is unrolled, so that XLA fuses across them.
    x, _ = jax.lax.scan(step, start, (indices, keys, schedule), reverse=True, unroll=min(steps, 5))
    return jnp.clip(x, -1.0, 1.0)


def noise_network(actor: FlowNetwork, obs: Array) -> NoiseNetwork:
    """ε of a policy: its network with the observation bound, and nothing to aim at but the step itself."""
    network = actor.bind(obs)
    return lambda x, i: network(x, i, i)


def policy(actor: FlowNetwork, obs: Array, key: Array, samples: int, schedule: Schedule) -> Array:
    """π(s), several samples for each observation: (samples, rows, action)."""
    shape = (samples, obs.shape[0], actor.action_size)
    return sample(noise_network(actor, obs), key, shape, schedule)


def check_steps(acting: Acting, steps: int) -> None:
    """A discrete diffusion can only act in the steps it was trained for."""
    if acting.sampling_steps not in (None, steps):
        raise UserError(
            f"this policy was trained for {steps} sampling steps and cannot act in {acting.sampling_steps}"
        )
