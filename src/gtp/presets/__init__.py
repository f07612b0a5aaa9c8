"""Hyper-parameters of published tables, as data (one file an agent), and the command that runs each cell."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, NamedTuple

from gtp.errors import UserError


class Preset(NamedTuple):
    """Overrides of an agent's Config and of a run's Settings."""

    agent: dict[str, Any]
    settings: dict[str, Any]


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
            rows += [plain, f"{plain} --agent.eta 0"] if agent == "gtp" else [plain]
    return rows
