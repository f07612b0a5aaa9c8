"""Every objective's value and gradient against closed forms, and what holds of the paper's Theorem 4.1.

Expectations over a ~ N(0, C²), z ~ N(0, 1) are Gauss-Hermite sums, exact for these polynomials.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gaussian_flow as exact
from gtp import flow, objectives
from gtp.noise import Noise, Times, karras_midpoint

C2 = exact.C**2
NOISE = Noise()
T, U, S = jnp.array([2.0, 0.5, 80.0]), jnp.array([1.5, 0.2, 79.0]), jnp.array([0.5, 0.0, 0.002])
A = jax.random.uniform(jax.random.key(0), (3, 2), minval=-1)
Z = jax.random.normal(jax.random.key(1), (3, 2))
A_T, A_U = A + T[:, None] * Z, A + U[:, None] * Z


def linear(theta):
    """φ(a, t, s) = θ·a, one parameter."""
    return lambda a, t, s: theta * a


def fading(theta):
    """φ(a, t, s) = θ·a·t + s, which moves with all three arguments."""
    return lambda a, t, s: theta * a * flow.column(t) + flow.column(s)


def check_value_and_gradient(loss, residual, direction, theta=0.7):
    """Loss = mean of residual² over dimensions, derivative = mean of 2·residual·direction, row by row."""
    value = loss(theta)
    assert value.shape == T.shape
    np.testing.assert_allclose(value, jnp.mean(residual(theta) ** 2, -1), rtol=2e-5)
    gradient = jax.jacobian(loss)(theta)
    np.testing.assert_allclose(gradient, jnp.mean(2 * residual(theta) * direction, -1), rtol=2e-5)


def test_denoising():
    check_value_and_gradient(
        lambda theta: objectives.denoising(linear(theta), A, Z, T), lambda theta: theta * A_T - A, A_T
    )


def test_denoising_asks_for_the_endpoint_at_s_equal_t():
    got = objectives.denoising(lambda a, t, s: flow.column(10 * t + s), A, Z, T)
    np.testing.assert_allclose(got, jnp.mean((11 * T[:, None] - A) ** 2, -1), rtol=1e-6)


def test_flow_matching():
    t = jnp.array([0.0, 0.3, 1.0])
    x_t = (1 - t[:, None]) * Z + t[:, None] * A
    check_value_and_gradient(
        lambda theta: objectives.flow_matching(lambda x, t: theta * x, A, Z, t),
        lambda theta: theta * x_t - (A - Z),
        x_t,
    )


def test_trajectory_consistency():
    r, r_u = (S / T)[:, None], (S / U)[:, None]
    target = (1 - r_u) * 0.4 * A_U + r_u * A_U
    check_value_and_gradient(
        lambda theta: objectives.trajectory_consistency(linear(theta), linear(0.4), A_T, A_U, Times(T, U, S)),
        lambda theta: (1 - r) * theta * A_T + r * A_T - target,
        (1 - r) * A_T,
    )


def test_consistency_is_the_trajectory_loss_at_the_data():
    check_value_and_gradient(
        lambda theta: objectives.consistency(linear(theta), linear(0.4), A_T, A_U, T, U),
        lambda theta: theta * A_T - 0.4 * A_U,
        A_T,
    )


def test_shortcut():
    u = karras_midpoint(T, S, NOISE)
    r, first, second = ((x)[:, None] for x in (S / T, u / T, S / u))
    middle = (1 - first) * 0.4 * A_T + first * A_T
    target = (1 - second) * 0.4 * middle + second * middle
    check_value_and_gradient(
        lambda theta: objectives.shortcut(linear(theta), linear(0.4), A_T, T, S, NOISE),
        lambda theta: (1 - r) * theta * A_T + r * A_T - target,
        (1 - r) * A_T,
    )


def test_mean_flow():
    """dφ/d ln t along the path: θ·a·t + s has ∂φ/∂a·(a_t − a) + t·∂φ/∂t = θ·t·(a_t − a) + θ·a_t·t."""
    r, t, s = (S / T)[:, None], T[:, None], S[:, None]
    check_value_and_gradient(
        lambda theta: objectives.mean_flow(fading(theta), A, A_T, T, S),
        lambda theta: r * (theta * A_T * t + s - A) + (1 - r) * theta * t * (2 * A_T - A),
        A_T * t,
    )


LOSSES = {
    "trajectory": lambda phi, target: objectives.trajectory_consistency(
        phi, target, A_T, A_U, Times(T, U, S)
    ),
    "consistency": lambda phi, target: objectives.consistency(phi, target, A_T, A_U, T, U),
    "shortcut": lambda phi, target: objectives.shortcut(phi, target, A_T, T, S, NOISE),
}


@pytest.mark.parametrize("name", LOSSES)
def test_no_gradient_enters_the_target(name):
    into_target = jax.jacobian(lambda theta: LOSSES[name](linear(0.3), linear(theta)))(0.7)
    np.testing.assert_array_equal(into_target, 0)


# At the oracle ---------------------------------------------------------------------------------------------


def bent(delta):
    """The true endpoint, off by the factor 1 + δ."""
    return lambda a, t, s: (1 + delta) * exact.endpoint(a, t, s)


def tilted(delta):
    """The true endpoint, off by a factor that grows with t: no error is the same at both ends of a jump."""
    return lambda a, t, s: (1 + delta * flow.column(t / (1 + t))) * exact.endpoint(a, t, s)


AT_ORACLE = {
    "trajectory": lambda phi: objectives.trajectory_consistency(
        phi, exact.endpoint, A_T, exact.flow_map(A_T, T, U), Times(T, U, S)
    ),
    "consistency": lambda phi: objectives.consistency(
        phi, exact.endpoint, A_T, exact.flow_map(A_T, T, U), T, U
    ),
    "shortcut": lambda phi: objectives.shortcut(phi, exact.endpoint, A_T, T, S, NOISE),
    "meanflow": lambda phi: objectives.mean_flow(phi, exact.endpoint(A_T, T, T), A_T, T, S),
}


@pytest.mark.parametrize("name", AT_ORACLE)
def test_zero_at_the_oracle_and_positive_off_it(name):
    """With a true ODE step as teacher (or the true denoiser), the Gaussian flow map costs nothing."""
    loss = AT_ORACLE[name]
    assert float(jnp.max(loss(tilted(0.0)))) < 1e-8
    assert float(jnp.min(loss(tilted(0.2))[:2])) > 1e-5
    assert float(jnp.min(loss(tilted(-0.2))[:2])) > 1e-5


NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(6)
a_nodes, z_nodes = np.meshgrid(exact.C * NODES, NODES, indexing="ij")
EXPECT_A, EXPECT_Z = jnp.asarray(a_nodes.reshape(-1, 1)), jnp.asarray(z_nodes.reshape(-1, 1))
PROBABILITY = jnp.asarray((WEIGHTS[:, None] * WEIGHTS).ravel() / WEIGHTS.sum() ** 2)


def expected(per_sample):
    """E over a and z of one value per node."""
    return jnp.sum(PROBABILITY * per_sample)


def full(level):
    return jnp.full(EXPECT_A.shape[0], level, jnp.float32)


@pytest.mark.parametrize("t", [0.01, 0.5, 3.0, 80.0])
def test_denoising_is_least_at_the_posterior_mean_and_leaves_the_posterior_variance(t):
    loss = lambda theta: expected(objectives.denoising(linear(theta), EXPECT_A, EXPECT_Z, full(t)))  # noqa: E731
    best = C2 / (C2 + t**2)
    np.testing.assert_allclose(loss(best), C2 * t**2 / (C2 + t**2), rtol=1e-4)
    assert abs(float(jax.grad(loss)(best))) < 1e-5 * (C2 + t**2)
    np.testing.assert_allclose(jax.grad(loss)(best + 0.1), 0.2 * (C2 + t**2), rtol=1e-3)


@pytest.mark.parametrize("t", [0.0, 0.3, 0.9])
def test_flow_matching_is_least_at_the_true_velocity(t):
    """E[a − z | x_t] = x_t·(t·C² − (1 − t))/(t²·C² + (1 − t)²)."""
    loss = lambda theta: expected(  # noqa: E731
        objectives.flow_matching(lambda x, t: theta * x, EXPECT_A, EXPECT_Z, full(t))
    )
    best = (t * C2 - (1 - t)) / (t**2 * C2 + (1 - t) ** 2)
    assert abs(float(jax.grad(loss)(best))) < 1e-5
    assert float(jax.grad(loss)(best + 0.1)) > 1e-2


def surrogate_gradient(t, u, s):
    """E of the trajectory gradient with a_u = a + u·z, at the true flow map scaled by θ = 1."""
    a_t = objectives.noised(EXPECT_A, EXPECT_Z, full(t))
    a_u = objectives.noised(EXPECT_A, EXPECT_Z, full(u))
    times = Times(full(t), full(u), full(s))

    def loss(theta):
        scaled = lambda a, t, s: theta * exact.endpoint(a, t, s)  # noqa: E731
        return expected(objectives.trajectory_consistency(scaled, exact.endpoint, a_t, a_u, times))

    return float(jax.grad(loss)(1.0))


def test_the_surrogate_teacher_biases_the_gradient_to_second_order_in_the_gap():
    """Not zero at the oracle, whatever the solver; but fading like (t − u)²: adjacent levels are safe."""
    gaps = np.array([0.1, 0.05, 0.025, 0.0125])
    with jax.enable_x64(True):
        bias = [surrogate_gradient(1.0, 1.0 - gap, 0.0) for gap in gaps]
    assert min(bias) > 0  # Positive: descent shrinks θ, towards the mean of the data.
    assert np.polyfit(np.log(gaps), np.log(bias), 1)[0] == pytest.approx(2, abs=0.15)


def test_the_surrogate_teacher_has_its_zero_at_the_shrunken_map():
    """The fixed point k(t, s) = k(u, s)·(C² + u·t)/(C² + t²) of peers.md §6.2."""
    t, u = 2.0, 0.8
    k_u = exact.C / np.sqrt(C2 + u**2)
    k_t = k_u * (C2 + u * t) / (C2 + t**2)
    a_t = objectives.noised(EXPECT_A, EXPECT_Z, full(t))
    a_u = objectives.noised(EXPECT_A, EXPECT_Z, full(u))

    def loss(theta):
        return expected(objectives.consistency(linear(theta), linear(k_u), a_t, a_u, full(t), full(u)))

    assert abs(float(jax.grad(loss)(k_t))) < 1e-5
    assert k_t < 0.96 * exact.C / np.sqrt(C2 + t**2)


# The mean-flow identity ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("t", "s"), [(0.01, 0.0), (1.0, 0.4), (2.0, 2.0), (10.0, 0.002), (80.0, 0.002)])
def test_mean_flow_with_the_data_as_clean_action_is_unbiased(t, s):
    """R is linear in the clean action, so E[R | a_t] is the identity itself: no gradient at the oracle."""
    a_t = objectives.noised(EXPECT_A, EXPECT_Z, full(t))

    def gradient(theta):
        loss = lambda theta: expected(  # noqa: E731
            objectives.mean_flow(bent(theta), EXPECT_A, a_t, full(t), full(s))
        )
        return float(jax.grad(loss)(theta))

    size = float(expected(jnp.mean(exact.endpoint(a_t, full(t), full(s)) ** 2, -1)))
    assert abs(gradient(0.0)) < 2e-4 * size
    # Off by the factor 1 + δ: R = δ·((s/t)·φ + (1 − s/t)·dφ/d ln t) = δ·(s/t)·φ^inst. At s = 0 only the
    # preconditioning anchors φ: a constant factor is a solution there.
    off = (
        2
        * 0.1
        * (s / t)
        * float(
            expected(
                jnp.mean(exact.endpoint(a_t, full(t), full(t)) * exact.endpoint(a_t, full(t), full(s)), -1)
            )
        )
    )
    np.testing.assert_allclose(gradient(0.1), off, rtol=1e-2, atol=4e-4 * size)


def test_mean_flow_residual_of_a_wrong_map_in_closed_form():
    """φ = φ^inst for every s is no flow map: R = (1 − s/t)·(t·∂φ/∂t + t·f·∂φ/∂a)."""
    wrong = lambda a, t, s: exact.endpoint(a, t, t)  # noqa: E731
    got = objectives.mean_flow(wrong, exact.endpoint(A_T, T, T), A_T, T, S)
    t, r = T[:, None], (S / T)[:, None]
    total = C2 + t**2
    slope = -2 * t**2 * C2 / total**2 * A_T + C2 / total * t**2 / total * A_T
    np.testing.assert_allclose(got, jnp.mean(((1 - r) * slope) ** 2, -1), rtol=1e-4)


def test_mean_flow_at_s_equal_t_is_the_denoising_loss():
    loss = lambda theta: objectives.mean_flow(fading(theta), A, A_T, T, T)  # noqa: E731
    local = lambda theta: objectives.denoising(fading(theta), A, Z, T)  # noqa: E731
    np.testing.assert_allclose(loss(0.7), local(0.7), rtol=1e-5)
    np.testing.assert_allclose(jax.jacobian(loss)(0.7), jax.jacobian(local)(0.7), rtol=1e-5)


def test_mean_flow_at_s_zero_is_continuous_time_consistency():
    """R = dφ/d ln t alone."""
    zero = jnp.zeros_like(T)
    t = T[:, None]
    got = objectives.mean_flow(fading(0.7), A, A_T, T, zero)
    np.testing.assert_allclose(got, jnp.mean((0.7 * t * (2 * A_T - A)) ** 2, -1), rtol=1e-5)


def test_mean_flow_is_bounded_where_the_papers_factor_is_three_million():
    t, s = jnp.array([80.0]), jnp.array([0.002])
    a, z = jnp.array([[0.3]]), jnp.array([[1.0]])
    assert float(t[0] ** 2 / s[0]) > 3e6
    value, gradient = jax.value_and_grad(
        lambda theta: objectives.mean_flow(bent(theta), a, a + 80 * z, t, s)[0]
    )(0.05)
    assert 0 < float(value) < 1
    assert abs(float(gradient)) < 1


# Theorem 4.1 -----------------------------------------------------------------------------------------------


def mean_distance(t, u, steps):
    """E|Ψ[f*] − Ψ[f̃]|, Euler in `steps` steps: both ends are Gaussian with mean zero."""
    a_t = objectives.noised(EXPECT_A, EXPECT_Z, full(t))
    surrogate = lambda x, level: (x - EXPECT_A) / level[:, None]  # noqa: E731
    ours = flow.integrate(surrogate, a_t, full(t), full(u), steps)
    np.testing.assert_allclose(ours, objectives.noised(EXPECT_A, EXPECT_Z, full(u)), rtol=1e-4, atol=1e-5)
    true = flow.integrate(exact.velocity, a_t, full(t), full(u), steps)
    return float(jnp.sqrt(expected(squared(true - ours)) * 2 / np.pi))


def squared(x):
    return jnp.sum(x**2, -1)


@pytest.mark.parametrize(("u", "distance"), [(0.5, 0.180), (0.9, 0.0357), (0.99, 0.0036), (0.999, 0.00036)])
def test_the_surrogate_is_off_by_t_minus_u_however_fine_the_solver(u, distance):
    """The theorem promises O(h) in the solver's step h. What holds is O(t − u), the same at every h."""
    for steps in (1, 10, 100):
        assert mean_distance(1.0, u, steps) == pytest.approx(distance, rel=0.02)


@pytest.mark.parametrize(("t", "u"), [(1.0, 0.5), (80.0, 79.0), (0.01, 0.002)])
def test_the_surrogate_is_an_euler_step_on_average(t, u):
    """E[a + u·z | a_t] = a_t − (t − u)·f*(a_t, t): the error is orthogonal to a_t, all Gaussians need."""
    a_t = objectives.noised(EXPECT_A, EXPECT_Z, full(t))
    step = flow.integrate(exact.velocity, a_t, full(t), full(u), 1)
    error = objectives.noised(EXPECT_A, EXPECT_Z, full(u)) - step
    size = float(expected(squared(error)))
    assert size > 1e-6
    assert abs(float(expected(jnp.sum(error * a_t, -1)))) < 1e-5 * (C2 + t**2)
    assert abs(float(expected(jnp.sum(error, -1)))) < 1e-5 * (1 + t)
