"""The agents with one Gaussian, or one action, per observation: what they must find and what they cannot;
and the critics they learn, with GTP's where it is IQL's.

Settings, and why: two layers of 64, Adam at 2e-3, batches of 128 and moving averages four times as fast as
published, so that 1,200 updates are enough. What an agent weighs Q with is the published value unless the
table says otherwise.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import probe
from gtp import agents, optim, values
from gtp.agents import onestep
from gtp.gaussian import Gaussian, GaussianNetwork, TanhGaussian
from gtp.types import Acting, Transition

UPDATES, DISCOUNT = 1200, 0.95
QUICK = {"hidden": (64, 64), "discount": DISCOUNT, "actor_lr": 2e-3, "critic_lr": 2e-3}
AVERAGE = {"critic_target_rate": 0.02}
AGENTS = {
    "iql": QUICK | AVERAGE,
    "td3_bc": QUICK | {"target_rate": 0.02},
    "rebrac": QUICK | {"target_rate": 0.02, "actor_every": 1},
    "awac": QUICK | AVERAGE,
    "xql": QUICK | AVERAGE,
    "cql": QUICK | AVERAGE | {"alpha": 1.0, "samples": 4, "critic_hidden": (64, 64)},
    "onestep": QUICK | AVERAGE | {"alpha": 0.03},
}
"""CQL's α of 10 and Onestep's of 1 are for returns in the hundreds; here they are 10 at most. ReBRAC, whose
actor starts near 0, takes a step of it at every update."""
CRITICS = AGENTS | {"gtp": QUICK | AVERAGE | {"backup": "expectile", "baseline": "expectile"}}
"""GTP with IQL's critic besides, for what that critic must be."""


def one_process(names):
    """All tests of an agent run in one process, which trains it once."""
    each = [pytest.param(name, marks=pytest.mark.xdist_group(f"chain {name}")) for name in names]
    return pytest.mark.parametrize("name", each)


@functools.cache
def trained(name):
    module = agents.get(name)
    agent = module.make(module.Config(**CRITICS[name]), UPDATES)
    return agent, probe.train(agent, probe.chain(), UPDATES, batch=128)


@one_process(AGENTS)
def test_mixed_data_suffice_for_the_optimal_return(name):
    assert probe.share_of_optimal_return(*trained(name)) >= 0.95


def test_behaviour_cloning_stays_with_the_data():
    module = agents.get("bc")
    agent = module.make(module.Config(hidden=(64, 64), actor_lr=2e-3), 500)
    share = probe.share_of_optimal_return(agent, probe.train(agent, probe.chain(), 500, batch=128))
    assert share < 0.3  # What the data's mean has; a Gaussian as wide as the data has less.


def expectile(q, tau=0.7):
    """The τ-expectile of a sample, by its fixed point."""
    v = q.mean()
    for _ in range(100):
        weight = np.where(q < v, 1 - tau, tau)
        v = np.sum(weight * q) / np.sum(weight)
    return v


VALUE_OF_NEXT = {
    "onestep": np.mean,
    "iql": expectile,
    "gtp": expectile,
    "xql": lambda q: 2.0 * np.log(np.mean(np.exp(q / 2.0))),
    # π is about the best action, and what its smoothing by 0.2 costs is a Gaussian integral.
    "td3_bc": lambda q: q.max() / (1 + (0.2 / probe.WIDTH) ** 2),
}
"""What an agent's backup makes of the values of the data's actions in s'."""


@one_process(VALUE_OF_NEXT)
def test_the_critic_is_the_one_its_backup_defines(name):
    """Q(x, k, a) = c_k·p(a) with c₂ = R, and c_(k−1) is γ times the value of the data's c_k·p(a)."""
    data = probe.chain()
    survival = probe.survival(np.asarray(data.obs), np.asarray(data.action))
    want = [probe.REWARD]
    for _ in range(probe.STEPS - 1):
        want.insert(0, DISCOUNT * VALUE_OF_NEXT[name](want[0] * survival))

    _, params = trained(name)
    got, x = [], np.linspace(-0.9, 0.9, 100)
    for k in range(probe.STEPS):
        obs = probe.observe(x, k)
        got.append(float(jnp.mean(params.critic(params.normaliser(obs), probe.best(obs)))))
    np.testing.assert_allclose(got, want, rtol=0.2)


@pytest.mark.parametrize("name", ["bc", "iql", "cql"])
def test_one_gaussian_does_not_cover_four_modes(name):
    """One for each head: a deviation per observation, one for all, and a squashed Gaussian."""
    module = agents.get(name)
    small = {"samples": 2, "critic_hidden": (32,)} if name == "cql" else {}
    config = module.Config(hidden=(32,), actor_lr=3e-3, **small)
    agent = module.make(config, 400)
    params = probe.train(agent, probe.four_modes(), 400, batch=128)
    draw = Acting() if name == "bc" else Acting("softmax", 1)  # Of one candidate: a plain draw.
    share = probe.near_each_mode(agent, params, draw)
    assert share.min() < 0.1
    assert share.sum() < 0.3


def test_a_delayed_actor_moves_at_every_second_update():
    module = agents.get("td3_bc")
    agent = module.make(module.Config(hidden=(8,)), 4)
    data = jax.tree.map(lambda x: x[:32], probe.chain())
    state, moves = jax.jit(agent.init)(jax.random.key(0), data), []
    update = jax.jit(agent.update)
    for step in range(4):
        after, _ = update(state, data, jax.random.key(step))
        moved = [
            any(not np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, pair), strict=True))
            for pair in (
                (state.params.actor, after.params.actor),
                (state.params.critic_target, after.params.critic_target),
                (state.params.critic, after.params.critic),
            )
        ]
        moves.append(moved)
        state = after
    assert moves == [[False, False, True], [True, True, True]] * 2


# The pieces ------------------------------------------------------------------------------------------------


def test_the_gumbel_loss_is_smallest_at_the_soft_maximum():
    q, temperature = jnp.array([0.0, 1.0, 3.0]), 0.7
    v = temperature * jnp.log(jnp.mean(jnp.exp(q / temperature)))
    slope = jax.grad(lambda v: jnp.sum(values.gumbel_loss(q - v, temperature, 7.0)))
    assert float(slope(v)) == pytest.approx(0, abs=1e-6)
    assert float(slope(v - 0.5)) < -0.01
    assert float(slope(v + 0.5)) > 0.01


def test_the_gumbel_loss_survives_outliers():
    residual = jnp.array([1e4, 0.0, -1e4])
    loss, slope = jax.value_and_grad(lambda r: jnp.sum(values.gumbel_loss(r, 1.0, 7.0)))(residual)
    assert np.isfinite(loss)
    assert np.all(np.isfinite(slope))
    assert slope[0] == 0  # Beyond the clip.


def test_the_conservative_gap_is_an_integral():
    """Q(a) = c·a in one dimension: ∫ e^(c·a) da over [−1, 1] is (e^c − e^−c)/c, whoever drew actions."""
    c, count = 1.5, 200_000
    pi = TanhGaussian(jnp.array([[0.3]]), jnp.array([[-0.2]]))
    drawn, density = pi.sample(jax.random.key(0), (count,))
    uniform = jax.random.uniform(jax.random.key(1), (count, 1, 1), minval=-1.0)
    for action, log_density in ((drawn, density), (uniform, jnp.full((count, 1), -jnp.log(2.0)))):
        elsewhere = c * action[None, ..., 0]
        gap = values.conservative_gap(jnp.array([[0.4]]), elsewhere, log_density)
        want = np.log((np.exp(c) - np.exp(-c)) / c) + np.log(count) - 0.4
        assert float(gap[0, 0]) == pytest.approx(want, abs=0.02)


def test_a_squashed_gaussians_density_is_its_derivative():
    """Mass between two actions against the share of samples there."""
    pi = TanhGaussian(jnp.array([0.4]), jnp.array([-0.5]))
    action, log_density = pi.sample(jax.random.key(0), (100_000,))
    inside = (action[:, 0] > 0.2) & (action[:, 0] < 0.4)
    mass = float(jnp.mean(inside))
    # The mean of 1/density over samples inside is the length of the interval over its mass.
    assert float(jnp.mean(jnp.exp(-log_density[inside]))) * mass == pytest.approx(0.2, rel=0.02)
    far = TanhGaussian(jnp.array([30.0]), jnp.array([0.0])).sample(jax.random.key(0))
    assert np.isfinite(far[1])


def test_exponential_weights_are_clipped():
    advantage = jnp.array([-1.0, 0.0, 0.5, 100.0])
    np.testing.assert_allclose(
        values.exponential_weight(advantage, 3.0, 100.0), [np.exp(-3), 1, np.exp(1.5), 100], rtol=1e-5
    )


def test_smoothing_stays_within_its_bounds():
    action = jnp.full((1000, 1), 0.9)
    got = values.smoothed(jax.random.key(0), action, 0.5, 0.3)
    assert float(got.max()) == 1
    assert float(got.min()) == pytest.approx(0.6)
    np.testing.assert_array_equal(values.smoothed(jax.random.key(0), action, 0.0, 0.3), action)


def test_the_divergence_of_two_gaussians():
    pi = Gaussian(jnp.array([[0.1, -0.3]]), jnp.array([[-0.5, 0.2]]))
    beta = Gaussian(jnp.array([[0.4, 0.0]]), jnp.array([[0.0, 0.1]]))
    z = jax.random.normal(jax.random.key(0), (200_000, 1, 2))
    x = pi.mean + jnp.exp(pi.log_std) * z
    drawn = jnp.mean(pi.log_prob(x) - beta.log_prob(x))
    assert float(onestep.divergence(pi, beta)[0]) == pytest.approx(float(drawn), abs=0.01)
    assert float(onestep.divergence(pi, pi)[0]) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("std_of_obs", [False, True])
def test_the_gaussian_head(std_of_obs):
    head = GaussianNetwork(jax.random.key(0), (3,), 2, (8,), std_of_obs)
    obs = 5 * jax.random.normal(jax.random.key(1), (7, 3))
    pi = head(obs)
    assert pi.mean.shape == pi.log_std.shape == (7, 2)
    assert np.all(np.abs(pi.mean) <= 1)
    assert bool(np.ptp(pi.log_std[:, 0]) > 0) == std_of_obs


def test_a_cosine_learning_rate_ends_at_zero():
    rate = optim.cosine(0.3, 100)
    np.testing.assert_allclose([rate(s) for s in (0, 50, 100, 150)], [0.3, 0.15, 0, 0], atol=1e-7)
    optimiser = optim.adam(optim.cosine(0.3, 2))
    params, opt = jnp.ones(()), optimiser.init(jnp.ones(()))
    steps = []
    for _ in range(3):
        before = params
        params, opt, _, _ = optim.descend(lambda p: (p, {}), params, opt, optimiser)
        steps.append(float(before - params))
    np.testing.assert_allclose(steps, [0.3, 0.15, 0], atol=1e-5)


def test_weighted_regression_ignores_what_has_no_weight():
    """Actions 0.5 with weight 1 and −0.5 with weight 0: the mean goes to 0.5."""
    obs, flat = jnp.zeros((64, 1)), jnp.zeros(64)
    action = jnp.where(jnp.arange(64) % 2, 0.5, -0.5)[:, None]
    batch = Transition(obs, action, flat, obs, action, flat)
    head = GaussianNetwork(jax.random.key(0), (1,), 1, (8,))
    optimiser = optim.adam(0.02)

    def step(carry, _):
        head, opt, _ = values.fit_weighted(*carry, optimiser, batch, 1.0 * (action[:, 0] > 0))
        return (head, opt), None

    (head, _), _ = jax.lax.scan(step, (head, optimiser.init(head)), None, 300)
    assert float(head(obs[:1]).mean[0, 0]) == pytest.approx(0.5, abs=0.02)
