"""Operations on a stack of members, carried out for each member where they can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtp.onnx_graph import functions, layout, sums
from gtp.onnx_graph.values import Shape, Stacked, Sum, fixed, is_fixed, pad, rank_of
from gtp.onnx_graph.writer import Writer

AWARE = {"dot_general", *functions.REDUCTIONS}
"""Whose rules know stacks."""
ELEMENTWISE = {
    *("mish", "layer_norm"),
    *functions.UNARY,
    *functions.BINARY,
    *(sums.RULES.keys() - {"dot_general"}),
}
"""Which mean for each member what they mean for the stack; layer norm too, whose axis is never theirs."""


def each(
    writer: Writer, name: str, rule: Callable[..., Any], params: Any, values: Any, shapes: Any, target: Shape
) -> Any:
    """An operation on values some of which are stacks; None where they must first be carried out."""
    stacks = [v for v in values if isinstance(v, Stacked)]
    if name in ELEMENTWISE:
        return _elementwise(writer, rule, params, values, shapes, target)
    if name == "transpose":
        return _transpose(stacks[0], params["permutation"])
    if name == "broadcast_in_dim":
        return _new_axes(writer, stacks[0], params["broadcast_dimensions"], target)
    if name == "squeeze":
        return _squeeze(writer, stacks[0], params["dimensions"], target)
    return None


def _elementwise(
    writer: Writer, rule: Callable[..., Any], params: Any, values: Any, shapes: Any, target: Shape
) -> Stacked | None:
    stacks = [v for v in values if isinstance(v, Stacked)]
    axis, count = stacks[0].axis, len(stacks[0].parts)
    if any((v.axis, len(v.parts)) != (axis, count) for v in stacks):
        return None
    members = [_members(v, axis, len(target), count) for v in values]
    if any(m is None for m in members):
        return None
    thin = [_without(s, axis) if len(s) == len(target) else s for s in shapes]
    left = _without(target, axis)
    parts = [rule(writer, params, list(m), thin, left) for m in zip(*members, strict=True)]
    return Stacked(parts, left, axis)


def _members(value: Any, axis: int, rank: int, count: int) -> list[Sum] | None:
    """What each member has of a value; None if that takes a node."""
    if isinstance(value, Stacked):
        return value.parts
    if is_fixed(value):
        if value.constant.ndim < rank - axis:
            return [value] * count
        array = value.constant.reshape(pad(value.constant.shape, rank))
        spread = np.broadcast_to(array, (*array.shape[:axis], count, *array.shape[axis + 1 :]))
        return [fixed(part) for part in np.moveaxis(spread, axis, 0)]
    return [value] * count if isinstance(value, Sum) and rank_of(value) < rank - axis else None


def _transpose(stack: Stacked, permutation: Any) -> Stacked | None:
    others = [i for i in permutation if i != stack.axis]
    return stack._replace(axis=list(permutation).index(stack.axis)) if others == sorted(others) else None


def _new_axes(writer: Writer, stack: Stacked, where: Any, target: Shape) -> Stacked:
    axis = where[stack.axis]
    places = {"broadcast_dimensions": [i - (i > axis) for i in where if i != axis]}
    left = _without(target, axis)
    parts = [layout.broadcast_in_dim(writer, places, [p], [stack.shape], left) for p in stack.parts]
    return Stacked(parts, left, axis)


def _squeeze(writer: Writer, stack: Stacked, axes: Any, target: Shape) -> Stacked | None:
    if stack.axis in axes:
        return None
    places = {"dimensions": [i - (i > stack.axis) for i in axes]}
    axis = stack.axis - sum(i < stack.axis for i in axes)
    left = _without(target, axis)
    parts = [layout.squeeze(writer, places, [p], [stack.shape], left) for p in stack.parts]
    return Stacked(parts, left, axis)


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])
