"""Reward transforms against their formulas, and how one is chosen."""

import numpy as np
import pytest
from data_helpers import log, write

from gtp.data import load, rewards
from gtp.data.dataset import episode_sums
from gtp.errors import UserError

REWARD = np.array([0, 1, 0, 1, 5], np.float32)
RETURNS = np.array([2.0, 5.0])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("none", [0, 1, 0, 1, 5]),
        ("minus_one", [-1, 0, -1, 0, 4]),
        ("cql_antmaze", [-2, 2, -2, 2, 18]),
        ("corl_cql_antmaze", [-5, 5, -5, 5, 45]),
        ("rebrac_antmaze", [0, 100, 0, 100, 500]),
        ("iql_locomotion", [0, 1000 / 3, 0, 1000 / 3, 5000 / 3]),
        ("standardise", (REWARD - 1.4) / np.sqrt(np.mean((REWARD - 1.4) ** 2))),
    ],
)
def test_each_formula(name, expected):
    got = rewards.transform(name, REWARD, RETURNS)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_the_returns_are_those_of_the_logged_episodes(tmp_path):
    arrays = log()
    sums = arrays["rewards"].astype(np.float32).reshape(3, 4).sum(1)
    plain, scaled = (load(write(tmp_path / "a.npz", arrays), reward) for reward in ("none", "iql_locomotion"))
    np.testing.assert_allclose(
        scaled.transitions.reward, plain.transitions.reward * 1000 / (sums.max() - sums.min()), rtol=1e-5
    )
    # They are the same data still: what an agent makes of the rewards is its own affair.
    assert plain.fingerprint == scaled.fingerprint


def test_an_episode_still_running_counts():
    ends = np.array([0, 1, 0, 0], bool)
    assert episode_sums(np.arange(4.0), ends).tolist() == [1, 5]
    assert episode_sums(np.arange(4.0), np.zeros(4, bool)).tolist() == [6]


@pytest.mark.parametrize(
    ("name", "returns"),
    [("antmaze", RETURNS), ("", RETURNS), ("iql_locomotion", None), ("iql_locomotion", RETURNS[:1])],
)
def test_what_cannot_be_done_is_one_sentence(name, returns):
    with pytest.raises(UserError, match=r"[Rr]eward transform"):
        rewards.transform(name, REWARD, returns)


def test_equal_rewards_cannot_be_standardised():
    with pytest.raises(UserError, match="all equal"):
        rewards.transform("standardise", np.ones(3, np.float32), RETURNS)
