"""What a log holds and what looks wrong with it, as plain numbers and sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gtp.data import own
from gtp.data.arrays import array_names, read_arrays
from gtp.data.dataset import Log, Rows, episode_sums

BARS = "▏▎▍▌▋▊▉█"
FAR = 10
"""Steps in genuine episodes are below 7 times what 99 % keep to; unmarked ends are 12 to 92 times it."""


def summary(log: Log) -> dict[str, Any]:
    """Everything `gtp data show` prints, ready for JSON."""
    rows = log.rows
    ends = log.ends.copy()
    ends[-1:] = True
    returns = episode_sums(rows.rewards, ends)
    lengths = np.diff(np.flatnonzero(ends), prepend=-1)
    # As many bins as there is something to see in, and one where all returns are equal.
    bins = min(12, 2 + int(np.sqrt(len(returns)))) if np.ptp(returns) > 0 else np.full(2, returns[0])
    counts, edges = np.histogram(returns, bins)
    return {
        "rows": len(rows.rewards),
        "transitions": len(log.pair(rows).reward),
        "episodes": len(returns),
        "terminals": int(rows.terminals.sum()),
        "timeouts": int(rows.timeouts.sum()),
        "unfinished": int(not log.ends[-1]),
        "observation": {"shape": list(rows.observations.shape[1:]), "dtype": str(rows.observations.dtype)}
        | _range(rows.observations),
        "action": {"dimensions": rows.actions.shape[1]} | _range(rows.actions),
        "reward": _range(rows.rewards) | {"mean": float(rows.rewards.mean(dtype=np.float64))},
        "length": _spread(lengths),
        "return": _spread(returns) | {"counts": counts.tolist(), "edges": edges.tolist()},
        "env": log.env,
        "metadata": log.metadata,
        "notes": list(log.notes),
        "suspicions": suspicions(log),
    }


def _range(array: np.ndarray) -> dict[str, float]:
    return {"min": float(array.min()), "max": float(array.max())}


def _spread(values: np.ndarray) -> dict[str, float]:
    quartiles = {f"{p}%": float(np.percentile(values, p)) for p in (25, 50, 75)}
    return {"min": float(values.min()), **quartiles, "max": float(values.max()), "mean": float(values.mean())}


def suspicions(log: Log) -> list[str]:
    """What is allowed but rarely meant, one sentence each."""
    rows, found = log.rows, []
    ends = rows.terminals | rows.timeouts | log.ends
    if not ends[:-1].any():
        found.append("The whole log is one episode: nothing before its last row marks an end.")
    found += _flags(log)
    found += _continuity(rows, ends)
    spread = np.ptp(rows.actions, axis=0)
    if (constant := np.flatnonzero(spread == 0)).size:
        found.append(f"Actions never change in dimension {_some(constant)}.")
    at_bound = (rows.actions == rows.actions.min(0)) | (rows.actions == rows.actions.max(0))
    if (stuck := np.flatnonzero((at_bound.mean(0) > 0.5) & (spread > 0))).size:
        found.append(f"More than half of the actions lie at their bounds in dimension {_some(stuck)}.")
    if log.action_low is not None and log.action_high is not None:
        outside = ((rows.actions < log.action_low) | (rows.actions > log.action_high)).any(1)
        if outside.any():
            first = outside.argmax()
            found.append(
                f"{outside.sum():,} actions lie outside the bounds, row {first} first; they are clipped."
            )
    # A cost for every step is a task all the same, where reaching the end stops it.
    if np.ptp(rows.rewards) == 0 and not (rows.rewards[0] and rows.terminals.any()):
        found.append(f"Every reward is {rows.rewards[0]:g}: there is nothing to tell good from bad by.")
    if rows.observations.ndim == 2:
        constant = np.flatnonzero(np.ptp(rows.observations, axis=0) == 0)
        if constant.size:
            found.append(f"Observations never change in feature {_some(constant)}.")
        largest = np.abs(rows.observations).max(0)
        if (huge := np.flatnonzero(largest > 1e4)).size:
            found.append(f"Observations reach {largest.max():.3g} in feature {_some(huge)}.")
    return found


def _flags(log: Log) -> list[str]:
    rows, found = log.rows, []
    both = rows.terminals & rows.timeouts
    if both.any():
        found.append(f"{both.sum():,} rows are terminal and time-out at once, row {both.argmax()} first.")
    # Where episodes go on after success, terminals one after the other are meant.
    if (log.ends >= rows.terminals).all():
        again = rows.terminals[1:] & rows.terminals[:-1]
        if again.any():
            found.append(
                f"{again.sum():,} terminal rows follow a terminal row, row {again.argmax() + 1} first."
            )
    stops = np.flatnonzero(rows.terminals)
    lengths = np.diff(np.flatnonzero(log.ends), prepend=-1)
    if (
        len(stops) >= 3
        and not rows.timeouts.any()
        and len(lengths) >= 3
        and np.ptp(lengths) == 0
        and lengths[0] > 1
    ):
        found.append(
            f"Every episode ends in a terminal after exactly {lengths[0]} rows: these are likely time-outs, "
            "which belong in 'timeouts'."
        )
    return found


def _continuity(rows: Rows, ends: np.ndarray) -> list[str]:
    """Rows that claim to follow each other and do not."""
    inside = ~ends[:-1]
    if rows.observations.ndim != 2 or not inside.any():
        return []
    if rows.next_observations is not None:
        apart = (np.abs(rows.next_observations[:-1] - rows.observations[1:]) > 1e-5).any(1) & inside
        if apart.any():
            return [
                f"{apart.sum():,} rows have next_observations that are not the next row's observations, "
                f"row {apart.argmax()} first: an episode end is missing there, or rows were shuffled."
            ]
        return []
    steps = np.abs(np.diff(rows.observations, axis=0))
    usual = np.percentile(steps[inside], 99, axis=0, method="lower")
    jumps = (steps > FAR * np.where(usual > 0, usual, np.inf)).any(1) & inside
    if jumps.any():
        return [
            f"{jumps.sum():,} rows lie more than {FAR} times as far from the next one as 99 % do, "
            f"row {jumps.argmax()} first: an episode end may be missing there."
        ]
    return []


def _some(indices: np.ndarray) -> str:
    shown = ", ".join(str(index) for index in indices[:6])
    return shown if len(indices) <= 6 else f"{shown} and {len(indices) - 6} more"


def check(path: Path) -> dict[str, Any]:
    """Every fault of a user's file, and what looks wrong where there is none, ready for JSON."""
    faults = own.faults(read_arrays(path, own.KEYS), array_names(path))
    doubts = [] if faults else suspicions(own.read(path))
    return {"file": str(path), "faults": [fault._asdict() for fault in faults], "suspicions": doubts}


def histogram(counts: list[int], edges: list[float], width: int = 40) -> list[str]:
    """A histogram in text: a line a bin, its bar in eighths of a character."""
    most = max(counts)
    lines = []
    for count, low, high in zip(counts, edges[:-1], edges[1:], strict=True):
        eighths = round(count / most * width * 8) if most else 0
        bar = "█" * (eighths // 8) + (BARS[eighths % 8 - 1] if eighths % 8 else "")
        lines.append(f"{low:>10.4g} … {high:<10.4g} {bar or ('▏' if count else '')} {count or ''}".rstrip())
    return lines
