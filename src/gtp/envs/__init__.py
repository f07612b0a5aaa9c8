"""Gymnasium environments of our own; importing this package registers them."""

from __future__ import annotations

import gymnasium

from gtp.envs import d4rl


def register() -> None:
    """Tell gymnasium our ids. Nothing heavy is imported before an environment is made."""
    if "gtp/MultiGoal-v0" not in gymnasium.registry:
        gymnasium.register(
            "gtp/MultiGoal-v0",
            entry_point="gtp.envs.multigoal:MultiGoalEnv",
            vector_entry_point="gtp.envs.multigoal:MultiGoalVectorEnv",
        )
    if "gtp/MultiGoalPixels-v0" not in gymnasium.registry:
        gymnasium.register(
            "gtp/MultiGoalPixels-v0",
            entry_point="gtp.envs.pixels:make",
            vector_entry_point="gtp.envs.pixels:make_many",
        )
    d4rl.register()


register()
