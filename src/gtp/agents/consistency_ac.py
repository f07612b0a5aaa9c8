"""Consistency-AC: a consistency model that climbs its critic (arXiv 2309.16984).

The policy f(obs, a_t, t) goes from any noise level to the data in one jump. One update:

    critic   Q(s, a)  →  r + γ·min_j Q⁻_j(s', π⁻(s')),                π⁻ the moving average of the policy
    levels   t next above u on a Karras grid of N(k) levels;  a_t = a + t·z,  a_u = a + u·z
    actor    c·‖f(a_t, t) − f⁻(a_u, u)‖²  −  η·Q_i(s, π(s)) / mean |Q_j(s, π(s))|,   c = 1 or 100/(t − u)
    targets  θ⁻, φ⁻ by moving averages

Acting jumps to the data, adds the noise of the next level of linspace(T, 2, K), and jumps again. η = 0 is
behaviour cloning (C-BC): then `single` acting knows nothing of the critic. The published code acts by softmax
of 50 candidates by the target critic, with η = 0 as well.

Differences from the published code:
 1. EDM's scalings with c_in, and an embedding of ln t: the network's input is of unit size at every level.
    The published network sees a_t as large as 80, and a sinusoid of t that hardly tells small levels apart.
 2. Learning rates are constant. The published cosine schedule is stepped so rarely that it ends at .999.
 3. Observations may be standardised (`normalise_obs`); the preset leaves them as they are, as published.
As published, N(k) begins anew every 50,000 updates, and c = 100/(t − u) throughout. The published table would
have c = 1 (`scale_loss` off) on the medium tasks, but the published class never reads that column.
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
from gtp.noise import Noise, growing_levels, karras_level, sampling_grid
from gtp.optim import descend, ema_rate
from gtp.types import RULES, Acting, Agent, Array, Metrics, State, Transition


@dataclass(frozen=True)
class Config:
    """Consistency-AC's settings."""

    q_weight: NonNegative = 1.0
    """η, weight of the Q term; 0 is behaviour cloning."""
    scale_loss: bool = True
    """Weigh the cloning loss by 100/(t − u), so that it does not fade as the levels draw together."""
    sampling_steps: Count = 2
    """K, jumps from noise to action."""
    levels_start: Count = 2
    """s₀, levels at the start of a period."""
    levels_end: Count = 150
    """s₁, levels at its end."""
    levels_period: Count = 50_000
    """Updates after which N(k) begins anew."""
    t_min: Positive = 0.002
    """ε, smallest noise level."""
    t_max: Positive = 80.0
    """T, largest noise level."""
    rho: Positive = 7.0
    """ρ of the Karras grid."""
    sigma_data: Positive = 0.5
    """σ_data of the preconditioning."""
    backup_candidates: Count = 1
    """Next actions to take the best of in the TD target; 10 is "max Q backup"."""
    normalise_q: bool = False
    """Divide the TD target by its batch standard deviation ("Q norm")."""
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
    """Rate of θ⁻, the actor's moving average and teacher."""
    actor_target_every: Count = 5
    """Updates between two steps of θ⁻."""
    actor_target_start: int = 1000
    """Updates before its first."""
    hidden: tuple[int, ...] = (256, 256, 256)
    """Widths of the hidden layers, actor and critic."""
    normalise_obs: bool = True
    """Standardise observations with the data's mean and deviation."""

    def check(self) -> None:
        """Faults that take two fields to see."""
        if not 2 <= self.levels_start <= self.levels_end:
            raise UserError(f"levels_start {self.levels_start} must be 2 to levels_end {self.levels_end}")
        if self.t_min >= 2 or self.t_max <= 2:
            raise UserError(f"level 2 must lie between t_min {self.t_min} and t_max {self.t_max}")


def make(config: Config, total_steps: int) -> Agent:
    """The agent; N(k) has a period of its own, whatever the length of the run."""
    del total_steps
    noise = Noise(config.t_min, config.t_max, config.rho, config.sigma_data)
    optimisers = actor_critic.optimisers(config.actor_lr, config.critic_lr, config.grad_clip)

    def init(key: Array, data: Transition) -> State:
        key_actor, key_critic = jax.random.split(key)
        actor = FlowNetwork(key_actor, data.obs.shape[1:], data.action.shape[-1], config.hidden)
        return actor_critic.init(key_critic, data, actor, config.hidden, config.normalise_obs, optimisers)

    def endpoint(actor: FlowNetwork, obs: Array) -> flow.Endpoint:
        return flow.endpoint(actor.bind(obs), noise)

    def policy(actor: FlowNetwork, obs: Array, key: Array, samples: int, steps: int) -> Array:
        z = jax.random.normal(key, (steps, samples, obs.shape[0], actor.action_size))
        return flow.resample(endpoint(actor, obs), z, sampling_grid(steps, noise, "linspace"), noise)

    def consistency(student: FlowNetwork, teacher: FlowNetwork, batch: Transition, key: Array, levels: Array):
        """The cloning loss, one value per sample."""
        key_z, key_level = jax.random.split(key)
        a, z = batch.action, jax.random.normal(key_z, batch.action.shape)
        index = jnp.floor(jax.random.uniform(key_level, a.shape[:-1]) * (levels - 1))
        u, t = karras_level(index, levels, noise), karras_level(index + 1, levels, noise)
        f, f_target = endpoint(student, batch.obs), endpoint(teacher, batch.obs)
        a_t, a_u = objectives.noised(a, z, t), objectives.noised(a, z, u)
        scale = 100 / (t - u) if config.scale_loss else 1.0
        return scale * objectives.consistency(f, f_target, a_t, a_u, t, u)

    def update(state: State, batch: Transition, key: Array) -> tuple[State, Metrics]:
        params, opt, steps = state.params, state.opt, config.sampling_steps
        key_next, key_bc, key_pi, key_coin = jax.random.split(key, 4)
        batch = params.normaliser.batch(batch)
        levels = growing_levels(state.step, config.levels_start, config.levels_end, config.levels_period)

        next_actions = policy(params.actor_target, batch.next_obs, key_next, config.backup_candidates, steps)
        critic, critic_opt, metrics = actor_critic.fit_critic(
            state, optimisers.critic, batch, next_actions, config.discount, config.normalise_q
        )

        def actor_loss(actor: FlowNetwork) -> tuple[Array, Metrics]:
            cloning = jnp.mean(consistency(actor, params.actor_target, batch, key_bc, levels))
            q = critic(batch.obs, policy(actor, batch.obs, key_pi, 1, steps)[0])
            loss = cloning + config.q_weight * values.normalised_q_loss(key_coin, q)
            return loss, {"actor_loss": loss, "bc_loss": cloning, "q_policy": jnp.mean(q), "levels": levels}

        actor, actor_opt, extra, norm = descend(actor_loss, params.actor, opt.actor, optimisers.actor)
        rate = ema_rate(
            state.step, config.actor_target_rate, config.actor_target_every, config.actor_target_start
        )
        opt = OptState(actor_opt, critic_opt)
        state = actor_critic.advance(state, actor, critic, opt, rate, config.critic_target_rate)
        return state, metrics | extra | {"actor_grad_norm": norm}

    def act(params: Params, obs: Array, key: Array, acting: Acting) -> Array:
        obs, steps = params.normaliser(obs), acting.sampling_steps or config.sampling_steps
        actor = params.actor if acting.weights == "online" else params.actor_target
        draw = lambda key, samples: policy(actor, obs, key, samples, steps)  # noqa: E731
        return values.act(key, acting, draw, lambda actions: params.critic_target(obs, actions))

    return Agent(init, update, act, RULES, values.cautious_q)
