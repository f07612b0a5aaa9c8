"""`gtp bench act`: microseconds an action takes on one CPU thread, beside other ways to run such a policy.

All take turns in short rounds, so that whatever else the machine does falls on all of them. Each call is all
that a user would call: random draw, normaliser, K steps, bounds, and a numpy array as the answer.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import math
import os
import platform
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from gtp.errors import UserError
from gtp.types import Acting

Call = Callable[[], np.ndarray]
ROUNDS = 20


@dataclass(frozen=True)
class Bench:
    """Time one action, on one CPU thread: ours, the exported file, numpy and PyTorch, taking turns."""

    run: Annotated[str, tyro.conf.Positional] = ""
    """Run to act with; by default random parameters, the paper's size."""
    agent: str = "gtp"
    """Which agent, where there is no run."""
    obs: int = 11
    """Size of its observations."""
    action: int = 3
    """Size of its actions."""
    sampling_steps: tuple[int, ...] = (5, 2, 1)
    """K, one or more; ignored by agents that sample in one step."""
    candidates: tuple[int, ...] = (1, 50)
    """Samples to choose from by the critic; 1 acts on a single sample."""
    calls: int = 2000
    """Calls of each; a tenth of them where there are candidates, which take that much longer."""
    out: Path | None = None
    """CSV file to add the rows to."""


def main(argv: list[str]) -> int:
    """Print the table, and add the rows to a file if asked to."""
    options = tyro.cli(Bench, prog="gtp bench act", args=argv)
    if min(*options.sampling_steps, *options.candidates, options.calls // ROUNDS) < 1:
        raise UserError(f"sampling steps and candidates must be 1 or more, calls {ROUNDS} or more")
    with one_core():
        rows = measure(options)
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from gtp import logs

    title = f"{rows[0]['agent']}, obs {rows[0]['obs']}, action {rows[0]['action']}: {rows[0]['device']}"
    table = Table(title=f"{title}\n{rows[0]['versions']}", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("policy", "K", "candidates", "median µs", "p95 µs"):
        table.add_column(column, justify="left" if column == "policy" else "right")
    for row in rows:
        keys = ("policy", "sampling_steps", "candidates", "median_us", "p95_us")
        table.add_row(*(str(row[k]) for k in keys))
    Console().print(table)
    if options.out:
        logs.append(options.out, rows)
    return 0


@contextmanager
def one_core():
    """Keep this process on one core, where the system can: nobody gains by threads."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def measure(options: Bench) -> list[dict[str, Any]]:
    """Rows of all policies, for each K and number of candidates."""
    from gtp import policy

    shape = (options.obs,)
    pi = policy.load(options.run) if options.run else policy.arbitrary(options.agent, shape, options.action)
    obs = np.random.default_rng(0).normal(size=pi.obs_shape).astype(np.float32)
    about = {
        "agent": pi.about["agent"],
        "obs": "x".join(str(n) for n in pi.obs_shape),
        "action": "x".join(str(n) for n in pi.action_shape),
    }
    has_steps = "sampling_steps" in pi.about["config"]
    rows = []
    for candidates in options.candidates:
        if candidates > 1 and "argmax" not in pi.rules:
            continue
        for steps in options.sampling_steps if has_steps else (1,):
            rule = "single" if candidates == 1 else "argmax"
            acting = Acting(rule, candidates, steps if has_steps else None)
            with tempfile.TemporaryDirectory() as folder:
                calls = competitors(pi, obs, acting, steps, Path(folder))
                count = options.calls if candidates == 1 else max(ROUNDS, options.calls // 10)
                times = take_turns(calls, count)
            for name, seconds in times.items():
                median, late = (round(float(np.percentile(seconds, q)) * 1e6, 1) for q in (50, 95))
                rows.append(
                    about
                    | {"policy": name, "act": rule, "candidates": candidates, "sampling_steps": steps}
                    | {"median_us": median, "p95_us": late, "calls": len(seconds)}
                    | {"device": processor(), "versions": versions()}
                )
    return rows


def take_turns(calls: dict[str, Call], count: int) -> dict[str, list[float]]:
    """Seconds of every call, in rounds that each policy has its turn in."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(20):
            call()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            for _ in range(count // ROUNDS):
                start = time.perf_counter()
                call()
                seconds[name].append(time.perf_counter() - start)
    return seconds


def competitors(pi: Any, obs: np.ndarray, acting: Acting, steps: int, folder: Path) -> dict[str, Call]:
    """Ours compiled, the exported file, and plain policies of the same size in numpy and PyTorch."""
    calls: dict[str, Call] = {"gtp act": lambda: pi.act(obs, acting)}
    if all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime")):
        calls |= exported(pi, obs, acting, folder / "policy.onnx")
    if len(pi.obs_shape) == 1:
        hidden, action = tuple(pi.about["config"]["hidden"]), math.prod(pi.action_shape)
        layers = plain_layers(len(obs), action, hidden)
        calls["numpy"] = plain_numpy(obs, action, steps, acting.candidates, *layers)
        if importlib.util.find_spec("torch"):
            calls["PyTorch eager"] = plain_torch(obs, action, steps, acting.candidates, *layers)
    return calls


def exported(pi: Any, obs: np.ndarray, acting: Acting, file: Path) -> dict[str, Call]:
    """The ONNX file in onnxruntime, noise drawn by numpy: as the example runs it, and bound to arrays."""
    from gtp import export

    about = export.export(pi, file, "onnx", acting)
    session, run = export.open_onnx(file), export.runner(file, "onnx")
    assert run is not None
    rng, batch = np.random.default_rng(0), obs[None]
    shapes = {k: [1 if n == "batch" else n for n in draw["shape"]] for k, draw in about["noise"].items()}

    noise = {name: np.empty(shape, np.float32) for name, shape in shapes.items()}
    given, action = np.empty_like(batch), np.empty((1, *pi.action_shape), np.float32)
    binding = session.io_binding()
    for name, array in {"obs": given, **noise}.items():
        binding.bind_input(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
    binding.bind_output("action", "cpu", 0, np.float32, action.shape, action.ctypes.data)

    def act_bound() -> np.ndarray:
        given[0] = obs
        for array in noise.values():
            rng.standard_normal(dtype=np.float32, out=array)
        session.run_with_iobinding(binding)
        return action[0].copy()

    return {
        "onnxruntime": lambda: run(batch, *(rng.standard_normal(s, np.float32) for s in shapes.values()))[0],
        "onnxruntime bound": act_bound,
    }


Layers = list[tuple[np.ndarray, np.ndarray]]
TIME = 32
"""Features that stand for the two noise levels."""


def plain_layers(obs: int, action: int, hidden: tuple[int, ...]) -> tuple[Layers, list[Layers]]:
    """Weights and biases of an actor and two critics, as one would write them down."""
    rng = np.random.default_rng(0)

    def layers(inputs: int, outputs: int) -> Layers:
        sizes = [inputs, *hidden, outputs]
        shapes = itertools.pairwise(sizes)
        return [
            (rng.normal(size=s).astype(np.float32) / s[0] ** 0.5, np.zeros(s[1], np.float32)) for s in shapes
        ]

    return layers(obs + action + TIME, action), [layers(obs + action, 1) for _ in range(2)]


def plain_numpy(
    obs: np.ndarray, action: int, steps: int, candidates: int, actor: Layers, critics: list[Layers]
) -> Call:
    """K jumps of an MLP with Mish on [obs, a, levels], and the critics' best candidate."""
    rng, levels = np.random.default_rng(0), np.linspace(1, 0, steps + 1, dtype=np.float32)
    times = np.random.default_rng(1).normal(size=(steps, TIME)).astype(np.float32)

    def mlp(layers: Layers, x: np.ndarray) -> np.ndarray:
        for weight, bias in layers[:-1]:
            x = x @ weight + bias
            x = x * np.tanh(np.logaddexp(np.float32(0), x))
        return x @ layers[-1][0] + layers[-1][1]

    def act() -> np.ndarray:
        a = rng.standard_normal((candidates, action), np.float32)
        rows = np.broadcast_to(obs, (candidates, len(obs)))
        for i in range(steps):
            time = np.broadcast_to(times[i], (candidates, TIME))
            ratio = levels[i + 1] / levels[i]
            a = (1 - ratio) * mlp(actor, np.concatenate([rows, a, time], 1)) + ratio * a
        a = np.clip(a, -1, 1)
        if candidates == 1:
            return a[0]
        pairs = np.concatenate([rows, a], 1)
        return a[np.argmax(np.minimum(*(mlp(critic, pairs)[:, 0] for critic in critics)))]

    return act


def plain_torch(
    obs: np.ndarray, action: int, steps: int, candidates: int, actor: Layers, critics: list[Layers]
) -> Call:
    """The same with torch.nn, without gradients, on one thread."""
    import torch  # ty: ignore[import-not-found]

    torch.set_num_threads(1)
    levels = np.linspace(1, 0, steps + 1).tolist()
    times = torch.randn(steps, TIME)

    def network(layers: Layers) -> Any:
        modules = []
        for weight, bias in layers:
            linear = torch.nn.Linear(*weight.shape)
            linear.load_state_dict({"weight": torch.tensor(weight.T), "bias": torch.tensor(bias)})
            modules += [linear, torch.nn.Mish()]
        return torch.nn.Sequential(*modules[:-1])

    policy, values = network(actor), [network(critic) for critic in critics]

    @torch.inference_mode()
    def act() -> np.ndarray:
        a = torch.randn(candidates, action)
        rows = torch.from_numpy(obs).expand(candidates, -1)
        for i in range(steps):
            time = times[i].expand(candidates, -1)
            ratio = levels[i + 1] / levels[i]
            a = (1 - ratio) * policy(torch.cat([rows, a, time], 1)) + ratio * a
        a = a.clamp(-1, 1)
        if candidates == 1:
            return a[0].numpy()
        pairs = torch.cat([rows, a], 1)
        return a[torch.minimum(*(value(pairs)[:, 0] for value in values)).argmax()].numpy()

    return act


def processor() -> str:
    """The CPU's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def versions() -> str:
    """What was measured, by name and version."""
    names = [n for n in ("gtp", "jax", "numpy", "onnxruntime", "torch") if importlib.util.find_spec(n)]
    numbers = [f"{n} {importlib.import_module(n).__version__}" for n in names]
    return ", ".join([*numbers, f"Python {platform.python_version()}"])
