"""From a flat graph of JAX operations to ONNX, with few nodes: at this size a node costs as much as its work.

Values are held back as long as they can be. A sum of tensors, scaled or multiplied by constant matrices, plus
a constant, stays a `Sum` until something bends it; then it becomes a chain of Gemm nodes, and normaliser,
noise levels and biases have vanished into their weights. Broadcasting is left to the operators: a tensor may
have fewer or smaller axes than its value, as numpy's rules allow. Own code, because the general converter we
tried wrote graphs twice as slow.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import onnx
from jax.extend.core import Literal
from onnx import TensorProto, helper, numpy_helper

from gtp import graph as graphs
from gtp import nn
from gtp.errors import UserError

OPSET = 18
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


class Operation(NamedTuple):
    """A JAX equation, or several recognised as one function."""

    name: str
    inputs: list[Any]
    outputs: list[Any]
    params: dict[str, Any]


UNARY: dict[str, tuple[str, Callable[..., Any]]] = {
    "abs": ("Abs", np.abs),
    "ceil": ("Ceil", np.ceil),
    "cos": ("Cos", np.cos),
    "erf": ("Erf", np.vectorize(math.erf, otypes=[float])),
    "exp": ("Exp", np.exp),
    "floor": ("Floor", np.floor),
    "log": ("Log", np.log),
    "logistic": ("Sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    "not": ("Not", np.logical_not),
    "sign": ("Sign", np.sign),
    "sin": ("Sin", np.sin),
    "sqrt": ("Sqrt", np.sqrt),
    "tanh": ("Tanh", np.tanh),
}
BINARY: dict[str, tuple[str, Callable[..., Any]]] = {
    "and": ("And", np.logical_and),
    "eq": ("Equal", np.equal),
    "ge": ("GreaterOrEqual", np.greater_equal),
    "gt": ("Greater", np.greater),
    "le": ("LessOrEqual", np.less_equal),
    "lt": ("Less", np.less),
    "max": ("Max", np.maximum),
    "min": ("Min", np.minimum),
    "or": ("Or", np.logical_or),
    "pow": ("Pow", np.power),
}
WHOLE: dict[str, tuple[str, Callable[..., Any]]] = {
    "add": ("Add", np.add),
    "mul": ("Mul", np.multiply),
    "sub": ("Sub", np.subtract),
}
"""Arithmetic of whole numbers, which no sum folds."""
REDUCTIONS = {"reduce_max": "ReduceMax", "reduce_min": "ReduceMin", "reduce_sum": "ReduceSum"}
SAME = {"copy", "copy_p", "stop_gradient", "optimization_barrier", "reduce_precision", "sharding_constraint"}


def to_onnx(
    graph: graphs.Graph, inputs: Sequence[str], output: str, metadata: dict[str, str]
) -> onnx.ModelProto:
    """An ONNX model of a graph with one output; axes of size 1 in front of an input are left out."""
    writer = _Writer()
    for variable, name in zip(graph.inputs, inputs, strict=True):
        shape = _strip(_shape(variable))
        writer.values[variable] = Sum((Term(Tensor(name, shape), ONE),), NONE)
    writer.batch_of = inputs[0]
    for variable, value in graph.constants.items():
        writer.values[variable] = _constant(value)
    operations = _recognise("mish", nn.mish, graph.equations)
    uses = Counter(a for op in operations for a in op.inputs if not isinstance(a, Literal))
    uses.update(graph.outputs)
    for op in operations:
        results = writer.convert(op)
        for variable, value in zip(op.outputs, results, strict=True):
            writer.values[variable] = writer.settle(value) if uses[variable] > 1 else value
    (variable,) = graph.outputs
    result = writer.full(writer.values[variable], _shape(variable))
    writer.rename(result, output)
    describe = lambda name, v: helper.make_tensor_value_info(name, TensorProto.FLOAT, _strip(_shape(v)))  # noqa: E731
    body = helper.make_graph(
        writer.nodes,
        "policy",
        [describe(name, v) for name, v in zip(inputs, graph.inputs, strict=True)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, _shape(variable))],
        list(writer.initialisers.values()),
    )
    model = helper.make_model(
        body, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8, producer_name="gtp"
    )
    helper.set_model_props(model, metadata)
    onnx.checker.check_model(model)
    return model


class _Writer:
    """Nodes and constants of a file in the making, and the value of every variable."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.initialisers: dict[Any, Any] = {}
        self.values: dict[Any, Sum | Joined] = {}
        self.batch_of = ""

    # Writing ---------------------------------------------------------------------------------------------

    def emit(self, kind: str, inputs: Sequence[Tensor], shape: Shape, **attributes: Any) -> Tensor:
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
        return self.emit(kind, inputs, _broadcast(*(x.shape for x in inputs)), **attributes)

    def tensor(self, value: Sum | Joined) -> Tensor:
        """Carry out a sum, as Gemm nodes where it can be."""
        if isinstance(value, Joined):
            return self.join(value)
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

    def settle(self, value: Sum | Joined) -> Sum | Joined:
        """What several operations use is computed once; a constant beside it may still wait."""
        if isinstance(value, Joined) or not value.terms:
            return value
        if len(value.terms) == 1 and not value.terms[0].is_matrix:
            return value
        return Sum(_plain(self.tensor(Sum(value.terms, NONE))).terms, value.constant)

    def join(self, value: Joined) -> Tensor:
        rank = len(value.shapes[0])
        parts = [self.full(p, s) for p, s in zip(value.parts, value.shapes, strict=True)]
        shape = list(value.shapes[0])
        shape[value.axis] = sum(s[value.axis] for s in value.shapes)
        assert all(len(p.shape) == rank for p in parts)
        return self.emit("Concat", parts, tuple(shape), axis=value.axis)

    def ranked(self, value: Sum | Joined, rank: int) -> Tensor:
        """A tensor with all its axes, those that only broadcast of size 1."""
        x = self.tensor(value)
        missing = rank - len(x.shape)
        if missing <= 0:
            return x
        return self.emit("Unsqueeze", [x, self.store(np.arange(missing))], (*[1] * missing, *x.shape))

    def full(self, value: Sum | Joined, shape: Shape) -> Tensor:
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
        if x.shape == shape:
            return x
        if sum(isinstance(d, str) for d in shape) > 1:
            raise UserError(f"export to ONNX cannot reshape to {shape}")
        sizes = np.asarray([-1 if isinstance(d, str) else d for d in shape], np.int64)
        return self.emit("Reshape", [x, self.store(sizes)], shape)

    def transpose(self, x: Tensor, permutation: Sequence[int]) -> Tensor:
        if list(permutation) == sorted(permutation):
            return x
        shape = tuple(x.shape[i] for i in permutation)
        return self.emit("Transpose", [x], shape, perm=[int(i) for i in permutation])

    # Reading ---------------------------------------------------------------------------------------------

    def convert(self, op: Operation) -> list[Sum | Joined]:
        values: list[Any] = [
            _constant(a.val) if isinstance(a, Literal) else self.values[a] for a in op.inputs
        ]
        shapes, target = [_shape(a) for a in op.inputs], _shape(op.outputs[0])
        name = {"add_any": "add", "split": "split_", "scatter-add": "scatter_add"}.get(op.name, op.name)
        if name in SAME:
            return values
        if name == "split_":
            return self.split(op, values[0], shapes[0])
        if name == "unstack":
            axis, size = op.params["axis"], shapes[0][op.params["axis"]]
            parts = self.split(
                Operation(name, [], [], {"axis": axis, "sizes": [1] * size}), values[0], shapes[0]
            )
            thin = (*shapes[0][:axis], 1, *shapes[0][axis + 1 :])
            return [self.do_squeeze({"dimensions": (axis,)}, [p], [thin], target) for p in parts]
        if name in WHOLE and op.outputs[0].aval.dtype.kind != "f":
            return [self.binary(*WHOLE[name], *values)]
        method = getattr(self, f"do_{name}", None)
        if method is not None:
            return [method(op.params, values, shapes, target)]
        if name in UNARY:
            kind, function = UNARY[name]
            (x,) = values
            return [
                _constant(function(x.constant))
                if _known(x)
                else _plain(self.elementwise(kind, self.tensor(x)))
            ]
        if name in BINARY:
            return [self.binary(*BINARY[name], *values)]
        if name in REDUCTIONS:
            return [self.reduce(REDUCTIONS[name], op.params["axes"], values[0], shapes[0], target)]
        raise UserError(
            f"this policy computes {op.name}, which export to ONNX does not know; --format jax knows it"
        )

    def binary(self, kind: str, function: Callable[..., Any], x: Any, y: Any) -> Sum:
        if _known(x) and _known(y):
            return _constant(function(x.constant, y.constant))
        if kind == "Max" and _known(y) and y.constant.ndim == 0 and y.constant == 0:
            return _plain(self.elementwise("Relu", self.tensor(x)))
        return _plain(self.elementwise(kind, self.tensor(x), self.tensor(y)))

    def reduce(self, kind: str, axes: Any, x: Any, shape: Shape, target: Shape) -> Sum:
        return _plain(
            self.emit(kind, [self.full(x, shape), self.store(np.asarray(axes, np.int64))], target, keepdims=0)
        )

    # Arithmetic that stays a sum --------------------------------------------------------------------------

    def do_add(self, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
        x, y = (v if isinstance(v, Sum) else _plain(self.tensor(v)) for v in values)
        terms: dict[Any, Term] = {}
        for term in (*x.terms, *y.terms):
            key = term.tensor.name, term.is_matrix
            factor = terms[key].factor + term.factor if key in terms else term.factor
            terms[key] = Term(term.tensor, factor, term.is_matrix)
        return Sum(tuple(terms.values()), x.constant + y.constant)

    def do_sub(self, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
        return self.do_add(params, [values[0], self.scale(values[1], -ONE)], shapes, target)

    def do_neg(self, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
        return self.scale(values[0], -ONE)

    def do_mul(self, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
        x, y = values[::-1] if _known(values[0]) else values
        if _known(y):
            return self.scale(x, y.constant)
        return _plain(self.elementwise("Mul", self.tensor(x), self.tensor(y)))

    def do_div(self, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
        x, y = values
        if _known(y) and y.constant.dtype.kind == "f":
            return self.scale(x, 1 / y.constant)
        return _plain(self.elementwise("Div", self.tensor(x), self.tensor(y)))

    def scale(self, value: Sum | Joined, factor: np.ndarray) -> Sum:
        """A value times a constant."""
        if isinstance(value, Joined):
            value = _plain(self.tensor(value))
        factor = factor.reshape(_strip(factor.shape))
        if not value.terms:
            return _constant(value.constant * factor)
        if factor.ndim > 1:
            return _plain(self.elementwise("Mul", self.tensor(value), self.store(factor)))
        terms = (t._replace(factor=t.factor * factor) for t in value.terms)
        return Sum(tuple(terms), value.constant * factor)

    def do_dot_general(self, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
        (left, right), (left_batch, right_batch) = params["dimension_numbers"]
        x, w = values
        if _known(w) and not (left_batch or right_batch) and tuple(left) == (len(shapes[0]) - 1,):
            matrix = np.moveaxis(np.broadcast_to(w.constant, shapes[1]), right[0], 0)
            return self.times_matrix(x, matrix.reshape(matrix.shape[0], -1), matrix.shape[1:])
        ensemble = tuple(left_batch) == tuple(right_batch) == (0,) and len(shapes[1]) == 3
        if _known(w) and ensemble and tuple(left) == (len(shapes[0]) - 1,):
            matrices = np.broadcast_to(w.constant, shapes[1])
            return self.times_matrices(x, matrices, right[0], shapes[0], target)
        letters = iter("abcdefghijklmnopqrstuvwxyz")
        one = [next(letters) for _ in shapes[0]]
        two = [next(letters) for _ in shapes[1]]
        for i, j in zip((*left, *left_batch), (*right, *right_batch), strict=True):
            two[j] = one[i]
        free = [a for i, a in enumerate(one) if i not in (*left, *left_batch)]
        free += [a for j, a in enumerate(two) if j not in (*right, *right_batch)]
        equation = f"{''.join(one)},{''.join(two)}->{''.join([*(one[i] for i in left_batch), *free])}"
        operands = [self.full(v, s) for v, s in zip(values, shapes, strict=True)]
        return _plain(self.emit("Einsum", operands, target, equation=equation))

    def times_matrix(self, x: Any, matrix: np.ndarray, free: Shape) -> Sum:
        """X @ matrix on the last axis."""
        if _known(x):
            row = np.broadcast_to(x.constant, (*x.constant.shape[:-1], matrix.shape[0]))
            return _constant((row @ matrix).reshape(*row.shape[:-1], *free))
        x = self.settle(x)
        if isinstance(x, Joined) or np.ndim(x.constant) > 1 or len(x.terms[0].tensor.shape) < 2:
            x = _plain(self.tensor(x))
        ((tensor, factor, _),) = x.terms
        if tensor.shape[-1] != matrix.shape[0]:
            tensor = self.full(_plain(tensor), (*tensor.shape[:-1], matrix.shape[0]))
        rows = np.broadcast_to(factor, matrix.shape[:1])[:, None]
        product = Sum(
            (Term(tensor, rows * matrix, True),),
            np.broadcast_to(x.constant, matrix.shape[:1]) @ matrix if np.any(x.constant) else NONE,
        )
        if len(free) == 1:
            return product
        y = self.tensor(product)
        return _plain(self.reshape(y, (*y.shape[:-1], *free)))

    def times_matrices(self, x: Any, matrices: np.ndarray, axis: int, shape: Shape, target: Shape) -> Sum:
        """The members of an ensemble, each with a matrix of its own; rows are made one axis for speed."""
        weights = np.moveaxis(matrices, axis, 1)
        rows = shape[1:-1]
        flat = (
            rows[0]
            if len(rows) == 1
            else "rows"
            if any(isinstance(d, str) for d in rows)
            else int(np.prod(rows))
        )
        y = self.reshape(self.full(x, shape), (shape[0], flat, shape[-1]))
        y = self.emit("MatMul", [y, self.store(weights)], (shape[0], flat, weights.shape[-1]))
        return _plain(self.reshape(y, target))

    # Functions -------------------------------------------------------------------------------------------

    def do_mish(self, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
        """Mish as u − u/((1 + s²)/2) with u = −x, whose sign the Gemm before takes, and s = σ(u).

        tanh(softplus(x)) is (1 − s²)/(1 + s²). No other form we tried takes less time in onnxruntime, with
        one row or many, and its own Mish several times as much. Nothing in it can overflow.
        """
        u = self.tensor(self.scale(values[0], -ONE))
        s = self.elementwise("Sigmoid", u)
        # (1 + s²)/2 lies between 1/2 and 1, where HardSigmoid is a straight line: one operand less than Add.
        mean = self.elementwise("HardSigmoid", self.elementwise("Mul", s, s), alpha=0.5, beta=0.5)
        return _plain(self.elementwise("Sub", u, self.elementwise("Div", u, mean)))

    def do_integer_pow(self, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
        (x,), power = values, params["y"]
        if _known(x):
            return _constant(x.constant**power)
        tensor = self.tensor(x)
        if power == 2:
            return _plain(self.elementwise("Mul", tensor, tensor))
        return _plain(self.elementwise("Pow", tensor, self.store(np.float32(power))))

    def do_square(self, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
        return self.do_integer_pow({"y": 2}, values, shapes, target)

    def do_one_minus_square(self, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
        """What newer versions of JAX call the gradient of tanh."""
        square = self.do_square({}, values, shapes, target)
        return self.do_sub({}, [_constant(1.0), square], shapes, target)

    def do_rsqrt(self, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
        if _known(values[0]):
            return _constant(values[0].constant ** -0.5)
        return _plain(self.elementwise("Reciprocal", self.elementwise("Sqrt", self.tensor(values[0]))))

    def do_log1p(self, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
        if _known(values[0]):
            return _constant(np.log1p(values[0].constant))
        return _plain(
            self.elementwise("Log", self.tensor(self.do_add({}, [values[0], _constant(1.0)], shapes, target)))
        )

    def do_expm1(self, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
        if _known(values[0]):
            return _constant(np.expm1(values[0].constant))
        return Sum(_plain(self.elementwise("Exp", self.tensor(values[0]))).terms, -ONE)

    def do_is_finite(self, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
        if _known(values[0]):
            return _constant(np.isfinite(values[0].constant))
        x = self.tensor(values[0])
        faulty = self.elementwise("Or", self.elementwise("IsInf", x), self.elementwise("IsNaN", x))
        return _plain(self.elementwise("Not", faulty))

    def do_ne(self, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
        equal = self.binary("Equal", np.equal, *values)
        return (
            _constant(~equal.constant)
            if _known(equal)
            else _plain(self.elementwise("Not", self.tensor(equal)))
        )

    def do_select_n(self, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
        which, *cases = values
        if len(cases) != 2:
            raise UserError("export to ONNX selects between two cases only")
        if _known(which) and which.constant.size == 1:
            return cases[int(which.constant.reshape(()))]
        if all(_known(v) for v in values):
            return _constant(np.where(which.constant, cases[1].constant, cases[0].constant))
        return _plain(self.elementwise("Where", *(self.tensor(v) for v in (which, cases[1], cases[0]))))

    def do_clamp(self, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
        low, x, high = values
        return self.binary("Min", np.minimum, self.binary("Max", np.maximum, x, low), high)

    def do_convert_element_type(self, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
        (x,), kind = values, np.dtype(params["new_dtype"]).kind
        if _known(x):
            return _constant(x.constant.astype(params["new_dtype"]))
        if params.get("old_kind") == kind:
            return x
        to = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "u": TensorProto.INT64, "b": TensorProto.BOOL}[
            kind
        ]
        return _plain(self.elementwise("Cast", self.tensor(x), to=to))

    def do_argmax(self, params: Any, values: Any, shapes: Any, target: Shape, kind: str = "ArgMax") -> Sum:
        (axis,) = params["axes"]
        x = self.full(values[0], shapes[0])
        return _plain(self.emit(kind, [x], target, axis=int(axis), keepdims=0))

    def do_argmin(self, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
        return self.do_argmax(params, values, shapes, target, "ArgMin")

    def do_conv_general_dilated(self, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
        spec = params["dimension_numbers"]
        if not _known(values[1]) or set(params["lhs_dilation"]) != {1} or params["batch_group_count"] != 1:
            raise UserError("export to ONNX knows plain convolutions with fixed kernels only")
        x = self.transpose(self.full(values[0], shapes[0]), spec.lhs_spec)
        kernel = np.transpose(np.broadcast_to(values[1].constant, shapes[1]), spec.rhs_spec)
        low, high = zip(*params["padding"], strict=True)
        y = self.emit(
            "Conv",
            [x, self.store(kernel)],
            tuple(target[i] for i in spec.out_spec),
            strides=list(params["window_strides"]),
            pads=[*low, *high],
            dilations=list(params["rhs_dilation"]),
            group=params["feature_group_count"],
        )
        return _plain(self.transpose(y, np.argsort(spec.out_spec).tolist()))

    def do_reduce_window_max(self, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
        window, strides, padding = (params[k] for k in ("window_dimensions", "window_strides", "padding"))
        if len(window) != 4 or window[0] != 1 or window[3] != 1 or set(params["base_dilation"]) != {1}:
            raise UserError("export to ONNX pools over the two middle axes only")
        order = (0, 3, 1, 2)
        low, high = zip(*padding[1:3], strict=True)
        y = self.emit(
            "MaxPool",
            [self.transpose(self.full(values[0], shapes[0]), order)],
            tuple(target[i] for i in order),
            kernel_shape=list(window[1:3]),
            strides=list(strides[1:3]),
            pads=[*low, *high],
        )
        return _plain(self.transpose(y, np.argsort(order).tolist()))

    # Shapes ----------------------------------------------------------------------------------------------

    def do_broadcast_in_dim(self, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
        (x, *_), where = values, params["broadcast_dimensions"]
        rank, size = len(target), len(shapes[0])
        if tuple(where) == tuple(range(rank - size, rank)):
            return x  # Axes are added in front only: broadcasting does that by itself.
        # From the first axis on, sizes of 1 stand where axes are new.
        spread = [1] * rank
        if _known(x):
            padded = _pad(x.constant.shape, size)
            for i, j in enumerate(where):
                spread[j] = padded[i]
            return _constant(x.constant.reshape(spread))
        tensor = self.ranked(x, size)
        for i, j in enumerate(where):
            spread[j] = tensor.shape[i]
        return _plain(self.reshape(tensor, _strip(tuple(spread))))

    def do_reshape(self, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
        (x, *_) = values
        if _strip(shapes[0]) == _strip(target) and not isinstance(x, Joined) and _rank(x) <= len(target):
            return x
        if _known(x) and all(isinstance(d, int) for d in (*shapes[0], *target)):
            return _constant(np.broadcast_to(x.constant, shapes[0]).reshape(target))
        return _plain(self.reshape(self.full(x, shapes[0]), target))

    def do_squeeze(self, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
        (x,), axes = values, params["dimensions"]
        if isinstance(x, Joined):
            x = _plain(self.tensor(x))
        if _strip(shapes[0]) == _strip(target) and _rank(x) <= len(target):
            return x
        keep = [i for i in range(len(shapes[0])) if i not in axes]
        if _known(x):
            padded = _pad(x.constant.shape, len(shapes[0]))
            return _constant(x.constant.reshape([padded[i] for i in keep]))
        tensor = self.ranked(x, len(shapes[0]))
        return _plain(self.reshape(tensor, tuple(tensor.shape[i] for i in keep)))

    def do_expand_dims(self, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
        where = [i for i in range(len(target)) if i not in params["dimensions"]]
        return self.do_broadcast_in_dim({"broadcast_dimensions": where}, values, shapes, target)

    def do_transpose(self, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
        (x,), permutation = values, params["permutation"]
        if _known(x):
            return _constant(x.constant.reshape(_pad(x.constant.shape, len(target))).transpose(permutation))
        return _plain(self.transpose(self.ranked(x, len(target)), permutation))

    def do_concatenate(self, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
        axis = params["dimension"]
        if all(_known(v) for v in values):
            arrays = [v.constant.reshape(_pad(v.constant.shape, len(target))) for v in values]
            arrays = [
                np.broadcast_to(a, [*a.shape[:axis], s[axis], *a.shape[axis + 1 :]])
                for a, s in zip(arrays, shapes, strict=True)
            ]
            common = np.broadcast_shapes(*([*a.shape[:axis], 1, *a.shape[axis + 1 :]] for a in arrays))
            arrays = [
                np.broadcast_to(a, [*common[:axis], a.shape[axis], *common[axis + 1 :]]) for a in arrays
            ]
            return _constant(np.concatenate(arrays, axis))
        joined = Joined([], [], axis)
        for value, shape in zip(values, shapes, strict=True):
            if isinstance(value, Joined) and value.axis == axis:
                joined = Joined(joined.parts + value.parts, joined.shapes + value.shapes, axis)
            else:
                part: Any = self.settle(value) if isinstance(value, Sum) else _plain(self.tensor(value))
                joined = Joined([*joined.parts, part], [*joined.shapes, shape], axis)
        return joined

    def do_stack(self, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
        axis = params["axis"]
        wide = (*target[:axis], 1, *target[axis + 1 :])
        parts = [
            self.do_expand_dims({"dimensions": (axis,)}, [v], [s], wide)
            for v, s in zip(values, shapes, strict=True)
        ]
        return self.do_concatenate({"dimension": axis}, parts, [wide] * len(parts), target)

    def cut(self, x: Any, shape: Shape, axis: int, start: int, stop: int, step: int = 1) -> Any:
        """x[start:stop:step] on one axis."""
        if isinstance(x, Joined) and axis == x.axis:
            begin = 0
            for part, part_shape in zip(x.parts, x.shapes, strict=True):
                end = begin + part_shape[axis]
                if begin <= start and stop <= end:
                    return self.cut(part, part_shape, axis, start - begin, stop - begin, step)
                begin = end
        if (start, stop, step) == (0, shape[axis], 1):
            return x
        place = axis - len(shape)
        if _known(x):
            if x.constant.ndim < -place or x.constant.shape[place] == 1:
                return x
            index = [slice(None)] * x.constant.ndim
            index[place] = slice(start, stop, step)
            return _constant(x.constant[tuple(index)])
        tensor = self.tensor(x)
        if len(tensor.shape) < -place or tensor.shape[place] == 1:
            return _plain(tensor)
        out = list(tensor.shape)
        out[place] = -(-(stop - start) // step)
        limits = [self.store(np.asarray([v], np.int64)) for v in (start, stop, len(out) + place, step)]
        return _plain(self.emit("Slice", [tensor, *limits], tuple(out)))

    def do_slice(self, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
        x, shape = values[0], list(shapes[0])
        steps = params["strides"] or [1] * len(shape)
        ends: list[Any] = [d if isinstance(d, int) else str(d) for d in params["limit_indices"]]
        for axis, (start, stop, step) in enumerate(zip(params["start_indices"], ends, steps, strict=True)):
            if (start, stop, step) != (0, shape[axis], 1):
                x = self.cut(x, tuple(shape), axis, start, stop, step)
                shape[axis] = target[axis]
        return x

    def do_scatter_add(self, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
        """Something added at one fixed place of one axis: the gradient of picking it."""
        (x, index, part), numbers = values, params["dimension_numbers"]
        axes = tuple(numbers.inserted_window_dims)
        fixed = _known(index) and index.constant.size == 1 and not numbers.operand_batching_dims
        if not fixed or len(axes) != 1 or axes != tuple(numbers.scatter_dims_to_operand_dims):
            raise UserError("export to ONNX adds at one fixed place only, not by this scatter")
        (axis,), place = axes, int(index.constant.reshape(()))
        thin = (*target[:axis], 1, *target[axis + 1 :])
        part = self.do_expand_dims({"dimensions": (axis,)}, [part], [shapes[2]], thin)
        size = target[axis]
        if size > 1:
            pads = np.zeros((2, len(target)), np.int64)
            pads[:, axis] = place, size - 1 - place
            part = _plain(self.emit("Pad", [self.full(part, thin), self.store(pads.reshape(-1))], target))
        return self.do_add({}, [x, part], shapes, target)

    def split(self, op: Operation, x: Any, shape: Shape) -> list[Any]:
        axis, edges = op.params["axis"], np.cumsum([0, *op.params["sizes"]])
        x = self.settle(x)
        x = x if _known(x) else _plain(self.tensor(x))
        return [self.cut(x, shape, axis, int(a), int(b)) for a, b in itertools.pairwise(edges)]

    def do_dynamic_slice(self, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
        x, *starts = values
        if not all(_known(s) for s in starts):
            raise UserError("export to ONNX slices at fixed places only")
        shape = list(shapes[0])
        for axis, (start, size) in enumerate(zip(starts, target, strict=True)):
            if size != shape[axis]:
                first = int(np.clip(int(start.constant), 0, shape[axis] - size))
                x = self.cut(x, tuple(shape), axis, first, first + size)
                shape[axis] = size
        return x

    def do_gather(self, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
        """x[i] at a fixed place on one axis, or `take_along_axis`."""
        (x, index), numbers = values, params["dimension_numbers"]
        axes, sizes = numbers.start_index_map, params["slice_sizes"]
        batching = tuple(numbers.operand_batching_dims)
        if len(axes) == 1 and not batching and _known(index) and index.constant.size == 1:
            (axis,) = axes
            start = int(np.clip(int(index.constant.reshape(())), 0, shapes[0][axis] - sizes[axis]))
            cut = self.cut(x, shapes[0], axis, start, start + int(sizes[axis]))
            shape = tuple(int(sizes[axis]) if i == axis else d for i, d in enumerate(shapes[0]))
            return self.do_squeeze({"dimensions": numbers.collapsed_slice_dims}, [cut], [shape], target)
        rank = len(shapes[0])
        rows = [i for i in range(rank) if i not in numbers.offset_dims]
        along = len(axes) == 1 and tuple(numbers.collapsed_slice_dims) == tuple(axes) and len(target) == rank
        if along and sorted((*axes, *batching)) == rows and shapes[1][-1] == 1:
            where = self.ranked(index, len(shapes[1]))
            spread = [1] * rank
            for i, j in enumerate(rows):
                spread[j] = where.shape[i]
            place = self.full(_plain(self.reshape(where, tuple(spread))), target)
            return _plain(
                self.emit("GatherElements", [self.full(x, shapes[0]), place], target, axis=int(axes[0]))
            )
        raise UserError("export to ONNX knows indexing at fixed places and take_along_axis, not this gather")


def _recognise(name: str, function: Callable[..., Any], equations: list[Any]) -> list[Operation]:
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


def _plain(tensor: Tensor) -> Sum:
    return Sum((Term(tensor, ONE),), NONE)


def _constant(value: Any) -> Sum:
    """Sums are folded in double precision and stored in single."""
    array = np.asarray(value)
    array = array.astype(np.float64) if array.dtype.kind == "f" else array
    return Sum((), array.reshape(_strip(array.shape)))


def _known(value: Any) -> bool:
    return isinstance(value, Sum) and not value.terms


def _rank(value: Sum) -> int:
    """Axes that the tensors of a value really have."""
    return max(value.constant.ndim, *(len(t.tensor.shape) for t in value.terms), 0)


def _shape(atom: Any) -> Shape:
    return tuple(int(d) if isinstance(d, int | np.integer) else str(d) for d in atom.aval.shape)


def _strip(shape: Shape) -> Shape:
    """Without axes of size 1 in front."""
    while shape and shape[0] == 1:
        shape = shape[1:]
    return tuple(shape)


def _pad(shape: Shape, rank: int) -> Shape:
    return (*[1] * (rank - len(shape)), *shape)


def _broadcast(*shapes: Shape) -> Shape:
    rank = max(len(s) for s in shapes)
    columns = zip(*(_pad(s, rank) for s in shapes), strict=True)
    return tuple(next((d for d in column if d != 1), 1) for column in columns)
