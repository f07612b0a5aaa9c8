"""ReBRAC: the penalties of each task and what surrounds them, as published."""

from __future__ import annotations

from gtp.presets import RUN, Preset

# β₁ (actor), β₂ (critic).
_LOCOMOTION = {
    "halfcheetah-medium-v2": (0.001, 0.01),
    "hopper-medium-v2": (0.01, 0.01),
    "walker2d-medium-v2": (0.05, 0.1),
    "halfcheetah-medium-replay-v2": (0.01, 0.001),
    "hopper-medium-replay-v2": (0.05, 0.5),
    "walker2d-medium-replay-v2": (0.05, 0.01),
    "halfcheetah-medium-expert-v2": (0.01, 0.1),
    "hopper-medium-expert-v2": (0.1, 0.01),
    "walker2d-medium-expert-v2": (0.01, 0.01),
}
_MAZES = {
    "antmaze-umaze-v2": (0.003, 0.002),
    "antmaze-umaze-diverse-v2": (0.003, 0.001),
    "antmaze-medium-play-v2": (0.001, 0.0005),
    "antmaze-medium-diverse-v2": (0.001, 0.0),
    "antmaze-large-play-v2": (0.002, 0.001),
    "antmaze-large-diverse-v2": (0.002, 0.002),
}
_LOCOMOTION_LRS = {"actor_lr": 1e-3, "critic_lr": 1e-3}
_MAZE_LRS = {"actor_lr": 3e-4, "critic_lr": 5e-5, "discount": 0.999}


def _penalties(actor: float, critic: float) -> dict[str, float | bool]:
    return {"actor_penalty": actor, "critic_penalty": critic, "normalise_obs": False}


PRESETS = {
    "paper": {
        f"d4rl:{task}": Preset(
            _penalties(*betas) | _LOCOMOTION_LRS, RUN | {"batch_size": 1024, "eval_episodes": 10}
        )
        for task, betas in _LOCOMOTION.items()
    }
    | {
        f"d4rl:{task}": Preset(
            _penalties(*betas) | _MAZE_LRS, RUN | {"reward": "rebrac_antmaze", "eval_episodes": 100}
        )
        for task, betas in _MAZES.items()
    }
}
"""preset -> data -> what it sets."""
