"""What trained policies do: their actions beside the data's, and noise on its way to an action."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gtp.errors import UserError
from gtp.report_lines import Report
from gtp.report_sources import Source, short_names

ROWS = 2000
"""Observations at which data and policies are compared."""
SAMPLES = 160
"""Noises followed on their way."""


class Flow(NamedTuple):
    """Actions on their way from noise, of one run."""

    source: Source
    paths: np.ndarray
    """(levels, samples, dimensions), each level divided by the scale noise has there."""
    levels: np.ndarray
    dimensions: int
    """Of the action; the paths hold the first two."""


class Actions(NamedTuple):
    """Actions of a run's policy at observations of its data."""

    source: Source
    fingerprint: str
    data: np.ndarray
    """(rows, dimensions), scaled to [-1, 1]."""
    policy: np.ndarray


class Looks(NamedTuple):
    """Everything there is to see, and why the rest is not."""

    actions: list[Actions]
    flows: list[Flow]
    absent: list[str]


def looks(report: Report) -> Looks:
    """Look at the policy of every run whose policy and data are here."""
    actions, flows, absent = [], [], []
    for name, source in zip(short_names(report.sources), report.sources, strict=True):
        if source.config is None:
            continue
        if not (source.path / "policy").is_dir():
            absent.append(f"{name}: the run has no policy yet")
            continue
        try:
            seen = look(source)
        except UserError as error:
            absent.append(f"{name}: {error}")
            continue
        actions.append(seen[0])
        if seen[1] is not None:
            flows.append(seen[1])
        else:
            absent.append(f"{name}: its policy is no flow map, so there is no way from noise to draw")
    return Looks(actions, flows, absent)


def look(source: Source) -> tuple[Actions, Flow | None]:
    """Actions and, where the policy is a flow map, trajectories of the first member of a run that lives."""
    from gtp import policy
    from gtp.data import load

    config: dict[str, Any] = source.config or {}
    dataset = load(config["settings"]["data"], config["settings"]["reward"])
    if dataset.fingerprint != config["data"]["fingerprint"]:
        raise UserError("its data have changed since, so its actions are not compared with them")
    pi = policy.load(source.path)
    t = dataset.transitions
    rows = np.random.default_rng(0).choice(len(t.action), min(ROWS, len(t.action)), replace=False)
    low, high = dataset.action_low, dataset.action_high
    chosen = pi.act(np.asarray(t.obs[rows], np.float32), member=pi.first)
    chosen = chosen.reshape(len(chosen), -1)[:, : low.size]  # The first of several, as rows hold one.
    scaled = 2 * (chosen - low) / (high - low) - 1
    actions = Actions(source, dataset.fingerprint, np.asarray(t.action[rows]), scaled)
    return actions, flow_paths(source, pi, np.asarray(t.obs[0], np.float32))


def flow_paths(source: Source, pi: Any, obs: np.ndarray) -> Flow | None:
    """Trajectories of the flow map at one observation; None where the policy is something else."""
    import jax
    import jax.numpy as jnp

    from gtp import flow
    from gtp.nn import FlowNetwork
    from gtp.noise import Noise, sampling_grid
    from gtp.training import take

    params, about = take(pi.params, pi.first), pi.about["config"]
    wanted = (*Noise._fields, "sampling_steps", "sampling_grid")
    if not isinstance(getattr(params, "actor", None), FlowNetwork) or not all(k in about for k in wanted):
        return None
    noise = Noise(*(about[name] for name in Noise._fields))
    grid = sampling_grid(about["sampling_steps"], noise, about["sampling_grid"])
    batch = params.normaliser(jnp.broadcast_to(jnp.asarray(obs), (SAMPLES, *obs.shape)))
    size = math.prod(pi.action_shape)
    z = jax.random.normal(jax.random.key(0), (SAMPLES, size))

    @jax.jit
    def follow(actor: FlowNetwork) -> Any:
        return flow.trajectory(flow.endpoint(actor.bind(batch), noise), grid[0] * z, grid)

    paths = np.asarray(follow(params.actor))
    # At level t an action has spread √(σ² + t²); divided by √(1 + t²/σ²) all levels fit one picture, and the
    # last one, t = 0, stays as it is.
    scale = np.sqrt(1 + (np.asarray(grid) / noise.sigma_data) ** 2)
    return Flow(source, (paths / scale[:, None, None])[..., :2], np.asarray(grid), size)
