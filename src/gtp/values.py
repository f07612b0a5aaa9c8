"""Critics: Bellman targets, advantages, weights, and the choice among candidates.

A critic's answer has the ensemble on its first axis: (members, …).
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp

from gtp.types import Array


def smallest(q: Array) -> Array:
    """min_j Q_j over the ensemble, the cautious value."""
    return jnp.min(q, axis=0)


def backup_value(next_q: Array) -> Array:
    """Value of s' from (members, candidates, batch): best candidate of each critic, then the cautious critic.

    With one candidate this is the plain twin minimum; with more it is the peers' "max Q backup".
    """
    return jnp.min(jnp.max(next_q, axis=1), axis=0)


def td_target(reward: Array, bootstrap: Array, next_value: Array, discount: Array | float) -> Array:
    """The Bellman target r + γ·V(s'), without the second term where the episode truly ended."""
    return reward + discount * bootstrap * next_value


def td_loss(q: Array, target: Array) -> Array:
    """Squared TD error, summed over the ensemble: one number per sample."""
    return jnp.sum((q - jax.lax.stop_gradient(target)) ** 2, axis=0)


def expectile_loss(residual: Array, tau: Array | float) -> Array:
    """|τ − 1(residual < 0)|·residual², whose minimiser is the τ-expectile."""
    return jnp.where(residual < 0, 1 - tau, tau) * residual**2


def advantage_exponent(advantage: Array, eta: Array | float, clip: Array | float) -> Array:
    """Logarithm of w(s, a) = exp(η·max(0, A)/(std A + ε)), clipped at `clip` (the paper's w has no clip)."""
    exponent = eta * jnp.maximum(advantage, 0) / (jnp.std(advantage) + 1e-6)
    return jnp.minimum(exponent, jnp.log(clip))


def advantage_weight(
    advantage: Array, eta: Array | float, clip: Array | float, normalise: bool = True
) -> Array:
    """The weight w(s, a), over its batch mean if `normalise`; logarithms keep huge weights finite."""
    exponent = advantage_exponent(advantage, eta, clip)
    return jax.nn.softmax(exponent) * exponent.size if normalise else jnp.exp(exponent)


def effective_sample_size(weight: Array) -> Array:
    """(Σw)²/Σw²: how many samples of the batch really count."""
    weight = weight / jnp.max(weight)
    return jnp.sum(weight) ** 2 / jnp.sum(weight**2)


def choose(key: Array, actions: Array, q: Array, rule: Literal["single", "softmax", "argmax"]) -> Array:
    """Pick one of the candidate actions (candidates, batch, action) by its value q (candidates, batch)."""
    if rule == "single":
        return actions[0]
    index = jax.random.categorical(key, q, axis=0) if rule == "softmax" else jnp.argmax(q, axis=0)
    return jnp.take_along_axis(actions, index[None, :, None], axis=0)[0]
