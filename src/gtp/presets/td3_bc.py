"""TD3+BC: one setting for every task, as the paper has it; the mazes as CORL runs them."""

from __future__ import annotations

from gtp.presets import LOCOMOTION, RUN, mazes, tasks

PRESETS = {
    "paper": tasks({}, RUN | {"eval_episodes": 10}, LOCOMOTION),
    "corl": tasks({}, RUN | {"eval_episodes": 10}, LOCOMOTION)
    | tasks({}, RUN | {"reward": "minus_one", "eval_episodes": 100}, mazes("v2")),
}
"""preset -> data -> what it sets."""
