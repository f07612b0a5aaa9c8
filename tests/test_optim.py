"""Gradient steps against optax and by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gtp import leaves
from gtp.optim import adam, adam_formula, clip_factor, cosine, descend, polyak


@pytest.mark.parametrize(("limit", "factor"), [(1.0, 0.2), (5.0, 1.0), (10.0, 1.0), (0.0, 1.0)])
def test_clip_scales_to_the_limit_and_zero_is_off(limit, factor):
    assert float(clip_factor(jnp.float32(5.0), limit)) == pytest.approx(factor)


def test_clip_of_a_zero_gradient_is_harmless():
    assert float(clip_factor(jnp.float32(0.0), 1.0)) == 1


def quartic(params):
    return jnp.sum(params["w"] ** 4) + jnp.sum(params["b"] ** 2), {}


START = {"w": jnp.array([1.0, -2.0, 0.5]), "b": jnp.array([[0.3]])}


@pytest.mark.parametrize("final", [None, 0.0, 0.3])
def test_adam_with_traced_rate_and_clip_is_optaxs(final):
    chosen = (lambda r: r) if final is None else lambda r: cosine(r, 4, final)
    published = (lambda r: r) if final is None else lambda r: optax.cosine_decay_schedule(r, 4, final)

    def ours(rate, clip):
        optimiser, params = adam(chosen(rate), clip), START
        moments = optimiser.init(params)
        for _ in range(5):
            params, moments, _, _ = descend(quartic, params, moments, optimiser)
        return params

    def theirs(rate, clip):
        optimiser, params = optax.chain(optax.clip_by_global_norm(clip), optax.adam(published(rate))), START
        state = optimiser.init(params)
        for _ in range(5):
            updates, state = optimiser.update(jax.grad(quartic, has_aux=True)(params)[0], state, params)
            params = optax.apply_updates(params, updates)
        return params

    rates, clips = jnp.array([0.1, 0.01]), jnp.array([1.0, 0.5])
    got = jax.jit(jax.vmap(ours))(rates, clips)
    for i in range(2):
        want = theirs(float(rates[i]), float(clips[i]))
        for name, leaf in want.items():
            np.testing.assert_allclose(got[name][i], leaf, rtol=1e-4)


def test_descend_gives_the_step_the_metrics_and_the_unclipped_norm():
    optimiser, params = adam(0.5, 1.0), jnp.array([3.0, 4.0])
    loss = lambda p: (jnp.sum(p**2) / 2, {"size": jnp.sum(p)})  # noqa: E731
    new, moments, metrics, norm = descend(loss, params, optimiser.init(params), optimiser)
    np.testing.assert_allclose(
        new, params - 0.5, rtol=1e-5
    )  # Adam's first step is the rate, whatever the slope.
    np.testing.assert_allclose(moments.mean, 0.1 * params / 5, rtol=1e-5)
    assert float(metrics["size"]) == 7
    assert float(norm) == pytest.approx(5)


def test_one_kernel_for_all_arrays_is_the_formula_for_each():
    """Sizes that are whole blocks, more, less, and one; two members side by side."""
    rng = np.random.default_rng(0)
    draw = lambda *shape: jnp.asarray(rng.normal(size=(2, *shape)).astype(np.float32))  # noqa: E731
    rows = [tuple(draw(*shape) for _ in range(4)) for shape in [(1024,), (30, 70), (3,), (1, 1)]]
    rows = [(param, mean, square**2, grad) for param, mean, square, grad in rows]
    scalars = jnp.array([[0.5, 0.7], [0.1, 0.2], [2.0, 3.0]])
    run = lambda s, r: leaves.in_one_kernel(adam_formula, list(s), r)  # noqa: E731
    got = jax.jit(jax.vmap(run, in_axes=(1, 0)))(scalars, rows)
    for i in range(2):
        for arrays, row in zip(got, rows, strict=True):
            want = adam_formula(scalars[:, i], *(x[i] for x in row))
            for a, b in zip(arrays, want, strict=True):
                np.testing.assert_allclose(a[i], b, rtol=1e-5, atol=1e-6)


def test_polyak_average():
    target, online = {"w": jnp.array([1.0, 2.0])}, {"w": jnp.array([3.0, 0.0])}
    np.testing.assert_allclose(polyak(target, online, 0.25)["w"], [1.5, 1.5])
    np.testing.assert_array_equal(polyak(target, online, 0.0)["w"], target["w"])
    np.testing.assert_allclose(polyak(target, online, 1.0)["w"], online["w"])
