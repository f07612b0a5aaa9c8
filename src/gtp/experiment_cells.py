"""The cells of an experiment: one run each, with all its settings, checked and brought to its end.

Each has a directory of its own, DIR/METHOD/TASK; runs that are finished are left alone, others go on where
they stopped.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gtp import agents, config, presets
from gtp import run as runs
from gtp.errors import UserError
from gtp.experiments import TOY, Experiment, Method, Scale
from gtp.plan import Run, Settings, resolve

# What the multi-goal data want at either scale: small networks for all; `gtp demo` says why for GTP's own.
# Where a critic pulls at the actor it pulls gently: at the published weight it pulls off the bridges, where
# there are no data. Consistency-AC's levels and its lag are made for actions, and runs, of another size.
_TOY_ALL = dict.fromkeys(("hidden", "actor_hidden", "critic_hidden"), (64, 64, 64)) | dict.fromkeys(
    ("lr", "actor_lr", "critic_lr"), 1e-3
)
_TOY_OWN: dict[str, dict[str, Any]] = {
    "gtp": {
        "eta": 1.0,
        "critic_layer_norm": False,
        "baseline": "expectile",
        "expectile": 0.5,
        "weight_clip": 4.0,
        "t_min": 0.02,
        "t_max": 2.5,
        "sigma_data": 0.65,
        "sampling_steps": 2,
    },
    "diffusion_ql": {"q_weight": 0.1},
    # Fewer samples in an update, which are most of its time.
    "cql": {"samples": 4},
    "qgpo": {"support": 4, "sampling_steps": 5},
    "consistency_ac": {
        "q_weight": 0.1,
        "t_max": 2.5,
        "levels_end": 40,
        "actor_target_rate": 0.05,
        "actor_target_every": 1,
        "actor_target_start": 0,
    },
}
_TOY_SETTINGS = {"batch_size": 128, "log_every": 1000, "eval_episodes": 100}
_TOY_STEPS = {"small": 4000, "full": 25_000}
_TOY_EVAL_EVERY = {"small": 2000, "full": 5000}


class Cell(NamedTuple):
    """One run of an experiment, all resolved."""

    method: str
    agent: str
    config: Any
    settings: Settings
    sweep: dict[str, Sequence[float]]

    def folder(self, root: Path) -> Path:
        """Where its run is."""
        return root / slug(self.method) / slug(self.settings.data)


def slug(text: str) -> str:
    """A name for a folder."""
    return re.sub(r"[^a-z0-9.+]+", "-", text.removeprefix("d4rl:").lower()).strip("-")


def cells(
    experiment: Experiment, scale: Scale, seeds: int | None = None, steps: int | None = None
) -> tuple[list[Cell], list[str]]:
    """The runs of an experiment, and a sentence for each method that this version of gtp does not have."""
    found, missing = [], []
    for method in experiment.methods:
        if method.agent not in agents.NAMES:
            missing.append(f"{method.label} is left out: there is no agent {method.agent}")
            continue
        for task in experiment.tasks if scale == "full" else (TOY,):
            found.append(cell(method, task, scale, seeds, steps))
    return found, missing


def cell(method: Method, task: str, scale: Scale, seeds: int | None, steps: int | None) -> Cell:
    """A method on a task: the agent's preset, if there is one, then the method, then what was asked for."""
    module = agents.get(method.agent)
    names = {f.name for f in dataclasses.fields(module.Config)}
    options, settings = defaults(method.agent, task, scale)
    options = {k: v for k, v in options.items() if k in names} | method.options
    if steps is not None:
        # A run this short is a trial of the machinery: it is looked at once, at its end.
        settings |= {"steps": steps, "log_every": steps, "save_every": steps, "eval_every": 0}
    settings |= {"seeds": seeds or (5 if scale == "full" else 2)}
    sweep: dict[str, Sequence[float]] = {k: tuple(v) for k, v in options.items() if isinstance(v, list)}
    agent_config = module.Config(**options | {k: v[0] for k, v in sweep.items()})
    return Cell(method.label, method.agent, agent_config, Settings(data=task, **settings), sweep)


def defaults(agent: str, task: str, scale: Scale) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options and settings of an agent on a task: its own preset, or else the protocol of the paper's GTP."""
    if task == TOY:
        steps = _TOY_STEPS[scale]
        settings = _TOY_SETTINGS | {"steps": steps, "save_every": steps, "eval_every": _TOY_EVAL_EVERY[scale]}
        # N(k) of Consistency-AC has a period of its own; GTP's follows the run.
        period = {"levels_period": steps} if agent == "consistency_ac" else {}
        return _TOY_ALL | _TOY_OWN.get(agent, {}) | period, settings
    own = presets.presets(agent).get("paper", {}).get(task)
    preset = own or presets.find("gtp", "paper", task)
    return (dict(preset.agent) if own else {}), dict(preset.settings)


def check(planned: list[Cell]) -> None:
    """Find what is wrong with any run before the first one starts."""
    for one in planned:
        config.check(one.config)
        config.check(resolve(one.settings))


def perform(cell: Cell, root: Path, follow: Callable[[Run, int, Any], None]) -> None:
    """Bring one run to its end; `follow` is told of its log points. A finished one is left alone."""
    folder = cell.folder(root)
    if (folder / "config.json").exists():
        run, state, alive = runs.resume(folder)
        same = (run.agent, run.config, run.sweep) == (cell.agent, cell.config, cell.sweep)
        if not same or run.settings != resolve(cell.settings):
            raise UserError(f"{folder} is a run with other settings; name another --out")
        if state is not None and (int(np.max(state.step)) >= run.settings.steps or not np.any(alive)):
            return
    else:
        run, state, alive = runs.start(folder, cell.agent, cell.config, cell.settings, cell.sweep), None, None
    for point in runs.go(run, state, alive):
        follow(run, point.step, point)
