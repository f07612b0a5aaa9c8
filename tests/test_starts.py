"""Where weights start."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtp.nn import MLP, Ensemble
from gtp.starts import orthogonal, orthonormal, small_outputs


def test_orthogonal_start_keeps_lengths_and_has_no_biases():
    twin = Ensemble(jax.random.key(0), (6,), 2, (16, 16), size=2, activation=jax.nn.relu)
    _, started = orthogonal(jax.random.key(1), (jnp.ones(3), twin), scale=3.0)
    assert jax.tree.map(jnp.shape, started) == jax.tree.map(jnp.shape, twin)
    widest, middle, last = started.members.layers
    for member in range(2):
        np.testing.assert_allclose(widest.weight[member].T @ widest.weight[member], 9 * np.eye(8), atol=1e-4)
        np.testing.assert_allclose(middle.weight[member].T @ middle.weight[member], 9 * np.eye(16), atol=1e-4)
        np.testing.assert_allclose(np.linalg.norm(last.weight[member]), 3.0, rtol=1e-5)
    assert not np.allclose(middle.weight[0], middle.weight[1])  # Each member has a start of its own.
    assert not any(np.any(layer.bias) for layer in started.members.layers)


@pytest.mark.parametrize("shape", [(256, 256), (256, 11), (1, 256)])
def test_a_random_orthonormal_matrix_of_any_shape(shape):
    draw = jax.jit(lambda key: orthonormal(key, *shape))
    for seed in range(3):
        x = np.asarray(draw(jax.random.key(seed)), np.float64)
        gram = x @ x.T if shape[0] <= shape[1] else x.T @ x
        np.testing.assert_allclose(gram, np.eye(min(shape)), atol=1e-4)
    # Several decompositions in one program hang on a CPU, so there must be none.
    assert "lapack" not in draw.lower(jax.random.key(0)).as_text()


def test_small_outputs_touch_biases_and_the_last_layer_only():
    net = MLP(jax.random.key(0), 3, (64, 64), 2, jax.nn.relu)
    started = small_outputs(jax.random.key(1), net, bound=1e-3, bias=0.1)
    for before, after in zip(net.layers[:-1], started.layers[:-1], strict=True):
        np.testing.assert_array_equal(before.weight, after.weight)
        np.testing.assert_array_equal(after.bias, np.float32(0.1))
    for leaf in (started.layers[-1].weight, started.layers[-1].bias):
        assert 1e-4 < np.max(np.abs(leaf)) <= 1e-3
