"""Networks against the same computation written out by hand."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtp.gaussian import Gaussian
from gtp.nn import (
    MLP,
    Ensemble,
    FlowNetwork,
    Normaliser,
    TimeEmbedding,
    linear,
    mish,
)


def test_mish_value_and_gradient():
    x = np.array([-50.0, -20.0, -5.0, -1.0, -0.1, 0.0, 0.1, 1.0, 5.0, 19.0, 21.0, 50.0, 500.0])
    softplus = np.logaddexp(0, x)
    np.testing.assert_allclose(mish(jnp.asarray(x)), x * np.tanh(softplus), rtol=1e-5, atol=1e-12)
    slope = np.tanh(softplus) + x * (1 - np.tanh(softplus) ** 2) / (1 + np.exp(-x))
    got = jax.vmap(jax.grad(mish))(jnp.asarray(x))
    np.testing.assert_allclose(got, slope, rtol=1e-5, atol=1e-6)


def dense(layers, x, activation):
    """An MLP in numpy, float64."""
    x = np.asarray(x, np.float64)
    for i, layer in enumerate(layers):
        x = x @ np.asarray(layer.weight, np.float64).T + np.asarray(layer.bias, np.float64)
        x = activation(x) if i < len(layers) - 1 else x
    return x


def np_mish(x):
    return x * np.tanh(np.logaddexp(0, x))


def test_mlp_acts_on_the_last_axis():
    net = MLP(jax.random.key(0), 3, (8, 5), 2)
    x = jax.random.normal(jax.random.key(1), (4, 6, 3))
    assert net(x).shape == (4, 6, 2)
    np.testing.assert_allclose(net(x), dense(net.layers, x, np_mish), rtol=1e-4, atol=1e-6)


def test_ensemble_members_differ_and_each_is_an_mlp_on_the_joined_input():
    net = Ensemble(jax.random.key(0), (3,), 2, (8, 8), size=3)
    obs = jax.random.normal(jax.random.key(1), (4, 3))
    action = jax.random.normal(jax.random.key(2), (7, 4, 2))
    q = net(obs, action)
    assert q.shape == (3, 7, 4)
    joined = np.concatenate([np.broadcast_to(obs, (7, 4, 3)), action], -1)
    for i in range(3):
        member = jax.tree.map(lambda x, i=i: x[i], net.members)
        np.testing.assert_allclose(q[i], dense(member.layers, joined, np_mish)[..., 0], rtol=1e-4, atol=1e-6)
    assert float(jnp.min(jnp.std(q, axis=0))) > 1e-4


def test_flow_network_is_the_plain_mlp_on_the_joined_input():
    net = FlowNetwork(jax.random.key(0), (3,), 2, (16, 8), features=16)
    obs, a_t = jax.random.normal(jax.random.key(1), (5, 3)), jax.random.normal(jax.random.key(2), (5, 2))
    t, s = jnp.linspace(0.01, 80, 5), jnp.linspace(0.002, 3, 5)
    joined = jnp.concatenate([obs, a_t, net.embed_t(t), net.embed_s(s)], -1)
    weight = jnp.concatenate([net.from_obs, net.from_action, net.from_time.weight], 1)
    hidden = np_mish(np.asarray(joined @ weight.T + net.from_time.bias, np.float64))
    want = dense(net.rest.layers, hidden, np_mish)
    got = net.bind(obs)(a_t, t, s)
    assert got.shape == (5, 2)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    # Scalar levels, and several draws for each observation.
    many = net.bind(obs)(jnp.stack([a_t, a_t]), t[2], s[2])
    np.testing.assert_allclose(many[1, 2], got[2], rtol=1e-4, atol=1e-6)
    # Observation, action and both times all count.
    for other in (net.bind(obs + 1)(a_t, t, s), net.bind(obs)(a_t + 1, t, s), net.bind(obs)(a_t, 2 * t, s)):
        assert float(jnp.max(jnp.abs(other - got))) > 1e-3
    assert float(jnp.max(jnp.abs(net.bind(obs)(a_t, t, 2 * s) - got))) > 1e-4


def test_time_embedding_is_of_the_logarithm_and_tells_small_levels_apart():
    net = TimeEmbedding(jax.random.key(0), 16)
    t = jnp.array([0.002, 0.01, 20.0, 80.0])
    angle = np.log(np.asarray(t, np.float64))[:, None] * 2.0 ** (-3 + 6 * np.arange(8) / 7)
    want = dense(net.mlp.layers, np.concatenate([np.sin(angle), np.cos(angle)], -1), np_mish)
    np.testing.assert_allclose(net(t), want, rtol=1e-3, atol=1e-5)
    low, high = (np.linalg.norm(want[i] - want[i + 1]) for i in (0, 2))
    assert low > 0.1
    assert low > 0.3 * high


def test_linear_without_bias():
    layer = MLP(jax.random.key(0), 3, (), 2).layers[0]
    bare = type(layer)(3, 2, use_bias=False, key=jax.random.key(0))
    np.testing.assert_allclose(linear(bare, jnp.eye(3)), bare.weight.T)


def test_normaliser():
    obs = np.random.default_rng(0).normal(3, 2, (500, 3))
    obs[:, 1] = 7.0  # Constant.
    normaliser = Normaliser.fit(jnp.asarray(obs), enabled=True)
    got = np.asarray(normaliser(jnp.asarray(obs)))
    np.testing.assert_allclose(got.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(got[:, [0, 2]].std(0), 1, rtol=1e-5)
    np.testing.assert_allclose(got[:, 1], 0, atol=1e-5)
    # A feature that was constant keeps its scale when it moves at last.
    np.testing.assert_allclose(normaliser(jnp.full(3, 9.0))[1], 2.0, rtol=1e-5)
    off = Normaliser.fit(jnp.asarray(obs), enabled=False)
    np.testing.assert_array_equal(off(jnp.asarray(obs)), jnp.asarray(obs))


def test_gaussian_log_density_and_samples():
    mean, log_std = jnp.array([0.2, -0.4]), jnp.array([math.log(0.1), math.log(0.3)])
    pi = Gaussian(mean, log_std)
    action = np.array([0.25, -0.1])
    density = 1.0
    for x, m, sd in zip(action, (0.2, -0.4), (0.1, 0.3), strict=True):
        density *= math.exp(-((x - m) ** 2) / (2 * sd**2)) / (sd * math.sqrt(2 * math.pi))
    assert float(pi.log_prob(jnp.asarray(action))) == pytest.approx(math.log(density), rel=1e-5)
    draws = np.asarray(pi.sample(jax.random.key(0), (20_000,)))
    np.testing.assert_allclose(draws.mean(0), mean, atol=0.01)
    np.testing.assert_allclose(draws.std(0), [0.1, 0.3], rtol=0.04)
    assert np.abs(Gaussian(mean, log_std + 5).sample(jax.random.key(0), (100,))).max() == 1
