"""Where weights start, for the agents whose authors do not start where Equinox's layers do."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp

from gtp.nn import MLP, Module
from gtp.types import Array


def _is_linear(node: object) -> bool:
    return isinstance(node, eqx.nn.Linear)


def orthonormal(key: Array, rows: int, columns: int) -> Array:
    """A random matrix whose rows, or columns if they are fewer, are orthonormal.

    It is the polar factor of a Gaussian one, by Newton and Schulz's iteration, which lifts singular values to
    1, tiny ones by half at a time. QR decompositions would do too, but several in one compiled CPU program
    have been seen to wait for each other for ever (jaxlib 0.10.2).
    """
    x = jax.random.normal(key, (rows, columns)) / (math.sqrt(rows) + math.sqrt(columns))

    def lift(_: int, x: Array) -> Array:
        return 1.5 * x - 0.5 * ((x @ x.T) @ x if rows <= columns else x @ (x.T @ x))

    with jax.default_matmul_precision("float32"):
        return jax.lax.fori_loop(0, 50, lift, x)


def orthogonal(key: Array, network: Module, scale: float = math.sqrt(2)) -> Module:
    """The network with orthogonal weights and no biases in its dense layers: how IQL's authors start."""
    layers, tree = jax.tree.flatten(network, is_leaf=_is_linear)

    def restart(key: Array, layer: eqx.nn.Linear) -> eqx.nn.Linear:
        *members, outputs, inputs = layer.weight.shape  # An ensemble has its members in front.
        keys = jax.random.split(key, math.prod(members))
        weight = scale * jax.vmap(lambda k: orthonormal(k, outputs, inputs))(keys)
        weight = weight.reshape(layer.weight.shape)
        return eqx.tree_at(lambda x: (x.weight, x.bias), layer, (weight, jnp.zeros(layer.weight.shape[:-1])))

    keys = jax.random.split(key, len(layers))
    layers = [restart(k, x) if _is_linear(x) else x for k, x in zip(keys, layers, strict=True)]
    return jax.tree.unflatten(tree, layers)


def small_outputs(key: Array, mlp: MLP, bound: float, bias: float = 0.1) -> MLP:
    """The MLP with one bias in all hidden layers and a last layer near 0: how ReBRAC's authors start."""
    *hidden, last = mlp.layers
    hidden = [
        eqx.tree_at(lambda x: x.bias, layer, jnp.full(layer.weight.shape[:-1], bias, jnp.float32))
        for layer in hidden
    ]
    leaves, tree = jax.tree.flatten(last)
    keys = jax.random.split(key, len(leaves))
    leaves = [
        jax.random.uniform(k, x.shape, x.dtype, -bound, bound) for k, x in zip(keys, leaves, strict=True)
    ]
    return eqx.tree_at(lambda x: x.layers, mlp, (*hidden, jax.tree.unflatten(tree, leaves)))
