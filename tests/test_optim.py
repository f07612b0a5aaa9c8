"""Gradient steps against optax and by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gtp.optim import adam, clip_by_norm, descend, polyak

GRADS = {"a": jnp.array([3.0, 0.0]), "b": jnp.array(4.0)}


@pytest.mark.parametrize(("limit", "factor"), [(1.0, 0.2), (5.0, 1.0), (10.0, 1.0), (0.0, 1.0)])
def test_clip_scales_to_the_limit_and_zero_is_off(limit, factor):
    clip = clip_by_norm(limit)
    got, _ = clip.update(GRADS, clip.init(GRADS))
    for name in GRADS:
        np.testing.assert_allclose(got[name], factor * GRADS[name], rtol=1e-6)


def test_clip_of_a_zero_gradient_is_zero():
    got, _ = clip_by_norm(1.0).update({"a": jnp.zeros(2)}, optax.EmptyState())
    np.testing.assert_array_equal(got["a"], 0)


def test_adam_with_traced_rate_and_clip_is_optaxs():
    def run(make, rate, clip):
        params = {"w": jnp.array([1.0, -2.0, 0.5])}
        optimiser = make(rate, clip)
        state = optimiser.init(params)
        for _ in range(5):
            grads = jax.grad(lambda p: jnp.sum(p["w"] ** 4))(params)
            updates, state = optimiser.update(grads, state, params)
            params = optax.apply_updates(params, updates)
        return params["w"]

    rates, clips = jnp.array([0.1, 0.01]), jnp.array([1.0, 0.5])
    got = jax.jit(jax.vmap(lambda r, c: run(adam, r, c)))(rates, clips)
    theirs = lambda r, c: optax.chain(optax.clip_by_global_norm(c), optax.adam(r))  # noqa: E731
    for row, rate, clip in zip(got, (0.1, 0.01), (1.0, 0.5), strict=True):
        np.testing.assert_allclose(row, run(theirs, rate, clip), rtol=1e-5)


def test_descend_gives_the_step_the_metrics_and_the_unclipped_norm():
    optimiser = optax.chain(clip_by_norm(1.0), optax.sgd(0.5))
    params = jnp.array([3.0, 4.0])
    loss = lambda p: (jnp.sum(p**2) / 2, {"size": jnp.sum(p)})  # noqa: E731
    new, _, metrics, norm = descend(loss, params, optimiser.init(params), optimiser)
    np.testing.assert_allclose(new, params - 0.5 * params / 5, rtol=1e-6)
    assert float(metrics["size"]) == 7
    assert float(norm) == pytest.approx(5)


def test_polyak_average():
    target, online = {"w": jnp.array([1.0, 2.0])}, {"w": jnp.array([3.0, 0.0])}
    np.testing.assert_allclose(polyak(target, online, 0.25)["w"], [1.5, 1.5])
    np.testing.assert_array_equal(polyak(target, online, 0.0)["w"], target["w"])
    np.testing.assert_allclose(polyak(target, online, 1.0)["w"], online["w"])
