"""Gradient steps; learning rates and clips may be traced, so that a sweep over them is one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from gtp.types import Array


class Optimiser(NamedTuple):
    """An optax transformation; its own types do not know Equinox modules."""

    init: Callable[[Any], Any]
    update: Callable[..., tuple[Any, Any]]


def clip_by_norm(limit: Array | float) -> optax.GradientTransformation:
    """Scale gradients whose global norm exceeds `limit`; 0 turns it off."""

    def clip(grads: Any, _: Any) -> Any:
        norm = optax.tree.norm(grads)
        factor = jnp.where((limit > 0) & (norm > limit), limit / norm, 1.0)
        return jax.tree.map(lambda g: g * factor, grads)

    return optax.stateless(clip)


def ravel(tree: Any) -> Array:
    """All leaves of a tree as one vector."""
    return ravel_pytree(tree)[0]


def cosine(learning_rate: Array | float, total_steps: int) -> Callable[[Array], Array]:
    """A learning rate that falls to 0 over the run along half a cosine."""
    return lambda step: learning_rate * 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(step / total_steps, 1.0)))


def adam(
    learning_rate: Array | float | Callable[[Array], Array], grad_clip: Array | float = 0.0
) -> Optimiser:
    """Adam behind a gradient clip, all moments in one vector; the learning rate may depend on the step."""
    chain: Any = optax.chain(clip_by_norm(grad_clip), optax.adam(learning_rate))

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        flat, unravel = ravel_pytree(grads)
        updates, state = chain.update(flat, state)
        return unravel(updates), state

    return Optimiser(lambda params: chain.init(ravel(params)), update)


def descend(
    loss: Callable[[Any], tuple[Array, dict[str, Array]]],
    params: Any,
    opt_state: Any,
    optimiser: Optimiser,
) -> tuple[Any, Any, dict[str, Array], Array]:
    """One step down `loss`, a function to (value, metrics): params, opt_state, metrics, gradient norm.

    Everything after the gradient happens on one vector: a few kernels, however many layers there are.
    """
    grads, metrics = jax.grad(loss, has_aux=True)(params)
    flat, unravel = ravel_pytree(params)
    slope = ravel(grads)
    updates, opt_state = optimiser.update(slope, opt_state, flat)
    return unravel(flat + updates), opt_state, metrics, jnp.linalg.norm(slope)


def if_due(due: Array, new: Any, old: Any) -> Any:
    """The new tree if it is due, else the old one: how a delayed update is left out."""
    return jax.tree.map(lambda n, o: jnp.where(due, n, o), new, old)


def polyak(target: Any, online: Any, rate: Array | float) -> Any:
    """Moving average θ⁻ ← rate·θ + (1 − rate)·θ⁻."""
    flat, unravel = ravel_pytree(target)
    return unravel(flat + rate * (ravel(online) - flat))


def ema_rate(step: Array, rate: Array | float, every: int, start: int) -> Array:
    """The rate of a moving average that moves every so many updates, from update `start` on; else 0."""
    return jnp.where(((step + 1) % every == 0) & (step >= start), rate, 0.0)
