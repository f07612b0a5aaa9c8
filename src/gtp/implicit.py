"""Bookkeeping of agents that learn a value V beside Q, both from the data's own actions."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from gtp.nn import Ensemble, Normaliser
from gtp.optim import Optimiser, polyak
from gtp.types import Array, State, Transition


class Params(NamedTuple):
    """Networks, the critic's moving average, and the observation normaliser."""

    normaliser: Normaliser
    actor: Any
    critic: Ensemble
    critic_target: Ensemble
    value: Ensemble


class OptState(NamedTuple):
    """Adam's moments."""

    actor: Any
    critic: Any
    value: Any


def init(
    data: Transition,
    actor: Any,
    critic: Ensemble,
    value: Ensemble,
    normalise: bool,
    actor_optimiser: Optimiser,
    critic_optimiser: Optimiser,
) -> State:
    """The first state of an agent whose networks are given; Q and V share an optimiser."""
    params = Params(Normaliser.fit(data.obs, normalise), actor, critic, critic, value)
    opt = OptState(actor_optimiser.init(actor), critic_optimiser.init(critic), critic_optimiser.init(value))
    return State(jnp.int32(0), params, opt)


def advance(
    state: State, actor: Any, critic: Ensemble, value: Ensemble, opt: OptState, critic_rate: Array | float
) -> State:
    """The state after an update: the critic's moving average follows at its rate."""
    critic_target = polyak(state.params.critic_target, critic, critic_rate)
    params = Params(state.params.normaliser, actor, critic, critic_target, value)
    return State(state.step + 1, params, opt)
