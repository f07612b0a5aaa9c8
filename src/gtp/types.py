"""The two shapes everything agrees on: a batch of transitions, and an agent made of pure functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

Array = Any
"""A numpy or JAX array; the shapes are in the docstrings."""

Metrics = dict[str, Array]
"""Scalars an update reports, by name."""

Rule = Literal["single", "softmax", "argmax", "average"]
"""One sample of the policy; or of several candidates the target critic draws one with odds exp Q, takes the
best, or averages them with weights exp Q, which is the mean of the policy that softmax draws from."""

RULES: tuple[Rule, ...] = get_args(Rule)
"""What an agent with a critic can act by."""


class Transition(NamedTuple):
    """Rows of (s, a, r, s'), one leading axis for the rows."""

    obs: Array
    """s, the observation: float32 (rows, features) or uint8 (rows, height, width, channels)."""
    action: Array
    """a, scaled to [-1, 1]."""
    reward: Array
    """r."""
    next_obs: Array
    """s'."""
    next_action: Array
    """The action the data took in s'; the row's own action where that is not known."""
    bootstrap: Array
    """1 where the value of s' counts, 0 where the episode truly ended. A time-out is 1."""


class State(NamedTuple):
    """All an agent knows, arrays only; one leading axis more when several seeds train together."""

    step: Array
    """Updates done so far."""
    params: Any
    """What acting needs: networks, their moving averages, the observation normaliser."""
    opt: Any
    """What only training needs: optimiser moments."""


class Acting(NamedTuple):
    """How a policy turns into one action; every score says which of these it was taken with."""

    rule: Rule = "single"
    """One sample (the paper's words), or what the target critic makes of several candidates."""
    candidates: int = 1
    """Samples the critic sees; 1 for `single`."""
    sampling_steps: int | None = None
    """K; None takes the agent's own."""
    weights: Literal["online", "ema"] = "online"
    """Act with the trained actor or with its moving average θ⁻."""


class Agent(NamedTuple):
    """An algorithm as pure functions, in the manner of `optax.GradientTransformation`."""

    init: Callable[[Array, Transition], State]
    """(key, data) -> State; the data give shapes and the observation normaliser."""
    update: Callable[[State, Transition, Array], tuple[State, Metrics]]
    """(state, batch, key) -> State, Metrics; one gradient step of everything."""
    act: Callable[[Any, Array, Array, Acting], Array]
    """(params, obs, key, acting) -> actions in [-1, 1], batched over the first axis of obs."""
    rules: tuple[str, ...]
    """Acting rules this agent knows."""
    q: Callable[[Any, Array, Array], Array] | None = None
    """(params, obs, action) -> the critic's cautious value, one number a row; None without a critic."""
