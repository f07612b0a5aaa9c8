"""The picture of an experiment: what its policies do in the 2-D multi-goal world."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gtp import checkpoint, demo, demo_plot, policy
from gtp.data import load as load_data
from gtp.experiment_cells import Cell
from gtp.experiments import TOY
from gtp.types import Acting


def draw(root: Path, planned: list[Cell]) -> dict[str, Any]:
    """The multi-goal picture: the demonstrations, and each method's walks beside them (first living seed)."""
    walks, figures = {}, {}
    for one in planned:
        pi = policy.load(one.folder(root))
        walk = demo.rollout(lambda obs, key, pi=pi: pi.act(obs, Acting(), pi.first, key=key))
        walks[one.method], figures[one.method] = walk.positions, walk.figures()
    data = load_data(TOY)
    demo_plot.draw_walks(root / "multigoal.png", demo.paths(data.transitions), walks, figures)
    checkpoint.write_json(root / "figures.json", figures)
    return figures
