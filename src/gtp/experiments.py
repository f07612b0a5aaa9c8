"""The paper's experiments as data, and what runs them.

An experiment is a number of methods (an agent with some settings) on a number of tasks. Each pair is one run
in a directory of its own, DIR/METHOD/TASK; runs that are finished are left alone, others go on where they
stopped. DIR/summary.csv and summary.md say what came out.

`full` takes the paper's tasks, settings and number of updates. `small` is the same on the 2-D multi-goal data
with small networks, minutes on two CPU cores: it shows that everything works, not what the tables show.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from gtp import agents, config, presets
from gtp import run as runs
from gtp.errors import UserError

Scale = Literal["small", "full"]


class Method(NamedTuple):
    """A line of a table: an agent with settings that its preset and the scale do not decide."""

    label: str
    agent: str
    options: dict[str, Any] = {}  # noqa: RUF012
    """Fields of the agent's Config; a list for a number trains one member for each value."""


class Experiment(NamedTuple):
    """A table or figure of the paper."""

    title: str
    methods: tuple[Method, ...]
    tasks: tuple[str, ...]
    """At full scale."""
    kind: Literal["scores", "steps", "cost", "picture"] = "scores"
    """What there is beside scores: time of an action against K, all times and no scores, or a picture."""


GYM = tuple(
    f"d4rl:{robot}-{data}-v2"
    for data in ("medium", "medium-replay", "medium-expert")
    for robot in ("halfcheetah", "hopper", "walker2d")
)
MAZES = tuple(
    f"d4rl:antmaze-{maze}-v0"
    for maze in ("umaze", "umaze-diverse", "medium-play", "medium-diverse", "large-play", "large-diverse")
)
ABLATION = ("d4rl:hopper-medium-expert-v2",)
TOY = "toy:multigoal"

GTP = Method("GTP", "gtp")
D_QL, C_AC = Method("D-QL", "diffusion_ql"), Method("C-AC", "consistency_ac")
SOLVER = Method("ODE solver, 3 steps", "gtp", {"teacher": "solver", "solver": "euler", "solver_steps": 3})
FIXED = Method("fixed N = 40", "gtp", {"levels": "fixed", "levels_end": 40})
LINEAR = Method("linear Q term", "gtp", {"improvement": "linear", "q_weight": [0.01, 0.1, 1.0]})
SHORTCUT = Method("shortcut (no teacher)", "gtp", {"objective": "shortcut"})
MEAN_FLOW = Method("mean flow (identity)", "gtp", {"objective": "meanflow"})


def gtp_with_jumps(k: int) -> Method:
    """GTP trained and played with K jumps."""
    return Method(f"GTP, K = {k}", "gtp", {"sampling_steps": k})


EXPERIMENTS = {
    "table1": Experiment(
        "Table 1: behaviour cloning",
        (
            Method("BC", "bc"),
            Method("AWAC", "awac"),
            Method("Onestep RL", "onestep"),
            Method("TD3+BC", "td3_bc"),
            Method("D-BC", "diffusion_ql", {"q_weight": 0.0}),
            Method("C-BC", "consistency_ac", {"q_weight": 0.0}),
            Method("GTP-BC", "gtp", {"eta": 0.0}),
        ),
        GYM + MAZES,
    ),
    "table2": Experiment(
        "Table 2: offline RL",
        (
            Method("CQL", "cql"),
            Method("IQL", "iql"),
            Method("X-QL", "xql"),
            Method("IDQL", "idql"),
            D_QL,
            Method("QGPO", "qgpo"),
            C_AC,
            Method("FQL", "fql"),
            GTP,
        ),
        GYM + MAZES,
    ),
    "score-approximation": Experiment(
        "Ablation: the closed-form teacher against an ODE solver", (GTP, SOLVER), ABLATION
    ),
    "guidance": Experiment("Ablation: advantage weights against a linear Q term", (GTP, LINEAR), ABLATION),
    "sampling-steps": Experiment(
        "Sensitivity: jumps K from noise to action",
        tuple(map(gtp_with_jumps, range(1, 6))),
        ABLATION,
        "steps",
    ),
    "time-schedule": Experiment("Ablation: growing N(k) against a fixed N", (GTP, FIXED), ABLATION),
    "eta": Experiment(
        "Sensitivity: temperature η",
        (Method("GTP", "gtp", {"eta": [1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 20.0]}),),
        ABLATION,
    ),
    "actor-loss": Experiment(
        "Ablation: trajectory, shortcut and mean-flow objectives", (GTP, SHORTCUT, MEAN_FLOW), ABLATION
    ),
    "cost": Experiment(
        "Computational cost: time of an update and of an action",
        (
            D_QL,
            C_AC,
            Method("FQL", "fql"),
            gtp_with_jumps(5),
            gtp_with_jumps(2),
            SOLVER,
            FIXED,
            LINEAR._replace(options=LINEAR.options | {"q_weight": 0.01}),
            SHORTCUT,
            MEAN_FLOW,
        ),
        ABLATION,
        "cost",
    ),
    "multigoal": Experiment(
        "Figure: policies in the 2-D multi-goal world",
        (Method("Gaussian BC", "bc"), D_QL, C_AC, GTP._replace(options={"sampling_steps": 2})),
        (TOY,),
        "picture",
    ),
}

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
    settings: runs.Settings
    sweep: dict[str, Sequence[float]]

    def folder(self, root: Path) -> Path:
        """Where its run is."""
        return root / slug(self.method) / slug(self.settings.data)


def slug(text: str) -> str:
    """A name for a folder."""
    return re.sub(r"[^a-z0-9.+]+", "-", text.removeprefix("d4rl:").lower()).strip("-")


def find(name: str) -> Experiment:
    """The experiment of a name."""
    if name not in EXPERIMENTS:
        raise UserError(f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]


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
    return Cell(method.label, method.agent, agent_config, runs.Settings(data=task, **settings), sweep)


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


def perform(cell: Cell, root: Path, follow: Callable[[runs.Run, int, Any], None]) -> None:
    """Bring one run to its end; `follow` is told of its log points. A finished one is left alone."""
    folder = cell.folder(root)
    if (folder / "config.json").exists():
        run, state, alive = runs.resume(folder)
        same = (run.agent, run.config, run.sweep) == (cell.agent, cell.config, cell.sweep)
        if not same or run.settings != runs.resolve(cell.settings):
            raise UserError(f"{folder} is a run with other settings; name another --out")
        if state is not None and (int(np.max(state.step)) >= run.settings.steps or not np.any(alive)):
            return
    else:
        run, state, alive = runs.start(folder, cell.agent, cell.config, cell.settings, cell.sweep), None, None
    for point in runs.go(run, state, alive):
        follow(run, point.step, point)


def commands() -> Iterator[str]:
    """The command of each experiment, its title behind it."""
    for name, experiment in EXPERIMENTS.items():
        yield f"gtp experiment {name} --out results/{name}  # {experiment.title}"


def check(planned: list[Cell]) -> None:
    """Find what is wrong with any run before the first one starts."""
    for one in planned:
        config.check(one.config)
        config.check(runs.resolve(one.settings))
