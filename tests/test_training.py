"""The loop: one compilation, bit-exact resume, members that fail alone."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtp import training
from gtp.agents import bc, gtp
from gtp.errors import UserError
from gtp.types import Agent, State, Transition

TINY = gtp.Config(hidden=(16, 16), sampling_steps=2, baseline_samples=1)


def data(rows: int = 200, seed: int = 0) -> Transition:
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(rows, 3)).astype(np.float32)
    action = np.tanh(rng.normal(size=(rows, 2))).astype(np.float32)
    ones = np.ones(rows, np.float32)
    return Transition(obs, action, ones, obs[::-1].copy(), action, ones)


def last(reports) -> training.Report:
    return list(reports)[-1]


def leaves_equal(a, b) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def test_members_pair_every_seed_with_every_value():
    who = training.members([3, 4], {"eta": [0.0, 1.0], "discount": [0.9]})
    assert [(m["seed"], m["eta"]) for m in who.labels()] == [(3, 0.0), (4, 0.0), (3, 1.0), (4, 1.0)]
    assert all(m["discount"] == pytest.approx(0.9) for m in who.labels())


def test_a_run_in_two_halves_is_the_run_in_one_piece():
    who = training.members([0, 1])
    arguments = {"steps": 40, "batch_size": 16, "log_every": 10}
    whole = last(training.train(gtp.make, TINY, data(), who, **arguments))
    first_half = list(training.train(gtp.make, TINY, data(), who, **arguments))[1]
    assert first_half.step == 20
    restored = jax.tree.map(lambda x: jnp.asarray(np.asarray(x)), first_half.state)
    rest = last(training.train(gtp.make, TINY, data(), who, state=restored, **arguments))
    assert leaves_equal(whole.state, rest.state)


def test_a_swept_value_trains_as_it_would_alone():
    short = {"steps": 10, "batch_size": 16, "log_every": 10}
    who = training.members([5], {"eta": [0.0, 2.0]})
    swept = last(training.train(gtp.make, TINY, data(), who, **short)).state.params
    config = dataclasses.replace(TINY, eta=2.0)
    single = last(training.train(gtp.make, config, data(), training.members([5]), **short)).state.params
    zero, two, alone = (
        jax.tree.leaves(training.take(p, i)) for p, i in ((swept, 0), (swept, 1), (single, 0))
    )
    for a, b in zip(two, alone, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)
    assert max(np.max(np.abs(a - b)) for a, b in zip(zero, two, strict=True)) > 1e-3


def test_one_compilation_for_a_whole_run_with_its_schedule():
    program = training.build(gtp.make, TINY, 80, 16, 10)
    keys = jax.vmap(jax.random.key)(jnp.arange(2))
    state, on_device = program.init(keys, {}, data()), training.to_device(data())
    seen = set()
    for _ in range(8):
        state, metrics = program.chunk(state, keys, {}, jnp.ones(2, bool), on_device)
        seen.add(float(metrics["levels"][0]))
    assert program.chunk._cache_size() == 1
    assert len(seen) == 8  # N(k) doubled at every chunk, and cost no compilation.


def broken(config: bc.Config, total_steps: int) -> Agent:
    """BC that reports NaN from update 15 on, but only for the member with the tell-tale learning rate."""
    inner = bc.make(config, total_steps)

    def update(state: State, batch: Transition, key):
        after, metrics = inner.update(state, batch, key)
        bad = (state.step >= 15) & (jnp.asarray(config.actor_lr) > 0.5)
        poisoned = jax.tree.map(lambda x: jnp.where(bad, jnp.nan, x), after.params)
        return after._replace(params=poisoned), metrics | {
            "actor_loss": jnp.where(bad, jnp.nan, metrics["actor_loss"])
        }

    return inner._replace(update=update)


def test_a_member_that_breaks_stops_alone_with_its_last_good_state():
    who = training.members([0], {"actor_lr": [1e-3, 1.0]})
    reports = list(
        training.train(broken, bc.Config(hidden=(8,)), data(), who, steps=40, batch_size=8, log_every=10)
    )
    assert [r.alive.tolist() for r in reports] == [[True, True], [True, False], [True, False], [True, False]]
    assert list(reports[1].stopped) == [1]
    assert reports[1].stopped[1].endswith("is nan")
    good, end = (training.take(r.state, 1) for r in (reports[0], reports[-1]))
    assert leaves_equal(good, end)
    assert int(end.step) == 10
    assert int(training.take(reports[-1].state, 0).step) == 40


def test_training_ends_when_nobody_is_left():
    who = training.members([0], {"actor_lr": [0.9, 1.0]})
    reports = list(
        training.train(broken, bc.Config(hidden=(8,)), data(), who, steps=1000, batch_size=8, log_every=10)
    )
    assert len(reports) == 2
    assert not reports[-1].alive.any()


def test_a_diverging_critic_is_named():
    assert training.fault({"q_mean": 9e3}, 1.0) is None
    assert "critic diverges" in str(training.fault({"q_mean": -2e4}, 1.0))
    assert training.fault({"q_mean": -2e4}, 10.0) is None
    assert training.fault({"loss": float("inf")}, 1.0) == "loss is inf"


def test_steps_must_fit_the_log_points():
    with pytest.raises(UserError, match="multiple"):
        next(training.train(bc.make, bc.Config(), data(), training.members([0]), steps=15, log_every=10))
