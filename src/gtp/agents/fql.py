"""FQL: Flow Q-Learning (arXiv 2502.02538).

A flow v(obs, x, t) clones the data; a one-step policy μ(obs, z) imitates where the flow takes the noise z,
and climbs the critic. No gradient passes through the flow's steps. One update:

    critic    Q_j(s, a)  →  r + γ·mean_j Q⁻_j(s', μ(s', z))             (or min_j)
    flow      ‖v(x_t, t) − (a − z)‖²,  x_t = (1 − t)·z + t·a,  t ~ U(0, 1)
    one step  α·‖μ(s, z) − flow(s, z)‖²  −  mean_j Q_j(s, μ(s, z))
    target    φ⁻ by a moving average

The published rule of acting is `single`: μ, one network call. The larger α, the closer to the data; behaviour
cloning with the flow itself is the agent `flow_bc`.

Differences from the published code:
 1. Weights start as Equinox's do (uniform by the number of inputs), not by variance scaling.
 2. Observations may be standardised (`normalise_obs`); the presets leave them as they are, as published.
 3. Pictures: every network has an encoder of its own as published; the twin critics share one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from gtp import flow, objectives, values
from gtp.actor_critic import OptState
from gtp.config import Count, Fraction, NonNegative, Positive
from gtp.nn import Ensemble, Network, Normaliser
from gtp.optim import adam, descend, polyak
from gtp.types import RULES, Acting, Agent, Array, Metrics, State, Transition


@dataclass(frozen=True)
class Config:
    """FQL's settings. α must be found for each task: with `normalise_q_loss`, try .03 to 10."""

    alpha: NonNegative = 10.0
    """α, weight of the distillation: how close the policy stays to the data."""
    normalise_q_loss: bool = False
    """Divide the Q term by the batch mean of |Q|."""
    q_aggregate: Literal["mean", "min"] = "mean"
    """The two critics' answer in the TD target."""
    flow_steps: Count = 10
    """Euler steps of the cloning flow."""
    discount: Fraction = 0.99
    """γ."""
    lr: Positive = 3e-4
    """Adam's learning rate, for all networks."""
    critic_target_rate: Fraction = 0.005
    """Rate of the critic's moving average φ⁻."""
    hidden: tuple[int, ...] = (512, 512, 512, 512)
    """Widths of the hidden layers, all networks."""
    normalise_obs: bool = True
    """Standardise observations with the data's mean and deviation."""


class Actor(NamedTuple):
    """The one-step policy μ and the flow it imitates."""

    one_step: Network
    flow: Network


class Params(NamedTuple):
    """Networks, the critic's moving average, and the observation normaliser."""

    normaliser: Normaliser
    actor: Actor
    critic: Ensemble
    critic_target: Ensemble


def make(config: Config, total_steps: int) -> Agent:
    """The agent; nothing of it depends on the length of the run."""
    del total_steps
    optimiser = adam(config.lr)

    def init(key: Array, data: Transition) -> State:
        key_one, key_flow, key_critic = jax.random.split(key, 3)
        shape, size, hidden = data.obs.shape[1:], data.action.shape[-1], config.hidden
        actor = Actor(
            Network(key_one, shape, size, hidden, size, jax.nn.gelu),
            Network(key_flow, shape, size + 1, hidden, size, jax.nn.gelu),
        )
        critic = Ensemble(key_critic, shape, size, hidden, activation=jax.nn.gelu, layer_norm=True)
        params = Params(Normaliser.fit(data.obs, config.normalise_obs), actor, critic, critic)
        return State(jnp.int32(0), params, OptState(optimiser.init(actor), optimiser.init(critic)))

    def update(state: State, batch: Transition, key: Array) -> tuple[State, Metrics]:
        params, opt = state.params, state.opt
        key_next, key_flow, key_z = jax.random.split(key, 3)
        batch = params.normaliser.batch(batch)

        next_z = jax.random.normal(key_next, batch.action.shape)
        next_action = jnp.clip(params.actor.one_step(batch.next_obs, next_z), -1.0, 1.0)
        next_q = params.critic_target(batch.next_obs, next_action)
        next_value = jnp.mean(next_q, axis=0) if config.q_aggregate == "mean" else values.smallest(next_q)
        target = values.td_target(batch.reward, batch.bootstrap, next_value, config.discount)
        critic, critic_opt, metrics = values.fit_critic(params.critic, opt.critic, optimiser, batch, target)

        z = jax.random.normal(key_z, batch.action.shape)
        goal = flow.linear_sample(flow.linear_field(params.actor.flow, batch.obs), z, config.flow_steps)

        def actor_loss(actor: Actor) -> tuple[Array, Metrics]:
            field = flow.linear_field(actor.flow, batch.obs)
            cloning = jnp.mean(objectives.drawn_flow_matching(field, batch.action, key_flow))
            action = actor.one_step(batch.obs, z)
            distance = jnp.mean(objectives.squared(action - goal))
            q = jnp.mean(params.critic(batch.obs, jnp.clip(action, -1.0, 1.0)))
            scale = jnp.abs(jax.lax.stop_gradient(q)) + 1e-6 if config.normalise_q_loss else 1.0
            loss = cloning + config.alpha * distance - q / scale
            extra = {"actor_loss": loss, "flow_loss": cloning, "distillation_loss": distance, "q_policy": q}
            return loss, extra

        actor, actor_opt, extra, norm = descend(actor_loss, params.actor, opt.actor, optimiser)
        critic_target = polyak(params.critic_target, critic, config.critic_target_rate)
        params = Params(params.normaliser, actor, critic, critic_target)
        metrics |= extra | {"actor_grad_norm": norm}
        return State(state.step + 1, params, OptState(actor_opt, critic_opt)), metrics

    def act(params: Params, obs: Array, key: Array, acting: Acting) -> Array:
        obs, size = params.normaliser(obs), params.actor.one_step.outputs

        def draw(key: Array, samples: int) -> Array:
            z = jax.random.normal(key, (samples, obs.shape[0], size))
            return jnp.clip(params.actor.one_step(obs, z), -1.0, 1.0)

        return values.act(key, acting, draw, lambda actions: params.critic_target(obs, actions))

    return Agent(init, update, act, RULES, values.cautious_q)
