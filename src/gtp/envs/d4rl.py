"""The gymnasium ids of D4RL's environments."""

from __future__ import annotations

import gymnasium

LOCOMOTION = {"Hopper": "hopper", "Walker2d": "walker2d", "HalfCheetah": "halfcheetah", "Ant": "ant"}
MAZES = {"umaze": 700, "medium": 1000, "large": 1000}
"""Steps an evaluation episode lasts at most."""
HAND = {"Door": 200, "Hammer": 200, "Pen": 100, "Relocate": 200}
KITCHEN = {"complete": 280, "partial": 280, "mixed": 280}


def register() -> None:
    """Make the ids known to gymnasium; the simulator is imported when one is made."""
    for name, task in LOCOMOTION.items():
        _register(f"gtp/{name}-d4rl-v2", "gtp.envs.locomotion:Locomotion", 1000, task=task)
    for maze, limit in MAZES.items():
        for version, fixed in (("v0", True), ("v2", False)):
            env_id = f"gtp/AntMaze-{maze}-{version}"
            _register(env_id, "gtp.envs.antmaze:AntMaze", limit, maze=maze, fixed_goal=fixed)
    for name, limit in HAND.items():
        _register(f"gtp/{name}-d4rl-v1", "gtp.envs.adroit:Adroit", limit, task=name.lower())
    for task, limit in KITCHEN.items():
        _register(f"gtp/Kitchen-{task}-d4rl-v0", "gtp.envs.kitchen:Kitchen", limit, task=task)


def _register(env_id: str, entry_point: str, limit: int, **kwargs: object) -> None:
    if env_id not in gymnasium.registry:
        gymnasium.register(env_id, entry_point, max_episode_steps=limit, kwargs=kwargs)
