"""MeanFlow policy: a mean flow (arXiv 2505.13447) under GTP's policy improvement.

The policy u(obs, x, t, r) is the average velocity between t and r on the linear path x_t = (1 − t)·a + t·z,
noise at t = 1. It is learned from an identity between u and its own derivative along the path. One update:

    critic   Q(s, a)  →  r + γ·min_j Q⁻_j(s', π⁻(s')),                π⁻ the moving average of the policy
    weight   w = exp(η·max(0, A)/std A),  A = Q(s, a) − V(s),         η = 0 is behaviour cloning
    actor    w·L/sg(L + c)^p,   L = ‖u − sg(v − (t − r)·(v·∂_x u + ∂_t u))‖²,   v = z − a
    targets  θ⁻, φ⁻ by moving averages

t and r are the larger and the smaller of two logit-normal draws, and r = t in three rows of four, where L is
flow matching. Acting jumps K times: x_r = x_t − (t − r)·u. Critic, weight and network are those of `gtp`, so
that a comparison of the two is one of their generative models. Nothing was published for offline
reinforcement learning in this form; `gtp --agent.objective meanflow` is the identity on GTP's noise levels.

Differences from the published model: L is a mean over action dimensions, not a sum; the network sees ln t and
ln r (r at least .01) through the embedding all our generative policies share, where the published one sees t
and t − r.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from gtp import actor_critic, flow, objectives, values
from gtp.actor_critic import OptState, Params
from gtp.config import Count, Fraction, NonNegative, Positive
from gtp.nn import FlowNetwork
from gtp.optim import descend
from gtp.types import RULES, Acting, Agent, Array, Metrics, State, Transition

LEAST = 0.01
"""The smallest r the network is told of; a logarithm of 0 would run away."""


@dataclass(frozen=True)
class Config:
    """The mean-flow policy's settings."""

    eta: NonNegative = 1.0
    """η, temperature of the advantage weight; 0 is behaviour cloning."""
    sampling_steps: Count = 1
    """K, jumps from noise to action."""
    flow_share: Fraction = 0.75
    """Share of rows with r = t, which learn the velocity itself."""
    time_mean: float = -0.4
    """Mean of the normal whose logistic t and r are."""
    time_std: Positive = 1.0
    """Its standard deviation."""
    adaptive_power: NonNegative = 1.0
    """p of the adaptive weight; 0 is none."""
    adaptive_floor: Positive = 0.01
    """c of the adaptive weight."""
    weight_clip: Positive = 100.0
    """Upper clip of w; `inf` for none."""
    baseline_samples: Count = 4
    """Policy samples behind V."""
    backup_candidates: Count = 1
    """Next actions to take the best of in the TD target."""
    discount: Fraction = 0.99
    """γ."""
    actor_lr: Positive = 3e-4
    """Adam's learning rate for the actor."""
    critic_lr: Positive = 3e-4
    """Adam's learning rate for the critic."""
    grad_clip: NonNegative = 5.0
    """Largest gradient norm of actor and critic; 0 is off."""
    critic_target_rate: Fraction = 0.005
    """Rate of the critic's moving average φ⁻."""
    actor_target_rate: Fraction = 0.005
    """Rate of the actor's moving average θ⁻."""
    hidden: tuple[int, ...] = (256, 256, 256)
    """Widths of the hidden layers, actor and critic."""
    normalise_obs: bool = True
    """Standardise observations with the data's mean and deviation."""


def make(config: Config, total_steps: int) -> Agent:
    """The agent; nothing of it depends on the length of the run."""
    del total_steps
    optimisers = actor_critic.optimisers(config.actor_lr, config.critic_lr, config.grad_clip)

    def init(key: Array, data: Transition) -> State:
        key_actor, key_critic = jax.random.split(key)
        actor = FlowNetwork(key_actor, data.obs.shape[1:], data.action.shape[-1], config.hidden)
        return actor_critic.init(key_critic, data, actor, config.hidden, config.normalise_obs, optimisers)

    def velocity(actor: FlowNetwork, obs: Array) -> objectives.Jump:
        network = actor.bind(obs)
        return lambda x, t, r: network(x, t, jnp.maximum(r, LEAST))

    def policy(actor: FlowNetwork, obs: Array, key: Array, samples: int, steps: int) -> Array:
        z = jax.random.normal(key, (samples, obs.shape[0], actor.action_size))
        field = velocity(actor, obs)
        # In the time 1 − t of `linear_sample`, where noise is at 0, every step has the length 1/K.
        return flow.linear_sample(lambda x, s: -field(x, 1 - s, 1 - s - 1 / steps), z, steps)

    def generative_loss(actor: FlowNetwork, batch: Transition, key: Array) -> Array:
        """One value per sample."""
        key_z, key_t, key_share = jax.random.split(key, 3)
        rows = batch.action.shape[:-1]
        times = jax.nn.sigmoid(config.time_mean + config.time_std * jax.random.normal(key_t, (2, *rows)))
        t, r = jnp.max(times, axis=0), jnp.min(times, axis=0)
        r = jnp.where(jax.random.uniform(key_share, rows) < config.flow_share, t, r)
        z = jax.random.normal(key_z, batch.action.shape)
        return objectives.linear_mean_flow(velocity(actor, batch.obs), batch.action, z, t, r)

    def update(state: State, batch: Transition, key: Array) -> tuple[State, Metrics]:
        params, opt, steps = state.params, state.opt, config.sampling_steps
        key_next, key_here, key_actor = jax.random.split(key, 3)
        batch = params.normaliser.batch(batch)

        next_actions = policy(params.actor_target, batch.next_obs, key_next, config.backup_candidates, steps)
        critic, critic_opt, metrics = actor_critic.fit_critic(
            state, optimisers.critic, batch, next_actions, config.discount
        )
        here = policy(params.actor_target, batch.obs, key_here, config.baseline_samples, steps)
        advantage = values.advantage(critic, batch, here)
        weight = values.advantage_weight(advantage, config.eta, config.weight_clip)

        def actor_loss(actor: FlowNetwork) -> tuple[Array, Metrics]:
            error = generative_loss(actor, batch, key_actor)
            scaled = objectives.adaptive(error, config.adaptive_power, config.adaptive_floor)
            loss = jnp.mean(weight * scaled)
            return loss, {"actor_loss": loss, "mean_flow_loss": jnp.mean(weight * error)}

        actor, actor_opt, extra, norm = descend(actor_loss, params.actor, opt.actor, optimisers.actor)
        metrics |= extra | values.weight_metrics(advantage, weight) | {"actor_grad_norm": norm}
        opt, rates = OptState(actor_opt, critic_opt), (config.actor_target_rate, config.critic_target_rate)
        return actor_critic.advance(state, actor, critic, opt, *rates), metrics

    def act(params: Params, obs: Array, key: Array, acting: Acting) -> Array:
        obs, steps = params.normaliser(obs), acting.sampling_steps or config.sampling_steps
        actor = params.actor if acting.weights == "online" else params.actor_target
        draw = lambda key, samples: policy(actor, obs, key, samples, steps)  # noqa: E731
        return values.act(key, acting, draw, lambda actions: params.critic_target(obs, actions))

    return Agent(init, update, act, RULES, values.cautious_q)
