"""The flow map and its relatives against the Gaussian flow, which is known in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gaussian_flow as exact
from gtp import flow
from gtp.noise import Noise, precondition, sampling_grid

NOISE = Noise()
T = jnp.array([0.01, 0.5, 2.0, 10.0, 80.0])
S = jnp.array([0.0, 0.2, 2.0, 0.002, 0.002])
A = jax.random.normal(jax.random.key(0), (5, 3)) * (1 + T[:, None])


def test_the_oracle_solves_the_ode():
    """Φ starts at a_t and moves with velocity f in its last argument."""
    np.testing.assert_allclose(exact.flow_map(A, T, T), A, rtol=1e-6)
    arrival, speed = jax.jvp(lambda s: exact.flow_map(A, T, s), (S,), (jnp.ones_like(S),))
    np.testing.assert_allclose(speed, exact.velocity(arrival, S), rtol=1e-4, atol=1e-6)


def test_flow_map_of_the_closed_form_endpoint():
    np.testing.assert_allclose(
        flow.flow_map(exact.endpoint, A, T, S), exact.flow_map(A, T, S), rtol=2e-5, atol=1e-6
    )


def test_denoiser_and_velocity():
    c = exact.C**2
    np.testing.assert_allclose(
        flow.denoise(exact.endpoint, A, T), A * (c / (c + T**2))[:, None], rtol=1e-5, atol=1e-7
    )
    np.testing.assert_allclose(flow.velocity(exact.endpoint, A, T), exact.velocity(A, T), rtol=2e-3)


def test_semigroup():
    """t → u → s is t → s."""
    u = jnp.sqrt(T * jnp.maximum(S, 1e-3))
    through = flow.flow_map(exact.endpoint, flow.flow_map(exact.endpoint, A, T, u), u, S)
    np.testing.assert_allclose(through, flow.flow_map(exact.endpoint, A, T, S), rtol=2e-5, atol=1e-6)
    # An endpoint that ignores s is no flow: the test can tell.
    wrong = lambda a, t, s: exact.endpoint(a, t, t)  # noqa: E731
    broken = flow.flow_map(wrong, flow.flow_map(wrong, A, T, u), u, S)
    assert float(jnp.max(jnp.abs(broken - flow.flow_map(wrong, A, T, S)))) > 1e-2


def wild(a_t, t, s):
    """An endpoint that is no flow at all."""
    return jnp.sin(7 * a_t) * 3 + flow.column(t) - 2 * flow.column(s)


def test_boundaries_are_exact_for_any_endpoint():
    np.testing.assert_array_equal(flow.flow_map(wild, A, T, T), A)
    zero = jnp.zeros_like(T)
    np.testing.assert_array_equal(flow.flow_map(wild, A, T, zero), wild(A, T, zero))


def test_flow_map_takes_scalar_levels():
    rows = flow.flow_map(exact.endpoint, A, jnp.full(5, 2.0), jnp.full(5, 0.3))
    np.testing.assert_allclose(flow.flow_map(exact.endpoint, A, jnp.float32(2), jnp.float32(0.3)), rows)


@pytest.mark.parametrize(("method", "order"), [("euler", 1), ("heun", 2)])
def test_order_of_the_solver(method, order):
    """The error falls with the number of steps to the power of the order."""
    with jax.enable_x64(True):
        a_t, t, u = jnp.ones((1, 1), jnp.float64), jnp.full(1, 2.0), jnp.full(1, 0.3)
        true = exact.flow_map(a_t, t, u)
        counts = np.array([8, 16, 32, 64])
        error = [
            float(jnp.abs(flow.integrate(exact.velocity, a_t, t, u, int(n), method) - true)[0, 0])
            for n in counts
        ]
    slope = np.polyfit(np.log(counts), np.log(error), 1)[0]
    assert slope == pytest.approx(-order, abs=0.1), error


def test_integrate_first_steps_by_hand():
    """da/dt = a·t: one Euler and one Heun step, each row with levels of its own."""
    field = lambda a, t: a * flow.column(t)  # noqa: E731
    a, t, u = jnp.array([[1.0], [2.0]]), jnp.array([1.0, 2.0]), jnp.array([0.5, 1.0])
    np.testing.assert_allclose(flow.integrate(field, a, t, u, 1), [[1 - 0.5], [2 - 4.0]])
    # Predictor: 0.5 and −2. Slopes there: 0.25 and −2.
    np.testing.assert_allclose(
        flow.integrate(field, a, t, u, 1, "heun"), [[1 - 0.5 * 0.625], [2 - (4 - 2) / 2]]
    )


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_trajectory_and_sample_follow_the_oracle(steps):
    grid = sampling_grid(steps, NOISE)
    z = jax.random.normal(jax.random.key(1), (2, 4, 3))
    path = flow.trajectory(exact.endpoint, grid[0] * z, grid)
    assert path.shape == (steps + 1, 2, 4, 3)
    np.testing.assert_array_equal(path[0], grid[0] * z)
    for row, level in zip(path, grid, strict=True):
        np.testing.assert_allclose(row, exact.flow_map(grid[0] * z, grid[0], level), rtol=1e-4, atol=1e-5)
    action = flow.sample(exact.endpoint, 10 * z, grid)
    np.testing.assert_allclose(action, np.clip(10 * path[-1], -1, 1), rtol=1e-4, atol=1e-5)
    assert float(jnp.max(jnp.abs(action))) == 1


def test_endpoint_scales_the_network_and_hides_small_targets():
    seen = []

    def network(x, t, s):
        seen.append((x, t, s))
        return 2 * x + flow.column(s)

    t, s = jnp.array([0.5, 3.0, 0.002]), jnp.array([0.0, 1.0, 0.001])
    a_t = jax.random.normal(jax.random.key(2), (3, 2))
    got = flow.endpoint(network, NOISE)(a_t, t, s)
    ((x, t_seen, s_seen),) = seen
    c_skip, c_out, c_in = (c[:, None] for c in precondition(t, 0.5))
    np.testing.assert_allclose(x, c_in * a_t)
    np.testing.assert_array_equal(t_seen, t)
    np.testing.assert_array_equal(s_seen, np.array([0.002, 1.0, 0.002], np.float32))
    np.testing.assert_allclose(got, c_skip * a_t + c_out * (2 * c_in * a_t + s_seen[:, None]), rtol=1e-6)


def test_a_sample_never_shows_the_network_a_level_below_t_min():
    lowest = []

    def network(x, t, s):
        jax.debug.callback(lambda *levels: lowest.append(min(map(float, levels))), t, s)
        return x

    grid = sampling_grid(4, NOISE)
    jax.block_until_ready(flow.sample(flow.endpoint(network, NOISE), jnp.ones((2, 1)), grid))
    jax.effects_barrier()
    assert len(lowest) == 4
    assert min(lowest) == pytest.approx(0.002)


def test_mixing_uses_the_true_target():
    """Φ(a, t, s) for s < ε mixes by s itself, not by what the network was shown."""
    phi = flow.endpoint(lambda x, t, s: x, NOISE)
    a, t, s = jnp.ones((1, 1)), jnp.array([0.004]), jnp.array([0.001])
    np.testing.assert_allclose(flow.flow_map(phi, a, t, s), 0.75 * phi(a, t, s) + 0.25 * a, rtol=1e-6)
