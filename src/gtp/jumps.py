"""The K jumps of a sampler as one GPU kernel, in place of some thirty that each wait for the one before.

A jump is a ← keep·a + add·F(scale·a) with a small network F, and rows never meet. So a program takes a few
rows through all jumps and layers: activations never leave the chip, weights come from its cache. Products are
of half-precision numbers, which have the ten bits of tf32 in half the bytes, summed in float32.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gtp.leaves import our_kernels
from gtp.nn import BoundFlow, mish
from gtp.types import Array

ROWS, UNITS, LANES = 32, 64, 16
"""Rows of a program, units of a layer it has at a time, and the narrowest matrix it can multiply."""

WARPS, STAGES = 8, 2
"""Groups of 32 threads in a program, and weights under way at a time."""

HALF = jnp.float16


class Jumps(NamedTuple):
    """What tells one jump from another; K of each."""

    keep: Array
    add: Array
    scale: Array
    time_share: Array
    """(K, hidden), what the levels give the first layer."""


def suits(phi: Any, a: Array) -> bool:
    """Whether the kernel can take actions `a` through jumps of φ."""
    bound = getattr(phi, "network", None)
    if not (our_kernels() and isinstance(bound, BoundFlow)):
        return False
    rows, hidden = a.shape[:-1], [layer.weight.shape[1] for layer in bound.network.rest.layers]
    return (
        bound.obs_share.shape[:-1] == rows
        and all(isinstance(n, int) for n in rows)
        and functools.reduce(int.__mul__, rows, 1) % ROWS == 0
        and a.shape[-1] <= LANES
        and all(n in (64, 128, 256) for n in hidden)
    )


def run(jumps: Jumps, bound: BoundFlow, a: Array) -> Array:
    """Actions (…, size) after all jumps; off a GPU the kernel is interpreted, which is for tests."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    size, share = a.shape[-1], bound.obs_share.reshape(-1, bound.obs_share.shape[-1])
    missing = LANES - size
    layers: Any = bound.network.rest.layers  # Each with a bias, which Equinox's type leaves open.
    *middle, last = layers
    matrices = [jnp.pad(bound.network.from_action, ((0, 0), (0, missing))), *(m.weight for m in middle)]
    matrices.append(jnp.pad(last.weight, ((0, missing), (0, 0))))
    biases = [*(m.bias for m in middle), jnp.pad(last.bias, (0, missing))]
    numbers = jnp.stack(jumps[:3])
    shared = [numbers, jumps.time_share, *(m.astype(HALF) for m in matrices), *biases]
    whole = lambda x: pl.BlockSpec(x.shape, lambda i: (0,) * x.ndim)  # noqa: E731
    some = lambda n: pl.BlockSpec((ROWS, n), lambda i: (i, 0))  # noqa: E731
    call = pl.pallas_call(
        functools.partial(_program, pl, len(jumps.keep)),
        grid=(len(share) // ROWS,),
        in_specs=[some(LANES), some(share.shape[1]), *(whole(x) for x in shared)],
        out_specs=some(LANES),
        out_shape=jax.ShapeDtypeStruct((len(share), LANES), jnp.float32),
        compiler_params=triton.CompilerParams(num_warps=WARPS, num_stages=STAGES),
        interpret=jax.default_backend() != "gpu",
        name="jumps",
    )
    wide = jnp.pad(a.reshape(-1, size), ((0, 0), (0, missing)))
    return call(wide, share, *shared)[:, :size].reshape(a.shape)


def _program(pl: Any, steps: int, a_ref: Any, share_ref: Any, numbers_ref: Any, time_ref: Any, *refs: Any):
    """Some rows through all jumps."""
    from_action_ref, *layer_refs, out_ref = refs
    count = len(layer_refs) // 2
    layers = list(zip(layer_refs[:count], layer_refs[count:], strict=True))

    def product(x: Array, weight: Array) -> Array:
        return jnp.dot(x.astype(HALF), weight.T, preferred_element_type=jnp.float32)

    def two_layers(x: Array, inner: Any, outer: Any) -> Array:
        """Two layers, some units of the one between them at a time: all of the weights would not fit."""
        x = x.astype(HALF)

        def part(i: Array, total: Array) -> Array:
            units = pl.ds(i * UNITS, UNITS)
            between = mish(product(x, inner[0][units, :]) + inner[1][units])
            return total + product(between, outer[0][:, units])

        start = jnp.zeros((ROWS, outer[0].shape[0]), jnp.float32) + outer[1][...]
        return jax.lax.fori_loop(0, inner[0].shape[0] // UNITS, part, start)

    def jump(k: Array, a: Array) -> Array:
        keep, add, scale = (numbers_ref[i, k] for i in range(3))
        x = share_ref[...] + time_ref[k, :] + product(scale * a, from_action_ref[...])
        for inner, outer in zip(layers[0:-1:2], layers[1::2], strict=True):
            x = two_layers(mish(x), inner, outer)
        if count % 2:
            x = product(mish(x), layers[-1][0][...]) + layers[-1][1][...]
        return keep * a + add * x

    out_ref[...] = jax.lax.fori_loop(0, steps, jump, a_ref[...])
