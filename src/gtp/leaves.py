"""One formula over every number of a network, in one GPU kernel however many arrays the network has.

An optimiser's step is such a formula. Array by array it is some twenty kernels; joining the arrays to one
vector makes it one, but then each is copied into the vector and out of it again, every update.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from gtp.types import Array

BLOCK, WARPS = 1024, 4
"""Numbers of a program, and its groups of 32 threads."""


def our_kernels() -> bool:
    """Whether this device is of the kind our own kernels were written for; XLA's serve all others.

    A Hopper's programs have 227 KiB of fast memory, twice what smaller GPUs give them.
    """
    device = jax.local_devices()[0]
    return device.platform == "gpu" and getattr(device, "compute_capability", "") == "9.0"


Formula = Callable[..., tuple[Array, ...]]
"""(scalars, an array of each tree …) -> new arrays; element by element."""


def each(formula: Formula, scalars: Sequence[Array], *trees: Any) -> tuple[Any, ...]:
    """formula(scalars, x, y, …) over the leaves x, y, … that lie at the same place of all trees."""
    columns, structure = [jax.tree.leaves(tree) for tree in trees], jax.tree.structure(trees[0])
    rows = list(zip(*columns, strict=True))
    everywhere = all(x.dtype == jnp.float32 for row in rows for x in row)
    if our_kernels() and everywhere and rows:
        results = in_one_kernel(formula, scalars, rows)
    else:
        results = [formula(scalars, *row) for row in rows]
    return tuple(jax.tree.unflatten(structure, column) for column in zip(*results, strict=True))


def in_one_kernel(
    formula: Formula, scalars: Sequence[Array], rows: list[tuple[Array, ...]]
) -> list[tuple[Array, ...]]:
    """The formula for each row of equally shaped arrays; off a GPU it is interpreted, which is for tests."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    numbers = jnp.stack([jnp.asarray(x, jnp.float32) for x in scalars])
    flat = [[x.reshape(-1) for x in row] for row in rows]
    sizes = [row[0].size for row in rows]
    width = len(rows[0])
    outputs = len(jax.eval_shape(formula, numbers, *flat[0]))
    starts = [0, *itertools.accumulate(-(-size // BLOCK) for size in sizes)]

    def program(numbers_ref: Any, *refs: Any) -> None:
        """One block of one array."""
        here = pl.program_id(0)
        values = [numbers_ref[i] for i in range(len(scalars))]

        def one(row: int) -> None:
            start = (here - starts[row]) * BLOCK
            inside = start + jnp.arange(BLOCK) < sizes[row]
            part = pl.ds(start, BLOCK)
            read, written = refs[row * width :][:width], refs[len(rows) * width + row * outputs :][:outputs]
            given = [triton.load(ref.at[part], mask=inside, other=0.0) for ref in read]
            for ref, result in zip(written, formula(values, *given), strict=True):
                triton.store(ref.at[part], result, mask=inside)

        for row in range(len(rows)):
            pl.when((starts[row] <= here) & (here < starts[row + 1]))(functools.partial(one, row))

    whole = lambda x: pl.BlockSpec(x.shape, lambda i: (0,))  # noqa: E731
    inputs = [x for row in flat for x in row]
    written = [row[0] for row in flat for _ in range(outputs)]
    results = pl.pallas_call(
        program,
        grid=(starts[-1],),
        in_specs=[whole(numbers), *map(whole, inputs)],
        out_specs=list(map(whole, written)),
        out_shape=[jax.ShapeDtypeStruct(x.shape, jnp.float32) for x in written],
        compiler_params=triton.CompilerParams(num_warps=WARPS, num_stages=1),
        interpret=jax.default_backend() != "gpu",
        # The first arrays of a row are replaced by the results: a loop's state stays where it is.
        input_output_aliases={
            1 + row * width + i: row * outputs + i for row in range(len(rows)) for i in range(outputs)
        },
        name="each",
    )(numbers, *inputs)
    shaped = [x.reshape(rows[i // outputs][0].shape) for i, x in enumerate(results)]
    return [tuple(shaped[i : i + outputs]) for i in range(0, len(shaped), outputs)]
