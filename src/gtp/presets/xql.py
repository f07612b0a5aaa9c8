"""XQL: the paper's settings, tuned for every task (`paper`) or the same for all of a kind (`consistent`)."""

from __future__ import annotations

from typing import Any

from gtp.presets import LOCOMOTION, RUN, Preset, mazes, tasks

_LOCOMOTION: dict[str, Any] = {"temperature": 3.0, "normalise_obs": False}
_MAZE: dict[str, Any] = {"temperature": 10.0, "cosine_lr": False, "normalise_obs": False}
_LOCOMOTION_RUN = RUN | {"reward": "iql_locomotion", "eval_episodes": 10}
_MAZE_RUN = RUN | {"reward": "minus_one", "eval_episodes": 100}

# T, clip of the exponent, batch, and what else a task was given. Mazes were published on v0.
_TUNED: dict[str, tuple[float, float, int, dict[str, Any]]] = {
    "halfcheetah-medium-v2": (1.0, 7.0, 1024, {"action_noise": 0.1}),
    "hopper-medium-v2": (5.0, 7.0, 1024, {}),
    "walker2d-medium-v2": (10.0, 7.0, 1024, {}),
    "halfcheetah-medium-replay-v2": (1.0, 5.0, 256, {}),
    "hopper-medium-replay-v2": (2.0, 7.0, 256, {}),
    "walker2d-medium-replay-v2": (5.0, 5.0, 1024, {}),
    "halfcheetah-medium-expert-v2": (1.0, 5.0, 1024, {}),
    "hopper-medium-expert-v2": (2.0, 7.0, 1024, {"random_actions": 1}),
    "walker2d-medium-expert-v2": (2.0, 5.0, 256, {}),
    "antmaze-umaze-v0": (2.0, 7.0, 256, {}),
    "antmaze-umaze-diverse-v0": (5.0, 7.0, 256, {"random_actions": 1}),
    "antmaze-medium-play-v0": (0.8, 5.0, 256, {}),
    "antmaze-medium-diverse-v0": (0.6, 7.0, 256, {"value_updates": 4}),
    "antmaze-large-play-v0": (0.6, 5.0, 1024, {}),
    "antmaze-large-diverse-v0": (0.55, 5.0, 1024, {}),
}


def _tuned(task: str) -> Preset:
    value_temperature, clip, batch, more = _TUNED[task]
    maze = task.startswith("antmaze")
    agent = (_MAZE if maze else _LOCOMOTION) | more
    return Preset(
        agent | {"value_temperature": value_temperature, "exponent_clip": clip},
        (_MAZE_RUN if maze else _LOCOMOTION_RUN) | {"batch_size": batch},
    )


PRESETS = {
    "paper": {f"d4rl:{task}": _tuned(task) for task in _TUNED},
    "consistent": tasks(_LOCOMOTION | {"value_temperature": 2.0}, _LOCOMOTION_RUN, LOCOMOTION)
    | tasks(_MAZE | {"value_temperature": 0.6}, _MAZE_RUN, mazes("v0")),
}
"""preset -> data -> what it sets."""
