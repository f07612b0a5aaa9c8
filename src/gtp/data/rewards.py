"""Reward transforms, chosen by name. R is the return of an episode, the sum of its rewards."""

from __future__ import annotations

import numpy as np

from gtp.errors import UserError

NAMES = (
    "none",
    "minus_one",
    "cql_antmaze",
    "corl_cql_antmaze",
    "rebrac_antmaze",
    "iql_locomotion",
    "standardise",
)


def transform(name: str, reward: np.ndarray, returns: np.ndarray | None) -> np.ndarray:
    """The rewards an agent trains on.

    Args:
        name: one of
            `none`: r;
            `minus_one`: r - 1;
            `cql_antmaze`: 4·(r - 0.5);
            `corl_cql_antmaze`: 10·(r - 0.5);
            `rebrac_antmaze`: 100·r;
            `iql_locomotion`: 1000·r / (max R - min R);
            `standardise`: (r - mean r) / std r.
        reward: r, one a transition.
        returns: R, one a logged episode; None where episodes are not known.

    Raises:
        UserError: for another name, or where the divisor is not a positive number.
    """
    if name == "none":
        return reward
    if name == "minus_one":
        return reward - np.float32(1)
    if name == "cql_antmaze":
        return (reward - np.float32(0.5)) * np.float32(4)
    if name == "corl_cql_antmaze":
        return (reward - np.float32(0.5)) * np.float32(10)
    if name == "rebrac_antmaze":
        return reward * np.float32(100)
    if name == "iql_locomotion":
        if returns is None:
            raise UserError("Reward transform 'iql_locomotion' needs episodes, and these data have none.")
        return (reward * (1000 / _positive(name, np.ptp(returns), "the episodes' returns"))).astype(
            np.float32
        )
    if name == "standardise":
        spread = _positive(name, reward.std(dtype=np.float64), "the rewards")
        return ((reward - reward.mean(dtype=np.float64)) / spread).astype(np.float32)
    raise UserError(f"There is no reward transform '{name}'; choose one of {', '.join(NAMES)}.")


def _positive(name: str, divisor: float, what: str) -> float:
    if not divisor > 0:
        raise UserError(
            f"Reward transform '{name}' divides by the spread of {what}, which are all equal here."
        )
    return float(divisor)
