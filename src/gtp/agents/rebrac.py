"""ReBRAC: the minimalist approach revisited (Tarasov et al. 2023, arXiv 2305.09836).

TD3+BC with the cloning penalty in both places, a deeper critic and layer normalisation. One update:

    critic   Q(s, a)  →  r + γ·(min_j Q⁻_j(s', ã) − β₂·‖ã − a'‖²),   a' of the data, ã = π⁻(s') + noise
    actor    β₁·‖π(s) − a‖² − min_j Q_j(s, π(s)) / mean |min_j Q_j|,  every second update
    targets  θ⁻, φ⁻ by moving averages, every second update

π is deterministic, so there is one way to act.

Differences from the published code:
 1. The actor's moving average follows the weights after the gradient step, theirs those before it.
 2. Where the data end without saying what came next (time-outs), a' is the row's own action.
 3. The delayed actor step is computed at every update and kept at every second one.
 4. The reward's scale belongs to the data: `--reward rebrac_antmaze`.
"""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp

from gtp import actor_critic, values
from gtp.actor_critic import OptState, Params
from gtp.config import Count, Fraction, NonNegative, Positive
from gtp.nn import Ensemble, Network
from gtp.optim import descend, if_due
from gtp.starts import small_outputs
from gtp.types import Acting, Agent, Array, Metrics, State, Transition


@dataclass(frozen=True)
class Config:
    """ReBRAC's settings; β₁ and β₂ are tuned per task, see `gtp presets rebrac`."""

    actor_penalty: NonNegative = 0.01
    """β₁, weight of cloning in the actor's loss."""
    critic_penalty: NonNegative = 0.01
    """β₂, weight of the distance to the data's next action in the TD target."""
    policy_noise: NonNegative = 0.2
    """Deviation of the noise on the target policy's actions."""
    noise_clip: NonNegative = 0.5
    """Largest size of that noise."""
    actor_every: Count = 2
    """Updates between two steps of the actor and of all moving averages."""
    discount: Fraction = 0.99
    """γ."""
    actor_lr: Positive = 3e-4
    """Adam's learning rate for the actor (the authors: 1e-3 with batches of 1024 for locomotion)."""
    critic_lr: Positive = 3e-4
    """Adam's learning rate for the critic (the authors: 1e-3 for locomotion, 5e-5 for AntMaze)."""
    target_rate: Fraction = 0.005
    """Rate of the moving averages θ⁻ and φ⁻."""
    hidden: tuple[int, ...] = (256, 256, 256)
    """Widths of the hidden layers; the critic's are followed by layer normalisation."""
    normalise_obs: bool = True
    """Standardise observations with the data's mean and deviation."""


def squared_distance(one: Array, other: Array) -> Array:
    """‖a − b‖², one number per sample."""
    return jnp.sum((one - other) ** 2, axis=-1)


def make(config: Config, total_steps: int) -> Agent:
    """The agent; nothing of it depends on the length of the run."""
    del total_steps
    optimisers = actor_critic.optimisers(config.actor_lr, config.critic_lr)

    def init(key: Array, data: Transition) -> State:
        key_actor, key_critic, *keys = jax.random.split(key, 4)
        shape, size = data.obs.shape[1:], data.action.shape[-1]
        actor = Network(key_actor, shape, 0, config.hidden, size, jax.nn.relu)
        critic = Ensemble(key_critic, shape, size, config.hidden, 2, jax.nn.relu, layer_norm=True)
        actor = eqx.tree_at(lambda x: x.mlp, actor, small_outputs(keys[0], actor.mlp, 1e-3))
        critic = eqx.tree_at(lambda x: x.members, critic, small_outputs(keys[1], critic.members, 3e-3))
        return actor_critic.first_state(data, actor, critic, config.normalise_obs, optimisers)

    def policy(actor: Network, obs: Array) -> Array:
        return jnp.tanh(actor(obs))

    def update(state: State, batch: Transition, key: Array) -> tuple[State, Metrics]:
        params, opt = state.params, state.opt
        batch = params.normaliser.batch(batch)

        # Critic: the smoothed target policy pays for leaving the data's next action.
        mean = policy(params.actor_target, batch.next_obs)
        next_action = values.smoothed(key, mean, config.policy_noise, config.noise_clip)
        penalty = config.critic_penalty * squared_distance(next_action, batch.next_action)
        next_value = values.smallest(params.critic_target(batch.next_obs, next_action)) - penalty
        target = values.td_target(batch.reward, batch.bootstrap, next_value, config.discount)
        critic, critic_opt, metrics = values.fit_critic(
            params.critic, opt.critic, optimisers.critic, batch, target
        )

        # Actor: the cautious critic at unit scale, against the distance to the data.
        def actor_loss(actor: Network) -> tuple[Array, Metrics]:
            action = policy(actor, batch.obs)
            distance = jnp.mean(squared_distance(action, batch.action))
            q = values.smallest(critic(batch.obs, action))
            scale = jax.lax.stop_gradient(jnp.mean(jnp.abs(q)))
            loss = config.actor_penalty * distance - jnp.mean(q) / scale
            return loss, {"actor_loss": loss, "actor_distance": distance, "q_policy": jnp.mean(q)}

        actor, actor_opt, extra, norm = descend(actor_loss, params.actor, opt.actor, optimisers.actor)
        metrics |= extra | {"actor_grad_norm": norm, "critic_penalty": jnp.mean(penalty)}

        due = (state.step + 1) % config.actor_every == 0
        rate = jnp.where(due, config.target_rate, 0.0)
        actor, actor_opt = if_due(due, (actor, actor_opt), (params.actor, opt.actor))
        opt = OptState(actor_opt, critic_opt)
        return actor_critic.advance(state, actor, critic, opt, rate, rate), metrics

    def act(params: Params, obs: Array, key: Array, acting: Acting) -> Array:
        del key
        actor = params.actor if acting.weights == "online" else params.actor_target
        return policy(actor, params.normaliser(obs))

    return Agent(init, update, act, ("single",), values.cautious_q)
