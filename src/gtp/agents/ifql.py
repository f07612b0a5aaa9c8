"""IFQL: IQL's critic choosing among samples of a cloned flow (a baseline of FQL, arXiv 2502.02538).

    value    V(s)     →  the τ-expectile of min_j Q⁻_j(s, a) over the data's actions
    critic   Q(s, a)  →  r + γ·V(s')
    flow     ‖v(x_t, t) − (a − z)‖²,   x_t = (1 − t)·z + t·a,  t ~ U(0, 1)
    target   φ⁻ by a moving average

The policy never sees the critic in training: improvement is all in the choice. The published rule of acting
is `argmax` of 32 candidates; `single` is behaviour cloning with a flow.

Differences from the published code:
 1. The critic is trained on the value just improved; the published one uses the value before.
 2. Candidates are weighed by the moving average of the critic, as everywhere in this library.
 3. Observations may be standardised (`normalise_obs`), and weights start as Equinox's do.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from gtp import flow, implicit, objectives, values
from gtp.config import Count, Fraction, Positive
from gtp.implicit import OptState, Params
from gtp.nn import Ensemble, Network
from gtp.optim import adam, descend
from gtp.types import RULES, Acting, Agent, Array, Metrics, State, Transition


@dataclass(frozen=True)
class Config:
    """IFQL's settings."""

    expectile: Fraction = 0.9
    """τ of the value."""
    sampling_steps: Count = 10
    """K, Euler steps of the flow."""
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


def make(config: Config, total_steps: int) -> Agent:
    """The agent; nothing of it depends on the length of the run."""
    del total_steps
    optimiser = adam(config.lr)

    def init(key: Array, data: Transition) -> State:
        keys = jax.random.split(key, 3)
        shape, size, hidden, gelu = data.obs.shape[1:], data.action.shape[-1], config.hidden, jax.nn.gelu
        actor = Network(keys[0], shape, size + 1, hidden, size, gelu)
        critic = Ensemble(keys[1], shape, size, hidden, 2, gelu, layer_norm=True)
        value = Ensemble(keys[2], shape, 0, hidden, 1, gelu, layer_norm=True)
        return implicit.init(data, actor, critic, value, config.normalise_obs, optimiser, optimiser)

    def update(state: State, batch: Transition, key: Array) -> tuple[State, Metrics]:
        params, opt = state.params, state.opt
        batch = params.normaliser.batch(batch)

        q = values.smallest(params.critic_target(batch.obs, batch.action))
        value, value_opt, metrics = values.fit_expectile(
            params.value, opt.value, optimiser, batch.obs, q, config.expectile
        )
        next_value = value(batch.next_obs)[0]
        target = values.td_target(batch.reward, batch.bootstrap, next_value, config.discount)
        critic, critic_opt, extra = values.fit_critic(params.critic, opt.critic, optimiser, batch, target)

        def actor_loss(actor: Network) -> tuple[Array, Metrics]:
            field = flow.linear_field(actor, batch.obs)
            loss = jnp.mean(objectives.drawn_flow_matching(field, batch.action, key))
            return loss, {"actor_loss": loss}

        actor, actor_opt, more, norm = descend(actor_loss, params.actor, opt.actor, optimiser)
        opt = OptState(actor_opt, critic_opt, value_opt)
        state = implicit.advance(state, actor, critic, value, opt, config.critic_target_rate)
        return state, metrics | extra | more | {"actor_grad_norm": norm}

    def act(params: Params, obs: Array, key: Array, acting: Acting) -> Array:
        obs, steps = params.normaliser(obs), acting.sampling_steps or config.sampling_steps

        def draw(key: Array, samples: int) -> Array:
            z = jax.random.normal(key, (samples, obs.shape[0], params.actor.outputs))
            return flow.linear_sample(flow.linear_field(params.actor, obs), z, steps)

        return values.act(key, acting, draw, lambda actions: params.critic_target(obs, actions))

    return Agent(init, update, act, RULES, values.cautious_q)
