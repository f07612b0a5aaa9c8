"""Returns as scores between a random policy (0) and an expert (100), and the physics a score was taken in."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from gtp.envs import physics as d4rl_physics


class Reference(NamedTuple):
    """Returns that are 0 and 100 by definition."""

    random: float
    expert: float


REFERENCES = {
    "halfcheetah": Reference(-280.178953, 12135.0),
    "hopper": Reference(-20.272305, 3234.3),
    "walker2d": Reference(1.629008, 4592.3),
    "ant": Reference(-325.6, 3879.7),
    "antmaze": Reference(0.0, 1.0),
    "pen": Reference(96.262799, 3076.8331017826877),
    "hammer": Reference(-274.856578, 12794.134825156867),
    "door": Reference(-56.512833, 2880.5693087298737),
    "relocate": Reference(-6.425911, 4233.877797728884),
    "kitchen": Reference(0.0, 4.0),
}
"""D4RL's reference returns by the first word of a dataset's or environment's name."""


def reference(env_id: str) -> Reference | None:
    """The reference returns of an environment, None where nobody has set any.

    Takes gymnasium ids (`gtp/Hopper-d4rl-v2`) and names of data (`d4rl:hopper-medium-v2`) alike. Minari's
    and gymnasium's own environments have other physics or rewards, so D4RL's references are not theirs.
    """
    match = re.fullmatch(r"(?:gtp/|d4rl:)?([A-Za-z0-9]+)(?:-.*)?", env_id)
    ours = env_id.startswith(("gtp/", "d4rl:")) or env_id.islower()
    return REFERENCES.get(match.group(1).lower()) if match and ours else None


def normalised_score(env_id: str, value: float) -> float | None:
    """100 · (return − random) / (expert − random); None where the environment has no reference."""
    ref = reference(env_id)
    return None if ref is None else 100 * (value - ref.random) / (ref.expert - ref.random)


def physics(env_id: str) -> str:
    """What an evaluation row says of the simulator: its rules and its version."""
    if re.fullmatch(r"gtp/(AntMaze-\w+-v[02]|\w+-d4rl-v2)", env_id):
        return d4rl_physics.version()
    if re.fullmatch(r"gtp/(\w+-d4rl-v1|Kitchen-\w+-d4rl-v0)", env_id):
        return d4rl_physics.robotics_version()
    if env_id.startswith("gtp/"):
        return "numpy"
    try:
        return f"stock mujoco {version('mujoco')}"
    except PackageNotFoundError:
        return "unknown"
