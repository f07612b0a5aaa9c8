"""FQL: the settings of its published code, for OGBench's single tasks, AntMaze and Adroit."""

from __future__ import annotations

from typing import Any

from gtp.presets import Preset

_HARD: dict[str, Any] = {"discount": 0.995}
_CAUTIOUS: dict[str, Any] = {"q_aggregate": "min"}
# α, and what differs from the defaults
_OGBENCH: dict[str, tuple[float, dict[str, Any]]] = {
    "antmaze-large-navigate": (10.0, _CAUTIOUS),
    "antmaze-giant-navigate": (10.0, _CAUTIOUS | _HARD),
    "humanoidmaze-medium-navigate": (30.0, _HARD),
    "humanoidmaze-large-navigate": (30.0, _HARD),
    "antsoccer-arena-navigate": (10.0, _HARD),
    "cube-single-play": (300.0, {}),
    "cube-double-play": (300.0, {}),
    "scene-play": (300.0, {}),
    "puzzle-3x3-play": (1000.0, {}),
    "puzzle-4x4-play": (1000.0, {}),
}
_VISUAL = {
    "cube-single-play": 300.0,
    "cube-double-play": 100.0,
    "scene-play": 100.0,
    "puzzle-3x3-play": 300.0,
    "puzzle-4x4-play": 300.0,
}
_ANTMAZE = {
    "umaze": 10.0,
    "umaze-diverse": 10.0,
    "medium-play": 10.0,
    "medium-diverse": 10.0,
    "large-play": 3.0,
    "large-diverse": 3.0,
}
# human, cloned, expert
_ADROIT = {
    "pen": (10_000.0, 10_000.0, 3_000.0),
    "door": (30_000.0, 30_000.0, 30_000.0),
    "hammer": (30_000.0, 10_000.0, 30_000.0),
    "relocate": (10_000.0, 30_000.0, 30_000.0),
}


def _cell(alpha: float, steps: int, changes: dict[str, Any] | None = None, reward: str = "none") -> Preset:
    agent = {"alpha": alpha, "normalise_obs": False} | (changes or {})
    return Preset(agent, {"steps": steps, "reward": reward, "eval_every": 100_000, "eval_episodes": 50})


_CELLS = {
    f"ogbench:{name}-singletask-task{task}-v0": _cell(alpha, 1_000_000, changes)
    for name, (alpha, changes) in _OGBENCH.items()
    for task in range(1, 6)
}
_CELLS |= {
    f"ogbench:visual-{name}-singletask-task1-v0": _cell(alpha, 500_000) for name, alpha in _VISUAL.items()
}
_CELLS |= {
    f"d4rl:antmaze-{maze}-v2": _cell(alpha, 500_000, reward="minus_one") for maze, alpha in _ANTMAZE.items()
}
_CELLS |= {
    f"d4rl:{hand}-{source}-v1": _cell(alpha, 500_000, _CAUTIOUS)
    for hand, alphas in _ADROIT.items()
    for source, alpha in zip(("human", "cloned", "expert"), alphas, strict=True)
}
PRESETS = {"paper": _CELLS}
"""preset -> data -> what it sets."""
