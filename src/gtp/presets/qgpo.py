"""QGPO: the settings of its published code that do not depend on evaluation.

The published guidance is chosen for each task by evaluating several; here it is the default, or what you set.
"""

from __future__ import annotations

from gtp.presets import Preset, iql_tasks

PRESETS = {
    "paper": {
        task: Preset(
            {"beta": 3.0, "support": 32 if reward == "minus_one" else 16, "normalise_obs": False},
            {"reward": reward, "steps": 1_000_000, "eval_every": 50_000, "eval_episodes": 10},
        )
        for task, reward in iql_tasks().items()
    }
}
"""preset -> data -> what it sets."""
