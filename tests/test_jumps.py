"""The kernel of all jumps against the jumps one by one; off a GPU it is interpreted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtp import flow, jumps, nn, training
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
    want = jax.jit(flow.trajectory)(phi, grid[0] * z, grid)[-1]
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


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="A GPU has the kernel for it.")
def test_half_precision_moves_samples_by_little(monkeypatch):
    """What a CPU with matrix units does instead of the kernel: numbers of seven bits behind the first."""
    monkeypatch.setattr(jumps, "suits", lambda *_: False)
    monkeypatch.setattr(nn, "has_matrix_units", lambda: True)
    obs, z = draw()
    phi, grid = endpoint(policy(0, (128, 256, 128)), obs), sampling_grid(5, NOISE)
    got, want = jax.jit(flow.draw)(phi, z, grid), jax.jit(flow.sample)(phi, z, grid)
    off = float(jnp.max(jnp.abs(got - want)))
    assert 0 < off < 0.02 * float(jnp.std(want))
    monkeypatch.setattr(nn, "has_matrix_units", lambda: False)
    np.testing.assert_allclose(jax.jit(lambda phi: flow.draw(phi, z, grid))(phi), want, atol=1e-6)


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
