"""Critics: weights, targets and choices against their formulas, and probe datasets whose Q is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import probe
from gtp import values
from gtp.agents import gtp
from gtp.types import Transition

ADVANTAGE = np.array([-2.0, -0.5, 0.0, 0.3, 1.7, 2.5])


def test_weight_is_the_papers_formula():
    got = values.advantage_weight(jnp.asarray(ADVANTAGE), 1.5, jnp.inf, normalise=False)
    want = np.exp(1.5 * np.maximum(ADVANTAGE, 0) / ADVANTAGE.std())
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_weight_is_clipped_and_then_divided_by_its_mean():
    clipped = np.minimum(np.exp(5 * np.maximum(ADVANTAGE, 0) / ADVANTAGE.std()), 100)
    assert (clipped == 100).sum() == 2
    np.testing.assert_allclose(
        values.advantage_weight(jnp.asarray(ADVANTAGE), 5.0, 100.0, normalise=False), clipped, rtol=1e-5
    )
    got = values.advantage_weight(jnp.asarray(ADVANTAGE), 5.0, 100.0)
    np.testing.assert_allclose(got, clipped / clipped.mean(), rtol=1e-5)


def test_weight_is_one_at_eta_zero_and_does_not_see_the_advantages_unit():
    np.testing.assert_allclose(values.advantage_weight(jnp.asarray(ADVANTAGE), 0.0, 100.0), 1, rtol=1e-6)
    one, thousand = (values.advantage_weight(jnp.asarray(k * ADVANTAGE), 2.0, 100.0) for k in (1, 1000))
    np.testing.assert_allclose(one, thousand, rtol=1e-4)


@pytest.mark.parametrize("advantage", [1e30 * ADVANTAGE, 1e-30 * ADVANTAGE, np.zeros(6), np.full(6, 1e8)])
@pytest.mark.parametrize(("eta", "clip"), [(5.0, 100.0), (1000.0, np.inf)])
def test_weight_stays_finite_with_mean_one(advantage, eta, clip):
    weight = values.advantage_weight(jnp.asarray(advantage, jnp.float32), eta, clip)
    assert np.all(np.isfinite(weight))
    assert float(jnp.mean(weight)) == pytest.approx(1, rel=1e-4)


def test_scale_in_each_state_is_bounded_and_sees_no_other_state():
    q, policy_q = jnp.array([3.0, 900.0, 2.0]), jnp.array([[1.0, 0.0, 0.0], [0.0, 0.0, 4.0], [2.0, 0.0, 2.0]])
    scale = values.state_scale(q, policy_q)
    np.testing.assert_allclose(
        scale, [np.std([3, 1, 0, 2], ddof=1), 450, np.std([2, 0, 4, 2], ddof=1)], rtol=1e-6
    )
    advantage = q - jnp.mean(policy_q, axis=0)
    # Alone above all samples, an action has the largest A/scale there is: √(M + 1).
    assert float(advantage[1] / scale[1]) == pytest.approx(np.sqrt(4), rel=1e-6)
    weight = values.advantage_weight(advantage, 1.5, 100.0, normalise=False, scale=scale)
    np.testing.assert_allclose(weight, np.exp(1.5 * np.array([2 / scale[0], 2, 0])), rtol=1e-5)


def test_effective_sample_size():
    assert float(values.effective_sample_size(jnp.full(8, 3.0))) == pytest.approx(8)
    assert float(values.effective_sample_size(jnp.array([0.0, 0.0, 5.0]))) == pytest.approx(1)
    assert float(values.effective_sample_size(jnp.array([1.0, 3.0]))) == pytest.approx(16 / 10)
    assert float(values.effective_sample_size(jnp.array([1e30, 1e30, 0.0]))) == pytest.approx(2)


def test_expectile_loss_and_its_minimiser():
    residual, tau = jnp.array([-2.0, 3.0]), 0.7
    np.testing.assert_allclose(values.expectile_loss(residual, tau), [0.3 * 4, 0.7 * 9], rtol=1e-6)
    # Of {0, 1} the τ-expectile is τ itself: (1 − τ)·τ = τ·(1 − τ).
    slope = jax.grad(lambda v: jnp.sum(values.expectile_loss(jnp.array([0.0, 1.0]) - v, tau)))
    assert float(slope(tau)) == pytest.approx(0, abs=1e-6)
    assert float(slope(0.5)) < -0.1


def test_td_target_and_loss():
    reward, bootstrap = jnp.array([1.0, 2.0]), jnp.array([1.0, 0.0])
    target = values.td_target(reward, bootstrap, jnp.array([10.0, 10.0]), 0.9)
    np.testing.assert_allclose(target, [10.0, 2.0])
    q = jnp.array([[9.0, 2.0], [12.0, 5.0]])
    np.testing.assert_allclose(values.td_loss(q, target), [1 + 4, 0 + 9])
    into_target = jax.grad(lambda target: jnp.sum(values.td_loss(q, target)))(target)
    np.testing.assert_array_equal(into_target, 0)


def test_backup_value_is_the_cautious_critics_best_candidate():
    q = np.random.default_rng(0).normal(size=(3, 4, 5))
    want = [min(max(q[m, c, b] for c in range(4)) for m in range(3)) for b in range(5)]
    np.testing.assert_allclose(values.backup_value(jnp.asarray(q)), want, rtol=1e-6)
    np.testing.assert_allclose(values.backup_value(jnp.asarray(q[:, :1])), q[:, 0].min(0), rtol=1e-6)
    np.testing.assert_allclose(values.smallest(jnp.asarray(q)), q.min(0), rtol=1e-6)


def test_choose():
    """Three candidates, 40,000 rows of one observation; each action says which candidate it is."""
    rows = 40_000
    actions = jnp.broadcast_to(jnp.array([0.0, 1.0, 2.0])[:, None, None], (3, rows, 2))
    q = jnp.broadcast_to(jnp.log(jnp.array([0.2, 0.5, 0.3]))[:, None], (3, rows)) + 7
    picked = np.asarray(values.choose(jax.random.key(0), actions, q, "softmax"))
    assert picked.shape == (rows, 2)
    np.testing.assert_allclose(np.bincount(picked[:, 0].astype(int)) / rows, [0.2, 0.5, 0.3], atol=0.012)
    np.testing.assert_array_equal(values.choose(jax.random.key(0), actions, q, "argmax"), 1.0)
    np.testing.assert_array_equal(values.choose(jax.random.key(0), actions, q, "single"), 0.0)
    averaged = np.asarray(values.choose(jax.random.key(0), actions, q, "average"))
    assert averaged.shape == (rows, 2)
    np.testing.assert_allclose(averaged, 0.2 * 0 + 0.5 * 1 + 0.3 * 2, rtol=1e-5)


def test_argmax_looks_at_each_row():
    actions = jnp.arange(6.0).reshape(2, 3, 1)
    q = jnp.array([[1.0, 5.0, 2.0], [3.0, 4.0, 9.0]])
    np.testing.assert_array_equal(values.choose(jax.random.key(0), actions, q, "argmax")[:, 0], [3, 1, 5])


def test_average_is_the_mean_of_what_softmax_draws_from():
    """Candidates of N(μ, σ²) and Q = g·a make softmax's policy N(μ + σ²·g, σ²), whose mean is μ + σ²·g."""
    mu, sigma, slope = np.array([0.2, -0.1]), 0.3, np.array([1.5, -0.8])
    actions = mu + sigma * jax.random.normal(jax.random.key(1), (200_000, 1, 2))
    q = jnp.sum(actions * slope, axis=-1)
    averaged = values.choose(jax.random.key(0), actions, q, "average")[0]
    np.testing.assert_allclose(averaged, mu + sigma**2 * slope, atol=0.005)


# Probes: the smallest problems with a known Q --------------------------------------------------------------

PROBE = gtp.Config(
    eta=0.0,
    baseline="batch",
    hidden=(16, 16),
    sampling_steps=1,
    discount=0.8,
    critic_lr=3e-3,
    critic_target_rate=0.05,
    normalise_obs=False,
)


def rows(obs, action, reward, next_obs, bootstrap):
    obs, action, next_obs = (np.asarray(x, np.float32)[:, None] for x in (obs, action, next_obs))
    return Transition(
        obs, action, np.asarray(reward, np.float32), next_obs, action, np.asarray(bootstrap, np.float32)
    )


FIRST = np.tile([True, False], 16)
ZERO, ONE = np.zeros(32), np.ones(32)
COIN = np.where(FIRST, -1.0, 1.0)
ACTION = np.linspace(-1, 1, 32)
SECOND = np.where(FIRST, 0.0, 1.0)

PROBES = {
    "constant reward at the end": (rows(ZERO, ACTION, 2 * ONE, ZERO, ZERO), 2 * ONE),
    "reward is the observation": (rows(COIN, ACTION, COIN, ZERO, ZERO), COIN),
    # Observation 0 leads to observation 1, which pays 1 and ends: Q = γ and 1.
    "reward one step later": (rows(SECOND, ACTION, SECOND, ONE, 1 - SECOND), np.where(FIRST, 0.8, 1.0)),
    "reward is the action": (rows(ZERO, ACTION, ACTION, ZERO, ZERO), ACTION),
    # Reward 1 for ever is worth 1/(1 − γ); the same reward with a true end is worth 1.
    "a time-out is no end": (rows(ZERO, ACTION, ONE, ZERO, ONE), 5 * ONE),
    "a terminal is an end": (rows(ZERO, ACTION, ONE, ZERO, ZERO), ONE),
}


def learn_q(data, updates):
    """Train on each dataset as one batch, all in one program; Q of the rows by the cautious critic."""
    agent = gtp.make(PROBE, updates)
    key = jax.random.key(0)

    def run(data):
        def step(state, _):
            return agent.update(state, data, jax.random.fold_in(key, state.step))[0], None

        state = jax.lax.scan(step, agent.init(key, data), None, updates)[0]
        return values.smallest(state.params.critic(data.obs, data.action))

    stacked = jax.tree.map(lambda *x: jnp.stack(x), *data)
    return np.asarray(jax.jit(jax.vmap(run), compiler_options=probe.LOOP)(stacked))


def test_probe_datasets_with_known_q():
    learned = learn_q([data for data, _ in PROBES.values()], updates=1000)
    for name, q, (_, want) in zip(PROBES, learned, PROBES.values(), strict=True):
        np.testing.assert_allclose(q, want, atol=0.03 + 0.05 * np.abs(want).max(), err_msg=name)


def test_the_agent_weighs_by_the_scale_it_is_told():
    """By a state's own spread no weight passes e^(η√(M + 1)); by the batch's the largest of 256 does."""
    eta, samples = 2.0, 2
    keys = jax.random.split(jax.random.key(0), 4)
    obs, action = jax.random.normal(keys[0], (256, 3)), jnp.tanh(jax.random.normal(keys[1], (256, 2)))
    data = Transition(obs, action, jnp.ones(256), obs, action, jnp.ones(256))
    largest = {}
    for scale in ("batch", "state"):
        config = gtp.Config(
            eta=eta,
            baseline_samples=samples,
            advantage_scale=scale,
            weight_clip=np.inf,
            normalise_weight=False,
            hidden=(16, 16),
        )
        agent = gtp.make(config, 10)
        _, metrics = agent.update(agent.init(keys[2], data), data, keys[3])
        largest[scale] = float(metrics["weight_max"])
    bound = np.exp(eta * np.sqrt(samples + 1))
    assert 0.9 * bound < largest["state"] <= bound < largest["batch"]
