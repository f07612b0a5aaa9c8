"""CQL: conservative Q-learning (Kumar et al. 2020, arXiv 2006.04779).

The CQL(H) variant on soft actor-critic: the critic is pushed down where the policy goes and up where the
data are. One update:

    entropy   ln α_H  moves so that the entropy of π becomes minus the number of action dimensions
    actor     α_H·ln π(ã|s) − min_j Q_j(s, ã),     ã ~ π(s), a Gaussian squashed by tanh
    critic    Q(s, a)  →  r + γ·min_j Q⁻_j(s', a'),  a' ~ π(s'), the best of several with max-backup,   plus
              α·(gap − τ)  with  gap = ln Σ exp(Q(s, aᵢ) − ln μ(aᵢ)) − Q(s, a),
              aᵢ from the uniform distribution, π(s) and π(s'), μ their densities
    Lagrange  α carries a multiplier α' that moves so that the gap is τ
    target    φ⁻ by a moving average

It acts with the mode of π, as published; `softmax`, `argmax` and `average` act by what the critic makes of
several draws of π.

Differences from the code behind the scores people quote (CORL's):
 1. Initial weights are Equinox's, not orthogonal, and the last layers are not near 0.
 2. The deviation is the network's own output; theirs has a learned scale and offset, the latter −1 at first.
 3. The reward's scale belongs to the data: `--reward corl_cql_antmaze`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gtp import values
from gtp.config import Count, Fraction, NonNegative, Positive
from gtp.gaussian import TanhGaussian
from gtp.nn import Ensemble, Network, Normaliser
from gtp.optim import adam, descend, polyak
from gtp.types import RULES, Acting, Agent, Array, Metrics, State, Transition


@dataclass(frozen=True)
class Config:
    """CQL's settings; the defaults are CORL's for locomotion."""

    alpha: NonNegative = 10.0
    """α, weight of the conservative gap."""
    lagrange: bool = False
    """Multiply α by α', learned so that the gap becomes `gap_target`."""
    gap_target: float = 0.8
    """τ, the gap that the Lagrange multiplier aims at."""
    gap_floor: float = -math.inf
    """Below this the gap is not pushed any further."""
    samples: Count = 10
    """Actions from each of the uniform distribution, π(s) and π(s') behind the gap."""
    backup_candidates: Count = 1
    """Next actions to take the best of in the TD target; 10 is the max-backup of AntMaze."""
    discount: Fraction = 0.99
    """γ."""
    actor_lr: Positive = 3e-5
    """Adam's learning rate for the actor and the entropy weight."""
    critic_lr: Positive = 3e-4
    """Adam's learning rate for the critic and the Lagrange multiplier."""
    critic_target_rate: Fraction = 0.005
    """Rate of the critic's moving average φ⁻."""
    hidden: tuple[int, ...] = (256, 256, 256)
    """Widths of the actor's hidden layers."""
    critic_hidden: tuple[int, ...] = (256, 256, 256)
    """Widths of the critic's hidden layers."""
    normalise_obs: bool = True
    """Standardise observations with the data's mean and deviation."""


class Params(NamedTuple):
    """Networks, the critic's moving average, two learned weights, and the observation normaliser."""

    normaliser: Normaliser
    actor: Network
    critic: Ensemble
    critic_target: Ensemble
    log_entropy_weight: Array
    """ln α_H."""
    log_multiplier: Array
    """ln α'."""


class OptState(NamedTuple):
    """Adam's moments."""

    actor: Any
    critic: Any
    entropy_weight: Any
    multiplier: Any


def bounded_exp(log_multiplier: Array) -> Array:
    """α' from its logarithm, at most a million."""
    return jnp.minimum(jnp.exp(log_multiplier), 1e6)


def make(config: Config, total_steps: int) -> Agent:
    """The agent; nothing of it depends on the length of the run."""
    del total_steps
    actor_optimiser, critic_optimiser = adam(config.actor_lr), adam(config.critic_lr)

    def init(key: Array, data: Transition) -> State:
        key_actor, key_critic = jax.random.split(key)
        obs_shape, action_size = data.obs.shape[1:], data.action.shape[-1]
        actor = Network(key_actor, obs_shape, 0, config.hidden, 2 * action_size, jax.nn.relu)
        critic = Ensemble(key_critic, obs_shape, action_size, config.critic_hidden, 2, jax.nn.relu)
        normaliser = Normaliser.fit(data.obs, config.normalise_obs)
        params = Params(normaliser, actor, critic, critic, jnp.zeros(()), jnp.ones(()))
        opt = OptState(
            actor_optimiser.init(actor),
            critic_optimiser.init(critic),
            actor_optimiser.init(params.log_entropy_weight),
            critic_optimiser.init(params.log_multiplier),
        )
        return State(jnp.int32(0), params, opt)

    def policy(actor: Network, obs: Array) -> TanhGaussian:
        mean, log_std = jnp.split(actor(obs), 2, axis=-1)
        return TanhGaussian(mean, jnp.clip(log_std, -20.0, 2.0))

    def elsewhere(actor: Network, batch: Transition, key: Array) -> tuple[Array, Array]:
        """Actions that Q should not praise, and the log-densities they were drawn with."""
        key_uniform, key_here, key_next = jax.random.split(key, 3)
        shape = (config.samples, *batch.action.shape)
        uniform = jax.random.uniform(key_uniform, shape, minval=-1.0, maxval=1.0)
        here, here_density = policy(actor, batch.obs).sample(key_here, (config.samples,))
        ahead, ahead_density = policy(actor, batch.next_obs).sample(key_next, (config.samples,))
        uniform_density = jnp.full_like(here_density, -shape[-1] * math.log(2))
        return (
            jnp.concatenate([uniform, here, ahead]),
            jnp.concatenate([uniform_density, here_density, ahead_density]),
        )

    def update(state: State, batch: Transition, key: Array) -> tuple[State, Metrics]:
        params, opt = state.params, state.opt
        key_actor, key_next, key_elsewhere = jax.random.split(key, 3)
        batch = params.normaliser.batch(batch)

        # Actor: soft improvement on the critic as it is.
        entropy_weight = jnp.exp(params.log_entropy_weight)

        def actor_loss(actor: Network) -> tuple[Array, Metrics]:
            action, log_density = policy(actor, batch.obs).sample(key_actor)
            q = values.smallest(params.critic(batch.obs, action))
            loss = jnp.mean(entropy_weight * log_density - q)
            return loss, {"actor_loss": loss, "entropy": -jnp.mean(log_density), "q_policy": jnp.mean(q)}

        actor, actor_opt, metrics, norm = descend(actor_loss, params.actor, opt.actor, actor_optimiser)
        surplus = metrics["entropy"] + batch.action.shape[-1]  # Over the target of −(action dimensions).
        log_entropy_weight, entropy_opt, _, _ = descend(
            lambda log_weight: (log_weight * surplus, {}),
            params.log_entropy_weight,
            opt.entropy_weight,
            actor_optimiser,
        )

        # Critic: TD error plus the conservative gap.
        next_pi = policy(params.actor, batch.next_obs)
        next_actions, _ = next_pi.sample(key_next, (config.backup_candidates,))
        next_q = values.smallest(params.critic_target(batch.next_obs, next_actions))
        target = values.td_target(batch.reward, batch.bootstrap, jnp.max(next_q, axis=0), config.discount)
        other_actions, log_density = elsewhere(params.actor, batch, key_elsewhere)
        multiplier = bounded_exp(params.log_multiplier) if config.lagrange else 1.0

        def critic_loss(critic: Ensemble) -> tuple[Array, Metrics]:
            q = critic(batch.obs, batch.action)
            gap = values.conservative_gap(q, critic(batch.obs, other_actions), log_density)
            gap = jnp.mean(jnp.maximum(gap, config.gap_floor), axis=1)
            error = jnp.mean(values.td_loss(q, target))
            loss = error + multiplier * config.alpha * jnp.sum(gap)
            return loss, {
                "critic_loss": error,
                "q_mean": jnp.mean(q),
                "q_max": jnp.max(q),
                "conservative_gap": jnp.mean(gap),
            }

        critic, critic_opt, extra, critic_norm = descend(
            critic_loss, params.critic, opt.critic, critic_optimiser
        )
        metrics |= extra | {
            "actor_grad_norm": norm,
            "critic_grad_norm": critic_norm,
            "entropy_weight": entropy_weight,
        }

        log_multiplier, multiplier_opt = params.log_multiplier, opt.multiplier
        if config.lagrange:
            excess = config.alpha * (metrics["conservative_gap"] - config.gap_target)
            log_multiplier, multiplier_opt, _, _ = descend(
                lambda log_multiplier: (-bounded_exp(log_multiplier) * excess, {}),
                params.log_multiplier,
                opt.multiplier,
                critic_optimiser,
            )
            metrics["multiplier"] = bounded_exp(log_multiplier)

        new_params = Params(
            normaliser=params.normaliser,
            actor=actor,
            critic=critic,
            critic_target=polyak(params.critic_target, critic, config.critic_target_rate),
            log_entropy_weight=log_entropy_weight,
            log_multiplier=log_multiplier,
        )
        new_opt = OptState(actor_opt, critic_opt, entropy_opt, multiplier_opt)
        return State(state.step + 1, new_params, new_opt), metrics

    def act(params: Params, obs: Array, key: Array, acting: Acting) -> Array:
        obs = params.normaliser(obs)
        pi = policy(params.actor, obs)
        if acting.rule == "single":
            return pi.mode
        draw = lambda key, count: pi.sample(key, (count,))[0]  # noqa: E731
        return values.act(key, acting, draw, lambda a: params.critic_target(obs, a))

    return Agent(init, update, act, RULES, values.cautious_q)
