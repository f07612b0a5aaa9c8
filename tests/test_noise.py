"""Noise levels, the schedule N(k) and the ordered draws against their formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtp.noise import (
    Noise,
    draw_times,
    edm_weight,
    karras_level,
    karras_midpoint,
    num_levels,
    precondition,
    sampling_grid,
)

NOISE = Noise()


@pytest.mark.parametrize("count", [2, 11, 321, 1281])
def test_karras_levels_run_from_t_min_to_t_max_and_follow_the_formula(count):
    got = np.asarray(karras_level(jnp.arange(count), count, NOISE), np.float64)
    low, high = 0.002 ** (1 / 7), 80.0 ** (1 / 7)
    want = (low + np.arange(count) / (count - 1) * (high - low)) ** 7
    np.testing.assert_allclose(got, want, rtol=1e-5)
    np.testing.assert_allclose(got[[0, -1]], [0.002, 80.0], rtol=3e-6)
    assert np.all(np.diff(got) > 0)


def test_karras_level_takes_other_ranges_and_rho():
    noise = Noise(t_min=0.1, t_max=10.0, rho=1.0)
    np.testing.assert_allclose(karras_level(jnp.arange(5), 5, noise), np.linspace(0.1, 10, 5), rtol=1e-6)


def test_midpoint_is_the_level_half_way_by_index():
    ends = karras_level(jnp.array([2.0, 8.0]), 11, NOISE)
    np.testing.assert_allclose(
        karras_midpoint(ends[1], ends[0], NOISE), karras_level(5, 11, NOISE), rtol=1e-5
    )
    # s = 0 is the data: the midpoint lies strictly between.
    middle = float(karras_midpoint(jnp.float32(80.0), jnp.float32(0.0), NOISE))
    assert middle == pytest.approx(80 / 2**7, rel=1e-5)


# s₀ = 10, s₁ = 1280 are 8 stages: K' = ⌊803/8⌋ = 100 for the run, ⌊90/8⌋ = 11 for a tooth.
SCHEDULE = {
    "scheduled": {0: 11, 99: 11, 100: 21, 199: 21, 200: 41, 699: 641, 700: 1281, 802: 1281, 10**9: 1281},
    "sawtooth": {0: 11, 10: 11, 11: 21, 76: 641, 77: 1281, 89: 1281, 90: 11, 101: 21, 179: 1281, 180: 11},
    "fixed": {0: 1281, 99: 1281, 100: 1281, 802: 1281},
}


@pytest.mark.parametrize("rule", SCHEDULE)
def test_num_levels_is_the_papers_formula_under_a_traced_step(rule):
    traced = jax.jit(lambda step: num_levels(step, 803, rule, 10, 1280, 90))
    for step, want in SCHEDULE[rule].items():
        assert float(traced(jnp.int32(step))) == want, step
    assert traced._cache_size() == 1


def test_num_levels_stops_at_an_end_that_is_no_power_of_two_times_the_start():
    # log₂(50/10) = 2.32: K' = ⌊1000/3.32⌋ = 301.
    got = [
        float(num_levels(jnp.int32(k), 1000, "scheduled", 10, 50, 1)) for k in (0, 300, 301, 602, 903, 999)
    ]
    assert got == [11, 11, 21, 41, 51, 51]


def test_num_levels_of_a_run_shorter_than_its_stages():
    got = [float(num_levels(jnp.int32(k), 3, "scheduled", 10, 1280, 1)) for k in (0, 1, 2)]
    assert got == [11, 21, 41]


def draw(rule, count=12, rows=60_000, gap=3):
    """Index triples of a large draw, by inverting the grid."""
    times = jax.jit(lambda n: draw_times(jax.random.key(0), (rows,), n, NOISE, rule, gap))(jnp.float32(count))
    grid = np.asarray(karras_level(jnp.arange(count), count, NOISE), np.float64)

    def index(level):
        found = np.abs(np.log(level[:, None]) - np.log(grid)).argmin(1)
        np.testing.assert_allclose(level, grid[found], rtol=1e-5)
        return found

    t, u, s = (np.asarray(x, np.float64) for x in times)
    assert np.all(t > u)
    assert np.all(u >= s)
    assert np.all((s == 0) | (s > NOISE.t_min * 1.5))  # The lowest target is the data, never ε.
    return index(t), index(u), index(np.where(s == 0, grid[0], s))


def assert_uniform(sample, low, high):
    """`sample` takes low … high equally often, within five standard deviations."""
    counts = np.bincount(sample - low, minlength=high - low + 1)
    assert sample.min() >= low
    assert sample.max() <= high
    expected = len(sample) / (high - low + 1)
    assert np.all(np.abs(counts - expected) <= 5 * np.sqrt(expected)), counts


@pytest.mark.parametrize("rule", ["adjacent", "gap", "uniform"])
def test_draws_have_the_stated_law(rule):
    t, u, s = draw(rule)
    assert_uniform(t, 1, 11)
    for i in range(1, 12):
        assert_uniform(s[t == i], 0, i - 1)
        if rule == "adjacent":
            assert np.all(u[t == i] == i - 1)
    # The law of u given (s, t): what the fixed points of peers.md §6.2 average over.
    for i in (4, 8, 11):
        for j in (0, 2, i - 2, i - 1):
            lowest = {"adjacent": i - 1, "gap": max(j, i - 3), "uniform": j}[rule]
            assert_uniform(u[(t == i) & (s == j)], lowest, i - 1)


def test_draws_on_the_smallest_grid_and_on_a_leading_shape():
    times = draw_times(jax.random.key(1), (3, 4), jnp.float32(2), NOISE, "uniform")
    assert all(x.shape == (3, 4) for x in times)
    np.testing.assert_allclose(times.t, 80.0, rtol=3e-6)
    np.testing.assert_allclose(times.u, 0.002, rtol=3e-6)
    np.testing.assert_array_equal(times.s, 0.0)


def test_preconditioning_keeps_input_and_target_at_unit_size():
    t = jnp.array([0.002, 0.1, 0.5, 3.0, 80.0])
    c_skip, c_out, c_in = (np.asarray(c, np.float64) for c in precondition(t, 0.5))
    t = np.asarray(t, np.float64)
    np.testing.assert_allclose(c_in**2 * (0.25 + t**2), 1, rtol=1e-5)  # Var[c_in·a_t] = 1
    # Var[(a − c_skip·a_t)/c_out] = 1 for a ~ N(0, σ²): (1 − c_skip)²·σ² + c_skip²·t² = c_out².
    np.testing.assert_allclose((1 - c_skip) ** 2 * 0.25 + c_skip**2 * t**2, c_out**2, rtol=1e-3)
    # c_skip is the best linear denoiser.
    np.testing.assert_allclose(c_skip, 0.25 / (0.25 + t**2), rtol=1e-6)
    np.testing.assert_allclose(edm_weight(t, NOISE), (t**2 + 0.25) / (0.25 * t**2), rtol=1e-5)


@pytest.mark.parametrize("steps", [1, 2, 5, 10])
def test_karras_sampling_grid_falls_from_t_max_to_zero(steps):
    grid = np.asarray(sampling_grid(steps, NOISE))
    assert grid.shape == (steps + 1,)
    assert grid[0] == pytest.approx(80.0, rel=3e-6)
    assert grid[-1] == 0
    assert np.all(np.diff(grid) < 0)
    levels = np.asarray(karras_level(jnp.arange(steps, 0, -1), steps + 1, NOISE))
    np.testing.assert_allclose(grid[:-1], levels)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_near_grid_goes_from_t_max_straight_to_levels_where_the_action_shows(steps):
    grid = np.asarray(sampling_grid(steps, NOISE, "near"))
    below = np.asarray(sampling_grid(steps, NOISE._replace(t_max=10 * NOISE.sigma_data)))
    np.testing.assert_allclose(grid, [80, *below[1:]], rtol=1e-6)
    # Below 10·σ_data there is nothing to skip.
    low = NOISE._replace(t_max=2.5)
    np.testing.assert_allclose(sampling_grid(steps, low, "near"), sampling_grid(steps, low), rtol=1e-6)


@pytest.mark.parametrize(("steps", "want"), [(1, [80, 0]), (2, [80, 2, 0]), (5, [80, 60.5, 41, 21.5, 2, 0])])
def test_linspace_grid_is_that_of_consistency_ac(steps, want):
    np.testing.assert_allclose(sampling_grid(steps, NOISE, "linspace"), want, rtol=1e-6)
