"""Times of an experiment's methods, measured: of an update and of one action."""

from __future__ import annotations

import dataclasses
import functools
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gtp import agents, logs, policy, training
from gtp.experiment_cells import Cell
from gtp.experiments import Scale
from gtp.plan import Run, load
from gtp.policy import Policy

COST_CHUNK = {"small": 100, "full": 2000}
"""Updates that are timed, after as many that are not."""
LATENCY_CALLS, LATENCY_ROUNDS = 200, 10


def measure_cost(cell: Cell, scale: Scale, steps: int | None = None) -> dict[str, Any]:
    """Time of an update and of one action, for a single seed on the task's data."""
    dataset = load(cell.settings)
    make, chunk = agents.get(cell.agent).make, steps or COST_CHUNK[scale]
    who = training.members([0])
    stamps = []
    for point in training.train(
        make,
        cell.config,
        dataset.transitions,
        who,
        steps=2 * chunk,
        batch_size=cell.settings.batch_size,
        log_every=chunk,
    ):
        jax.block_until_ready(point.state)
        stamps.append(time.perf_counter())
    settings = dataclasses.replace(cell.settings, seeds=1)
    about = Run(Path(), cell.agent, cell.config, settings, {}, dataset).about()
    pi = Policy(make, cell.config, point.state.params, about)
    update = (stamps[-1] - stamps[0]) / chunk
    return {
        "method": cell.method,
        "agent": cell.agent,
        "data": cell.settings.data,
        "sampling_steps": getattr(cell.config, "sampling_steps", ""),
        "batch_size": cell.settings.batch_size,
        "update_ms": 1e3 * update,
        "hours_per_2M_updates": 2e6 * update / 3600,
        "action_ms": action_ms(pi, dataset.transitions.obs[0]),
        "device": str(jax.devices()[0].device_kind),
    }


def action_ms(pi: Policy, obs: np.ndarray) -> float:
    """Time of one action for one observation, in milliseconds: of a few medians the least disturbed."""
    act = functools.partial(pi.act, obs, member=pi.first)
    act()
    medians = []
    for _ in range(LATENCY_ROUNDS):
        calls = []
        for _ in range(LATENCY_CALLS):
            began = time.perf_counter()
            act()
            calls.append(time.perf_counter() - began)
        medians.append(float(np.median(calls)))
    return 1e3 * min(medians)


def measure_latency(root: Path, planned: list[Cell]) -> Path:
    """latency.csv: time of one action of each method's policy, which its first task decides."""
    rows = []
    for one in {cell.method: cell for cell in reversed(planned)}.values():
        obs = load(one.settings).transitions.obs[0]
        rows.append(
            {
                "agent": one.agent,
                "sampling_steps": one.config.sampling_steps,
                "action_ms": action_ms(policy.load(one.folder(root)), obs),
                "device": str(jax.devices()[0].device_kind),
            }
        )
    (root / "latency.tmp").unlink(missing_ok=True)
    logs.append(root / "latency.tmp", sorted(rows, key=lambda row: row["sampling_steps"]))
    return (root / "latency.tmp").replace(root / "latency.csv")
