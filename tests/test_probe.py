"""The probe's own claims, checked on its data: what agents are measured against must be right."""

import numpy as np
import pytest

import probe
from gtp.types import Agent

DATA = probe.chain()


def policy(rule):
    """An agent that only acts."""
    return Agent(init=None, update=None, act=lambda params, obs, key, acting: rule(obs), rules=("single",))


def test_the_best_policy_reaches_the_optimum_and_the_mean_of_the_data_does_not():
    assert probe.share_of_optimal_return(policy(probe.best), None) == pytest.approx(1)
    mean = policy(lambda obs: probe.best(obs) / 4)
    assert probe.share_of_optimal_return(mean, None) == pytest.approx(np.exp(-(0.45**2) / 0.5) ** 3, rel=1e-5)


def test_the_data_are_a_quarter_good_and_pay_only_at_the_end():
    obs, action = np.asarray(DATA.obs), np.asarray(DATA.action)
    good = np.linalg.norm(action - probe.best(obs), axis=1) < 0.2
    # Three quarters are uniform, and of those the circle's share of the square comes near by chance.
    assert good.mean() == pytest.approx(0.25 + 0.75 * np.pi * 0.2**2 / 4, abs=0.015)
    assert len(obs) == pytest.approx(17_000, rel=0.05)
    last = obs[:, 1] == 1
    assert np.all(DATA.reward[~last] == 0)
    assert np.all(DATA.bootstrap[last] == 0)
    assert np.mean(DATA.reward[last & good]) == pytest.approx(
        10 * probe.survival(obs, action)[last & good].mean(), rel=0.02
    )


def test_a_fitted_step_back_from_the_optimal_q_agrees_with_the_data():
    """r + γ·max Q*(s') averages to Q*(s, a), for good and for bad actions."""
    discount = 0.9
    obs, ahead = np.asarray(DATA.obs), np.asarray(DATA.next_obs)
    value = probe.optimal_q(ahead, probe.best(ahead), discount)
    target = np.asarray(DATA.reward) + discount * np.asarray(DATA.bootstrap) * value
    q = probe.optimal_q(obs, np.asarray(DATA.action), discount)
    for k in (-1, 0, 1):
        for rows in (q > 4, q < 4):
            chosen = rows & (obs[:, 1] == k)
            assert target[chosen].mean() == pytest.approx(q[chosen].mean(), abs=0.25)


def test_four_modes_are_told_apart():
    rows = np.asarray(probe.four_modes().action)[:2000]
    spread = probe.near_each_mode(policy(lambda obs: rows), None)
    np.testing.assert_allclose(spread, 0.25, atol=0.03)
    assert probe.near_each_mode(policy(lambda obs: 0 * rows), None).sum() == 0
