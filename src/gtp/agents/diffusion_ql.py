"""Diffusion-QL: a diffusion policy that climbs its critic (arXiv 2208.06193).

The policy is a DDPM of N steps, ε(obs, a_i, i). One update:

    critic   Q(s, a)  →  r + γ·min_j Q⁻_j(s', π⁻(s')),                π⁻ the moving average of the policy
    actor    ‖z − ε(a_i, i)‖²  −  η·Q_i(s, π(s)) / mean |Q_j(s, π(s))|,   through all N steps of π
    targets  θ⁻, φ⁻ by moving averages

η = 0 is behaviour cloning with a diffusion policy (D-BC): then `single` acting knows nothing of the critic.
The published code acts by softmax of 50 candidates by the target critic, D-BC by one sample.

Differences from the published code:
 1. The network sees ln i through the embedding all our generative policies share, not a sinusoid of i.
 2. Learning rates are constant. The published cosine schedule is stepped so rarely that it ends at .999.
 3. Observations may be standardised (`normalise_obs`); the preset leaves them as they are, as published.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from gtp import actor_critic, diffusion, values
from gtp.actor_critic import OptState, Params
from gtp.config import Count, Fraction, NonNegative, Positive
from gtp.nn import FlowNetwork
from gtp.optim import descend, ema_rate
from gtp.types import RULES, Acting, Agent, Array, Metrics, State, Transition


@dataclass(frozen=True)
class Config:
    """Diffusion-QL's settings."""

    q_weight: NonNegative = 1.0
    """η, weight of the Q term; 0 is behaviour cloning."""
    sampling_steps: Count = 5
    """N, steps of the diffusion; acting takes the same."""
    backup_candidates: Count = 1
    """Next actions to take the best of in the TD target; 10 is "max Q backup"."""
    discount: Fraction = 0.99
    """γ."""
    actor_lr: Positive = 3e-4
    """Adam's learning rate for the actor."""
    critic_lr: Positive = 3e-4
    """Adam's learning rate for the critic."""
    grad_clip: NonNegative = 5.0
    """Largest gradient norm of actor and critic ("gradient norm"); 0 is off."""
    critic_target_rate: Fraction = 0.005
    """Rate of the critic's moving average φ⁻."""
    actor_target_rate: Fraction = 0.005
    """Rate of the actor's moving average θ⁻."""
    actor_target_every: Count = 5
    """Updates between two steps of θ⁻."""
    actor_target_start: int = 1000
    """Updates before its first."""
    hidden: tuple[int, ...] = (256, 256, 256)
    """Widths of the hidden layers, actor and critic."""
    normalise_obs: bool = True
    """Standardise observations with the data's mean and deviation."""


def make(config: Config, total_steps: int) -> Agent:
    """The agent; nothing of it depends on the length of the run."""
    del total_steps
    schedule = diffusion.vp_schedule(config.sampling_steps)
    optimisers = actor_critic.optimisers(config.actor_lr, config.critic_lr, config.grad_clip)

    def init(key: Array, data: Transition) -> State:
        key_actor, key_critic = jax.random.split(key)
        actor = FlowNetwork(key_actor, data.obs.shape[1:], data.action.shape[-1], config.hidden)
        return actor_critic.init(key_critic, data, actor, config.hidden, config.normalise_obs, optimisers)

    def policy(actor: FlowNetwork, obs: Array, key: Array, samples: int) -> Array:
        return diffusion.policy(actor, obs, key, samples, schedule)

    def update(state: State, batch: Transition, key: Array) -> tuple[State, Metrics]:
        params, opt = state.params, state.opt
        key_next, key_bc, key_pi, key_coin = jax.random.split(key, 4)
        batch = params.normaliser.batch(batch)

        next_actions = policy(params.actor_target, batch.next_obs, key_next, config.backup_candidates)
        critic, critic_opt, metrics = actor_critic.fit_critic(
            state, optimisers.critic, batch, next_actions, config.discount
        )

        def actor_loss(actor: FlowNetwork) -> tuple[Array, Metrics]:
            epsilon = diffusion.noise_network(actor, batch.obs)
            cloning = jnp.mean(diffusion.denoising(epsilon, batch.action, key_bc, schedule))
            q = critic(batch.obs, policy(actor, batch.obs, key_pi, 1)[0])
            loss = cloning + config.q_weight * values.normalised_q_loss(key_coin, q)
            return loss, {"actor_loss": loss, "bc_loss": cloning, "q_policy": jnp.mean(q)}

        actor, actor_opt, extra, norm = descend(actor_loss, params.actor, opt.actor, optimisers.actor)
        rate = ema_rate(
            state.step, config.actor_target_rate, config.actor_target_every, config.actor_target_start
        )
        opt = OptState(actor_opt, critic_opt)
        state = actor_critic.advance(state, actor, critic, opt, rate, config.critic_target_rate)
        return state, metrics | extra | {"actor_grad_norm": norm}

    def act(params: Params, obs: Array, key: Array, acting: Acting) -> Array:
        diffusion.check_steps(acting, config.sampling_steps)
        obs = params.normaliser(obs)
        actor = params.actor if acting.weights == "online" else params.actor_target
        draw = lambda key, samples: policy(actor, obs, key, samples)  # noqa: E731
        return values.act(key, acting, draw, lambda actions: params.critic_target(obs, actions))

    return Agent(init, update, act, RULES, values.cautious_q)
