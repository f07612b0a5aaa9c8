"""AWAC: advantage-weighted actor-critic (Nair et al. 2020, arXiv 2006.09359), offline.

An ordinary actor-critic whose actor never leaves the data. One update:

    critic   Q(s, a)  →  r + γ·min_j Q⁻_j(s', a'),    a' ~ π(s')
    weight   w = min(exp(A/λ), 100),                  A = min_j Q_j(s, a) − min_j Q_j(s, ã),   ã ~ π(s)
    actor    −w·ln π(a|s),                            π a Gaussian with one deviation for all observations
    target   φ⁻ by a moving average

It acts with the mean of π, as published; `softmax`, `argmax` and `average` act by what the critic makes of
several draws of π.

Differences from the code behind the scores people quote (CORL's):
 1. The mean is squashed by tanh, theirs is free and its actions clipped.
 2. The deviation stays above e⁻⁵, theirs above e⁻²⁰.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gtp import values
from gtp.actor_critic import OptState
from gtp.config import Fraction, Positive
from gtp.gaussian import GaussianNetwork
from gtp.nn import Ensemble, Normaliser
from gtp.optim import adam, polyak
from gtp.types import RULES, Acting, Agent, Array, Metrics, State, Transition


@dataclass(frozen=True)
class Config:
    """AWAC's settings; the defaults are CORL's for locomotion."""

    temperature: Positive = 0.3333
    """λ, temperature of the advantage weight; large is behaviour cloning."""
    weight_clip: Positive = 100.0
    """Upper clip of w."""
    discount: Fraction = 0.99
    """γ."""
    actor_lr: Positive = 3e-4
    """Adam's learning rate for the actor."""
    critic_lr: Positive = 3e-4
    """Adam's learning rate for the critic."""
    critic_target_rate: Fraction = 0.005
    """Rate of the critic's moving average φ⁻."""
    hidden: tuple[int, ...] = (256, 256, 256)
    """Widths of the hidden layers."""
    normalise_obs: bool = True
    """Standardise observations with the data's mean and deviation."""


class Params(NamedTuple):
    """Networks, the critic's moving average, and the observation normaliser."""

    normaliser: Normaliser
    actor: GaussianNetwork
    critic: Ensemble
    critic_target: Ensemble


def make(config: Config, total_steps: int) -> Agent:
    """The agent; nothing of it depends on the length of the run."""
    del total_steps
    actor_optimiser, critic_optimiser = adam(config.actor_lr), adam(config.critic_lr)

    def init(key: Array, data: Transition) -> State:
        key_actor, key_critic = jax.random.split(key)
        obs_shape, action_size = data.obs.shape[1:], data.action.shape[-1]
        actor = GaussianNetwork(key_actor, obs_shape, action_size, config.hidden)
        critic = Ensemble(key_critic, obs_shape, action_size, config.hidden, 2, jax.nn.relu)
        params = Params(Normaliser.fit(data.obs, config.normalise_obs), actor, critic, critic)
        opt = OptState(actor_optimiser.init(actor), critic_optimiser.init(critic))
        return State(jnp.int32(0), params, opt)

    def update(state: State, batch: Transition, key: Array) -> tuple[State, Metrics]:
        key_next, key_here = jax.random.split(key)
        params, opt = state.params, state.opt
        batch = params.normaliser.batch(batch)

        # Q of the policy as it is now, which never strays far from the data.
        next_action = params.actor(batch.next_obs).sample(key_next)
        next_value = values.smallest(params.critic_target(batch.next_obs, next_action))
        target = values.td_target(batch.reward, batch.bootstrap, next_value, config.discount)
        critic, critic_opt, metrics = values.fit_critic(
            params.critic, opt.critic, critic_optimiser, batch, target
        )

        # π: regression onto the data's actions, weighted by how much they beat one of its own.
        own_action = params.actor(batch.obs).sample(key_here, (1,))
        advantage = values.advantage(critic, batch, own_action)
        weight = values.exponential_weight(advantage, 1 / config.temperature, config.weight_clip)
        actor, actor_opt, extra = values.fit_weighted(params.actor, opt.actor, actor_optimiser, batch, weight)
        metrics |= extra | values.weight_metrics(advantage, weight)

        critic_target = polyak(params.critic_target, critic, config.critic_target_rate)
        new_params = Params(params.normaliser, actor, critic, critic_target)
        return State(state.step + 1, new_params, OptState(actor_opt, critic_opt)), metrics

    def act(params: Params, obs: Array, key: Array, acting: Acting) -> Array:
        obs = params.normaliser(obs)
        return values.act_gaussian(key, acting, params.actor(obs), lambda a: params.critic_target(obs, a))

    return Agent(init, update, act, RULES, values.cautious_q)
