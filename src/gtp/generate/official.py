"""Figures of the official datasets, and how a made one stands beside them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np


class Figures(NamedTuple):
    """What is known of a dataset; None is not known."""

    rows: int
    episodes: int | None = None
    mean_return: float | None = None


OFFICIAL = {
    "d4rl:hopper-medium-v2": Figures(1_000_000, 2187, 1422),
    "d4rl:walker2d-medium-v2": Figures(1_000_000, 1191, 2852),
    "d4rl:halfcheetah-medium-v2": Figures(1_000_000, 1000, 4770),
    "d4rl:hopper-expert-v2": Figures(1_000_000, None, 3511),
    "d4rl:walker2d-expert-v2": Figures(1_000_000, None, 4920),
    "d4rl:halfcheetah-expert-v2": Figures(1_000_000, 1000, 10656),
    "d4rl:hopper-medium-expert-v2": Figures(2_000_000, 3214),
    "d4rl:walker2d-medium-expert-v2": Figures(2_000_000, 2191),
    "d4rl:halfcheetah-medium-expert-v2": Figures(2_000_000, 2000),
    "d4rl:hopper-medium-replay-v2": Figures(402_000, 2041),
    "d4rl:walker2d-medium-replay-v2": Figures(302_000, 1093),
    "d4rl:halfcheetah-medium-replay-v2": Figures(202_000, 202),
}
"""Episodes from TensorFlow Datasets' catalogue, mean returns as published logs give them."""


class Summary(NamedTuple):
    """What a file holds."""

    rows: int
    episodes: int
    """Finished ones; rows after the last end are in none."""
    mean_return: float
    std_return: float
    mean_length: float


def summarise(path: Path) -> Summary:
    """Count the finished episodes of a file in D4RL's layout."""
    with h5py.File(path) as file:
        rewards, terminals, timeouts = (np.asarray(file[key]) for key in ("rewards", "terminals", "timeouts"))
    # An AntMaze terminal marks a reached goal in a walk that goes on: there only a time-out is an end.
    relabelled = (terminals[:-1] & terminals[1:]).any() if len(rewards) > 1 else False
    ends = np.flatnonzero(timeouts if relabelled else terminals | timeouts)
    sums = np.concatenate([[0.0], np.cumsum(rewards, dtype=np.float64)])[np.concatenate([[0], ends + 1])]
    returns = np.diff(sums)
    if not len(returns):
        return Summary(len(rewards), 0, float("nan"), float("nan"), float("nan"))
    length = float((ends[-1] + 1) / len(ends))
    return Summary(len(rewards), len(ends), float(returns.mean()), float(returns.std()), length)


def compare(name: str, path: Path) -> str:
    """A made file beside the official one of that name, in words, for the end of `gtp data make`."""
    made = summarise(path)
    text = (
        f"{name}: {made.rows:,} rows, {made.episodes:,} finished episodes of {made.mean_length:.0f} steps,"
        f" return {made.mean_return:.1f} ± {made.std_return:.1f}."
    )
    official = OFFICIAL.get(name)
    if official is None:
        return text
    known = []
    if official.episodes is not None:
        known.append(f"{official.episodes:,} episodes")
    if official.mean_return is not None:
        known.append(f"mean return {official.mean_return:.0f}")
    return f"{text} The official file: {official.rows:,} rows, {', '.join(known)}."
