"""Pictures as observations: kept once, as bytes; stacked and shifted when a batch is drawn.

A picture is the next observation of one row and the observation of the row behind it, and with a stack of
three it is part of six observations. A `Film` holds each once and, for every row, the numbers of the pictures
it sees.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gtp.errors import UserError
from gtp.types import Array, Transition

SHIFT = 3
"""Pixels a picture is shifted by at most, each way."""
SHIFT_PROBABILITY = 0.5
"""How often a batch is shifted at all."""


class Film(NamedTuple):
    """Observations and next observations of all rows, as numbers of pictures, oldest first."""

    pictures: Array
    """uint8 (pictures, height, width, channels)."""
    here: Array
    """int32 (rows, stack): what s consists of."""
    ahead: Array
    """int32 (rows, stack): what s' consists of."""


def are_pictures(obs_shape: tuple[int, ...]) -> bool:
    """Whether observations of this shape are pictures."""
    return len(obs_shape) == 3


def stacked_shape(obs_shape: tuple[int, ...], stack: int) -> tuple[int, ...]:
    """Shape of an observation of `stack` pictures, joined on their channels."""
    if stack > 1 and not are_pictures(obs_shape):
        raise UserError(f"frame_stack is for pictures; these observations have the shape {obs_shape}")
    return (*obs_shape[:-1], obs_shape[-1] * stack) if are_pictures(obs_shape) else obs_shape


def film(data: Transition, stack: int) -> Film:
    """Keep every picture of the data once.

    Row i + 1 goes on where row i ended if it shows what row i saw last, and row i was not the end. Before an
    episode's first picture there is only that first picture.
    """
    rows = len(data.obs)
    follows = np.zeros(rows, bool)
    for i in range(rows - 1):
        follows[i] = data.bootstrap[i] > 0 and np.array_equal(data.next_obs[i], data.obs[i + 1])
    last = np.flatnonzero(~follows)
    number = np.arange(rows)
    first = np.maximum.accumulate(np.where(np.append(True, ~follows[:-1]), number, 0))
    after = number + 1
    after[last] = rows + np.arange(len(last))
    back = np.arange(stack - 1, -1, -1)
    here = np.maximum(number[:, None] - back, first[:, None])
    ahead = np.concatenate([here[:, 1:], after[:, None]], axis=1)
    pictures = np.concatenate([data.obs, data.next_obs[last]])
    return Film(pictures, here.astype(np.int32), ahead.astype(np.int32))


def look(pictures: Array, numbers: Array) -> Array:
    """Observations from numbers of pictures (rows, stack): (rows, height, width, stack·channels)."""
    seen = pictures[numbers].swapaxes(1, 2).swapaxes(2, 3)
    return seen.reshape(*seen.shape[:-2], -1)


def stacked(data: Transition, stack: int) -> Transition:
    """The same transitions with every observation written out; vectors, and single pictures, already are."""
    if stack == 1:
        return data
    pictures, here, ahead = film(data, stack)
    return data._replace(obs=look(pictures, here), next_obs=look(pictures, ahead))


def shift(key: Array, *observations: Array) -> tuple[Array, ...]:
    """Shift pictures by a few pixels, their edges repeated: random crops, the same of s and s'.

    Half of the batches stay as they are.
    """
    key_coin, key_by = jax.random.split(key)
    rows = observations[0].shape[0]
    by = jax.random.randint(key_by, (rows, 2), 0, 2 * SHIFT + 1)
    by = jnp.where(jax.random.bernoulli(key_coin, SHIFT_PROBABILITY), by, SHIFT)

    def crop(picture: Array, by: Array) -> Array:
        wide = jnp.pad(picture, ((SHIFT, SHIFT), (SHIFT, SHIFT), (0, 0)), mode="edge")
        return jax.lax.dynamic_slice(wide, (by[0], by[1], 0), picture.shape)

    return tuple(jax.vmap(crop)(obs, by) for obs in observations)
