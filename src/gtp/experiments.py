"""The paper's experiments as data.

An experiment is a number of methods (an agent with some settings) on a number of tasks. Each pair is a cell,
which `experiment_cells` makes one run of. `experiment_times` measures, `experiment_tables` and
`experiment_picture` say and show what came out.

`full` takes the paper's tasks, settings and number of updates. `small` is the same on the 2-D multi-goal data
with small networks, minutes on two CPU cores: it shows that everything works, not what the tables show.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

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


def find(name: str) -> Experiment:
    """The experiment of a name."""
    if name not in EXPERIMENTS:
        raise UserError(f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]


def commands() -> Iterator[str]:
    """The command of each experiment, its title behind it."""
    for name, experiment in EXPERIMENTS.items():
        yield f"gtp experiment {name} --out results/{name}  # {experiment.title}"
