"""Writes the nodes of an ONNX file: what sums become when they can wait no longer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from gtp.errors import UserError
from gtp.onnx_graph.values import NONE, Joined, Shape, Stacked, Sum, Tensor, Value, broadcast, plain


class Writer:
    """Nodes and constants of a file in the making."""

    def __init__(self, batch_of: str) -> None:
        """`batch_of` is the input whose first axis is the batch."""
        self.batch_of = batch_of
        self.nodes: list[Any] = []
        self.initialisers: dict[Any, Any] = {}

    def emit(self, kind: str, inputs: Sequence[Tensor], shape: Shape, **attributes: Any) -> Tensor:
        """A node with one output, of this shape."""
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, [x.name for x in inputs], [name], **attributes))
        return Tensor(name, tuple(shape))

    def rename(self, x: Tensor, name: str) -> None:
        """Call the file's result what it is."""
        made = [node for node in self.nodes if x.name in node.output]
        if not made:
            self.nodes.append(helper.make_node("Identity", [x.name], [name]))
        for node in self.nodes if made else []:
            for names in (node.input, node.output):
                names[:] = [name if n == x.name else n for n in names]

    def store(self, array: Any) -> Tensor:
        """A constant in the file, once however often it is used."""
        array = np.asarray(array)
        kind = (
            np.float32 if array.dtype.kind == "f" else np.int64 if array.dtype.kind in "iu" else array.dtype
        )
        array = np.ascontiguousarray(array, kind).reshape(array.shape)
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self.initialisers:
            self.initialisers[key] = numpy_helper.from_array(array, f"constant{len(self.initialisers)}")
        return Tensor(self.initialisers[key].name, array.shape)

    def elementwise(self, kind: str, *inputs: Tensor, **attributes: Any) -> Tensor:
        """A node whose inputs broadcast."""
        return self.emit(kind, inputs, broadcast(*(x.shape for x in inputs)), **attributes)

    def tensor(self, value: Value) -> Tensor:
        """Carry out a sum, as Gemm nodes where it can be."""
        if isinstance(value, Joined):
            return self.join(value)
        if isinstance(value, Stacked):
            return self.stack(value)
        terms, constant = value
        if not terms:
            return self.store(constant)
        rows, matrices = [t for t in terms if not t.is_matrix], [t for t in terms if t.is_matrix]
        total, beta = None, 1.0
        if len(rows) == 1 and matrices and not np.any(constant) and np.ndim(rows[0].factor) == 0:
            # One scaled tensor rides on the Gemm as beta·C.
            shapes = rows[0].tensor.shape, (*matrices[0].tensor.shape[:-1], matrices[0].factor.shape[1])
            if shapes[0] == shapes[1] and len(shapes[1]) == 2:
                total, beta, rows = rows[0].tensor, float(rows[0].factor), []
        if np.any(constant):
            total = self.store(constant)
        for tensor, factor, _ in rows:
            if total is not None and np.all(factor == -1):
                total = self.elementwise("Sub", total, tensor)
                continue
            part = tensor if np.all(factor == 1) else self.elementwise("Mul", tensor, self.store(factor))
            total = part if total is None else self.elementwise("Add", total, part)
        for tensor, matrix, _ in matrices:
            weights, shape = self.store(matrix), (*tensor.shape[:-1], matrix.shape[1])
            if len(shape) == 2 and (total is None or total.shape in (shape, shape[1:], ())):
                bias = [] if total is None else [total]
                total = self.emit("Gemm", [tensor, weights, *bias], shape, **({"beta": beta} if bias else {}))
            elif len(shape) > 2 and total is not None and total.shape == shape[-1:]:
                # A Gemm adds the bias on its way, but knows two axes only.
                flat = self.reshape(tensor, ("rows", tensor.shape[-1]))
                flat = self.emit("Gemm", [flat, weights, total], ("rows", shape[-1]))
                total = self.reshape(flat, shape)
            else:
                product = self.emit("MatMul", [tensor, weights], shape)
                total = product if total is None else self.elementwise("Add", product, total)
            beta = 1.0
        assert total is not None
        return total

    def settle(self, value: Value) -> Value:
        """What several operations use is computed once; a constant beside it may still wait."""
        if isinstance(value, Stacked):
            parts: Any = [self.settle(part) for part in value.parts]
            return value._replace(parts=parts)
        if isinstance(value, Joined) or not value.terms:
            return value
        if len(value.terms) == 1 and not value.terms[0].is_matrix:
            return value
        return Sum(plain(self.tensor(Sum(value.terms, NONE))).terms, value.constant)

    def join(self, value: Joined) -> Tensor:
        """Carry out a concatenation."""
        rank = len(value.shapes[0])
        parts = [self.full(p, s) for p, s in zip(value.parts, value.shapes, strict=True)]
        shape = list(value.shapes[0])
        shape[value.axis] = sum(s[value.axis] for s in value.shapes)
        assert all(len(p.shape) == rank for p in parts)
        return self.emit("Concat", parts, tuple(shape), axis=value.axis)

    def stack(self, value: Stacked) -> Tensor:
        """Carry out a stack."""
        axis = value.axis
        thin = (*value.shape[:axis], 1, *value.shape[axis:])
        places = self.store(np.asarray([axis], np.int64))
        parts = [self.emit("Unsqueeze", [self.full(p, value.shape), places], thin) for p in value.parts]
        return self.emit("Concat", parts, (*thin[:axis], len(parts), *thin[axis + 1 :]), axis=axis)

    def ranked(self, value: Value, rank: int) -> Tensor:
        """A tensor with all its axes, those that only broadcast of size 1."""
        x = self.tensor(value)
        missing = rank - len(x.shape)
        if missing <= 0:
            return x
        return self.emit("Unsqueeze", [x, self.store(np.arange(missing))], (*[1] * missing, *x.shape))

    def full(self, value: Value, shape: Shape) -> Tensor:
        """A tensor of exactly this shape."""
        x = self.tensor(value)
        if x.shape == shape:
            return x
        padded = (1,) * (len(shape) - len(x.shape)) + x.shape
        # Expand broadcasts both ways, so a symbolic axis that is there already needs no size.
        sizes = [1 if have == want else want for have, want in zip(padded, shape, strict=True)]
        return self.emit("Expand", [x, self.sizes(sizes)], shape)

    def sizes(self, shape: Sequence[Any]) -> Tensor:
        """A shape as a tensor; the batch's size is read off the observations."""
        if all(isinstance(d, int) for d in shape):
            return self.store(np.asarray(shape, np.int64))
        batch = self.emit("Shape", [Tensor(self.batch_of, ())], (1,), start=0, end=1)
        parts = [self.store(np.asarray([d], np.int64)) if isinstance(d, int) else batch for d in shape]
        return self.emit("Concat", parts, (len(shape),), axis=0)

    def reshape(self, x: Tensor, shape: Shape) -> Tensor:
        """A tensor with its numbers in another shape, one size of which may be unknown."""
        if x.shape == shape:
            return x
        if sum(isinstance(d, str) for d in shape) > 1:
            raise UserError(f"export to ONNX cannot reshape to {shape}")
        sizes = np.asarray([-1 if isinstance(d, str) else d for d in shape], np.int64)
        return self.emit("Reshape", [x, self.store(sizes)], shape)

    def transpose(self, x: Tensor, permutation: Sequence[int]) -> Tensor:
        """A tensor with its axes in another order."""
        if list(permutation) == sorted(permutation):
            return x
        shape = tuple(x.shape[i] for i in permutation)
        return self.emit("Transpose", [x], shape, perm=[int(i) for i in permutation])
