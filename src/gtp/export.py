"""A policy in one file that needs none of this package: ONNX for any runtime, or `jax.export` for JAX.

The file holds all of acting: normaliser, K steps with their noise levels folded in, the critic's choice among
candidates if there is one, action bounds. Random draws are inputs, so that a file is a function: `describe`
says how to draw them, and is written into the file.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import jax
import jax.export  # Not imported by jax itself.
import numpy as np

import gtp
from gtp import graph
from gtp.errors import UserError
from gtp.policy import Policy, check_acting
from gtp.types import Acting

Format = Literal["onnx", "jax"]
PLATFORMS = ("cpu", "cuda")
CHECKED = 1000
"""Random observations on which every written file is compared with `act`."""


def export(pi: Policy, out: str | Path, format: Format, acting: Acting, member: int = 0) -> dict[str, Any]:
    """Write the file, whole or not at all, and return what it says of itself.

    Args:
        pi: the policy, as `gtp.load` gives it.
        out: file to write; it must not exist.
        format: `onnx`, or `jax` for a serialised `jax.export`. What the file says of itself also lies beside
            it, in OUT.json: `jax.export` has no place for it, and JavaScript's runtime cannot read ONNX's.
        acting: the rule to act by, and K.
        member: whose parameters.
    """
    out = Path(out)
    beside = out.with_name(out.name + ".json")
    for path in (out, beside):
        if path.exists():
            raise UserError(f"{path} exists already; name another file")
    act = pi.for_member(check_acting(acting, pi.rules), member)
    (batch,) = jax.export.symbolic_shape("batch")
    obs = jax.ShapeDtypeStruct((batch, *pi.obs_shape), np.float32)
    traced, draws = graph.lift_noise(act, obs, jax.random.key(0))
    inputs = noise_names(draws)
    about = describe(pi, acting, member, dict(zip(inputs, draws, strict=True)))
    content = (as_onnx if format == "onnx" else as_jax)(traced, draws, about)
    write(beside, (json.dumps(about, indent=2) + "\n").encode())
    write(out, content)
    return about | {"bytes": len(content)}


def noise_names(draws: list[graph.Draw]) -> list[str]:
    """`noise`, or `noise0`, `noise1` … if a policy draws more than once."""
    return ["noise"] if len(draws) == 1 else [f"noise{i}" for i in range(len(draws))]


def noise_shape(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """Shape of a file's noise: a single candidate has no axis."""
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    return shape


def describe(pi: Policy, acting: Acting, member: int, draws: dict[str, graph.Draw]) -> dict[str, Any]:
    """What a file says of itself: whose policy it is, how it acts, what to feed it."""
    about = pi.about
    steps = acting.sampling_steps or about["config"].get("sampling_steps")
    noise = {
        name: {"distribution": d.distribution, "shape": [_size(n) for n in noise_shape(d.shape)]}
        for name, d in draws.items()
    }
    return {
        "gtp_version": gtp.__version__,
        "agent": about["agent"],
        "member": about["members"][member],
        "step": about.get("step"),
        "act": acting.rule,
        "candidates": acting.candidates,
        "sampling_steps": steps,
        "weights": acting.weights,
        "data": about.get("data", ""),
        "fingerprint": about.get("fingerprint", ""),
        "provenance": about.get("provenance", ""),
        "obs_shape": list(pi.obs_shape),
        "action_size": about["action_size"],
        "chunk": pi.chunk,
        "noise": noise,
    }


def _size(n: Any) -> int | str:
    return int(n) if isinstance(n, int | np.integer) else str(n)


def as_onnx(traced: graph.Graph, draws: list[graph.Draw], about: dict[str, Any]) -> bytes:
    """The bytes of an ONNX file; its metadata are the description, nested values as json."""
    if importlib.util.find_spec("onnx") is None:
        raise UserError("exporting to ONNX needs the package onnx: pip install 'gtp[export]'")
    from gtp import onnx_graph

    metadata = {k: v if isinstance(v, str) else json.dumps(v) for k, v in about.items()}
    metadata["opset"] = str(onnx_graph.OPSET)
    return onnx_graph.to_onnx(traced, ["obs", *noise_names(draws)], "action", metadata).SerializeToString()


def as_jax(traced: graph.Graph, draws: list[graph.Draw], about: dict[str, Any]) -> bytes:
    """The bytes of a serialised `jax.export`, for CPU and CUDA."""

    def act(obs: Any, *noise: Any) -> Any:
        full = [z.reshape(draw.shape) for z, draw in zip(noise, draws, strict=True)]
        return traced(obs, *full)[0]

    obs = traced.inputs[0].aval
    shapes = [obs.shape, *(noise_shape(draw.shape) for draw in draws)]
    specs = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    return bytes(jax.export.export(jax.jit(act), platforms=PLATFORMS)(*specs).serialize())


def write(path: Path, content: bytes) -> None:
    """A whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(content)
    os.replace(temporary, path)


def difference(pi: Policy, out: Path, format: Format, acting: Acting, member: int = 0) -> float | None:
    """The largest difference between the file and `act` on random observations, actions in [-1, 1].

    None without a runtime. Some policies are steep: that of IDQL moves by 1e-5 with the last bit of an
    observation, and so does this.
    """
    run = runner(out, format)
    if run is None:
        return None
    obs = np.random.default_rng(0).normal(size=(CHECKED, *pi.obs_shape)).astype(np.float32)
    action, noise = graph.with_noise(pi.for_member(acting, member), obs, jax.random.key(1))
    given = [np.asarray(z).reshape(noise_shape(z.shape)) for z in noise]
    return float((np.abs(run(obs, *given) - np.asarray(action)) / ((pi.high - pi.low) / 2)).max())


def runner(out: Path, format: Format) -> Callable[..., np.ndarray] | None:
    """(obs, noise …) -> actions by the file alone; None where onnxruntime is not installed."""
    if format == "jax":
        call = jax.export.deserialize(bytearray(out.read_bytes())).call
        return lambda *args: np.asarray(call(*args))
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    loaded = open_onnx(out)
    names = [i.name for i in loaded.get_inputs()]
    # An agent without noise may still be handed some.
    return lambda *args: loaded.run(None, dict(zip(names, args, strict=False)))[0]


def open_onnx(file: Path) -> Any:
    """An ONNX file in onnxruntime, as the Python example opens it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # Tensors are small and nodes many: giving memory back early takes longer than it saves.
    options.enable_mem_reuse = False
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
