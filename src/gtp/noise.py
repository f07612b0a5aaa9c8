"""Noise levels: where a trajectory from noise to action may stop, and how training draws them.

An action a at noise level t is a_t = a + t·z with z ~ N(0, I). Levels lie on Karras' grid

    t_i = (ε^(1/ρ) + i/(N−1)·(T^(1/ρ) − ε^(1/ρ)))^ρ,   i = 0 … N−1,

finest near the data. The grid is never built: level i of N is a closed form with a traced N, so that the
paper's schedule N(k) costs no second compilation.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from gtp.types import Array

URule = Literal["adjacent", "gap", "uniform"]
SamplingGrid = Literal["karras", "near", "linspace"]
LevelRule = Literal["scheduled", "sawtooth", "fixed"]


class Noise(NamedTuple):
    """The range of noise levels and the scale of the data."""

    t_min: float = 0.002
    """ε, the smallest level a network sees."""
    t_max: float | Array = 80.0
    """T, pure noise; an array where a program sweeps it."""
    rho: float = 7.0
    """ρ, how strongly the grid crowds towards t_min."""
    sigma_data: float = 0.5
    """σ_data, the standard deviation of clean actions that preconditioning assumes."""


class Times(NamedTuple):
    """One ordered draw t > u ≥ s for every row."""

    t: Array
    """Where the student starts."""
    u: Array
    """Where the teacher starts, closer to the data."""
    s: Array
    """Where both must arrive (τ in the paper's Section 4); may be exactly 0."""


def karras_level(index: Array, num_levels: Array, noise: Noise) -> Array:
    """Level t_i of a grid of `num_levels`; t_0 = ε and t_{N−1} = T."""
    low, high = noise.t_min ** (1 / noise.rho), noise.t_max ** (1 / noise.rho)
    return (low + index / (num_levels - 1) * (high - low)) ** noise.rho


def karras_midpoint(t: Array, s: Array, noise: Noise) -> Array:
    """The level half-way between t and s on Karras' scale; the shortcut objective's u."""
    return ((t ** (1 / noise.rho) + s ** (1 / noise.rho)) / 2) ** noise.rho


def sampling_grid(steps: int, noise: Noise, grid: SamplingGrid = "karras") -> Array:
    """T = t_0 > … > t_K = 0, the K + 1 levels an action passes on its way from noise.

    `near` wastes no jump on levels where noise hides the action anyway: its first leads from T to the second
    level of Karras' grid from 10·σ_data, which the others follow down. `linspace` is what Consistency-AC's
    code does: equal steps from T to 2, then 0.
    """
    if grid == "karras":
        levels = karras_level(jnp.arange(steps, 0, -1), steps + 1, noise)
    elif grid == "near":
        top = noise._replace(t_max=jnp.minimum(10 * noise.sigma_data, noise.t_max))
        levels = karras_level(jnp.arange(steps, 0, -1), steps + 1, top).at[0].set(noise.t_max)
    else:
        levels = jnp.linspace(noise.t_max, 2.0, steps) if steps > 1 else jnp.array([noise.t_max])
    return jnp.append(levels, 0.0)


def num_levels(step: Array, total_steps: int, rule: LevelRule, start: int, end: int, period: int) -> Array:
    """N(k), the number of levels at training step k.

    `scheduled` is the paper's N(k) = min(s₀·2^⌊k/K'⌋, s₁) + 1 with K' = ⌊K/(log₂(s₁/s₀) + 1)⌋ and K the whole
    run. `sawtooth` restarts it every `period` steps, as the peers' code does. `fixed` is s₁ + 1 throughout.
    """
    if rule == "fixed":
        return jnp.float32(end + 1)
    horizon = total_steps if rule == "scheduled" else period
    stage = max(1, math.floor(horizon / (math.log2(end / start) + 1)))
    doublings = (step % horizon) // stage if rule == "sawtooth" else step // stage
    # Beyond 30 doublings every sane `end` is long reached; the cap keeps 2**k finite for ever.
    return jnp.minimum(start * 2.0 ** jnp.minimum(doublings, 30), end) + 1.0


def growing_levels(step: Array, start: int, end: int, period: int) -> Array:
    """Consistency training's N(k) = ⌈√(k/K·((s₁ + 1)² − s₀²) + s₀²) − 1⌉ + 1, begun anew every K updates."""
    done = (step % period) / period
    return jnp.ceil(jnp.sqrt(done * ((end + 1.0) ** 2 - start**2) + start**2) - 1) + 1


def draw_times(
    key: Array, shape: tuple[int, ...], levels: Array, noise: Noise, rule: URule = "adjacent", gap: int = 3
) -> Times:
    """Draw t > u ≥ s on a grid of `levels`.

    t is any level above the lowest, s any level below t. u is the level next below t (`adjacent`), one of the
    `gap` next below, or any in [s, t) (`uniform`). Only a u close to t makes the surrogate a_u = a + u·z
    harmless: the bias it leaves is second order in t − u.
    """
    key_t, key_u, key_s = jax.random.split(key, 3)

    def draw_index(key: Array, low: Array, high: Array) -> Array:
        """Uniform among the whole numbers low … high."""
        # Rounding can lift low + U·(high − low + 1) to high + 1 when U is next to 1.
        draw = jnp.floor(low + jax.random.uniform(key, shape) * (high - low + 1.0))
        return jnp.minimum(draw, high)

    t_index = draw_index(key_t, jnp.float32(1), levels - 1)
    s_index = draw_index(key_s, jnp.float32(0), t_index - 1)
    lowest_u = {
        "adjacent": t_index - 1,
        "gap": jnp.maximum(s_index, t_index - gap),
        "uniform": s_index,
    }[rule]
    u_index = draw_index(key_u, lowest_u, t_index - 1)
    return Times(
        t=karras_level(t_index, levels, noise),
        u=karras_level(u_index, levels, noise),
        # The lowest target is the data itself, the very place sampling ends.
        s=jnp.where(s_index == 0, 0.0, karras_level(s_index, levels, noise)),
    )


def precondition(t: Array, sigma_data: float) -> tuple[Array, Array, Array]:
    """EDM's c_skip, c_out, c_in: they keep the network's input and target near unit size at every t."""
    total = t**2 + sigma_data**2
    c_skip = sigma_data**2 / total
    c_out = t * sigma_data / jnp.sqrt(total)
    c_in = 1 / jnp.sqrt(total)
    return c_skip, c_out, c_in


def edm_weight(t: Array, noise: Noise) -> Array:
    """1/c_out², under which an error of the network counts the same at every level.

    Without it a squared error in action space hardly sees the small levels, and samples stay noisy.
    """
    return 1 / precondition(t, noise.sigma_data)[1] ** 2
