"""Acting on one observation: a program of its own that says what the batch's says."""

import jax
import numpy as np
import pytest

from gtp import policy
from gtp.agents import gtp
from gtp.errors import UserError
from gtp.types import Acting

OBS = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
OPTIONS = {"hidden": (16, 16), "sampling_steps": 2}


@pytest.fixture(scope="module")
def pi():
    """Two members, bounds that are not -1 and 1."""
    one = policy.arbitrary("gtp", (5,), 2, **OPTIONS)
    params = jax.tree.map(lambda x: np.concatenate([x, 0.5 * x]), one.params)
    about = one.about | {"members": [{"seed": 0}, {"seed": 1}], "action_low": [-3, 1], "action_high": [1, 2]}
    return policy.Policy(gtp.make, gtp.Config(**OPTIONS), params, about)


@pytest.mark.parametrize("acting", [Acting(), Acting("softmax", 7, 1, "ema")], ids=str)
def test_one_observation_gets_the_action_of_a_batch_of_one(pi, acting):
    key, seen = jax.random.key(3), []
    for member in (0, 1):
        for time in (0, 9):
            one = pi.act(OBS[0], acting, member, key, time)
            np.testing.assert_allclose(one, pi.act(OBS[:1], acting, member, key, time)[0], atol=1e-5)
            seen.append(one)
    assert len(np.unique(np.round(seen, 4), axis=0)) == 4  # Member and time both matter.


def test_calls_without_a_key_follow_one_sequence(pi):
    later = pi.with_params(pi.params, 5)
    first = [later.act(OBS[0]) for _ in range(3)]
    again = pi.with_params(pi.params, 5)
    np.testing.assert_array_equal(first, [again.act(OBS[0]) for _ in range(3)])
    assert len(np.unique(first, axis=0)) == 3


def test_new_parameters_are_acted_with(pi):
    before = pi.act(OBS[0], key=jax.random.key(0))
    later = pi.with_params(jax.tree.map(lambda x: 0.7 * x, pi.params), 5)
    assert np.abs(later.act(OBS[0], key=jax.random.key(0)) - before).max() > 1e-3
    np.testing.assert_array_equal(pi.act(OBS[0], key=jax.random.key(0)), before)


def test_another_value_is_acted_with_for_one_observation_and_for_many(pi):
    drawn, best, key = Acting("softmax", 7), Acting("argmax", 7), jax.random.key(0)
    hard = pi.with_value("choice_temperature", 1e-7)
    for obs in (OBS[0], OBS):
        np.testing.assert_allclose(hard.act(obs, drawn, key=key), pi.act(obs, best, key=key), atol=1e-5)
    assert np.abs(pi.act(OBS, drawn, key=key) - pi.act(OBS, best, key=key)).max() > 1e-3
    for name, value, words in (
        ("check", 1.0, "gtp has no check"),
        ("choice_temperature", 0.0, "greater than 0"),
    ):
        with pytest.raises(UserError, match=words):
            pi.with_value(name, value)
    with pytest.raises(UserError, match="of their own"):
        hard.with_value("choice_temperature", 1.0)


def test_wrong_shapes_and_rules_are_refused(pi):
    for obs in (np.zeros(4), np.zeros((2, 4)), np.zeros(())):
        with pytest.raises(UserError, match="do not fit"):
            pi.act(obs)
    with pytest.raises(UserError, match="cannot take 3 candidates"):
        pi.act(OBS[0], Acting("single", 3))


def test_several_actions_at_once_are_the_long_action_cut_in_order():
    """A policy of six numbers that says they are three actions of two, each with bounds of its own."""
    one = policy.arbitrary("gtp", (5,), 6, **OPTIONS)
    bounds = {"action_low": [-3, 1, -3, 1, -9, 1], "action_high": [1, 2, 1, 2, 9, 2]}
    long = policy.Policy(gtp.make, gtp.Config(**OPTIONS), one.params, one.about | bounds)
    cut = policy.Policy(
        gtp.make, gtp.Config(**OPTIONS), one.params, long.about | {"action_size": 2, "chunk": 3}
    )
    acting, key = Acting("average", 7), jax.random.key(0)
    for obs in (OBS[0], OBS):
        whole, pieces = long.act(obs, acting, key=key), cut.act(obs, acting, key=key)
        assert pieces.shape == (*obs.shape[:-1], 3, 2)
        np.testing.assert_array_equal(pieces.reshape(whole.shape), whole)
