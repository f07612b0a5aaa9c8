"""What agents with a twin critic and a moving average of both networks have in common: their bookkeeping."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from gtp import values
from gtp.nn import Ensemble, Normaliser
from gtp.optim import Optimiser, adam, polyak
from gtp.types import Array, Metrics, State, Transition


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


def optimisers(
    actor_lr: Array | float, critic_lr: Array | float, grad_clip: Array | float = 0.0
) -> Optimisers:
    """Adam for both, behind the same gradient clip; 0 is none."""
    return Optimisers(adam(actor_lr, grad_clip), adam(critic_lr, grad_clip))


def init(
    key: Array, data: Transition, actor: Any, hidden: tuple[int, ...], normalise: bool, optimisers: Optimisers
) -> State:
    """The first state of an agent whose actor is given: a fresh twin critic beside it."""
    critic = Ensemble(key, data.obs.shape[1:], data.action.shape[-1], hidden)
    return first_state(data, actor, critic, normalise, optimisers)


def first_state(
    data: Transition, actor: Any, critic: Ensemble, normalise: bool, optimisers: Optimisers
) -> State:
    """The first state of an agent whose networks are both given."""
    params = Params(Normaliser.fit(data.obs, normalise), actor, actor, critic, critic)
    opt = OptState(optimisers.actor.init(actor), optimisers.critic.init(critic))
    return State(jnp.int32(0), params, opt)


def fit_critic(
    state: State,
    optimiser: Optimiser,
    batch: Transition,
    next_actions: Array,
    discount: Array | float,
    normalise: bool = False,
) -> tuple[Ensemble, Any, Metrics]:
    """One step towards r + γ·min_j Q⁻_j(s', a'), the best of several a' (candidates, batch, action).

    `normalise` divides the target by its batch standard deviation.
    """
    params = state.params
    next_value = values.backup_value(params.critic_target(batch.next_obs, next_actions))
    target = values.td_target(batch.reward, batch.bootstrap, next_value, discount)
    if normalise:
        target = target / (jnp.std(target) + 1e-6)
    return values.fit_critic(params.critic, state.opt.critic, optimiser, batch, target)


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
