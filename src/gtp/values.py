"""Critics: Bellman targets, advantages, weights, and the choice among candidates.

A critic's answer has the ensemble on its first axis: (members, …).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from gtp.gaussian import Gaussian, GaussianNetwork
from gtp.nn import Ensemble
from gtp.optim import Optimiser, descend
from gtp.types import Acting, Array, Metrics, Rule, Transition


def smallest(q: Array) -> Array:
    """min_j Q_j over the ensemble, the cautious value."""
    return jnp.min(q, axis=0)


def cautious_q(params: Any, obs: Array, action: Array) -> Array:
    """What an agent with a `critic` behind a `normaliser` shows as its `q`."""
    return smallest(params.critic(params.normaliser(obs), action))


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


def gumbel_loss(residual: Array, temperature: Array | float, clip: Array | float) -> Array:
    """e^z − z − 1 with z = residual/temperature cut at `clip`, over the largest e^z of the batch.

    Its minimiser is temperature·ln E e^(q/temperature), a soft maximum (XQL). The division is the published
    code's guard against huge gradients; a batch whose z are all below −1 is divided by e⁻¹.
    """
    z = jnp.minimum(residual / temperature, clip)
    largest = jax.lax.stop_gradient(jnp.maximum(jnp.max(z), -1.0))
    return jnp.exp(z - largest) - (z + 1) * jnp.exp(-largest)


def conservative_gap(q: Array, elsewhere: Array, log_density: Array) -> Array:
    """How far ln ∫ e^Q(s, a) da lies above Q(s, a) of the data, up to ln of the number of samples (CQL).

    q is (members, batch); `elsewhere` is (members, samples, batch), values of actions that were drawn with
    `log_density`, so that the integral is an importance-sampled sum.
    """
    return jax.nn.logsumexp(elsewhere - log_density, axis=1) - q


def smoothed(key: Array, action: Array, noise: Array | float, clip: Array | float) -> Array:
    """The action with clipped Gaussian noise, inside the action range: TD3's target policy smoothing."""
    jitter = jnp.clip(noise * jax.random.normal(key, action.shape), -clip, clip)
    return jnp.clip(action + jitter, -1.0, 1.0)


def exponential_weight(advantage: Array, inverse_temperature: Array | float, clip: Array | float) -> Array:
    """e^(A·inverse temperature), at most `clip`: the weight of advantage-weighted regression."""
    return jnp.exp(jnp.minimum(inverse_temperature * advantage, jnp.log(clip)))


def advantage_exponent(
    advantage: Array, eta: Array | float, clip: Array | float, scale: Array | None = None
) -> Array:
    """Logarithm of w(s, a) = exp(η·max(0, A)/(scale + ε)), clipped at `clip` (the paper's w has no clip).

    The scale is std A over the batch (the paper's), or one number a sample.
    """
    scale = jnp.std(advantage) if scale is None else scale
    exponent = eta * jnp.maximum(advantage, 0) / (scale + 1e-6)
    return jnp.minimum(exponent, jnp.log(clip))


def state_scale(q: Array, policy_q: Array) -> Array:
    """Deviation in each state of Q over the M samples behind V, (samples, batch), and the data's action.

    With the data's action among them A/scale is at most √(M + 1), however few the samples are.
    """
    return jnp.std(jnp.concatenate([policy_q, q[None]]), axis=0, ddof=1)


def advantage_weight(
    advantage: Array,
    eta: Array | float,
    clip: Array | float,
    normalise: bool = True,
    scale: Array | None = None,
) -> Array:
    """The weight w(s, a), over its batch mean if `normalise`; logarithms keep huge weights finite."""
    exponent = advantage_exponent(advantage, eta, clip, scale)
    return jax.nn.softmax(exponent) * exponent.size if normalise else jnp.exp(exponent)


def effective_sample_size(weight: Array) -> Array:
    """(Σw)²/Σw²: how many samples of the batch really count."""
    weight = weight / jnp.max(weight)
    return jnp.sum(weight) ** 2 / jnp.sum(weight**2)


def fit_weighted(
    actor: GaussianNetwork, opt_state: Any, optimiser: Optimiser, batch: Transition, weight: Array
) -> tuple[GaussianNetwork, Any, Metrics]:
    """One step of weighted regression onto the data's actions, −w·ln π(a|s)."""

    def loss(actor: GaussianNetwork) -> tuple[Array, Metrics]:
        pi = actor(batch.obs)
        value = -jnp.mean(weight * pi.log_prob(batch.action))
        return value, {"actor_loss": value, "mean_error": jnp.mean((pi.mean - batch.action) ** 2)}

    actor, opt_state, metrics, norm = descend(loss, actor, opt_state, optimiser)
    return actor, opt_state, metrics | {"actor_grad_norm": norm}


def act_gaussian(key: Array, acting: Acting, pi: Gaussian, q: Callable[[Array], Array]) -> Array:
    """The mean of a Gaussian policy where one action is asked for, else what the rule makes of its draws."""
    if acting.rule == "single":
        return pi.mean
    return act(key, acting, lambda key, count: pi.sample(key, (count,)), q)


def choose(key: Array, actions: Array, q: Array, rule: Rule) -> Array:
    """One action of the candidates (candidates, batch, action) by their values q (candidates, batch)."""
    if rule == "single":
        return actions[0]
    if rule == "average":
        return jnp.sum(jax.nn.softmax(q, axis=0)[..., None] * actions, axis=0)
    index = jax.random.categorical(key, q, axis=0) if rule == "softmax" else jnp.argmax(q, axis=0)
    return jnp.take_along_axis(actions, index[None, :, None], axis=0)[0]


def act(
    key: Array, acting: Acting, draw: Callable[[Array, int], Array], q: Callable[[Array], Array]
) -> Array:
    """One action by the rule of `acting`: `draw(key, n)` gives n candidates, `q` their values by each critic.

    A single sample never asks the critic.
    """
    key_draw, key_choice = jax.random.split(key)
    if acting.rule == "single":
        return draw(key_draw, 1)[0]
    actions = draw(key_draw, acting.candidates)
    return choose(key_choice, actions, smallest(q(actions)), acting.rule)


def fit_critic(
    critic: Ensemble, opt_state: Any, optimiser: Optimiser, batch: Transition, target: Array
) -> tuple[Ensemble, Any, Metrics]:
    """One step of every critic towards the Bellman target."""

    def loss(critic: Ensemble) -> tuple[Array, Metrics]:
        q = critic(batch.obs, batch.action)
        value = jnp.mean(td_loss(q, target))
        return value, {"critic_loss": value, "q_mean": jnp.mean(q), "q_max": jnp.max(q)}

    critic, opt_state, metrics, norm = descend(loss, critic, opt_state, optimiser)
    return critic, opt_state, metrics | {"critic_grad_norm": norm}


def fit_expectile(
    value: Ensemble, opt_state: Any, optimiser: Optimiser, obs: Array, q: Array, tau: Array | float
) -> tuple[Ensemble, Any, Metrics]:
    """One step of V(s) towards the τ-expectile of q, the values of the data's actions (IQL)."""

    def loss(value: Ensemble) -> tuple[Array, Metrics]:
        v = value(obs)[0]
        error = jnp.mean(expectile_loss(q - v, tau))
        return error, {"value_loss": error, "v_mean": jnp.mean(v)}

    value, opt_state, metrics, _ = descend(loss, value, opt_state, optimiser)
    return value, opt_state, metrics


def advantage(critic: Ensemble, batch: Transition, policy_actions: Array) -> Array:
    """A = Q(s, a) − V(s), V the mean of Q over samples of the policy (samples, batch, action)."""
    q = smallest(critic(batch.obs, batch.action))
    return q - jnp.mean(smallest(critic(batch.obs, policy_actions)), axis=0)


def weight_metrics(advantage: Array, weight: Array) -> Metrics:
    """What to watch of an advantage weight."""
    return {
        "advantage_mean": jnp.mean(advantage),
        "advantage_std": jnp.std(advantage),
        "weight_ess": effective_sample_size(weight),
        "weight_max": jnp.max(weight),
    }


def normalised_q_loss(key: Array, q: Array) -> Array:
    """−Q_i(s, π(s)) over the batch mean of |Q_j|, i and j the two critics in an order drawn by a coin.

    q is (2, …); the denominator has no gradient. One number for the batch.
    """
    one, other = jnp.where(jax.random.bernoulli(key), q, q[::-1])
    return -jnp.mean(one) / (jnp.mean(jnp.abs(jax.lax.stop_gradient(other))) + 1e-6)
