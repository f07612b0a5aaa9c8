"""What agents with a twin critic and a moving average of both networks have in common: their bookkeeping."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from gtp.nn import Ensemble, Normaliser
from gtp.optim import Optimiser, polyak
from gtp.types import Array, State, Transition


class Params(NamedTuple):
    """Networks with their moving averages, and the observation normaliser."""

    normaliser: Normaliser
    actor: Any
    actor_target: Any
    critic: Ensemble
    critic_target: Ensemble


class OptState(NamedTuple):
    """Adam's moments."""

    actor: Any
    critic: Any


class Optimisers(NamedTuple):
    """One for each network."""

    actor: Optimiser
    critic: Optimiser


def init(
    key: Array, data: Transition, actor: Any, hidden: tuple[int, ...], normalise: bool, optimisers: Optimisers
) -> State:
    """The first state of an agent whose actor is given: a fresh twin critic beside it."""
    critic = Ensemble(key, data.obs.shape[1:], data.action.shape[-1], hidden)
    params = Params(Normaliser.fit(data.obs, normalise), actor, actor, critic, critic)
    opt = OptState(optimisers.actor.init(actor), optimisers.critic.init(critic))
    return State(jnp.int32(0), params, opt)


def advance(
    state: State,
    actor: Any,
    critic: Ensemble,
    opt: OptState,
    actor_rate: Array | float,
    critic_rate: Array | float,
) -> State:
    """The state after an update: moving averages follow at their rates."""
    old = state.params
    params = Params(
        old.normaliser,
        actor,
        polyak(old.actor_target, actor, actor_rate),
        critic,
        polyak(old.critic_target, critic, critic_rate),
    )
    return State(state.step + 1, params, opt)
