"""Generative objectives, one pure function each, one loss per sample.

Every function takes φ (see `flow`) with network and observation bound in: `phi` is trained, `phi_target` is
its moving average θ⁻ and receives no gradient. `a` is the data's action and z ~ N(0, I) its noise. The loss
is a mean over action dimensions, and has the shape of `t`. The agent weights and averages.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from gtp.flow import Endpoint, Velocity, column, denoise, flow_map
from gtp.noise import Noise, Times, karras_midpoint
from gtp.types import Array


def squared(residual: Array) -> Array:
    """‖residual‖², averaged over action dimensions."""
    return jnp.mean(residual**2, axis=-1)


def noised(a: Array, z: Array, t: Array) -> Array:
    """a_t = a + t·z; at t = u this is the paper's surrogate teacher ã_u, free of any ODE solver."""
    return a + column(t) * z


def denoising(phi: Endpoint, a: Array, z: Array, t: Array) -> Array:
    """L_Flow, the instantaneous-flow loss: ‖a − φ^inst(a_t, t)‖²."""
    return squared(denoise(phi, noised(a, z, t), t) - a)


def between(a: Array, z: Array, t: Array) -> Array:
    """x_t = (1 − t)·z + t·a, the linear path from noise at t = 0 to data at t = 1."""
    return (1 - column(t)) * z + column(t) * a


def flow_matching(field: Velocity, a: Array, z: Array, t: Array) -> Array:
    """Linear-path flow matching, noise at t = 0 and data at t = 1: ‖v((1−t)·z + t·a, t) − (a − z)‖²."""
    return squared(field(between(a, z, t), t) - (a - z))


def drawn_flow_matching(field: Velocity, a: Array, key: Array) -> Array:
    """Flow matching with its own draws: z ~ N(0, I) and t ~ U(0, 1)."""
    key_z, key_t = jax.random.split(key)
    return flow_matching(field, a, jax.random.normal(key_z, a.shape), jax.random.uniform(key_t, a.shape[:-1]))


def trajectory_consistency(
    phi: Endpoint, phi_target: Endpoint, a_t: Array, a_u: Array, times: Times
) -> Array:
    """L_Consistency: ‖Φ(a_t, t, s) − Φ⁻(a_u, u, s)‖², two points of one trajectory must arrive together."""
    t, u, s = times
    target = jax.lax.stop_gradient(flow_map(phi_target, a_u, u, s))
    return squared(flow_map(phi, a_t, t, s) - target)


def consistency(phi: Endpoint, phi_target: Endpoint, a_t: Array, a_u: Array, t: Array, u: Array) -> Array:
    """Consistency models: the trajectory loss with its target always at the data, s = 0."""
    return trajectory_consistency(phi, phi_target, a_t, a_u, Times(t, u, jnp.zeros_like(t)))


def shortcut(phi: Endpoint, phi_target: Endpoint, a_t: Array, t: Array, s: Array, noise: Noise) -> Array:
    """Self-consistency without a teacher: one jump t → s must equal two jumps of θ⁻ through the middle u."""
    u = karras_midpoint(t, s, noise)
    middle = flow_map(phi_target, a_t, t, u)
    target = jax.lax.stop_gradient(flow_map(phi_target, middle, u, s))
    return squared(flow_map(phi, a_t, t, s) - target)


def mean_flow(phi: Endpoint, clean: Array, a_t: Array, t: Array, s: Array) -> Array:
    """The mean-flow identity in bounded form: ‖R‖² with R = (s/t)·(φ − φ^inst) + (t − s)·dφ/dt.

    Multiplying the paper's identity by s/t removes its factor t²/s, which reaches 3·10⁶. `clean` stands for
    φ^inst: the data's action (the surrogate field) or a denoiser's answer. The derivative runs along the
    trajectory in ln t, where (t − s)·d/dt = (1 − s/t)·d/d ln t. φ is drawn towards sg(φ − R): the value is
    ‖R‖² and the gradient R·∂φ, without differentiating the derivative.
    """
    ratio = column(s / t)
    tangents = (a_t - clean, t, jnp.zeros_like(s))
    phi_value, dphi_dlogt = jax.jvp(phi, (a_t, t, s), tangents)
    residual = ratio * (phi_value - clean) + (1 - ratio) * dphi_dlogt
    return squared(phi_value - jax.lax.stop_gradient(phi_value - residual))


# On the linear path -----------------------------------------------------------------------------------------

Jump = Callable[[Array, Array, Array], Array]
"""The average velocity (x, t, step or target) -> v of a jump on the linear path."""


def linear_shortcut(field: Jump, field_target: Jump, x_t: Array, t: Array, d: Array) -> Array:
    """Shortcut models: the velocity of one step d must be the mean of θ⁻'s over two steps d/2.

    Bootstrapped points and velocities are clipped at ±4, as published.
    """
    half = d / 2
    first = field_target(x_t, t, half)
    middle = jnp.clip(x_t + column(half) * first, -4.0, 4.0)
    second = field_target(middle, t + half, half)
    target = jnp.clip((first + second) / 2, -4.0, 4.0)
    return squared(field(x_t, t, d) - jax.lax.stop_gradient(target))


def linear_mean_flow(field: Jump, a: Array, z: Array, t: Array, r: Array) -> Array:
    """Mean flows: ‖u − sg(v − (t − r)·du/dt)‖² at x_t = (1 − t)·a + t·z, v = z − a; noise is at t = 1.

    du/dt = v·∂_x u + ∂_t u runs along the path; with r = t this is flow matching.
    """
    x_t, v = between(z, a, t), z - a
    u, du_dt = jax.jvp(field, (x_t, t, r), (v, jnp.ones_like(t), jnp.zeros_like(r)))
    return squared(u - jax.lax.stop_gradient(v - column(t - r) * du_dt))


def adaptive(loss: Array, power: Array | float, floor: Array | float) -> Array:
    """The loss over sg(loss + c)^p, c the floor: samples with a large loss do not drown the others."""
    return loss / jax.lax.stop_gradient(loss + floor) ** power
