"""Hyper-parameters of published tables and some of ours, as data, one file an agent; each cell's command."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, NamedTuple

from gtp.errors import UserError


class Preset(NamedTuple):
    """Overrides of an agent's Config and of a run's Settings."""

    agent: dict[str, Any]
    settings: dict[str, Any]


CLONING = {
    "gtp": "--agent.eta 0",
    "diffusion_ql": "--agent.q-weight 0",
    "consistency_ac": "--agent.q-weight 0",
}
"""What makes behaviour cloning of an agent, where tables have both."""


def maze_versions(cells: dict[str, Preset]) -> dict[str, Preset]:
    """The cells, with the v2 mazes beside the v0 mazes whose settings they take."""
    return cells | {task.replace("-v0", "-v2"): cell for task, cell in cells.items() if "antmaze" in task}


def peers_protocol(task: str) -> dict[str, Any]:
    """How Diffusion-QL, Consistency-AC and GTP run a D4RL task: updates, rewards, evaluations."""
    maze, hand = task.startswith("antmaze"), task.startswith("pen")
    return {
        "steps": 2_000_000 if task.endswith("v2") else 1_000_000,
        "reward": "cql_antmaze" if maze else "standardise" if hand else "none",
        "eval_every": 50_000,
        "eval_episodes": 10 if task.endswith("v2") else 100,
    }


LOCOMOTION = tuple(
    f"{robot}-{data}-v2"
    for data in ("medium", "medium-replay", "medium-expert")
    for robot in ("halfcheetah", "hopper", "walker2d")
)
"""D4RL's nine locomotion tasks, in the order of published tables."""

MAZES = tuple(
    f"antmaze-{maze}"
    for maze in ("umaze", "umaze-diverse", "medium-play", "medium-diverse", "large-play", "large-diverse")
)
"""D4RL's six mazes, without their version."""


def tasks(agent: dict[str, Any], settings: dict[str, Any], names: tuple[str, ...]) -> dict[str, Preset]:
    """The same overrides for several D4RL tasks."""
    return {f"d4rl:{name}": Preset(agent, settings) for name in names}


def mazes(version: str) -> tuple[str, ...]:
    """The six mazes of a version, v0 or v2."""
    return tuple(f"{maze}-{version}" for maze in MAZES)


def iql_tasks() -> dict[str, str]:
    """D4RL's locomotion and AntMaze tasks (v2), each with the rewards IQL and its heirs train on."""
    walks = {f"d4rl:{task}": "iql_locomotion" for task in LOCOMOTION}
    return walks | {f"d4rl:{task}": "minus_one" for task in mazes("v2")}


RUN = {"steps": 1_000_000, "eval_every": 50_000}
"""A million updates, as nearly everyone's; the evaluations between are for the eye, the last one counts."""


def presets(agent: str) -> dict[str, dict[str, Preset]]:
    """One agent's: preset -> data -> what it sets; empty where nothing was published."""
    name = f"gtp.presets.{agent}"
    return importlib.import_module(name).PRESETS if importlib.util.find_spec(name) else {}


def find(agent: str, preset: str, data: str) -> Preset:
    """The preset for an agent on some data; a path is looked up by its file's name."""
    known = presets(agent)
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
    for preset, cells in presets(agent).items():
        for data in cells:
            plain = f"gtp train {agent} --data {data} --preset {preset} --seeds 5"
            rows += [plain, f"{plain} {CLONING[agent]}"] if agent in CLONING else [plain]
    return rows
