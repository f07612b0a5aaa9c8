"""`gtp bench train`: updates a second on this device, for a grid of agents, seeds and sampling steps."""

from __future__ import annotations

import dataclasses
import gc
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import tyro
from rich import box
from rich.console import Console
from rich.table import Table

import gtp
from gtp import agents, config, logs, training
from gtp.config import Count
from gtp.errors import UserError
from gtp.types import Transition

TABLE = {
    "agent": "agent",
    "sampling_steps": "K",
    "seeds": "seeds",
    "updates_per_s": "updates/s",
    "seed_updates_per_s": "× seeds",
    "compile_s": "compile s",
    "peak_mib": "peak MiB",
}
"""Columns of the table: a row's key, and its title."""


@dataclass(frozen=True)
class Bench:
    """Train on random data at the paper's size and measure updates a second, once compiled.

    Prints a table, and with --out adds a row for each measurement to a csv file. Peak memory is the largest
    this process has had so far, so seeds are best given in ascending order.
    """

    agent: tyro.conf.Positional[tuple[str, ...]] = ("gtp",)
    """Agents to measure."""
    seeds: tuple[Count, ...] = (1, 5, 20)
    """Numbers of seeds to train side by side."""
    sampling_steps: tuple[Count, ...] = (5,)
    """Values of K; an agent without sampling steps is measured once."""
    steps: Count = 1000
    """Updates of one measurement, which is one call of the compiled program."""
    repeats: Count = 5
    """Measurements; the table shows their median."""
    batch_size: Count = 256
    """Transitions in a batch."""
    obs_size: Count = 11
    """Features of an observation."""
    action_size: Count = 3
    """Dimensions of an action."""
    rows: Count = 1_000_000
    """Transitions on the device."""
    baseline_samples: Count = 1
    """Policy samples behind V, for agents that have such a setting; 1 is the paper's cost."""
    critic_layer_norm: bool = False
    """Standardise the critic's hidden layers, for agents that have such a setting; the paper does not."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE.csv")] = None
    """File to add the rows to."""


def main(argv: list[str]) -> int:
    """`gtp bench train …`."""
    options = tyro.cli(Bench, prog="gtp bench train", args=argv)
    config.check(options)
    for name in options.agent:
        agents.get(name)
    if options.out is not None and not options.out.parent.is_dir():
        raise UserError(f"there is no folder {options.out.parent} to write {options.out.name} in")
    table = Table(title=about()["device"], title_justify="left", box=box.SIMPLE_HEAD)
    for name, title in TABLE.items():
        table.add_column(title, justify="left" if name == "agent" else "right")
    for row in measure(options):
        table.add_row(*(f"{row[k]:,}" if isinstance(row[k], int | float) else row[k] for k in TABLE))
        if options.out is not None:
            logs.append(options.out, [row])
    Console().print(table)
    return 0


def about() -> dict[str, str]:
    """Device and versions, which every row carries."""
    device = jax.local_devices()[0]
    count = len(jax.local_devices())
    return {
        "device": str(device.device_kind) + (f" x{count}" if count > 1 else ""),
        "gtp": gtp.__version__,
        "jax": jax.__version__,
        "python": platform.python_version(),
    }


def random_data(options: Bench) -> Transition:
    """Transitions that cost as much as real ones."""
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(options.rows, options.obs_size)).astype(np.float32)
    action = rng.uniform(-1, 1, (options.rows, options.action_size)).astype(np.float32)
    reward = rng.normal(size=options.rows).astype(np.float32)
    return Transition(obs, action, reward, obs[::-1].copy(), action, np.ones_like(reward))


def configs(name: str, options: Bench) -> Iterator[tuple[Any, int | str]]:
    """The agent's configurations to measure, with the K each has."""
    given = agents.get(name).Config()
    fields = {f.name for f in dataclasses.fields(given)}
    size = fields & {"baseline_samples", "critic_layer_norm"}
    given = dataclasses.replace(given, **{field: getattr(options, field) for field in size})
    if "sampling_steps" not in fields:
        yield given, ""
        return
    for steps in options.sampling_steps:
        yield dataclasses.replace(given, sampling_steps=steps), steps


def measure(options: Bench) -> Iterator[dict[str, Any]]:
    """A row for every agent, K and number of seeds."""
    data = random_data(options)
    for name in options.agent:
        for agent_config, sampling_steps in configs(name, options):
            for seeds in options.seeds:
                yield {
                    "agent": name,
                    "sampling_steps": sampling_steps,
                    "seeds": seeds,
                    "batch_size": options.batch_size,
                    **speed(agents.get(name).make, agent_config, data, seeds, options),
                    **about(),
                }
                gc.collect()  # So that two measurements' arrays are never on the device together.


def speed(
    make: training.Make, agent_config: Any, data: Transition, seeds: int, options: Bench
) -> dict[str, Any]:
    """Time the log points of a run, the first of which compiles."""
    total = options.steps * (options.repeats + 1)
    reports = training.train(
        make,
        agent_config,
        data,
        training.members(range(seeds)),
        steps=total,
        batch_size=options.batch_size,
        log_every=options.steps,
    )
    took, before = [], time.perf_counter()
    for _ in reports:  # A report holds metrics, so that its chunk has run to the end.
        took.append(time.perf_counter() - before)
        before = time.perf_counter()
    median = float(np.median(took[1:]))
    peak = (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    return {
        "updates_per_s": round(options.steps / median, 1),
        "seed_updates_per_s": round(seeds * options.steps / median, 1),
        "slowest_updates_per_s": round(options.steps / max(took[1:]), 1),
        "compile_s": round(took[0] - median, 1),
        "peak_mib": round(peak / 2**20) if peak else "",
        "updates": total - options.steps,
    }
