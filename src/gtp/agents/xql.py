"""XQL (χ-QL): extreme Q-learning (Garg, Hejna, Geist & Ermon 2023, arXiv 2301.02328), offline.

IQL with the soft maximum that a Gumbel regression finds instead of an expectile. One update:

    value    V(s)  →  T·ln E exp(Q⁻(s, a)/T)   by the loss e^z − z − 1,   z = A/T
    weight   w = min(exp(β·A), 100),   A = Q⁻(s, a) − V(s),   Q⁻ = min_j Q⁻_j
    actor    −w·ln π(a|s),             π a Gaussian with one deviation for all observations
    critic   Q(s, a)  →  r + γ·V(s')
    target   φ⁻ by a moving average

It acts with the mean of π, as published; `softmax`, `argmax` and `average` act by what the critic makes of
several draws of π.

Differences from the published code:
 1. The critic's loss is squared; theirs is a Huber loss that turns linear at 20.
 2. No dropout in V, which the authors use for AntMaze.
 3. Observations are standardised unless `normalise_obs` says no (the presets say no).
 4. The reward's scale belongs to the data: `--reward iql_locomotion` or `minus_one`.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from gtp import implicit, values
from gtp.config import Count, Fraction, NonNegative, Positive
from gtp.errors import UserError
from gtp.gaussian import GaussianNetwork
from gtp.implicit import OptState, Params
from gtp.nn import Ensemble
from gtp.optim import adam, cosine, descend
from gtp.starts import orthogonal
from gtp.types import RULES, Acting, Agent, Array, Metrics, State, Transition


@dataclass(frozen=True)
class Config:
    """XQL's settings; the defaults are the authors' consistent ones for locomotion."""

    value_temperature: Positive = 2.0
    """T of the soft maximum; towards 0 the maximum, large the mean."""
    exponent_clip: Positive = 7.0
    """Upper clip of z in the Gumbel loss."""
    value_updates: Count = 1
    """Steps of V in one update, all on its batch."""
    random_actions: int = 0
    """Uniform actions, for each of the data's, that V's loss is smoothed with."""
    action_noise: NonNegative = 0.0
    """Deviation of noise on the actions in V's loss, cut at 0.5."""
    temperature: NonNegative = 3.0
    """β, inverse temperature of the advantage weight; 0 is behaviour cloning."""
    weight_clip: Positive = 100.0
    """Upper clip of w."""
    discount: Fraction = 0.99
    """γ."""
    actor_lr: Positive = 3e-4
    """Adam's learning rate for the actor."""
    cosine_lr: bool = True
    """Let the actor's learning rate fall to 0 along half a cosine."""
    critic_lr: Positive = 3e-4
    """Adam's learning rate for Q and V."""
    critic_target_rate: Fraction = 0.005
    """Rate of the critic's moving average φ⁻."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers; V's are followed by layer normalisation."""
    normalise_obs: bool = True
    """Standardise observations with the data's mean and deviation."""

    def check(self) -> None:
        """What no range says."""
        if self.random_actions < 0:
            raise UserError(f"random_actions must be 0 or more, not {self.random_actions}")


def make(config: Config, total_steps: int) -> Agent:
    """The agent for a run of `total_steps` updates, over which the actor's learning rate may fall."""
    falling = cosine(config.actor_lr, total_steps)
    actor_optimiser = adam(falling if config.cosine_lr else lambda _: config.actor_lr)
    critic_optimiser = adam(config.critic_lr)

    def init(key: Array, data: Transition) -> State:
        key, key_actor, key_critic, key_value = jax.random.split(key, 4)
        shape, size = data.obs.shape[1:], data.action.shape[-1]
        actor = GaussianNetwork(key_actor, shape, size, config.hidden)
        critic = Ensemble(key_critic, shape, size, config.hidden, 2, jax.nn.relu)
        value = Ensemble(key_value, shape, 0, config.hidden, 1, jax.nn.relu, layer_norm=True)
        actor, critic, value = orthogonal(key, (actor, critic, value))
        return implicit.init(
            data, actor, critic, value, config.normalise_obs, actor_optimiser, critic_optimiser
        )

    def actions_for_value(key: Array, action: Array) -> Array:
        """The data's actions with noise, then uniform ones: (1 + random_actions, batch, action)."""
        key_noise, key_uniform = jax.random.split(key)
        noisy = values.smoothed(key_noise, action, config.action_noise, 0.5)
        uniform = jax.random.uniform(key_uniform, (config.random_actions, *action.shape), minval=-1.0)
        return jnp.concatenate([noisy[None], uniform])

    def update(state: State, batch: Transition, key: Array) -> tuple[State, Metrics]:
        params, opt = state.params, state.opt
        batch = params.normaliser.batch(batch)

        # V: a soft maximum of the target critic over the data's actions.
        q_around = values.smallest(params.critic_target(batch.obs, actions_for_value(key, batch.action)))

        def value_loss(value: Ensemble) -> tuple[Array, Metrics]:
            v = value(batch.obs)[0]
            residual = q_around - v
            loss = jnp.mean(values.gumbel_loss(residual, config.value_temperature, config.exponent_clip))
            clipped = jnp.mean(residual > config.exponent_clip * config.value_temperature)
            return loss, {"value_loss": loss, "v_mean": jnp.mean(v), "value_clipped": clipped}

        value, value_opt, metrics = params.value, opt.value, {}
        for _ in range(config.value_updates):
            value, value_opt, metrics, _ = descend(value_loss, value, value_opt, critic_optimiser)

        # π: regression onto the data's actions, the better ones more.
        q = values.smallest(params.critic_target(batch.obs, batch.action))
        advantage = q - value(batch.obs)[0]
        weight = values.exponential_weight(advantage, config.temperature, config.weight_clip)
        actor, actor_opt, actor_metrics = values.fit_weighted(
            params.actor, opt.actor, actor_optimiser, batch, weight
        )

        # Q: one step of the Bellman equation, with V for the value of s'.
        next_value = value(batch.next_obs)[0]
        target = values.td_target(batch.reward, batch.bootstrap, next_value, config.discount)
        critic, critic_opt, critic_metrics = values.fit_critic(
            params.critic, opt.critic, critic_optimiser, batch, target
        )

        metrics = metrics | actor_metrics | critic_metrics | values.weight_metrics(advantage, weight)
        opt = OptState(actor_opt, critic_opt, value_opt)
        return implicit.advance(state, actor, critic, value, opt, config.critic_target_rate), metrics

    def act(params: Params, obs: Array, key: Array, acting: Acting) -> Array:
        obs = params.normaliser(obs)
        return values.act_gaussian(key, acting, params.actor(obs), lambda a: params.critic_target(obs, a))

    return Agent(init, update, act, RULES, values.cautious_q)
