"""Gradient steps; learning rates and clips may be traced, so that a sweep over them is one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from gtp import leaves
from gtp.types import Array

Aux = TypeVar("Aux")
"""What a loss gives beside its value: its metrics, mostly."""

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
"""Adam's constants."""


class Moments(NamedTuple):
    """What Adam remembers."""

    count: Array
    """Steps so far."""
    mean: Any
    square: Any
    """Moving averages of the gradient and of its square, shaped like the parameters."""


class Optimiser(NamedTuple):
    """A way to turn gradients into steps."""

    init: Callable[[Any], Moments]
    step: Callable[[Any, Any, Moments], tuple[Any, Moments, Array]]
    """(params, gradients, moments) -> params, moments, norm of the gradient."""


def cosine(
    learning_rate: Array | float, total_steps: int, final: Array | float = 0.0
) -> Callable[[Array], Array]:
    """A learning rate that falls to a `final` share of itself over the run along half a cosine."""

    def rate(step: Array) -> Array:
        left = 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(step / total_steps, 1.0)))
        return learning_rate * (final + (1 - final) * left)

    return rate


def norm_of(tree: Any) -> Array:
    """Euclidean norm of all numbers together, taken over one vector: two kernels instead of one an array."""
    return jnp.linalg.norm(ravel_pytree(tree)[0])


def clip_factor(norm: Array, limit: Array | float) -> Array:
    """What scales a gradient whose norm exceeds `limit` down to it; a limit of 0 is none."""
    return jnp.where((limit > 0) & (norm > limit), limit / norm, 1.0)


def adam(
    learning_rate: Array | float | Callable[[Array], Array], grad_clip: Array | float = 0.0
) -> Optimiser:
    """Adam behind a gradient clip; the learning rate may depend on the step.

    Own code instead of optax's, because `leaves.each` wants the formula.
    """

    def init(params: Any) -> Moments:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return Moments(jnp.int32(0), zeros, zeros)

    def step(params: Any, grads: Any, moments: Moments) -> tuple[Any, Moments, Array]:
        norm, count = norm_of(grads), moments.count + 1
        rate = learning_rate(moments.count) if callable(learning_rate) else learning_rate
        scalars = clip_factor(norm, grad_clip), rate / (1 - BETA1**count), 1 / (1 - BETA2**count)
        params, mean, square = leaves.each(adam_formula, scalars, params, moments.mean, moments.square, grads)
        return params, Moments(count, mean, square), norm

    return Optimiser(init, step)


def adam_formula(scalars: Any, param: Array, mean: Array, square: Array, grad: Array) -> tuple[Array, ...]:
    """θ ← θ − rate·m/(√(v·correction) + ε), with m and v the averages of the clipped gradient."""
    factor, rate, correction = scalars
    grad = factor * grad
    mean = BETA1 * mean + (1 - BETA1) * grad
    square = BETA2 * square + (1 - BETA2) * grad**2
    return param - rate * mean / (jnp.sqrt(correction * square) + EPSILON), mean, square


def descend(
    loss: Callable[[Any], tuple[Array, Aux]],
    params: Any,
    moments: Moments,
    optimiser: Optimiser,
) -> tuple[Any, Moments, Aux, Array]:
    """One step down `loss`, a function to (value, more): params, moments, more, gradient norm."""
    grads, more = jax.grad(loss, has_aux=True)(params)
    params, moments, norm = optimiser.step(params, grads, moments)
    return params, moments, more, norm


def if_due(due: Array, new: Any, old: Any) -> Any:
    """The new tree if it is due, else the old one: how a delayed update is left out."""
    return jax.tree.map(lambda n, o: jnp.where(due, n, o), new, old)


def polyak(target: Any, online: Any, rate: Array | float) -> Any:
    """Moving average θ⁻ ← rate·θ + (1 − rate)·θ⁻."""
    (average,) = leaves.each(average_formula, [rate], target, online)
    return average


def average_formula(scalars: Any, target: Array, online: Array) -> tuple[Array]:
    """θ⁻ + rate·(θ − θ⁻)."""
    (rate,) = scalars
    return (target + rate * (online - target),)


def ema_rate(step: Array, rate: Array | float, every: int, start: int) -> Array:
    """The rate of a moving average that moves every so many updates, from update `start` on; else 0."""
    return jnp.where(((step + 1) % every == 0) & (step >= start), rate, 0.0)
