"""GTP: the hyper-parameter table of the paper, and what mazes and the cube need beside our defaults."""

from __future__ import annotations

from typing import Any

from gtp.presets import Preset, maze_versions, mazes, peers_protocol

# What the paper says, or its peers' code where it is silent, against our measured defaults.
_PAPER_GTP: dict[str, Any] = {
    "time_weight": "none",
    "consistency_scaling": False,
    "critic_layer_norm": False,
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
    agent = _PAPER_GTP | {
        "actor_lr": lr,
        "eta": eta,
        "backup_candidates": 10 if max_q else 1,
        "actor_grad_clip": norm,
        "critic_grad_clip": norm,
    }
    return Preset(agent, peers_protocol(task))


# What mazes need beside our defaults: rewards of Diffusion-QL; a longer horizon (results/discounts), which
# umaze needs (its runs there have 250,000 updates) and medium-play and large-play bear; beyond umaze the best
# of ten candidates in the TD target, as measured on medium-play (results/antmaze-300k); umaze gains
# nothing by it. The diverse mazes are not measured.
_OURS = {
    f"d4rl:{task}": Preset(
        {"discount": 0.995, "backup_candidates": 1 if task == "antmaze-umaze-v2" else 10},
        {"steps": 300_000, "reward": "cql_antmaze", "eval_every": 100_000, "eval_episodes": 20},
    )
    for task in mazes("v2")
}
# What the cube needs (results/cube-single, results/cube-chunks): a critic of the data's own actions with TD
# targets of ten steps, weak weights, five actions learned as one, and a soft choice among candidates, all for
# acting by the average of 50. Where one sample is all there is, η = 1, expectile 0.9, one action and one step
# serve better (50 percent on task 1, 3 × 20).
_OURS |= {
    f"ogbench:cube-single-play-singletask-task{task}-v0": Preset(
        {
            "backup": "expectile",
            "baseline": "expectile",
            "expectile": 0.7,
            "eta": 0.3,
            "choice_temperature": 5.0,
        },
        {"n_step": 10, "chunk": 5, "steps": 100_000, "eval_every": 100_000, "eval_episodes": 50},
    )
    for task in range(1, 6)
}

PRESETS = {
    "paper": maze_versions({f"d4rl:{task}": _paper(task) for task in _PAPER_TABLE}),
    "ours": _OURS,
}
"""preset -> data -> what it sets."""
