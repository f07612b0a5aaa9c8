"""IQL: implicit Q-learning (Kostrikov, Nair & Levine 2021, arXiv 2110.06169).

No action outside the data is ever asked for. One update:

    value    V(s)  →  τ-expectile of min_j Q⁻_j(s, a)  over the data's actions
    weight   w = min(exp(β·A), 100),   A = min_j Q⁻_j(s, a) − V(s)
    actor    −w·ln π(a|s),             π a Gaussian with one deviation for all observations
    critic   Q(s, a)  →  r + γ·V(s')
    target   φ⁻ by a moving average

It acts with the mean of π, as published; `softmax`, `argmax` and `average` act by what the critic makes of
several draws of π.

Differences from the published code:
 1. No dropout in the actor, which the authors use for Adroit and Kitchen.
 2. Observations are standardised unless `normalise_obs` says no (the preset `paper` says no).
 3. The reward's scale belongs to the data: `--reward iql_locomotion` or `minus_one`.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax

from gtp import implicit, values
from gtp.config import Fraction, NonNegative, Positive
from gtp.gaussian import GaussianNetwork
from gtp.implicit import OptState, Params
from gtp.nn import Ensemble
from gtp.optim import adam, cosine
from gtp.starts import orthogonal
from gtp.types import RULES, Acting, Agent, Array, Metrics, State, Transition


@dataclass(frozen=True)
class Config:
    """IQL's settings; the defaults are the authors' for locomotion."""

    expectile: Fraction = 0.7
    """τ, which quantile-like value of the data's actions V stands for; towards 1 the best of them."""
    temperature: NonNegative = 3.0
    """β, inverse temperature of the advantage weight; 0 is behaviour cloning."""
    weight_clip: Positive = 100.0
    """Upper clip of w."""
    discount: Fraction = 0.99
    """γ."""
    actor_lr: Positive = 3e-4
    """Adam's learning rate for the actor, at the start: it falls to 0 along half a cosine."""
    critic_lr: Positive = 3e-4
    """Adam's learning rate for Q and V."""
    critic_target_rate: Fraction = 0.005
    """Rate of the critic's moving average φ⁻."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers."""
    normalise_obs: bool = True
    """Standardise observations with the data's mean and deviation."""


def make(config: Config, total_steps: int) -> Agent:
    """The agent for a run of `total_steps` updates, over which the actor's learning rate falls."""
    actor_optimiser = adam(cosine(config.actor_lr, total_steps))
    critic_optimiser = adam(config.critic_lr)

    def init(key: Array, data: Transition) -> State:
        key, key_actor, key_critic, key_value = jax.random.split(key, 4)
        obs_shape, action_size = data.obs.shape[1:], data.action.shape[-1]
        actor = GaussianNetwork(key_actor, obs_shape, action_size, config.hidden)
        critic = Ensemble(key_critic, obs_shape, action_size, config.hidden, 2, jax.nn.relu)
        value = Ensemble(key_value, obs_shape, 0, config.hidden, 1, jax.nn.relu)
        actor, critic, value = orthogonal(key, (actor, critic, value))
        return implicit.init(
            data, actor, critic, value, config.normalise_obs, actor_optimiser, critic_optimiser
        )

    def update(state: State, batch: Transition, key: Array) -> tuple[State, Metrics]:
        del key
        params, opt = state.params, state.opt
        batch = params.normaliser.batch(batch)

        # V: an expectile of the data's own values stands in for their maximum.
        q = values.smallest(params.critic_target(batch.obs, batch.action))
        value, value_opt, metrics = values.fit_expectile(
            params.value, opt.value, critic_optimiser, batch.obs, q, config.expectile
        )

        # π: regression onto the data's actions, the better ones more.
        advantage = q - value(batch.obs)[0]
        weight = values.exponential_weight(advantage, config.temperature, config.weight_clip)
        actor, actor_opt, extra = values.fit_weighted(params.actor, opt.actor, actor_optimiser, batch, weight)
        metrics |= extra | values.weight_metrics(advantage, weight)

        # Q: one step of the Bellman equation, with V for the value of s'.
        target = values.td_target(batch.reward, batch.bootstrap, value(batch.next_obs)[0], config.discount)
        critic, critic_opt, extra = values.fit_critic(
            params.critic, opt.critic, critic_optimiser, batch, target
        )

        opt = OptState(actor_opt, critic_opt, value_opt)
        state = implicit.advance(state, actor, critic, value, opt, config.critic_target_rate)
        return state, metrics | extra

    def act(params: Params, obs: Array, key: Array, acting: Acting) -> Array:
        obs = params.normaliser(obs)
        return values.act_gaussian(key, acting, params.actor(obs), lambda a: params.critic_target(obs, a))

    return Agent(init, update, act, RULES, values.cautious_q)
