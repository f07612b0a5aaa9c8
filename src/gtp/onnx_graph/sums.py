"""Arithmetic that stays a sum: additions, and products with constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtp.onnx_graph.values import NONE, ONE, Shape, Stacked, Sum, Term, Value, fixed, is_fixed, plain, strip
from gtp.onnx_graph.writer import Writer


def add(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
    """X + y, terms of one tensor together."""
    x, y = (v if isinstance(v, Sum) else plain(writer.tensor(v)) for v in values)
    terms: dict[Any, Term] = {}
    for term in (*x.terms, *y.terms):
        key = term.tensor.name, term.is_matrix
        factor = terms[key].factor + term.factor if key in terms else term.factor
        terms[key] = Term(term.tensor, factor, term.is_matrix)
    return Sum(tuple(terms.values()), x.constant + y.constant)


def sub(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
    """X − y."""
    return add(writer, params, [values[0], scale(writer, values[1], -ONE)], shapes, target)


def neg(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
    """−x."""
    return scale(writer, values[0], -ONE)


def mul(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
    """x·y, a sum still if one of them is a constant."""
    x, y = values[::-1] if is_fixed(values[0]) else values
    if is_fixed(y):
        return scale(writer, x, y.constant)
    return plain(writer.elementwise("Mul", writer.tensor(x), writer.tensor(y)))


def div(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
    """x/y, a sum still if y is a constant."""
    x, y = values
    if is_fixed(y) and y.constant.dtype.kind == "f":
        return scale(writer, x, 1 / y.constant)
    return plain(writer.elementwise("Div", writer.tensor(x), writer.tensor(y)))


def scale(writer: Writer, value: Value, factor: np.ndarray) -> Sum:
    """A value times a constant."""
    if not isinstance(value, Sum):
        value = plain(writer.tensor(value))
    factor = factor.reshape(strip(factor.shape))
    if not value.terms:
        return fixed(value.constant * factor)
    if factor.ndim > 1:
        return plain(writer.elementwise("Mul", writer.tensor(value), writer.store(factor)))
    terms = (t._replace(factor=t.factor * factor) for t in value.terms)
    return Sum(tuple(terms), value.constant * factor)


def dot_general(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Value:
    """A product with a constant matrix, with one for each member of an ensemble, or any other."""
    (left, right), (left_batch, right_batch) = params["dimension_numbers"]
    x, w = values
    if is_fixed(w) and not (left_batch or right_batch) and tuple(left) == (len(shapes[0]) - 1,):
        matrix = np.moveaxis(np.broadcast_to(w.constant, shapes[1]), right[0], 0)
        if matrix.ndim == 3 and not is_fixed(x):
            x, axis = single(writer, x), len(target) - 2
            parts = [times_matrix(writer, x, matrix[:, i], matrix.shape[2:]) for i in range(matrix.shape[1])]
            return Stacked(parts, (*target[:axis], *target[axis + 1 :]), axis)
        return times_matrix(writer, x, matrix.reshape(matrix.shape[0], -1), matrix.shape[1:])
    ensemble = tuple(left_batch) == tuple(right_batch) == (0,) and len(shapes[1]) == 3
    if is_fixed(w) and ensemble and tuple(left) == (len(shapes[0]) - 1,):
        matrices = np.broadcast_to(w.constant, shapes[1])
        if isinstance(x, Stacked) and x.axis == 0:
            pairs = zip(x.parts, np.moveaxis(matrices, right[0], 1), strict=True)
            parts = [times_matrix(writer, part, matrix, matrix.shape[1:]) for part, matrix in pairs]
            return Stacked(parts, target[1:], 0)
        return times_matrices(writer, x, matrices, right[0], shapes[0], target)
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    one = [next(letters) for _ in shapes[0]]
    two = [next(letters) for _ in shapes[1]]
    for i, j in zip((*left, *left_batch), (*right, *right_batch), strict=True):
        two[j] = one[i]
    free = [a for i, a in enumerate(one) if i not in (*left, *left_batch)]
    free += [a for j, a in enumerate(two) if j not in (*right, *right_batch)]
    equation = f"{''.join(one)},{''.join(two)}->{''.join([*(one[i] for i in left_batch), *free])}"
    operands = [writer.full(v, s) for v, s in zip(values, shapes, strict=True)]
    return plain(writer.emit("Einsum", operands, target, equation=equation))


def single(writer: Writer, x: Any) -> Sum:
    """A value that is one tensor of rows, scaled, plus a constant row: what can go into a product."""
    x = writer.settle(x)
    if not isinstance(x, Sum) or np.ndim(x.constant) > 1 or len(x.terms[0].tensor.shape) < 2:
        return plain(writer.tensor(x))
    return x


def times_matrix(writer: Writer, x: Any, matrix: np.ndarray, free: Shape) -> Sum:
    """X @ matrix on the last axis."""
    if is_fixed(x):
        row = np.broadcast_to(x.constant, (*x.constant.shape[:-1], matrix.shape[0]))
        return fixed((row @ matrix).reshape(*row.shape[:-1], *free))
    x = single(writer, x)
    ((tensor, factor, _),) = x.terms
    if tensor.shape[-1] != matrix.shape[0]:
        tensor = writer.full(plain(tensor), (*tensor.shape[:-1], matrix.shape[0]))
    rows = np.broadcast_to(factor, matrix.shape[:1])[:, None]
    product = Sum(
        (Term(tensor, rows * matrix, True),),
        np.broadcast_to(x.constant, matrix.shape[:1]) @ matrix if np.any(x.constant) else NONE,
    )
    if len(free) == 1:
        return product
    y = writer.tensor(product)
    return plain(writer.reshape(y, (*y.shape[:-1], *free)))


def times_matrices(
    writer: Writer, x: Any, matrices: np.ndarray, axis: int, shape: Shape, target: Shape
) -> Sum:
    """The members of an ensemble, each with a matrix of its own; rows are made one axis for speed."""
    weights = np.moveaxis(matrices, axis, 1)
    rows = shape[1:-1]
    flat = (
        rows[0] if len(rows) == 1 else "rows" if any(isinstance(d, str) for d in rows) else int(np.prod(rows))
    )
    y = writer.reshape(writer.full(x, shape), (shape[0], flat, shape[-1]))
    y = writer.emit("MatMul", [y, writer.store(weights)], (shape[0], flat, weights.shape[-1]))
    return plain(writer.reshape(y, target))


RULES = {
    "add": add,
    "add_any": add,
    "sub": sub,
    "neg": neg,
    "mul": mul,
    "div": div,
    "dot_general": dot_general,
}
