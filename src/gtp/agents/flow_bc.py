"""Flow BC: behaviour cloning with a flow policy.

    actor    ‖v(x_t, t) − (a − z)‖²,   x_t = (1 − t)·z + t·a,  t ~ U(0, 1)

Acting follows v from noise z at t = 0 to an action at t = 1 in K Euler steps. This is the cloning half of FQL
alone: unlike a Gaussian it can stand for several ways of doing a thing.

Differences from FQL's code: observations may be standardised, and weights start as Equinox's do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gtp import flow, objectives
from gtp.config import Count, NonNegative, Positive
from gtp.nn import Network, Normaliser
from gtp.optim import adam, descend
from gtp.types import Acting, Agent, Array, Metrics, State, Transition


@dataclass(frozen=True)
class Config:
    """Flow BC's settings."""

    sampling_steps: Count = 10
    """K, Euler steps from noise to action."""
    actor_lr: Positive = 3e-4
    """Adam's learning rate."""
    actor_grad_clip: NonNegative = 0.0
    """Largest gradient norm; 0 is off."""
    hidden: tuple[int, ...] = (512, 512, 512, 512)
    """Widths of the hidden layers."""
    normalise_obs: bool = True
    """Standardise observations with the data's mean and deviation."""


class Params(NamedTuple):
    """The flow's network and the observation normaliser."""

    normaliser: Normaliser
    actor: Network


class OptState(NamedTuple):
    """Adam's moments."""

    actor: Any


def make(config: Config, total_steps: int) -> Agent:
    """The agent; nothing of it depends on the length of the run."""
    del total_steps
    optimiser = adam(config.actor_lr, config.actor_grad_clip)

    def init(key: Array, data: Transition) -> State:
        size = data.action.shape[-1]
        actor = Network(key, data.obs.shape[1:], size + 1, config.hidden, size, jax.nn.gelu)
        params = Params(Normaliser.fit(data.obs, config.normalise_obs), actor)
        return State(jnp.int32(0), params, OptState(optimiser.init(actor)))

    def update(state: State, batch: Transition, key: Array) -> tuple[State, Metrics]:
        obs = state.params.normaliser(batch.obs)

        def loss(actor: Network) -> tuple[Array, Metrics]:
            field = flow.linear_field(actor, obs)
            value = jnp.mean(objectives.drawn_flow_matching(field, batch.action, key))
            return value, {"actor_loss": value}

        actor, opt, metrics, norm = descend(loss, state.params.actor, state.opt.actor, optimiser)
        params = state.params._replace(actor=actor)
        return State(state.step + 1, params, OptState(opt)), metrics | {"actor_grad_norm": norm}

    def act(params: Params, obs: Array, key: Array, acting: Acting) -> Array:
        z = jax.random.normal(key, (obs.shape[0], params.actor.outputs))
        field = flow.linear_field(params.actor, params.normaliser(obs))
        return flow.linear_sample(field, z, acting.sampling_steps or config.sampling_steps)

    return Agent(init, update, act, rules=("single",))
