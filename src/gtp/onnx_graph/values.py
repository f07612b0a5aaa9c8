"""Values of a graph as they are while a file is written: sums held back, and how their shapes broadcast."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

ONE, NONE = np.ones(()), np.zeros(())

Shape = tuple[Any, ...]
"""Sizes of axes; a size known only when the file runs is a string."""


class Tensor(NamedTuple):
    """A tensor of the file; numpy's rules broadcast it to the value it stands for."""

    name: str
    shape: Shape


class Term(NamedTuple):
    """A tensor times a constant: a matrix on its last axis, or a scalar or row of scales."""

    tensor: Tensor
    factor: np.ndarray
    is_matrix: bool = False


class Sum(NamedTuple):
    """Terms plus a constant. Without terms it is a constant, and may then be of any type."""

    terms: tuple[Term, ...]
    constant: np.ndarray


class Joined(NamedTuple):
    """A concatenation not yet carried out: who picks one part never pays for the others."""

    parts: list[Sum]
    shapes: list[Shape]
    axis: int


class Stacked(NamedTuple):
    """Members of an ensemble, each still by itself: its matrix then has a Gemm of its own, bias included."""

    parts: list[Sum]
    shape: Shape
    """Of each part: without the axis that counts the members."""
    axis: int


Value = Sum | Joined | Stacked


def plain(tensor: Tensor) -> Sum:
    """A tensor as it is."""
    return Sum((Term(tensor, ONE),), NONE)


def fixed(value: Any) -> Sum:
    """Sums are folded in double precision and stored in single."""
    array = np.asarray(value)
    array = array.astype(np.float64) if array.dtype.kind == "f" else array
    return Sum((), array.reshape(strip(array.shape)))


def is_fixed(value: Any) -> bool:
    """Whether a value is a constant."""
    return isinstance(value, Sum) and not value.terms


def rank_of(value: Sum) -> int:
    """Axes that the tensors of a value really have."""
    return max(value.constant.ndim, *(len(t.tensor.shape) for t in value.terms), 0)


def strip(shape: Shape) -> Shape:
    """Without axes of size 1 in front."""
    while shape and shape[0] == 1:
        shape = shape[1:]
    return tuple(shape)


def pad(shape: Shape, rank: int) -> Shape:
    """With axes of size 1 in front, up to so many."""
    return (*[1] * (rank - len(shape)), *shape)


def broadcast(*shapes: Shape) -> Shape:
    """The shape of what several make together."""
    rank = max(len(s) for s in shapes)
    columns = zip(*(pad(s, rank) for s in shapes), strict=True)
    return tuple(next((d for d in column if d != 1), 1) for column in columns)
