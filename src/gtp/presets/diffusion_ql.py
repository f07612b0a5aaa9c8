"""Diffusion-QL: the table in its published code."""

from __future__ import annotations

from gtp.presets import Preset, maze_versions, peers_protocol

# learning rate, η, max Q backup, gradient norm
_TABLE = {
    "halfcheetah-medium-v2": (3e-4, 1.0, False, 9.0),
    "hopper-medium-v2": (3e-4, 1.0, False, 9.0),
    "walker2d-medium-v2": (3e-4, 1.0, False, 1.0),
    "halfcheetah-medium-replay-v2": (3e-4, 1.0, False, 2.0),
    "hopper-medium-replay-v2": (3e-4, 1.0, False, 4.0),
    "walker2d-medium-replay-v2": (3e-4, 1.0, False, 4.0),
    "halfcheetah-medium-expert-v2": (3e-4, 1.0, False, 7.0),
    "hopper-medium-expert-v2": (3e-4, 1.0, False, 5.0),
    "walker2d-medium-expert-v2": (3e-4, 1.0, False, 5.0),
    "antmaze-umaze-v0": (3e-4, 0.5, False, 2.0),
    "antmaze-umaze-diverse-v0": (3e-4, 2.0, True, 3.0),
    "antmaze-medium-play-v0": (1e-3, 2.0, True, 2.0),
    "antmaze-medium-diverse-v0": (3e-4, 3.0, True, 1.0),
    "antmaze-large-play-v0": (3e-4, 4.5, True, 10.0),
    "antmaze-large-diverse-v0": (3e-4, 3.5, True, 7.0),
    "pen-human-v1": (3e-5, 0.15, False, 7.0),
    "pen-cloned-v1": (3e-5, 0.1, False, 8.0),
    "kitchen-complete-v0": (3e-4, 0.005, False, 9.0),
    "kitchen-partial-v0": (3e-4, 0.005, False, 10.0),
    "kitchen-mixed-v0": (3e-4, 0.005, False, 10.0),
}
_STEPS = {"kitchen-complete-v0": 250_000}


def _cell(task: str) -> Preset:
    lr, eta, max_q, norm = _TABLE[task]
    agent = {
        "actor_lr": lr,
        "q_weight": eta,
        "backup_candidates": 10 if max_q else 1,
        "grad_clip": norm,
        "normalise_obs": False,
    }
    protocol = peers_protocol(task)
    return Preset(agent, protocol | {"steps": _STEPS.get(task, protocol["steps"])})


PRESETS = {"paper": maze_versions({f"d4rl:{task}": _cell(task) for task in _TABLE})}
"""preset -> data -> what it sets."""
