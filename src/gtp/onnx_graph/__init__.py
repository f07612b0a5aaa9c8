"""From a flat graph of JAX operations to ONNX, with few nodes: at this size a node costs as much as its work.

Values are held back as long as they can be. A sum of tensors, scaled or multiplied by constant matrices, plus
a constant, stays a `Sum` until something bends it; then it becomes a chain of Gemm nodes, and normaliser,
noise levels and biases have vanished into their weights. Broadcasting is left to the operators: a tensor may
have fewer or smaller axes than its value, as numpy's rules allow. Own code, because the general converter we
tried wrote graphs twice as slow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from jax.extend.core import Literal
from onnx import TensorProto, helper

from gtp import graph as graphs
from gtp import nn
from gtp.errors import UserError
from gtp.onnx_graph import ensembles, functions, layout, sums
from gtp.onnx_graph.operations import Operation, recognise
from gtp.onnx_graph.values import Shape, Stacked, Tensor, Value, fixed, plain, strip
from gtp.onnx_graph.writer import Writer

OPSET = 18
KNOWN = {"mish": nn.mish, "layer_norm": nn.centred_and_scaled}
"""Functions that have rules of their own."""
RULES = sums.RULES | functions.RULES | layout.RULES
"""What becomes of an operation: rule(writer, its parameters, values, their shapes, the result's shape)."""
SAME = {"copy", "copy_p", "stop_gradient", "optimization_barrier", "reduce_precision", "sharding_constraint"}


def to_onnx(
    graph: graphs.Graph, inputs: Sequence[str], output: str, metadata: dict[str, str]
) -> onnx.ModelProto:
    """An ONNX model of a graph with one output; axes of size 1 in front of an input are left out."""
    writer = Writer(batch_of=inputs[0])
    values: dict[Any, Value] = {variable: fixed(value) for variable, value in graph.constants.items()}
    for variable, name in zip(graph.inputs, inputs, strict=True):
        values[variable] = plain(Tensor(name, strip(shape_of(variable))))
    operations = recognise(KNOWN, graph)
    uses = Counter(a for op in operations for a in op.inputs if not isinstance(a, Literal))
    uses.update(graph.outputs)
    for op in operations:
        given = [fixed(a.val) if isinstance(a, Literal) else values[a] for a in op.inputs]
        for variable, value in zip(op.outputs, convert(writer, op, given), strict=True):
            values[variable] = writer.settle(value) if uses[variable] > 1 else value
    (variable,) = graph.outputs
    result = writer.full(values[variable], shape_of(variable))
    writer.rename(result, output)
    describe = lambda name, v: helper.make_tensor_value_info(name, TensorProto.FLOAT, strip(shape_of(v)))  # noqa: E731
    body = helper.make_graph(
        writer.nodes,
        "policy",
        [describe(name, v) for name, v in zip(inputs, graph.inputs, strict=True)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape_of(variable))],
        list(writer.initialisers.values()),
    )
    model = helper.make_model(
        body, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8, producer_name="gtp"
    )
    helper.set_model_props(model, metadata)
    onnx.checker.check_model(model)
    return model


def convert(writer: Writer, op: Operation, values: list[Any]) -> list[Value]:
    """The values of an operation's outputs."""
    shapes, target = [shape_of(a) for a in op.inputs], shape_of(op.outputs[0])
    if op.name in SAME:
        return values
    is_whole = op.name in functions.WHOLE and op.outputs[0].aval.dtype.kind != "f"
    rule = functions.WHOLE[op.name] if is_whole else RULES.get(op.name)
    if rule is None:
        raise UserError(
            f"this policy computes {op.name}, which export to ONNX does not know; --format jax knows it"
        )
    if op.name not in ensembles.AWARE and any(isinstance(v, Stacked) for v in values):
        result = ensembles.each(writer, op.name, rule, op.params, values, shapes, target)
        if result is not None:
            return [result]
        values = [plain(writer.tensor(v)) if isinstance(v, Stacked) else v for v in values]
    result = rule(writer, op.params, values, shapes, target)
    return result if isinstance(result, list) else [result]


def shape_of(atom: Any) -> Shape:
    """The shape of a variable; a size known only when the file runs is its name."""
    return tuple(int(d) if isinstance(d, int | np.integer) else str(d) for d in atom.aval.shape)
