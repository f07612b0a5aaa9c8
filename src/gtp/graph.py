"""What a policy computes, as a flat list of primitive operations.

`trace` turns `act(obs, key)` into operations without calls or loops; `Graph.fold` computes once and for all
whatever depends on no input, such as the embeddings of K noise levels. Compiled acting and the exported files
both come from here. For a file the random draws become inputs, one for each call of `jax.random`: a file then
needs no random number generator and gives the same action for the same noise everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Literal

from gtp.errors import UserError

DRAWS = {"_normal": "normal", "_gumbel": "gumbel", "_uniform": "uniform"}
"""`jax.random` as its calls are named in a trace, and what is drawn: N(0, 1), Gumbel(0, 1), U[0, 1)."""

QUICK: dict[str, Any] = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""Compiler options for what runs once: compiling takes far longer than running."""

GENERATORS = ("random_bits", "threefry2x32", "rng_bit_generator", "rng_uniform")


class Draw(NamedTuple):
    """One call of `jax.random`."""

    distribution: str
    shape: tuple[Any, ...]
    dtype: Any
    place: int = 0
    """Which of all draws it is, in order."""


class Graph(NamedTuple):
    """Operations in order, with the values of those variables that are constants."""

    inputs: list[Any]
    equations: list[Any]
    outputs: list[Any]
    constants: dict[Any, Any]

    def __call__(self, *args: Any) -> list[Any]:
        """Run the operations; traceable."""
        env = self.constants | dict(zip(self.inputs, args, strict=True))
        for eqn in self.equations:
            values = [_read(env, atom) for atom in eqn.invars]
            env |= zip(eqn.outvars, _bind(eqn, values), strict=True)
        return [_read(env, atom) for atom in self.outputs]

    def prune(self) -> Graph:
        """Without operations and constants that no output needs."""
        needed, kept = _variables(self.outputs), []
        for eqn in reversed(self.equations):
            if needed & set(eqn.outvars):
                needed |= _variables(eqn.invars)
                kept.append(eqn)
        constants = {var: value for var, value in self.constants.items() if var in needed}
        return Graph(self.inputs, kept[::-1], self.outputs, constants)

    def fold(self) -> Graph:
        """With every operation on constants alone done now, all of them in one program."""
        known, ready, rest = set(self.constants), [], []
        for eqn in self.equations:
            foldable = _variables(eqn.invars) <= known and _is_concrete(eqn)
            (ready if foldable else rest).append(eqn)
            known |= set(eqn.outvars) if foldable else set()
        used = _variables(self.outputs).union(*(_variables(eqn.invars) for eqn in rest))
        wanted = [var for eqn in ready for var in eqn.outvars if var in used]
        once = jax.jit(Graph([], ready, wanted, self.constants).__call__, compiler_options=QUICK)
        values = once() if wanted else []
        constants = self.constants | dict(zip(wanted, map(np.asarray, values), strict=True))
        return Graph(self.inputs, rest, self.outputs, constants).prune()


def trace(function: Callable[..., Any], *args: Any) -> Graph:
    """The flat, folded graph of a function that returns one array."""
    return _flatten(jax.make_jaxpr(function)(*args), None, args)


def lift_noise(function: Callable[..., Any], obs: Any, key: Any) -> tuple[Graph, list[Draw]]:
    """The graph of `act(obs, key)` with its random draws as inputs after `obs`, and what to draw."""
    traced = jax.make_jaxpr(function)(obs, key)
    draws: list[Draw] = []

    def note(draw: Draw, _: Any) -> Any:
        draws.append(draw._replace(place=len(draws)))
        return jax.numpy.zeros(draw.shape, draw.dtype)

    jax.eval_shape(lambda obs: _interpret(traced.jaxpr, traced.consts, (obs, key), note), obs)
    noise = [jax.ShapeDtypeStruct(draw.shape, draw.dtype) for draw in draws]
    graph = _flatten(traced, key, (obs, *noise))
    used = _variables(graph.outputs).union(*(_variables(eqn.invars) for eqn in graph.equations))
    kept = [i for i, var in enumerate(graph.inputs[1:]) if var in used]
    inputs = [graph.inputs[0], *(graph.inputs[1 + i] for i in kept)]
    return graph._replace(inputs=inputs), [draws[i] for i in kept]


def with_noise(function: Callable[..., Any], obs: Any, key: Any) -> tuple[Any, list[Any]]:
    """`act(obs, key)`, and the noise it drew: what a file must be given to repeat the action."""
    traced = jax.make_jaxpr(function)(obs, key)
    _, draws = lift_noise(function, obs, key)

    def run(obs: Any, key: Any) -> tuple[Any, list[Any]]:
        noise: list[Any] = []

        def keep(_: Draw, value: Callable[[], Any]) -> Any:
            noise.append(value())
            return noise[-1]

        (action,) = _interpret(traced.jaxpr, traced.consts, (obs, key), keep)
        return action, [noise[draw.place] for draw in draws]

    return jax.jit(run, compiler_options=QUICK)(obs, key)


def _flatten(traced: ClosedJaxpr, key: Any, args: tuple[Any, ...]) -> Graph:
    """Inline and unroll; given a key, everything after the first argument is the noise."""

    def run(*args: Any) -> list[Any]:
        if key is None:
            return _interpret(traced.jaxpr, traced.consts, args, None)
        noise = iter(args[1:])
        return _interpret(traced.jaxpr, traced.consts, (args[0], key), lambda *_: next(noise))

    flat = jax.make_jaxpr(run)(*args)
    constants = dict(zip(flat.jaxpr.constvars, flat.consts, strict=True))
    return Graph(list(flat.jaxpr.invars), list(flat.jaxpr.eqns), flat.jaxpr.outvars, constants).prune().fold()


def _interpret(jaxpr: Any, consts: Any, args: Any, on_draw: Callable[..., Any] | None) -> list[Any]:
    """Run a jaxpr with calls inlined and scans unrolled; `on_draw` gives the value of each random draw."""
    env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))
    for eqn in jaxpr.eqns:
        values = [_read(env, atom) for atom in eqn.invars]
        body = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr", eqn.params.get("fun_jaxpr")))
        if on_draw and eqn.params.get("name") in DRAWS:
            out = [_draw(eqn, values, on_draw)]
        elif on_draw and eqn.primitive.name in GENERATORS:
            known = ", ".join(DRAWS.values())
            raise UserError(f"this agent draws random numbers other than {known}, which export does not know")
        elif eqn.primitive.name == "scan":
            out = _unroll(eqn, values, on_draw)
        elif body is not None:
            out = _interpret(*_open(body), values, on_draw)
        else:
            out = _bind(eqn, values)
        env |= zip(eqn.outvars, out, strict=True)
    return [_read(env, atom) for atom in jaxpr.outvars]


def _draw(eqn: Any, values: list[Any], on_draw: Callable[..., Any]) -> Any:
    """A draw of standard noise; a uniform one is scaled to its bounds afterwards."""
    aval, name = eqn.outvars[0].aval, eqn.params["name"]
    if name != "_uniform":
        return on_draw(Draw(DRAWS[name], aval.shape, aval.dtype), lambda: _bind(eqn, values)[0])
    key, low, high = values
    unit = on_draw(Draw("uniform", aval.shape, aval.dtype), lambda: jax.random.uniform(key, aval.shape))
    return unit * (high - low) + low


def _unroll(eqn: Any, values: list[Any], on_draw: Callable[..., Any] | None) -> list[Any]:
    """A scan, step after step."""
    params, (body, body_consts) = eqn.params, _open(eqn.params["jaxpr"])
    # Versions of JAX count differently what is scanned over and what is carried; an axis more tells both.
    scanned = sum(a.aval.ndim != b.aval.ndim for a, b in zip(eqn.invars, body.invars, strict=True))
    carried = sum(a.aval.ndim == b.aval.ndim for a, b in zip(eqn.outvars, body.outvars, strict=True))
    first = len(values) - scanned - carried
    consts, carry, xs = values[:first], values[first : first + carried], values[first + carried :]
    steps = list(range(params["length"]))
    rows: list[list[Any]] = []
    for i in reversed(steps) if params["reverse"] else steps:
        x = [lax.index_in_dim(x, i, keepdims=False) for x in xs]
        out = _interpret(body, body_consts, [*consts, *carry, *x], on_draw)
        carry = out[: len(carry)]
        rows.append(out[len(carry) :])
    rows = rows[::-1] if params["reverse"] else rows
    return [*carry, *(jax.numpy.stack(column) for column in zip(*rows, strict=True))]


def _open(body: Any) -> tuple[Any, Any]:
    """A jaxpr and its constants, whether it came with any or not."""
    return (body.jaxpr, body.consts) if isinstance(body, ClosedJaxpr) else (body, ())


def _bind(eqn: Any, values: list[Any]) -> list[Any]:
    out = eqn.primitive.bind(*values, **eqn.params)
    return out if eqn.primitive.multiple_results else [out]


def _read(env: dict[Any, Any], atom: Any) -> Any:
    return atom.val if isinstance(atom, Literal) else env[atom]


def _variables(atoms: Any) -> set[Any]:
    return {atom for atom in atoms if not isinstance(atom, Literal)}


def _is_concrete(eqn: Any) -> bool:
    """No dimension is a symbol, and a small constant is not blown up to a large one."""
    shapes = [var.aval.shape for var in eqn.outvars]
    if not all(isinstance(d, int | np.integer) for shape in shapes for d in shape):
        return False
    return eqn.primitive.name != "broadcast_in_dim" or np.prod(shapes[0], dtype=int) <= 10_000
