"""CQL: CORL's settings, whose scores are the ones people quote.

CORL also rescales the rewards of hopper-medium; by how much its configuration leaves open, and we do not.
"""

from __future__ import annotations

from gtp.presets import LOCOMOTION, RUN, mazes, tasks

_MAZE = {
    "alpha": 5.0,
    "lagrange": True,
    "gap_target": 0.8,
    "gap_floor": -200.0,
    "backup_candidates": 10,
    "actor_lr": 1e-4,
    "critic_hidden": (256,) * 5,
    "normalise_obs": False,
}
PRESETS = {
    "corl": tasks({"alpha": 10.0, "actor_lr": 3e-5}, RUN | {"eval_episodes": 10}, LOCOMOTION)
    | tasks(_MAZE, RUN | {"reward": "corl_cql_antmaze", "eval_episodes": 100}, mazes("v2")),
}
"""preset -> data -> what it sets."""
