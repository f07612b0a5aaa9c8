"""Hyper-parameters of published tables, as data, and the command that runs each cell."""

from __future__ import annotations

from typing import Any, NamedTuple

from gtp.errors import UserError


class Preset(NamedTuple):
    """Overrides of an agent's Config and of a run's Settings."""

    agent: dict[str, Any]
    settings: dict[str, Any]


# What the paper says, or its peers' code where it is silent, against our measured defaults.
_PAPER_GTP: dict[str, Any] = {
    "time_weight": "none",
    "consistency_scaling": False,
    "baseline_samples": 10,
    "actor_target_rate": 0.005,
    "actor_target_every": 5,
    "normalise_obs": False,
}

# learning rate, η, max Q backup, gradient norm: the paper's table; "Q norm" is False throughout.
# The last three AntMaze rows are not in it: learning rate, backup and gradient norm are Diffusion-QL's (which
# all rows that are in it share), η is the value of most rows.
_PAPER_TABLE = {
    "halfcheetah-medium-v2": (3e-4, 5.0, False, 9.0),
    "hopper-medium-v2": (3e-4, 1.0, False, 9.0),
    "walker2d-medium-v2": (3e-4, 5.0, False, 1.0),
    "halfcheetah-medium-replay-v2": (3e-4, 5.0, False, 2.0),
    "hopper-medium-replay-v2": (3e-4, 5.0, False, 4.0),
    "walker2d-medium-replay-v2": (3e-4, 5.0, False, 4.0),
    "halfcheetah-medium-expert-v2": (3e-4, 5.0, False, 7.0),
    "hopper-medium-expert-v2": (3e-4, 5.0, False, 5.0),
    "walker2d-medium-expert-v2": (3e-4, 5.0, False, 5.0),
    "antmaze-umaze-v0": (3e-4, 5.0, False, 2.0),
    "antmaze-umaze-diverse-v0": (3e-4, 1.0, True, 3.0),
    "antmaze-medium-play-v0": (1e-3, 5.0, True, 2.0),
    "antmaze-medium-diverse-v0": (3e-4, 5.0, True, 1.0),
    "antmaze-large-play-v0": (3e-4, 5.0, True, 10.0),
    "antmaze-large-diverse-v0": (3e-4, 5.0, True, 7.0),
}


def _paper(task: str) -> Preset:
    lr, eta, max_q, norm = _PAPER_TABLE[task]
    maze = task.startswith("antmaze")
    agent = _PAPER_GTP | {
        "actor_lr": lr,
        "eta": eta,
        "backup_candidates": 10 if max_q else 1,
        "actor_grad_clip": norm,
        "critic_grad_clip": norm,
    }
    return Preset(
        agent,
        {
            "steps": 1_000_000 if maze else 2_000_000,
            "reward": "cql_antmaze" if maze else "none",
            "eval_every": 50_000,
            "eval_episodes": 100 if maze else 10,
        },
    )


PRESETS: dict[str, dict[str, dict[str, Preset]]] = {
    "gtp": {"paper": {f"d4rl:{task}": _paper(task) for task in _PAPER_TABLE}},
}
"""agent -> preset -> data -> what it sets. The v2 mazes take the paper's v0 rows."""

for _data, _preset in list(PRESETS["gtp"]["paper"].items()):
    if _data.startswith("d4rl:antmaze"):
        PRESETS["gtp"]["paper"][_data.replace("-v0", "-v2")] = _preset


def find(agent: str, preset: str, data: str) -> Preset:
    """The preset for an agent on some data; a path is looked up by its file's name."""
    known = PRESETS.get(agent, {})
    if preset not in known:
        have = ", ".join(known) or "none"
        raise UserError(f"agent {agent} has no preset called {preset!r} (it has: {have})")
    stem = data.removeprefix("d4rl:").rsplit("/", 1)[-1].removesuffix(".hdf5").replace("_", "-")
    for name in (data, f"d4rl:{stem}"):
        if name in known[preset]:
            return known[preset][name]
    raise UserError(
        f"preset {preset} of {agent} says nothing of {data}; `gtp presets {agent}` lists what it knows"
    )


def commands(agent: str) -> list[str]:
    """The exact command of each cell, behaviour cloning beside the full method."""
    rows = []
    for preset, cells in PRESETS.get(agent, {}).items():
        for data in cells:
            plain = f"gtp train {agent} --data {data} --preset {preset} --seeds 5"
            rows += [plain, f"{plain} --agent.eta 0"] if agent == "gtp" else [plain]
    return rows
