"""What bends a sum: activations, comparisons, reductions, convolutions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto

from gtp import nn
from gtp.errors import UserError
from gtp.onnx_graph.sums import add, scale, sub
from gtp.onnx_graph.values import ONE, Shape, Stacked, Sum, fixed, is_fixed, plain
from gtp.onnx_graph.writer import Writer

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
REDUCTIONS = {"reduce_max": "ReduceMax", "reduce_min": "ReduceMin", "reduce_sum": "ReduceSum"}


def binary(writer: Writer, kind: str, function: Callable[..., Any], x: Any, y: Any) -> Sum:
    """An operator with two operands; constants are computed here, and max(x, 0) is Relu."""
    if is_fixed(x) and is_fixed(y):
        return fixed(function(x.constant, y.constant))
    if kind == "Max" and is_fixed(y) and y.constant.ndim == 0 and y.constant == 0:
        return plain(writer.elementwise("Relu", writer.tensor(x)))
    return plain(writer.elementwise(kind, writer.tensor(x), writer.tensor(y)))


def reduce(writer: Writer, kind: str, axes: Any, x: Any, shape: Shape, target: Shape) -> Sum:
    """A reduction over axes that are then gone."""
    if isinstance(x, Stacked) and tuple(axes) == (x.axis,):
        members = [writer.tensor(part) for part in x.parts]
        return plain(writer.elementwise(kind.removeprefix("Reduce"), *members))
    return plain(
        writer.emit(
            kind, [writer.full(x, shape), writer.store(np.asarray(axes, np.int64))], target, keepdims=0
        )
    )


def mish(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
    """Mish as u − u/((1 + s²)/2) with u = −x, whose sign the Gemm before takes, and s = σ(u).

    tanh(softplus(x)) is (1 − s²)/(1 + s²). No other form we tried takes less time in onnxruntime, with
    one row or many, and its own Mish several times as much. Nothing in it can overflow.
    """
    u = writer.tensor(scale(writer, values[0], -ONE))
    s = writer.elementwise("Sigmoid", u)
    # (1 + s²)/2 lies between 1/2 and 1, where HardSigmoid is a straight line: one operand less than Add.
    mean = writer.elementwise("HardSigmoid", writer.elementwise("Mul", s, s), alpha=0.5, beta=0.5)
    return plain(writer.elementwise("Sub", u, writer.elementwise("Div", u, mean)))


def layer_norm(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
    """The last axis centred and scaled. Gain and bias come after it, and go into the next Gemm."""
    x = writer.tensor(values[0])
    if x.shape[-1:] != target[-1:]:
        x = writer.full(plain(x), (*x.shape[:-1], target[-1]))
    ones = writer.store(np.ones(target[-1]))
    return plain(writer.emit("LayerNormalization", [x, ones], x.shape, epsilon=nn.LAYER_NORM_EPSILON))


def integer_pow(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
    """A whole power, the second as a product."""
    (x,), power = values, params["y"]
    if is_fixed(x):
        return fixed(x.constant**power)
    tensor = writer.tensor(x)
    if power == 2:
        return plain(writer.elementwise("Mul", tensor, tensor))
    return plain(writer.elementwise("Pow", tensor, writer.store(np.float32(power))))


def square(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
    """x·x."""
    return integer_pow(writer, {"y": 2}, values, shapes, target)


def one_minus_square(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
    """What newer versions of JAX call the gradient of tanh."""
    squared = square(writer, {}, values, shapes, target)
    return sub(writer, {}, [fixed(1.0), squared], shapes, target)


def rsqrt(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
    """1/√x."""
    if is_fixed(values[0]):
        return fixed(values[0].constant ** -0.5)
    return plain(writer.elementwise("Reciprocal", writer.elementwise("Sqrt", writer.tensor(values[0]))))


def log1p(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
    """ln(1 + x), plainly: ONNX has no other."""
    if is_fixed(values[0]):
        return fixed(np.log1p(values[0].constant))
    return plain(
        writer.elementwise("Log", writer.tensor(add(writer, {}, [values[0], fixed(1.0)], shapes, target)))
    )


def expm1(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
    """eˣ − 1, whose constant may wait."""
    if is_fixed(values[0]):
        return fixed(np.expm1(values[0].constant))
    return Sum(plain(writer.elementwise("Exp", writer.tensor(values[0]))).terms, -ONE)


def is_finite(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
    """Neither infinite nor NaN."""
    if is_fixed(values[0]):
        return fixed(np.isfinite(values[0].constant))
    x = writer.tensor(values[0])
    faulty = writer.elementwise("Or", writer.elementwise("IsInf", x), writer.elementwise("IsNaN", x))
    return plain(writer.elementwise("Not", faulty))


def ne(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
    """X ≠ y."""
    equal = binary(writer, "Equal", np.equal, *values)
    return (
        fixed(~equal.constant) if is_fixed(equal) else plain(writer.elementwise("Not", writer.tensor(equal)))
    )


def select_n(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
    """One of two cases, at once where the choice is a constant."""
    which, *cases = values
    if len(cases) != 2:
        raise UserError("export to ONNX selects between two cases only")
    if is_fixed(which) and which.constant.size == 1:
        return cases[int(which.constant.reshape(()))]
    if all(is_fixed(v) for v in values):
        return fixed(np.where(which.constant, cases[1].constant, cases[0].constant))
    return plain(writer.elementwise("Where", *(writer.tensor(v) for v in (which, cases[1], cases[0]))))


def clamp(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
    """min(max(x, low), high)."""
    low, x, high = values
    return binary(writer, "Min", np.minimum, binary(writer, "Max", np.maximum, x, low), high)


def convert_element_type(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
    """A cast, where the kind of number changes."""
    (x,), kind = values, np.dtype(params["new_dtype"]).kind
    if is_fixed(x):
        return fixed(x.constant.astype(params["new_dtype"]))
    if params.get("old_kind") == kind:
        return x
    to = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "u": TensorProto.INT64, "b": TensorProto.BOOL}[kind]
    return plain(writer.elementwise("Cast", writer.tensor(x), to=to))


def argmax(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape, kind: str = "ArgMax") -> Sum:
    """The place of the largest along an axis."""
    (axis,) = params["axes"]
    x = writer.full(values[0], shapes[0])
    return plain(writer.emit(kind, [x], target, axis=int(axis), keepdims=0))


def argmin(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
    """The place of the smallest along an axis."""
    return argmax(writer, params, values, shapes, target, "ArgMin")


def conv_general_dilated(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
    """A convolution with a constant kernel, channels brought to where ONNX has them."""
    spec = params["dimension_numbers"]
    if not is_fixed(values[1]) or set(params["lhs_dilation"]) != {1} or params["batch_group_count"] != 1:
        raise UserError("export to ONNX knows plain convolutions with fixed kernels only")
    x = writer.transpose(writer.full(values[0], shapes[0]), spec.lhs_spec)
    kernel = np.transpose(np.broadcast_to(values[1].constant, shapes[1]), spec.rhs_spec)
    low, high = zip(*params["padding"], strict=True)
    y = writer.emit(
        "Conv",
        [x, writer.store(kernel)],
        tuple(target[i] for i in spec.out_spec),
        strides=list(params["window_strides"]),
        pads=[*low, *high],
        dilations=list(params["rhs_dilation"]),
        group=params["feature_group_count"],
    )
    return plain(writer.transpose(y, np.argsort(spec.out_spec).tolist()))


def reduce_window_max(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
    """Max-pooling of pictures (batch, height, width, channels)."""
    window, strides, padding = (params[k] for k in ("window_dimensions", "window_strides", "padding"))
    if len(window) != 4 or window[0] != 1 or window[3] != 1 or set(params["base_dilation"]) != {1}:
        raise UserError("export to ONNX pools over the two middle axes only")
    order = (0, 3, 1, 2)
    low, high = zip(*padding[1:3], strict=True)
    y = writer.emit(
        "MaxPool",
        [writer.transpose(writer.full(values[0], shapes[0]), order)],
        tuple(target[i] for i in order),
        kernel_shape=list(window[1:3]),
        strides=list(strides[1:3]),
        pads=[*low, *high],
    )
    return plain(writer.transpose(y, np.argsort(order).tolist()))


def _unary(kind: str, function: Callable[..., Any]) -> Callable[..., Sum]:
    """The rule of an operator with one operand; constants are computed here."""

    def rule(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
        (x,) = values
        if is_fixed(x):
            return fixed(function(x.constant))
        return plain(writer.elementwise(kind, writer.tensor(x)))

    return rule


def _binary(kind: str, function: Callable[..., Any]) -> Callable[..., Sum]:
    return lambda writer, params, values, shapes, target: binary(writer, kind, function, *values)


def _reduction(kind: str) -> Callable[..., Sum]:
    return lambda writer, params, values, shapes, target: reduce(
        writer, kind, params["axes"], values[0], shapes[0], target
    )


WHOLE = {
    "add": _binary("Add", np.add),
    "mul": _binary("Mul", np.multiply),
    "sub": _binary("Sub", np.subtract),
}
"""Arithmetic of whole numbers, which no sum folds."""

RULES: dict[str, Callable[..., Any]] = {
    **{name: _unary(*operator) for name, operator in UNARY.items()},
    **{name: _binary(*operator) for name, operator in BINARY.items()},
    **{name: _reduction(kind) for name, kind in REDUCTIONS.items()},
    "argmax": argmax,
    "argmin": argmin,
    "clamp": clamp,
    "conv_general_dilated": conv_general_dilated,
    "convert_element_type": convert_element_type,
    "expm1": expm1,
    "integer_pow": integer_pow,
    "is_finite": is_finite,
    "layer_norm": layer_norm,
    "log1p": log1p,
    "mish": mish,
    "ne": ne,
    "one_minus_square": one_minus_square,
    "reduce_window_max": reduce_window_max,
    "rsqrt": rsqrt,
    "select_n": select_n,
    "square": square,
}
