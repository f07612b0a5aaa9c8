"""IDQL: IQL's critic choosing among samples of a cloned diffusion (arXiv 2304.10573).

    value    V(s)     →  the τ-expectile of min_j Q⁻_j(s, a) over the data's actions
    critic   Q(s, a)  →  r + γ·V(s')
    actor    ‖z − ε(a_i, i)‖²,   a DDPM of N steps
    targets  θ⁻, φ⁻ by moving averages

The policy never sees the critic in training: improvement is all in the choice. The published rule of acting
is `argmax` of 64 candidates (16 to 256 by task) with the moving average θ⁻; `single` is behaviour cloning.

Differences from the published code:
 1. The actor is the network of all our generative policies, an MLP; the paper's is a residual network with
    layer normalisation and dropout, the published launcher's an MLP.
 2. Learning rates are constant; the published actor's follows a cosine.
 3. The critic is trained on the value just improved, as IQL's is.
 4. Observations may be standardised (`normalise_obs`); the preset leaves them as they are, as published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gtp import diffusion, values
from gtp.config import Count, Fraction, Positive
from gtp.implicit import OptState
from gtp.nn import Ensemble, FlowNetwork, Normaliser
from gtp.optim import adam, descend, polyak
from gtp.types import RULES, Acting, Agent, Array, Metrics, State, Transition


@dataclass(frozen=True)
class Config:
    """IDQL's settings."""

    expectile: Fraction = 0.7
    """τ of the value."""
    sampling_steps: Count = 5
    """N, steps of the diffusion; acting takes the same."""
    actor_lr: Positive = 3e-4
    """Adam's learning rate for the actor."""
    critic_lr: Positive = 3e-4
    """Adam's learning rate for critic and value."""
    discount: Fraction = 0.99
    """γ."""
    actor_target_rate: Fraction = 0.001
    """Rate of the actor's moving average θ⁻."""
    critic_target_rate: Fraction = 0.005
    """Rate of the critic's moving average φ⁻."""
    actor_hidden: tuple[int, ...] = (256, 256, 256)
    """Widths of the actor's hidden layers."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of critic and value."""
    normalise_obs: bool = True
    """Standardise observations with the data's mean and deviation."""


class Params(NamedTuple):
    """Actor and critic with their moving averages, the value, and the observation normaliser."""

    normaliser: Normaliser
    actor: FlowNetwork
    actor_target: FlowNetwork
    critic: Ensemble
    critic_target: Ensemble
    value: Ensemble


def make(config: Config, total_steps: int) -> Agent:
    """The agent; nothing of it depends on the length of the run."""
    del total_steps
    schedule = diffusion.vp_schedule(config.sampling_steps)
    actor_optimiser, critic_optimiser = adam(config.actor_lr), adam(config.critic_lr)

    def init(key: Array, data: Transition) -> State:
        key_actor, key_critic, key_value = jax.random.split(key, 3)
        shape, size, relu = data.obs.shape[1:], data.action.shape[-1], jax.nn.relu
        actor = FlowNetwork(key_actor, shape, size, config.actor_hidden)
        critic = Ensemble(key_critic, shape, size, config.hidden, 2, relu)
        value = Ensemble(key_value, shape, 0, config.hidden, 1, relu)
        normaliser = Normaliser.fit(data.obs, config.normalise_obs)
        opt = OptState(
            actor_optimiser.init(actor), critic_optimiser.init(critic), critic_optimiser.init(value)
        )
        return State(jnp.int32(0), Params(normaliser, actor, actor, critic, critic, value), opt)

    def update(state: State, batch: Transition, key: Array) -> tuple[State, Metrics]:
        params, opt = state.params, state.opt
        batch = params.normaliser.batch(batch)

        q = values.smallest(params.critic_target(batch.obs, batch.action))
        value, value_opt, metrics = values.fit_expectile(
            params.value, opt.value, critic_optimiser, batch.obs, q, config.expectile
        )
        target = values.td_target(batch.reward, batch.bootstrap, value(batch.next_obs)[0], config.discount)
        critic, critic_opt, extra = values.fit_critic(
            params.critic, opt.critic, critic_optimiser, batch, target
        )

        def actor_loss(actor: FlowNetwork) -> tuple[Array, Metrics]:
            epsilon = diffusion.noise_network(actor, batch.obs)
            loss = jnp.mean(diffusion.denoising(epsilon, batch.action, key, schedule))
            return loss, {"actor_loss": loss}

        actor, actor_opt, more, norm = descend(actor_loss, params.actor, opt.actor, actor_optimiser)
        new_params = Params(
            params.normaliser,
            actor,
            polyak(params.actor_target, actor, config.actor_target_rate),
            critic,
            polyak(params.critic_target, critic, config.critic_target_rate),
            value,
        )
        opt = OptState(actor_opt, critic_opt, value_opt)
        return State(state.step + 1, new_params, opt), metrics | extra | more | {"actor_grad_norm": norm}

    def act(params: Params, obs: Array, key: Array, acting: Acting) -> Array:
        diffusion.check_steps(acting, config.sampling_steps)
        obs = params.normaliser(obs)
        actor = params.actor if acting.weights == "online" else params.actor_target
        draw = lambda key, samples: diffusion.policy(actor, obs, key, samples, schedule)  # noqa: E731
        return values.act(key, acting, draw, lambda actions: params.critic_target(obs, actions))

    return Agent(init, update, act, RULES, values.cautious_q)
