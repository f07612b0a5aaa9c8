"""Gymnasium environments of our own; importing this package registers them."""

from __future__ import annotations

import gymnasium


def register() -> None:
    """Tell gymnasium our ids. Nothing heavy is imported before an environment is made."""
    if "gtp/MultiGoal-v0" not in gymnasium.registry:
        gymnasium.register(
            "gtp/MultiGoal-v0",
            entry_point="gtp.envs.multigoal:MultiGoalEnv",
            vector_entry_point="gtp.envs.multigoal:MultiGoalVectorEnv",
        )


register()
