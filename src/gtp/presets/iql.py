"""IQL: the settings of the paper and its code."""

from __future__ import annotations

from gtp.presets import LOCOMOTION, RUN, mazes, tasks

_GYM = tasks(
    {"expectile": 0.7, "temperature": 3.0, "normalise_obs": False},
    RUN | {"reward": "iql_locomotion", "eval_episodes": 10},
    LOCOMOTION,
)
# Published on v0; v2 is the same mazes with the episodes' ends repaired.
_MAZES = tasks(
    {"expectile": 0.9, "temperature": 10.0, "normalise_obs": False},
    RUN | {"reward": "minus_one", "eval_episodes": 100},
    mazes("v0") + mazes("v2"),
)
PRESETS = {"paper": _GYM | _MAZES}
"""preset -> data -> what it sets."""
