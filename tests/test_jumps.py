"""The kernel of all jumps against the jumps one by one; off a GPU it is interpreted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtp import flow, jumps, training
from gtp.agents import gtp
from gtp.nn import FlowNetwork
from gtp.noise import Noise, sampling_grid
from gtp.types import Transition

NOISE = Noise()


def policy(seed, hidden=(64, 128, 64)):
    return FlowNetwork(jax.random.key(seed), (5,), 3, hidden)


def draw(rows=64):
    keys = jax.random.split(jax.random.key(7))
    return jax.random.normal(keys[0], (2, rows // 2, 5)), jax.random.normal(keys[1], (2, rows // 2, 3))


def endpoint(network, obs):
    return flow.endpoint(network.bind(obs), NOISE)


@pytest.mark.parametrize(
    ("hidden", "steps"), [((64,), 3), ((64, 64), 1), ((64, 128, 64), 3), ((64, 64, 128, 64), 1)]
)
def test_the_kernel_makes_the_same_jumps(hidden, steps):
    obs, z = draw()
    phi, grid = endpoint(policy(0, hidden), obs), sampling_grid(steps, NOISE)
    want = jax.jit(flow.jump_by_jump)(phi, grid[0] * z, grid)
    got = jax.jit(flow.jump_in_one_kernel)(phi, grid[0] * z, grid)
    # Half precision has ten bits behind the first.
    np.testing.assert_allclose(got, want, atol=4e-3 * float(jnp.std(want)))


def test_members_side_by_side_are_members_one_by_one():
    obs, z = draw(32)
    grid = sampling_grid(2, NOISE)
    networks = [policy(seed) for seed in range(3)]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *networks)
    run = jax.jit(lambda network: flow.jump_in_one_kernel(endpoint(network, obs), grid[0] * z, grid))
    together = jax.jit(jax.vmap(run))(stacked)
    for network, actions in zip(networks, together, strict=True):
        alone = run(network)
        np.testing.assert_allclose(actions, alone, atol=4e-3 * float(jnp.std(alone)))


def test_a_gradient_is_that_of_the_plain_jumps():
    obs, z = draw(32)
    grid = sampling_grid(2, NOISE)

    def slope(jump):
        loss = lambda network: jnp.sum(jump(endpoint(network, obs), grid[0] * z, grid) ** 2)  # noqa: E731
        return jax.jit(jax.grad(loss))(policy(1))

    got, want = slope(flow.jump_in_one_kernel), slope(flow.jump_by_jump)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_only_what_the_kernel_can_do_is_given_to_it(monkeypatch):
    monkeypatch.setattr(jumps, "our_kernels", lambda: True)
    obs, z = draw()
    assert jumps.suits(endpoint(policy(0), obs), z)
    assert not jumps.suits(endpoint(policy(0, (64, 100)), obs), z)  # A layer that is no power of two wide.
    assert not jumps.suits(endpoint(policy(0), obs[:, :5]), z[:, :5])  # No whole number of programs.
    assert not jumps.suits(endpoint(policy(0), obs[:1]), z)  # One observation for many actions.
    assert not jumps.suits(lambda a, t, s: a, z)  # A closed form.
    monkeypatch.setattr(jumps, "our_kernels", lambda: False)
    assert not jumps.suits(endpoint(policy(0), obs), z)


def test_learning_with_the_kernel_is_learning_without(monkeypatch):
    """Half precision moves a policy's samples in the fourth digit; the losses must not feel it."""
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(500, 3)).astype(np.float32)
    action = np.tanh(obs[:, :2] + 0.3 * rng.normal(size=(500, 2))).astype(np.float32)
    reward = (action[:, 0] * obs[:, 2]).astype(np.float32)
    data = Transition(obs, action, reward, obs[::-1].copy(), action, np.ones(500, np.float32))
    config = gtp.Config(hidden=(64,), sampling_steps=2, baseline_samples=1)

    def losses(kernel):
        used = []
        monkeypatch.setattr(jumps, "suits", lambda *_: used.append(kernel) or kernel)
        who = training.members([0])
        *_, last = training.train(gtp.make, config, data, who, steps=100, batch_size=32, log_every=50)
        assert used
        return last.metrics

    got, want = losses(True), losses(False)
    for name in ("critic_loss", "consistency_loss", "flow_loss", "q_mean", "weight_ess"):
        np.testing.assert_allclose(got[name], want[name], rtol=0.02, atol=0.005, err_msg=name)
    assert any(np.any(got[name] != want[name]) for name in got)  # The kernel did take part.
