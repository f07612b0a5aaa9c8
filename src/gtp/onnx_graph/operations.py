"""The equations of a graph as operations, a known function's equations as one."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import Literal

from gtp import graph as graphs


class Operation(NamedTuple):
    """A JAX equation, or several recognised as one function."""

    name: str
    inputs: list[Any]
    outputs: list[Any]
    params: dict[str, Any]


def recognise(functions: Mapping[str, Callable[..., Any]], graph: graphs.Graph) -> list[Operation]:
    """A graph's operations; equations of a function of one value that stand in a row are one."""
    uses = _uses(graph.equations) + Counter(graph.outputs)
    found, i = [], 0
    while i < len(graph.equations):
        operation, count = _known(functions, graph.equations[i:], uses) or (_as_it_is(graph.equations[i]), 1)
        found.append(operation)
        i += count
    return found


def _known(
    functions: Mapping[str, Callable[..., Any]], equations: list[Any], uses: Counter
) -> tuple[Operation, int] | None:
    """The function that the equations begin with, and how many are its own."""
    shape = equations[0].invars[0].aval.shape if equations[0].invars else ()
    size = shape[-1] if shape and isinstance(shape[-1], int) else 1
    for name, function in functions.items():
        pattern = _pattern(function, size)
        window = equations[: len(pattern.equations)]
        match = _match(pattern, window)
        if match is not None and _keeps_to_itself(window, uses):
            return Operation(name, [match], window[-1].outvars, {}), len(window)
    return None


def _keeps_to_itself(window: list[Any], uses: Counter) -> bool:
    """Whether nobody else needs what the equations compute on the way to their result."""
    inside = _uses(window)
    return all(uses[variable] == inside[variable] for eqn in window[:-1] for variable in eqn.outvars)


def _uses(equations: list[Any]) -> Counter:
    return Counter(a for eqn in equations for a in eqn.invars if not isinstance(a, Literal))


@functools.cache
def _pattern(function: Callable[..., Any], size: int) -> graphs.Graph:
    """Equations of a function of a value whose last axis is of this size, which a mean divides by."""
    return graphs.trace(function, jax.ShapeDtypeStruct((size,), np.float32))


def _as_it_is(eqn: Any) -> Operation:
    params = dict(eqn.params)
    if eqn.primitive.name == "convert_element_type":
        params["old_kind"] = np.dtype(eqn.invars[0].aval.dtype).kind
    return Operation(eqn.primitive.name, eqn.invars, eqn.outvars, params)


def _match(pattern: graphs.Graph, window: list[Any]) -> Any:
    """The variable that the pattern's input stands for, or None."""
    if len(window) != len(pattern.equations):
        return None
    seen: dict[Any, Any] = {}
    for ours, theirs in zip(pattern.equations, window, strict=True):
        if ours.primitive is not theirs.primitive or _settings(ours) != _settings(theirs):
            return None
        for a, b in zip((*ours.invars, *ours.outvars), (*theirs.invars, *theirs.outvars), strict=True):
            if isinstance(a, Literal) or isinstance(b, Literal):
                if not (isinstance(a, Literal) and isinstance(b, Literal) and a.val == b.val):
                    return None
            elif seen.setdefault(a, b) is not b:
                return None
    return seen[pattern.inputs[0]]


def _settings(eqn: Any) -> tuple[Any, list[int]]:
    """What does not depend on the shape: a power, and the axes of a reduction counted from the last."""
    axes = [axis - len(eqn.invars[0].aval.shape) for axis in eqn.params.get("axes", ())]
    return eqn.params.get("y"), axes
