"""AWAC: CORL's settings, whose scores are the ones people quote."""

from __future__ import annotations

from gtp.presets import LOCOMOTION, RUN, mazes, tasks

PRESETS = {
    "corl": tasks({"temperature": 0.3333}, RUN | {"eval_episodes": 10}, LOCOMOTION)
    | tasks({"temperature": 0.1}, RUN | {"reward": "minus_one", "eval_episodes": 100}, mazes("v2")),
}
"""preset -> data -> what it sets."""
