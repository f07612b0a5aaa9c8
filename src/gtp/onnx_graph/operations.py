"""The equations of a graph as operations, a known function's equations as one."""

from __future__ import annotations

from collections.abc import Callable
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


def recognise(name: str, function: Callable[..., Any], equations: list[Any]) -> list[Operation]:
    """The equations as operations, those of `function` wherever they stand in a row as one."""
    pattern = graphs.trace(function, jax.ShapeDtypeStruct((1,), np.float32))
    count, found, i = len(pattern.equations), [], 0
    while i < len(equations):
        match = _match(pattern, equations[i : i + count])
        if match is not None:
            found.append(Operation(name, [match], equations[i + count - 1].outvars, {}))
            i += count
            continue
        eqn = equations[i]
        params = dict(eqn.params)
        if eqn.primitive.name == "convert_element_type":
            params["old_kind"] = np.dtype(eqn.invars[0].aval.dtype).kind
        found.append(Operation(eqn.primitive.name, eqn.invars, eqn.outvars, params))
        i += 1
    return found


def _match(pattern: graphs.Graph, window: list[Any]) -> Any:
    """The variable that the pattern's input stands for, or None."""
    if len(window) != len(pattern.equations):
        return None
    seen: dict[Any, Any] = {}
    for ours, theirs in zip(pattern.equations, window, strict=True):
        if ours.primitive is not theirs.primitive:
            return None
        for a, b in zip((*ours.invars, *ours.outvars), (*theirs.invars, *theirs.outvars), strict=True):
            if isinstance(a, Literal) or isinstance(b, Literal):
                if not (isinstance(a, Literal) and isinstance(b, Literal) and a.val == b.val):
                    return None
            elif seen.setdefault(a, b) is not b:
                return None
    return seen[pattern.inputs[0]]
