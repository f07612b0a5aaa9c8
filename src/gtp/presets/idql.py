"""IDQL: the settings of its published launcher, with IQL's rewards."""

from __future__ import annotations

from gtp.presets import Preset, iql_tasks

PRESETS = {
    "paper": {
        task: Preset(
            {"expectile": 0.9 if reward == "minus_one" else 0.7, "normalise_obs": False},
            {
                "reward": reward,
                "steps": 3_000_000,
                "batch_size": 512,
                "eval_every": 250_000,
                "eval_episodes": 50,
            },
        )
        for task, reward in iql_tasks().items()
    }
}
"""preset -> data -> what it sets."""
