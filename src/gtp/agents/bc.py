"""BC: behaviour cloning with a Gaussian policy.

    actor    −log N(a; μ(s), σ(s)²)          (deterministic: ‖a − μ(s)‖²)

One Gaussian per observation cannot stand for several ways of doing a thing: where the data go left or right,
its mean goes straight on. That is what it is here to show.

Differences from the usual code: σ is a function of the observation, clipped to [e⁻⁵, e²]; samples are clipped
to the action range instead of squashed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp

from gtp.config import NonNegative, Positive
from gtp.gaussian import GaussianNetwork
from gtp.nn import Normaliser
from gtp.optim import adam, descend
from gtp.types import Acting, Agent, Array, Metrics, State, Transition


@dataclass(frozen=True)
class Config:
    """Behaviour cloning's settings."""

    deterministic: bool = False
    """Learn and act with the mean alone."""
    actor_lr: Positive = 3e-4
    """Adam's learning rate."""
    actor_grad_clip: NonNegative = 0.0
    """Largest gradient norm; 0 is off."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers."""
    normalise_obs: bool = True
    """Standardise observations with the data's mean and deviation."""


class Params(NamedTuple):
    """The policy's network and the observation normaliser."""

    normaliser: Normaliser
    actor: GaussianNetwork


class OptState(NamedTuple):
    """Adam's moments."""

    actor: Any


def make(config: Config, total_steps: int) -> Agent:
    """The agent; nothing of it depends on the length of the run."""
    del total_steps
    optimiser = adam(config.actor_lr, config.actor_grad_clip)

    def init(key: Array, data: Transition) -> State:
        actor = GaussianNetwork(
            key, data.obs.shape[1:], data.action.shape[-1], config.hidden, std_of_obs=True
        )
        params = Params(Normaliser.fit(data.obs, config.normalise_obs), actor)
        return State(jnp.int32(0), params, OptState(optimiser.init(actor)))

    def update(state: State, batch: Transition, key: Array) -> tuple[State, Metrics]:
        del key
        obs = state.params.normaliser(batch.obs)

        def loss(actor: GaussianNetwork) -> tuple[Array, Metrics]:
            pi = actor(obs)
            error = jnp.mean((pi.mean - batch.action) ** 2)
            value = error if config.deterministic else -jnp.mean(pi.log_prob(batch.action))
            return value, {"actor_loss": value, "mean_error": error}

        actor, opt, metrics, norm = descend(loss, state.params.actor, state.opt.actor, optimiser)
        params = state.params._replace(actor=actor)
        return State(state.step + 1, params, OptState(opt)), metrics | {"actor_grad_norm": norm}

    def act(params: Params, obs: Array, key: Array, acting: Acting) -> Array:
        del acting
        pi = params.actor(params.normaliser(obs))
        return pi.mean if config.deterministic else pi.sample(key)

    return Agent(init, update, act, rules=("single",))
