"""Training: one compiled program for all seeds, and for all values of a swept number.

A run has members, one for each seed and each combination of swept values. Their states are stacked on a
leading axis; data lie on the device once and are shared. Between two log points everything is one `lax.scan`,
vmapped over the members, compiled exactly once; several devices deal the members out among them. All
randomness is fold_in(seed, step), so that a run is a function of data, configuration and seed, and goes on
bit for bit where it stopped. `docs/performance.md` tells what makes it fast.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from gtp import pictures
from gtp.ahead import split
from gtp.errors import UserError
from gtp.types import Agent, Array, State, Transition

Make = Callable[[Any, int], Agent]
"""(config, total_steps) -> Agent, as every file in `agents` has it."""

Q_METRIC = "q_mean"
"""The metric whose size tells that a critic diverges."""

Q_LIMIT = 1e4
"""No discount up to 0.999 takes |Q| beyond 1000 times the largest reward; ten times that is divergence."""


BLOCK_STEPS, BLOCK_BYTES = 100, 64 * 2**20
"""Most updates, and most bytes a member, that are prepared ahead."""


GPU_OPTIONS = {"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT"}
"""Kernels that do not wait for each other run side by side: an update is many small ones."""


ONCE_OPTIONS = {"xla_backend_optimization_level": 0}
"""On a CPU: a program that runs once is compiled in a quarter of the time without being made fast."""


MEMBERS, ROWS = "members", "rows"
"""Names of the axes that are dealt out over devices: members, or the rows of a batch."""


class Members(NamedTuple):
    """Who trains side by side: a seed each, and a value each of every swept field."""

    seeds: np.ndarray
    swept: dict[str, np.ndarray]

    def labels(self) -> list[dict[str, float]]:
        """What sets each member apart: its seed and its swept values."""
        return [
            {"seed": int(seed)} | {name: float(values[i]) for name, values in self.swept.items()}
            for i, seed in enumerate(self.seeds)
        ]


def members(seeds: Sequence[int], sweep: dict[str, Sequence[float]] | None = None) -> Members:
    """Every seed with every combination of the swept values, seeds varying fastest."""
    sweep = sweep or {}
    rows = [(*values, seed) for values in itertools.product(*sweep.values()) for seed in seeds]
    columns = list(zip(*rows, strict=True))
    swept = {name: np.asarray(column, np.float32) for name, column in zip(sweep, columns, strict=False)}
    return Members(np.asarray(columns[-1], np.int64), swept)


class Report(NamedTuple):
    """What a log point tells."""

    step: int
    state: State
    """Stacked over members; a stopped member's is its last good one."""
    metrics: dict[str, np.ndarray]
    """Means since the last log point, one per member."""
    alive: np.ndarray
    """Members still training."""
    stopped: dict[int, str]
    """Members that stopped just now, and why."""


def take(tree: Any, index: int) -> Any:
    """One member's part of something stacked."""
    return jax.tree.map(lambda x: x[index], tree)


def to_device(data: Transition, frame_stack: int = 1) -> Transition:
    """Copy transitions to the accelerator, once for a whole run; pictures go there as a `Film`."""
    if pictures.are_pictures(data.obs.shape[1:]):
        data = data._replace(obs=pictures.film(data, frame_stack), next_obs=None)
    return jax.tree.map(jnp.asarray, data)


def gather(data: Transition, index: Array, key: Array | None = None) -> Transition:
    """The transitions of a batch; pictures are shifted a little if there is a key."""
    film = data.obs
    if not isinstance(film, pictures.Film):
        return jax.tree.map(lambda x: x[index], data)
    rest = jax.tree.map(lambda x: x[index], data._replace(obs=None))
    seen = [pictures.look(film.pictures, numbers[index]) for numbers in (film.here, film.ahead)]
    obs, next_obs = seen if key is None else pictures.shift(key, *seen)
    return rest._replace(obs=obs, next_obs=next_obs)


def bytes_of(tree: Any) -> int:
    """Memory of arrays, or of their shapes."""
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))


def whole_part(steps: int, size: int) -> int:
    """Largest divisor of `steps` whose prepared updates, `size` bytes each, fit the memory set aside."""
    most = max(1, min(BLOCK_STEPS, BLOCK_BYTES // max(1, size)))
    return max(d for d in range(1, most + 1) if steps % d == 0)


class Program(NamedTuple):
    """The two compiled functions of a run."""

    init: Callable[..., State]
    chunk: Callable[..., tuple[State, dict[str, Array]]]


def spread(count: int, batch_size: int = 1) -> Mesh | None:
    """As many local devices as `count` members can be dealt out to evenly; None for a single one.

    Where members cannot be dealt out, the `batch_size` rows of a batch are; 1 says they are not worth it.
    """
    devices = jax.local_devices()
    for axis, size in ((MEMBERS, count), (ROWS, batch_size)):
        used = max(d for d in range(1, len(devices) + 1) if size % d == 0)
        if used > 1:
            return Mesh(np.asarray(devices[:used]), (axis,))
    return None


def has_axis(mesh: Mesh | None, axis: str) -> bool:
    """Whether a mesh deals this axis out."""
    return mesh is not None and axis in mesh.axis_names


def place(tree: Any, mesh: Mesh | None, spec: PartitionSpec) -> Any:
    """Arrays where the program wants them: dealt out over the devices, or a copy on each."""
    return tree if mesh is None else jax.device_put(tree, NamedSharding(mesh, spec))


def build(
    make: Make, config: Any, total_steps: int, batch_size: int, chunk_steps: int, mesh: Mesh | None = None
) -> Program:
    """Compile-ready `init` and `chunk` over stacked members, dealt out over the devices of a mesh."""

    def agent_for(swept: dict[str, Array]) -> Agent:
        return make(dataclasses.replace(config, **swept), total_steps)

    def deal_rows(batch: Any) -> Any:
        # The compiler follows the rows from here, and adds up gradients where it must.
        if mesh is None or not has_axis(mesh, ROWS):
            return batch
        return jax.lax.with_sharding_constraint(batch, NamedSharding(mesh, PartitionSpec(ROWS)))

    def init_member(key: Array, swept: dict[str, Array], data: Transition) -> State:
        # Of pictures only the shape matters at the start; of vectors, mean and deviation.
        seen = gather(data, jnp.arange(1)) if isinstance(data.obs, pictures.Film) else data
        return agent_for(swept).init(jax.random.fold_in(key, 0), seen)

    def chunk_member(state: State, key: Array, swept: dict[str, Array], data: Transition):
        agent = agent_for(swept)
        batch = jax.eval_shape(lambda: gather(data, jnp.zeros(batch_size, jnp.int32)))
        parts = split(agent.update, state, batch, key)

        def prepare(step: Array) -> list[Array]:
            # Step 0 belongs to init, so update k draws from k + 1.
            key_index, key_update = jax.random.split(jax.random.fold_in(key, step + 1))
            index = jax.random.randint(key_index, (batch_size,), 0, data.reward.shape[0])
            batch = gather(data, deal_rows(index), jax.random.fold_in(key_index, 1))
            return parts.ahead(state, step, deal_rows(batch), key_update)

        def one(state: State, prepared: list[Array]) -> tuple[State, Array]:
            after, metrics = parts.now(state, prepared)
            return after, jnp.stack([metrics[name] for name in parts.metrics])

        def block(state: State, start: Array) -> tuple[State, Array]:
            prepared = jax.vmap(prepare)(start + jnp.arange(block_steps))
            return jax.lax.scan(one, state, prepared)

        block_steps = whole_part(chunk_steps, bytes_of(jax.eval_shape(prepare, state.step)))
        starts = state.step + jnp.arange(0, chunk_steps, block_steps)
        after, metrics = jax.lax.scan(block, state, starts)
        means = jnp.mean(metrics, axis=(0, 1))
        return after, {name: means[i] for i, name in enumerate(parts.metrics)}

    def chunk(state: State, keys: Array, swept: dict[str, Array], alive: Array, data: Transition):
        after, metrics = jax.vmap(chunk_member, in_axes=(0, 0, 0, None))(state, keys, swept, data)
        return keep(alive, after, state), metrics

    init = jax.vmap(init_member, in_axes=(0, 0, None))
    if has_axis(mesh, MEMBERS):
        # Members never meet, so each device simply runs the program on its own.
        each, same = PartitionSpec(MEMBERS), PartitionSpec()
        init = jax.shard_map(init, mesh=mesh, in_specs=(each, each, same), out_specs=each, check_vma=False)
        chunk = jax.shard_map(
            chunk, mesh=mesh, in_specs=(each, each, each, each, same), out_specs=each, check_vma=False
        )
    options = GPU_OPTIONS if jax.default_backend() == "gpu" else {}
    once = ONCE_OPTIONS if jax.default_backend() == "cpu" else {}
    return Program(jax.jit(init, compiler_options=once), jax.jit(chunk, compiler_options=options))


def keep(alive: Array, new: State, old: State) -> State:
    """The new state where a member is alive, the old one where it is not."""
    return jax.tree.map(lambda n, o: jnp.where(alive.reshape(-1, *[1] * (n.ndim - 1)), n, o), new, old)


def fault(metrics: dict[str, float], largest_reward: float) -> str | None:
    """Why a member must stop, or None."""
    for name, value in metrics.items():
        if not np.isfinite(value):
            return f"{name} is {value}"
    limit = Q_LIMIT * max(1.0, largest_reward)
    if abs(metrics.get(Q_METRIC, 0.0)) > limit:
        return f"the critic diverges: {Q_METRIC} is {metrics[Q_METRIC]:.3g}, beyond {limit:.3g}"
    return None


def train(
    make: Make,
    config: Any,
    data: Transition,
    who: Members,
    *,
    steps: int,
    batch_size: int = 256,
    frame_stack: int = 1,
    log_every: int = 1000,
    state: State | None = None,
    alive: np.ndarray | None = None,
) -> Iterator[Report]:
    """Train all members to `steps`, yielding at every log point; `state` goes on with an earlier run.

    A member whose metrics are not finite, or whose critic diverges, stops with its last good state while the
    others go on; when none is left, training ends.
    """
    if steps % log_every:
        raise UserError(f"steps ({steps}) must be a multiple of log_every ({log_every})")
    if len(data.reward) < 1:
        raise UserError("there are no transitions to train on")
    # The rows of a batch of vectors are done before several devices have agreed on their gradient.
    seen = pictures.are_pictures(data.obs.shape[1:])
    mesh = spread(len(who.seeds), batch_size if seen else 1)
    each = PartitionSpec(MEMBERS) if has_axis(mesh, MEMBERS) else PartitionSpec()
    program = build(make, config, steps, batch_size, log_every, mesh)
    largest_reward = float(np.abs(data.reward).max())
    data = place(to_device(data, frame_stack), mesh, PartitionSpec())
    keys = place(jax.vmap(jax.random.key)(jnp.asarray(who.seeds)), mesh, each)
    swept = place({name: jnp.asarray(values) for name, values in who.swept.items()}, mesh, each)
    state = program.init(keys, swept, data) if state is None else place(state, mesh, each)
    alive = np.ones(len(who.seeds), bool) if alive is None else alive.copy()
    start = int(np.max(state.step))
    for step in range(start + log_every, steps + 1, log_every):
        if not alive.any():
            return
        training = place(jnp.asarray(alive), mesh, each)
        after, metrics = program.chunk(state, keys, swept, training, data)
        metrics = {name: np.asarray(values) for name, values in metrics.items()}
        found = {
            i: fault({k: float(v[i]) for k, v in metrics.items()}, largest_reward)
            for i in np.flatnonzero(alive)
        }
        stopped = {int(i): why for i, why in found.items() if why}
        if stopped:
            alive[list(stopped)] = False
            after = keep(place(jnp.asarray(alive), mesh, each), after, state)
        state = after
        yield Report(step, state, metrics, alive.copy(), stopped)
