"""Gradient steps. Learning rates and clips may be traced numbers, so that a sweep over them is one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from gtp.types import Array


def clip_by_norm(limit: Array | float) -> optax.GradientTransformation:
    """Scale gradients whose global norm exceeds `limit`; 0 turns it off."""

    def clip(grads: Any, _: Any) -> Any:
        norm = optax.tree.norm(grads)
        factor = jnp.where((limit > 0) & (norm > limit), limit / norm, 1.0)
        return jax.tree.map(lambda g: g * factor, grads)

    return optax.stateless(clip)


def adam(learning_rate: Array | float, grad_clip: Array | float = 0.0) -> optax.GradientTransformation:
    """Adam behind a gradient clip."""
    return optax.chain(clip_by_norm(grad_clip), optax.adam(learning_rate))


def descend(
    loss: Callable[[Any], tuple[Array, dict[str, Array]]],
    params: Any,
    opt_state: Any,
    optimiser: optax.GradientTransformation,
) -> tuple[Any, Any, dict[str, Array], Array]:
    """One step down `loss`, which returns (value, metrics); gives params, opt_state, metrics, gradient norm."""
    grads, metrics = jax.grad(loss, has_aux=True)(params)
    updates, opt_state = optimiser.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, metrics, optax.tree.norm(grads)


def polyak(target: Any, online: Any, rate: Array | float) -> Any:
    """Moving average θ⁻ ← rate·θ + (1 − rate)·θ⁻."""
    return jax.tree.map(lambda t, o: t + rate * (o - t), target, online)
