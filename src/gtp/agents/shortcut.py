"""Shortcut policy: a shortcut model (arXiv 2410.12557) under GTP's policy improvement.

The policy v(obs, x, t, d) is the average velocity of a step d on the linear path x_t = (1 − t)·z + t·a, noise
at t = 0. Small steps are learned from data, each larger one from two of half its size. One update:

    critic   Q(s, a)  →  r + γ·min_j Q⁻_j(s', π⁻(s')),                π⁻ the moving average of the policy
    weight   w = exp(η·max(0, A)/std A),  A = Q(s, a) − V(s),         η = 0 is behaviour cloning
    actor    7/8 of the batch   w·‖v(x_t, t, 1/M) − (a − z)‖²
             1/8 of the batch   w·‖v(x_t, t, d) − ½·(v⁻(x_t, t, d/2) + v⁻(x_t', t', d/2))‖²,
                                t' = t + d/2,  x_t' = x_t + d/2·v⁻(x_t, t, d/2),  d = 1 … 2/M
    targets  θ⁻, φ⁻ by moving averages

Acting takes K steps of 1/K, K a power of two. Critic, weight and network are those of `gtp`, so that a
comparison of the two is one of their generative models. Nothing was published for offline reinforcement
learning in this form; `gtp --agent.objective shortcut` is the same idea on GTP's noise levels.

Differences from the published model:
 1. The network sees ln(1 − t) and ln d, through the embedding all our generative policies share.
 2. Adam without weight decay; θ⁻ follows faster (.005 instead of .001), for a run is shorter.
 3. The path ends in the data exactly, without the published 1e-5 of noise left.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from gtp import actor_critic, flow, objectives, values
from gtp.actor_critic import OptState, Params
from gtp.config import Count, Fraction, NonNegative, Positive
from gtp.errors import UserError
from gtp.nn import FlowNetwork
from gtp.optim import descend
from gtp.types import RULES, Acting, Agent, Array, Metrics, State, Transition


@dataclass(frozen=True)
class Config:
    """The shortcut policy's settings."""

    eta: NonNegative = 1.0
    """η, temperature of the advantage weight; 0 is behaviour cloning."""
    sampling_steps: Count = 4
    """K, steps from noise to action: a power of two."""
    smallest_steps: Count = 128
    """M: 1/M is the smallest step, a power of two."""
    bootstrap_every: Count = 8
    """One row in so many of a batch learns a larger step, the others the smallest."""
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
    """Rate of θ⁻, the actor's moving average and teacher."""
    hidden: tuple[int, ...] = (256, 256, 256)
    """Widths of the hidden layers, actor and critic."""
    normalise_obs: bool = True
    """Standardise observations with the data's mean and deviation."""

    def check(self) -> None:
        """Faults that take two fields to see."""
        if self.smallest_steps < 2 or self.smallest_steps & (self.smallest_steps - 1):
            raise UserError(f"smallest_steps must be a power of two above 1, not {self.smallest_steps}")
        check_steps(self.sampling_steps, self.smallest_steps)


def check_steps(steps: int, most: int) -> int:
    """Only halvings of the whole way were learned."""
    if steps & (steps - 1) or steps > most:
        raise UserError(f"sampling steps must be a power of two and at most {most}, not {steps}")
    return steps


def make(config: Config, total_steps: int) -> Agent:
    """The agent; nothing of it depends on the length of the run."""
    del total_steps
    finest = config.smallest_steps
    depths = finest.bit_length() - 1
    optimisers = actor_critic.optimisers(config.actor_lr, config.critic_lr, config.grad_clip)

    def init(key: Array, data: Transition) -> State:
        key_actor, key_critic = jax.random.split(key)
        actor = FlowNetwork(key_actor, data.obs.shape[1:], data.action.shape[-1], config.hidden)
        return actor_critic.init(key_critic, data, actor, config.hidden, config.normalise_obs, optimisers)

    def velocity(actor: FlowNetwork, obs: Array) -> objectives.Jump:
        network = actor.bind(obs)
        return lambda x, t, d: network(x, 1 - t, d)  # Both are above 0: steps begin before t = 1.

    def policy(actor: FlowNetwork, obs: Array, key: Array, samples: int, steps: int) -> Array:
        z = jax.random.normal(key, (samples, obs.shape[0], actor.action_size))
        field, d = velocity(actor, obs), jnp.float32(1 / steps)
        return flow.linear_sample(lambda x, t: field(x, t, d), z, steps)

    def generative_loss(student: FlowNetwork, teacher: FlowNetwork, batch: Transition, key: Array) -> Array:
        """One value per sample; the first rows of the batch learn the larger steps."""
        key_z, key_t = jax.random.split(key)
        a, rows = batch.action, batch.action.shape[0]
        z, u = jax.random.normal(key_z, a.shape), jax.random.uniform(key_t, (rows,))
        cut = max(1, rows // config.bootstrap_every)

        d = 0.5 ** (jnp.arange(cut) % depths)
        t = jnp.floor(u[:cut] / d) * d
        x_t = objectives.between(a[:cut], z[:cut], t)
        pair = (velocity(net, batch.obs[:cut]) for net in (student, teacher))
        larger = objectives.linear_shortcut(*pair, x_t, t, d)

        t, field = jnp.floor(u[cut:] * finest) / finest, velocity(student, batch.obs[cut:])
        smallest = objectives.flow_matching(
            lambda x, t: field(x, t, jnp.full_like(t, 1 / finest)), a[cut:], z[cut:], t
        )
        return jnp.concatenate([larger, smallest])

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
            loss = jnp.mean(weight * generative_loss(actor, params.actor_target, batch, key_actor))
            return loss, {"actor_loss": loss}

        actor, actor_opt, extra, norm = descend(actor_loss, params.actor, opt.actor, optimisers.actor)
        metrics |= extra | values.weight_metrics(advantage, weight) | {"actor_grad_norm": norm}
        opt, rates = OptState(actor_opt, critic_opt), (config.actor_target_rate, config.critic_target_rate)
        return actor_critic.advance(state, actor, critic, opt, *rates), metrics

    def act(params: Params, obs: Array, key: Array, acting: Acting) -> Array:
        obs, steps = (
            params.normaliser(obs),
            check_steps(acting.sampling_steps or config.sampling_steps, finest),
        )
        actor = params.actor if acting.weights == "online" else params.actor_target
        draw = lambda key, samples: policy(actor, obs, key, samples, steps)  # noqa: E731
        return values.act(key, acting, draw, lambda actions: params.critic_target(obs, actions))

    return Agent(init, update, act, RULES, values.cautious_q)
