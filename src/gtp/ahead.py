"""Work of an update that need not wait for the state: random numbers, batches, noise levels.

An update is a long chain of small operations, and on an accelerator each costs a launch however small it is.
All that depends on nothing but the step, the batch and the key can be computed for many updates at once, in a
few fat operations. `split` finds it by reading the traced program, so that agents are written as if there was
nothing to find.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
from jax.extend.core import Literal

from gtp.types import Array, Metrics, State, Transition

FIXED, AHEAD, NOW = range(3)
"""What an operation waits for: nothing that changes, the update's number and draws, or the state."""

CHEAP = ("broadcast_in_dim", "convert_element_type", "reshape")
"""Operations that may make more bytes of fewer: they are repeated, rather than their results handed over."""


class Split(NamedTuple):
    """An update in two parts: now(state, ahead(state, step, batch, key)) is update(state, batch, key)."""

    ahead: Callable[[State, Array, Transition, Array], list[Array]]
    """Needs of the state only what no update changes, so that any state of the run will do."""
    now: Callable[[State, list[Array]], tuple[State, Metrics]]
    metrics: tuple[str, ...]
    """Names of what an update reports."""


def split(
    update: Callable[[State, Transition, Array], tuple[State, Metrics]],
    state: State,
    batch: Transition,
    key: Array,
) -> Split:
    """Split an update for arguments like these (arrays, tracers or shapes)."""
    traced, shape = jax.make_jaxpr(update, return_shape=True)(state, batch, key)
    program, structure = traced.jaxpr, jax.tree.structure(shape)
    size = len(jax.tree.leaves(state))
    before, after = program.invars[:size], program.outvars[:size]
    outputs = [v for v in program.outvars if not isinstance(v, Literal)]

    waits = dict.fromkeys(program.constvars, FIXED) | dict.fromkeys(program.invars, AHEAD)
    # What an update hands on untouched, such as the observation normaliser, is fixed for the whole run. The
    # step comes first in a state, and counts.
    for old, new in list(zip(before, after, strict=True))[1:]:
        waits[old] = FIXED if new is old else NOW
    parts: tuple[list, list, list] = ([], [], [])
    for equation in program.eqns:
        kind = max((waits[v] for v in read_by(equation)), default=FIXED)
        kind = NOW if equation.effects else kind
        waits |= dict.fromkeys(equation.outvars, kind)
        parts[kind].append(equation)
    asked = dict.fromkeys(v for e in parts[NOW] for v in read_by(e)) | dict.fromkeys(outputs)
    handed = [v for v in asked if waits[v] == AHEAD]
    repeated = []
    for equation in reversed(parts[AHEAD]):
        if equation.primitive.name in CHEAP and equation.outvars[0] in handed:
            handed.remove(equation.outvars[0])
            handed += [v for v in read_by(equation) if waits[v] == AHEAD and v not in handed]
            repeated.insert(0, equation)
    parts[NOW][:0] = repeated

    def known(state: State) -> dict[Any, Array]:
        values = dict(zip(program.constvars, traced.consts, strict=True))
        values |= zip(before, jax.tree.leaves(state), strict=True)
        return run(parts[FIXED], values)

    def ahead(state: State, step: Array, batch: Transition, key: Array) -> list[Array]:
        values = known(state) | {before[0]: step}
        values |= zip(program.invars[size:], jax.tree.leaves((batch, key)), strict=True)
        return read(run(parts[AHEAD], values), handed)

    def now(state: State, results: list[Array]) -> tuple[State, Metrics]:
        values = known(state) | dict(zip(handed, results, strict=True))
        return jax.tree.unflatten(structure, read(run(parts[NOW], values), program.outvars))

    return Split(ahead, now, tuple(shape[1]))


def read_by(equation: Any) -> list[Any]:
    """The variables an equation reads."""
    return [v for v in equation.invars if not isinstance(v, Literal)]


def read(values: dict[Any, Array], variables: Iterable[Any]) -> list[Array]:
    """Values of variables; a literal carries its own."""
    return [v.val if isinstance(v, Literal) else values[v] for v in variables]


def run(equations: list, values: dict[Any, Array]) -> dict[Any, Array]:
    """Evaluate equations in order, adding their results to `values`."""
    for e in equations:
        results = e.primitive.bind(*read(values, e.invars), **e.primitive.get_bind_params(e.params))
        values |= zip(e.outvars, results if e.primitive.multiple_results else [results], strict=True)
    return values
