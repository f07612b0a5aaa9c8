"""Statistics against closed forms and simulated experiments whose truth is known."""

import numpy as np
import pytest

from gtp import stats


def test_mean_counts_every_task_the_same():
    assert stats.mean([np.array([0.0]), np.array([1.0, 1.0, 1.0])]) == 0.5


def test_std_is_of_the_sample():
    assert stats.std(np.array([1.0, 3.0])) == pytest.approx(np.sqrt(2))
    assert np.isnan(stats.std(np.array([1.0])))


def test_iqm_drops_the_outer_quarters():
    assert stats.iqm([np.array([-1000.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1e9])]) == pytest.approx(3.5)
    # The middle half of three runs is the second one and a quarter of each neighbour's share.
    assert stats.iqm([np.array([9.0, 0.0, 6.0])]) == pytest.approx((0.25 * 0 + 6 + 0.25 * 9) / 1.5)
    # A task with many seeds must not outvote one with few.
    few, many = np.array([0.0]), np.full(99, 10.0)
    assert stats.iqm([few, many]) == pytest.approx(5.0)


def test_iqm_works_along_leading_axes():
    rng = np.random.default_rng(0)
    tasks = [rng.normal(size=(7, 5)), rng.normal(size=(7, 3))]
    assert stats.iqm(tasks) == pytest.approx([stats.iqm([a[i], b[i]]) for i in range(7) for a, b in [tasks]])


def test_probability_of_improvement():
    ours, theirs = [np.array([1.0, 2.0]), np.array([5.0])], [np.array([1.0, 0.0]), np.array([5.0])]
    # Task one: of four pairs three are won and one is tied; task two is a tie.
    assert stats.probability_of_improvement(ours, theirs) == pytest.approx((3.5 / 4 + 0.5) / 2)
    total = stats.probability_of_improvement(ours, theirs) + stats.probability_of_improvement(theirs, ours)
    assert total == pytest.approx(1)


def test_probability_of_improvement_of_normals_is_the_known_one():
    rng = np.random.default_rng(1)
    x, y = rng.normal(1, 1, 3000), rng.normal(0, 1, 3000)
    # P(X > Y) for unit normals one apart is Φ(1/√2) = 0.7602.
    assert stats.probability_of_improvement([x], [y]) == pytest.approx(0.7602, abs=0.02)


def test_performance_profile_is_the_share_above():
    profile = stats.performance_profile(
        [np.array([0.0, 10.0]), np.array([10.0])], np.array([-1.0, 5.0, 10.0])
    )
    assert profile == pytest.approx([1.0, 0.75, 0.0])


def test_an_interval_is_a_function_of_scores_and_seed():
    scores = [np.random.default_rng(0).normal(size=10)]
    assert stats.bootstrap(stats.mean, scores) == stats.bootstrap(stats.mean, scores)
    assert stats.bootstrap(stats.mean, scores, seed=1) != stats.bootstrap(stats.mean, scores)


def test_one_seed_has_no_interval():
    assert np.isnan(stats.bootstrap(stats.mean, [np.array([3.0])])).all()
    one = stats.summary(np.array([3.0]))
    assert one.mean == 3.0
    assert np.isnan(one.std)
    assert np.isnan(one.interval).all()


def covers(statistic, truth, tasks, seeds, experiments=200):
    """Share of simulated experiments whose interval holds the truth."""
    rng = np.random.default_rng(7)
    place, width = (
        np.linspace(0, 90, tasks),
        np.linspace(2, 10, tasks) if statistic is stats.mean else np.full(tasks, 8.0),
    )
    hits = 0
    for _ in range(experiments):
        scores = [rng.normal(p, w, seeds) for p, w in zip(place, width, strict=True)]
        low, high = stats.bootstrap(statistic, scores, resamples=400, seed=int(rng.integers(1 << 30)))
        hits += low <= truth <= high
    return hits / experiments


def test_the_interval_of_the_mean_covers_the_truth_as_often_as_it_says():
    # With 200 experiments a share of 0.95 is known to ± 0.03; the percentile bootstrap costs a little more.
    assert 0.90 <= covers(stats.mean, 45.0, tasks=6, seeds=20) <= 0.99


def test_the_interval_of_the_iqm_covers_the_truth():
    # Symmetric scores around symmetric places: the interquartile mean is the centre.
    assert 0.88 <= covers(stats.iqm, 45.0, tasks=6, seeds=20) <= 0.99


def test_few_seeds_cover_less_and_we_say_so():
    assert covers(stats.mean, 0.0, tasks=1, seeds=3) < 0.88


def test_the_interval_of_improvement_covers_the_truth():
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(200):
        ours, theirs = [rng.normal(1, 1, 15)], [rng.normal(0, 1, 15)]
        low, high = stats.bootstrap(stats.probability_of_improvement, ours, theirs, resamples=300)
        hits += low <= 0.7602 <= high
    assert 0.86 <= hits / 200 <= 0.99


def test_the_band_of_a_profile_covers_the_truth():
    rng = np.random.default_rng(4)
    thresholds = np.array([-0.5, 0.0, 0.5])
    truth = np.array([0.6915, 0.5, 0.3085])
    hits = np.zeros(3)
    for _ in range(200):
        scores = [rng.normal(size=30), rng.normal(size=30)]
        low, high = stats.bootstrap(
            lambda tasks: stats.performance_profile(tasks, thresholds), scores, resamples=300
        )
        hits += (low <= truth) & (truth <= high)
    assert (hits / 200 >= 0.89).all()
