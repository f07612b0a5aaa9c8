"""TD3+BC: a minimalist approach to offline RL (Fujimoto & Gu 2021, arXiv 2106.06860).

TD3 whose actor is also held to the data. One update:

    critic   Q(s, a)  →  r + γ·min_j Q⁻_j(s', ã),    ã = clip(π⁻(s') + clip(ε)),   ε ~ N(0, 0.2²)
    actor    −λ·Q₁(s, π(s)) + ‖π(s) − a‖²,           λ = α / mean |Q₁(s, π(s))|,   every second update
    targets  θ⁻, φ⁻ by moving averages, every second update

π is deterministic, so there is one way to act.

Differences from the published code:
 1. A feature that never varies keeps its scale, where the authors add 1e-3 to every deviation.
 2. Both critics share one Adam state; as its moments are per weight, this changes nothing.
 3. The delayed actor step is computed at every update and kept at every second one: seeds train side by side
    in one program, where a branch would be computed anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from gtp import actor_critic, values
from gtp.actor_critic import OptState, Params
from gtp.config import Count, Fraction, NonNegative, Positive
from gtp.nn import Ensemble, Network
from gtp.optim import descend, if_due
from gtp.types import Acting, Agent, Array, Metrics, State, Transition


@dataclass(frozen=True)
class Config:
    """TD3+BC's settings; the defaults are the authors' for every task."""

    alpha: NonNegative = 2.5
    """α, weight of the normalised Q term against cloning; 0 is deterministic behaviour cloning."""
    policy_noise: NonNegative = 0.2
    """Deviation of the noise on the target policy's actions."""
    noise_clip: NonNegative = 0.5
    """Largest size of that noise."""
    actor_every: Count = 2
    """Updates between two steps of the actor and of all moving averages."""
    discount: Fraction = 0.99
    """γ."""
    actor_lr: Positive = 3e-4
    """Adam's learning rate for the actor."""
    critic_lr: Positive = 3e-4
    """Adam's learning rate for the critic."""
    target_rate: Fraction = 0.005
    """Rate of the moving averages θ⁻ and φ⁻."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers."""
    normalise_obs: bool = True
    """Standardise observations with the data's mean and deviation."""


def make(config: Config, total_steps: int) -> Agent:
    """The agent; nothing of it depends on the length of the run."""
    del total_steps
    optimisers = actor_critic.optimisers(config.actor_lr, config.critic_lr)

    def init(key: Array, data: Transition) -> State:
        key_actor, key_critic = jax.random.split(key)
        obs_shape, action_size = data.obs.shape[1:], data.action.shape[-1]
        actor = Network(key_actor, obs_shape, 0, config.hidden, action_size, jax.nn.relu)
        critic = Ensemble(key_critic, obs_shape, action_size, config.hidden, 2, jax.nn.relu)
        return actor_critic.first_state(data, actor, critic, config.normalise_obs, optimisers)

    def policy(actor: Network, obs: Array) -> Array:
        return jnp.tanh(actor(obs))

    def update(state: State, batch: Transition, key: Array) -> tuple[State, Metrics]:
        params, opt = state.params, state.opt
        batch = params.normaliser.batch(batch)

        next_action = policy(params.actor_target, batch.next_obs)
        next_action = values.smoothed(key, next_action, config.policy_noise, config.noise_clip)
        next_value = values.smallest(params.critic_target(batch.next_obs, next_action))
        target = values.td_target(batch.reward, batch.bootstrap, next_value, config.discount)
        critic, critic_opt, metrics = values.fit_critic(
            params.critic, opt.critic, optimisers.critic, batch, target
        )

        def actor_loss(actor: Network) -> tuple[Array, Metrics]:
            action = policy(actor, batch.obs)
            q = critic(batch.obs, action)[0]
            scale = config.alpha / jax.lax.stop_gradient(jnp.mean(jnp.abs(q)))
            error = jnp.mean((action - batch.action) ** 2)
            loss = error - scale * jnp.mean(q)
            return loss, {"actor_loss": loss, "mean_error": error, "q_policy": jnp.mean(q)}

        actor, actor_opt, extra, norm = descend(actor_loss, params.actor, opt.actor, optimisers.actor)
        metrics |= extra | {"actor_grad_norm": norm}

        due = (state.step + 1) % config.actor_every == 0
        actor, actor_opt = if_due(due, (actor, actor_opt), (params.actor, opt.actor))
        rate = jnp.where(due, config.target_rate, 0.0)
        opt = OptState(actor_opt, critic_opt)
        return actor_critic.advance(state, actor, critic, opt, rate, rate), metrics

    def act(params: Params, obs: Array, key: Array, acting: Acting) -> Array:
        del key
        actor = params.actor if acting.weights == "online" else params.actor_target
        return policy(actor, params.normaliser(obs))

    return Agent(init, update, act, ("single",), values.cautious_q)
