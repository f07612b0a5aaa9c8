"""Gaussian policies: the distributions, and the network that gives one."""

from __future__ import annotations

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from gtp.nn import Network
from gtp.types import Array


class Gaussian(NamedTuple):
    """A diagonal Gaussian over actions."""

    mean: Array
    log_std: Array

    def log_prob(self, action: Array) -> Array:
        """Log-density, summed over action dimensions."""
        z = (action - self.mean) * jnp.exp(-self.log_std)
        return -0.5 * jnp.sum(z**2 + 2 * self.log_std + math.log(2 * math.pi), axis=-1)

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> Array:
        """Draws, clipped to the action range."""
        z = jax.random.normal(key, (*shape, *self.mean.shape))
        return jnp.clip(self.mean + jnp.exp(self.log_std) * z, -1.0, 1.0)


class GaussianNetwork(eqx.Module):
    """A Gaussian policy: its mean squashed to the action range, its deviation the same for all observations.

    With `std_of_obs` the deviation depends on the observation as well.
    """

    network: Network
    log_std: Array | None

    def __init__(
        self,
        key: Array,
        obs_shape: tuple[int, ...],
        action_size: int,
        hidden: tuple[int, ...],
        std_of_obs: bool = False,
    ):
        outputs = 2 * action_size if std_of_obs else action_size
        self.network = Network(key, obs_shape, 0, hidden, outputs, jax.nn.relu)
        self.log_std = None if std_of_obs else jnp.zeros(action_size)

    def __call__(self, obs: Array) -> Gaussian:
        """The policy at an observation; the deviation stays within [e⁻⁵, e²]."""
        mean, log_std = self.network(obs), self.log_std
        if log_std is None:
            mean, log_std = jnp.split(mean, 2, axis=-1)
        mean = jnp.tanh(mean)
        return Gaussian(mean, jnp.broadcast_to(jnp.clip(log_std, -5.0, 2.0), mean.shape))


class TanhGaussian(NamedTuple):
    """A diagonal Gaussian squashed by tanh, with the density that entropies need."""

    mean: Array
    log_std: Array

    @property
    def mode(self) -> Array:
        """Where the unsquashed Gaussian has its mean."""
        return jnp.tanh(self.mean)

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> tuple[Array, Array]:
        """Draws and their log-densities, summed over action dimensions."""
        z = jax.random.normal(key, (*shape, *self.mean.shape))
        x = self.mean + jnp.exp(self.log_std) * z
        # ln(1 − tanh² x), written so that large |x| lose no digits.
        shrink = 2 * (math.log(2) - x - jax.nn.softplus(-2 * x))
        log_density = -0.5 * (z**2 + 2 * self.log_std + math.log(2 * math.pi)) - shrink
        return jnp.tanh(x), jnp.sum(log_density, axis=-1)
