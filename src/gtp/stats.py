"""Statistics of scores over seeds and tasks; numpy only, and every random draw has a seed.

Scores of one method are a list with one array per task, holding one score per seed, so that tasks may have
different numbers of seeds. Every task counts the same. A leading axis is allowed throughout: (…, seeds).

The aggregates are those of Agarwal et al., "Deep RL at the edge of the statistical precipice" (2021). We do
not use their package, whose bootstrap takes no notice of its seed. Intervals are percentile bootstraps that
resample seeds within each task. With few seeds they are too narrow, as every such interval is:
`docs/evidence/coverage.csv` holds the share of simulated experiments in which they cover the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

Tasks = Sequence[np.ndarray]
"""One array of scores per task, (…, seeds)."""


class Interval(NamedTuple):
    """A confidence interval."""

    low: np.ndarray | float
    high: np.ndarray | float


class Summary(NamedTuple):
    """What a table says of some scores of one task."""

    mean: float
    std: float
    """Sample standard deviation over seeds; nan where there is only one."""
    iqm: float
    interval: tuple[float, float]
    """95 % interval of the mean; nan where there is only one seed."""
    count: int


def std(scores: np.ndarray) -> float:
    """Sample standard deviation (divided by n − 1); nan for a single score, which has none."""
    return float(np.std(scores, ddof=1)) if len(scores) > 1 else float("nan")


def mean(tasks: Tasks) -> np.ndarray:
    """Mean over tasks of the mean over seeds."""
    return np.mean([np.mean(scores, axis=-1) for scores in tasks], axis=0)


def iqm(tasks: Tasks) -> np.ndarray:
    """Interquartile mean: the mean of the middle half of all runs.

    A run at the edge of the middle half counts with the part that lies inside, so that the statistic is
    defined for any number of runs; for multiples of four it is the 25 % trimmed mean.
    """
    runs = np.concatenate(tasks, axis=-1)
    share = np.concatenate([np.full(s.shape[-1], 1 / (len(tasks) * s.shape[-1])) for s in tasks])
    order = np.argsort(runs, axis=-1)
    share = share[order]
    end = np.cumsum(share, axis=-1)
    inside = np.clip(np.minimum(end, 0.75) - np.maximum(end - share, 0.25), 0, None)
    return np.sum(inside * np.take_along_axis(runs, order, axis=-1), axis=-1) / np.sum(inside, axis=-1)


def probability_of_improvement(ours: Tasks, theirs: Tasks) -> np.ndarray:
    """P(a run of ours scores higher than one of theirs on the same task), a tie counting half."""
    pairs = [
        np.mean(0.5 * (np.sign(x[..., :, None] - y[..., None, :]) + 1), axis=(-2, -1))
        for x, y in zip(ours, theirs, strict=True)
    ]
    return np.mean(pairs, axis=0)


def performance_profile(tasks: Tasks, thresholds: np.ndarray) -> np.ndarray:
    """Share of runs that score above each threshold, (…, thresholds)."""
    above = [np.mean(scores[..., :, None] > thresholds, axis=-2) for scores in tasks]
    return np.mean(above, axis=0)


def bootstrap(
    statistic: Callable[..., np.ndarray],
    *methods: Tasks,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Percentile interval of `statistic(*methods)`, resampling seeds within each task of each method.

    The same scores and seed give the same interval. A method with a single seed on every task has no spread
    to resample, so its interval is nan.
    """
    if any(all(scores.shape[-1] < 2 for scores in tasks) for tasks in methods):
        return Interval(float("nan"), float("nan"))
    rng = np.random.default_rng(seed)
    drawn = [
        [scores[rng.integers(len(scores), size=(resamples, len(scores)))] for scores in tasks]
        for tasks in methods
    ]
    tail = (1 - level) / 2
    low, high = np.quantile(statistic(*drawn), [tail, 1 - tail], axis=0)
    return Interval(low, high)


def summary(scores: np.ndarray) -> Summary:
    """Mean, deviation, interquartile mean and 95 % interval of the mean over the seeds of one task."""
    low, high = bootstrap(mean, [scores])
    middle = float(iqm([scores]))
    return Summary(float(np.mean(scores)), std(scores), middle, (float(low), float(high)), len(scores))
