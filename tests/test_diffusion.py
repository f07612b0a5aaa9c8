"""The DDPM against data whose denoiser is known in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtp import diffusion
from gtp.errors import UserError
from gtp.types import Acting

CORNERS = 0.6 * np.array([(-1, -1), (-1, 1), (1, -1), (1, 1)], np.float32)


def exact(schedule, centres, std):
    """ε(a_i, i) of a mixture of equal Gaussians: −√(1 − ᾱ)·∇ log p."""

    def network(x, i):
        kept = schedule.alpha_bar[i - 1][..., None, None]
        spread = kept * std**2 + 1 - kept
        gap = x[..., None, :] - jnp.sqrt(kept) * centres
        share = jax.nn.softmax(-jnp.sum(gap**2, axis=-1, keepdims=True) / (2 * spread), axis=-2)
        return jnp.sqrt(1 - kept[..., 0]) * jnp.sum(share * gap / spread, axis=-2)

    return network


def draw(steps, centres, std, count=4000):
    schedule = diffusion.vp_schedule(steps)
    network = exact(schedule, jnp.asarray(centres), std)
    return np.asarray(diffusion.sample(network, jax.random.key(0), (count, centres.shape[1]), schedule))


def test_the_schedule_is_diffusion_qls():
    schedule = diffusion.vp_schedule(5)
    # ᾱ_N = exp(−β_min − (β_max − β_min)/2), whatever N.
    for steps in (1, 5, 50):
        assert float(diffusion.vp_schedule(steps).alpha_bar[-1]) == pytest.approx(np.exp(-5.05), rel=1e-5)
    assert np.all(np.diff(schedule.alpha_bar) < 0)
    np.testing.assert_allclose(schedule.alpha_bar_before, [1, *schedule.alpha_bar[:-1]])
    assert float(schedule.alpha_bar[0]) == pytest.approx(np.exp(-0.02 - 9.9 / 50), rel=1e-5)


def test_the_exact_denoiser_of_a_gaussian_gives_the_gaussian():
    samples = draw(1000, np.array([[0.1]], np.float32), 0.2)[:, 0]
    assert samples.mean() == pytest.approx(0.1, abs=0.01)
    assert samples.std() == pytest.approx(0.2, abs=0.01)


def test_five_steps_blur_four_modes_and_twenty_do_not():
    """Even a perfect network: the last of five steps leads from a noise of 0.49 to a mean."""
    near = {}
    for steps in (5, 20):
        gap = np.linalg.norm(draw(steps, CORNERS, 0.05)[:, None] - CORNERS, axis=-1)
        near[steps] = np.mean(gap < 0.2, axis=0)
    np.testing.assert_allclose(near[20], 0.25, atol=0.03)
    assert near[20].sum() > 0.97
    assert 0.2 < near[5].sum() < 0.45


def test_the_loss_is_least_at_the_exact_denoiser():
    schedule, key = diffusion.vp_schedule(5), jax.random.key(0)
    a = jnp.asarray(CORNERS)[jax.random.randint(key, (4000,), 0, 4)]
    best = exact(schedule, jnp.asarray(CORNERS), 1e-3)
    loss = lambda network: float(jnp.mean(diffusion.denoising(network, a, key, schedule)))  # noqa: E731
    assert loss(best) < loss(lambda x, i: best(x, i) + 0.1)
    assert loss(lambda x, i: best(x, i) + 0.1) - loss(best) == pytest.approx(0.01, abs=0.005)


def test_noising_keeps_the_variance_of_unit_data():
    schedule = diffusion.vp_schedule(5)
    a, z = jax.random.normal(jax.random.key(1), (2, 20_000, 1))
    for i in (1, 3, 5):
        assert float(jnp.std(diffusion.noised(a, z, jnp.array(i), schedule))) == pytest.approx(1, abs=0.02)


def test_other_steps_than_those_trained_for_are_refused():
    diffusion.check_steps(Acting(), 5)
    diffusion.check_steps(Acting(sampling_steps=5), 5)
    with pytest.raises(UserError, match="trained for 5"):
        diffusion.check_steps(Acting(sampling_steps=4), 5)
