"""Networks, as Equinox modules whose leaves are all arrays, so that seeds can be stacked and vmapped.

Modules act on the last axis and broadcast over all others.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from gtp.types import Array

Activation = Callable[[Array], Array]


def mish(x: Array) -> Array:
    """x·tanh(softplus(x)), written with one exponential: x·n/(n + 2) with n = eˣ(eˣ + 2)."""
    e = jnp.exp(jnp.minimum(x, 20.0))  # Beyond 20 the factor is 1 in float32, and eˣ would overflow.
    n = e * (e + 2)
    return x * n / (n + 2)


NARROW = 4
"""Products with so few inputs or outputs are no work for a matrix unit."""


def product(x: Array, weight: Array) -> Array:
    """x·Wᵀ over the last axis of x.

    A narrow product is written as plain sums for an accelerator, where XLA fuses them with what comes before
    and after instead of launching one more kernel. A CPU is better off with its matrix routine.
    """
    narrow = min(weight.shape) <= NARROW and jax.default_backend() != "cpu"
    return _narrow_product(x, weight) if narrow else x @ weight.T


@jax.custom_jvp
def _narrow_product(x: Array, weight: Array) -> Array:
    if weight.shape[1] <= NARROW:
        return functools.reduce(jnp.add, (x[..., i, None] * w for i, w in enumerate(weight.T)))
    return jnp.stack([jnp.sum(x * row, axis=-1) for row in weight], axis=-1)


@_narrow_product.defjvp
def _narrow_product_tangent(primals: tuple[Array, Array], tangents: tuple[Array, Array]):
    (x, weight), (dx, dweight) = primals, tangents
    return _narrow_product(x, weight), dx @ weight.T + x @ dweight.T


def linear(layer: eqx.nn.Linear, *inputs: Array) -> Array:
    """Apply an Equinox layer to inputs joined on their last axis.

    They are not really joined: each meets its own columns of the weight, so that what is shared among rows,
    or known early, is computed once and early.
    """
    cuts = tuple(itertools.accumulate(x.shape[-1] for x in inputs))[:-1]
    shares = jnp.split(layer.weight, cuts, axis=1)
    y = functools.reduce(jnp.add, (product(x, w) for x, w in zip(inputs, shares, strict=True)))
    return y if layer.bias is None else y + layer.bias


class MLP(eqx.Module):
    """Dense layers with an activation between them."""

    layers: tuple[eqx.nn.Linear, ...]
    activation: Activation = eqx.field(static=True)

    def __init__(
        self, key: Array, inputs: int, hidden: tuple[int, ...], outputs: int, activation: Activation = mish
    ):
        sizes = (inputs, *hidden, outputs)
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = tuple(
            eqx.nn.Linear(a, b, key=k) for a, b, k in zip(sizes[:-1], sizes[1:], keys, strict=True)
        )
        self.activation = activation

    def __call__(self, *inputs: Array) -> Array:
        """(…, inputs) -> (…, outputs); several inputs count as joined on their last axis, and broadcast."""
        first, *others = self.layers
        x = linear(first, *inputs)
        for layer in others:
            x = linear(layer, self.activation(x))
        return x


class Ensemble(eqx.Module):
    """Several MLPs of one shape side by side: a twin critic Q(s, a), or a single V(s)."""

    members: MLP

    def __init__(self, key: Array, inputs: int, hidden: tuple[int, ...], size: int = 2):
        self.members = jax.vmap(lambda k: MLP(k, inputs, hidden, 1))(jax.random.split(key, size))

    def __call__(self, *inputs: Array) -> Array:
        """Inputs are broadcast and joined on their last axis; returns (members, …)."""
        return jax.vmap(lambda member: member(*inputs)[..., 0])(self.members)


class TimeEmbedding(eqx.Module):
    """Sines and cosines of ln t through a small MLP; ln tells .002 from .01 as well as 20 from 80."""

    mlp: MLP
    frequencies: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, key: Array, features: int = 16):
        # Periods from well beyond the whole range of ln t (about 11) down to a fraction of one grid doubling.
        count = features // 2
        self.frequencies = tuple(2.0 ** (-3 + 6 * i / (count - 1)) for i in range(count))
        self.mlp = MLP(key, features, (2 * features,), features)

    def __call__(self, t: Array) -> Array:
        """() or (…,) -> (…, features)."""
        angle = jnp.log(t)[..., None] * jnp.asarray(self.frequencies, jnp.float32)
        return self.mlp(jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1))


class FlowNetwork(eqx.Module):
    """F(s, a_t, t, s'): the raw network under a flow map, an MLP on [observation, action, e(t), e(s)].

    Its first layer is kept in three pieces: the observation's share is computed once for all K sampling
    steps, and the share of the times once per step instead of once per row.
    """

    from_obs: Array
    from_action: Array
    from_time: eqx.nn.Linear
    embed_t: TimeEmbedding
    embed_s: TimeEmbedding
    rest: MLP

    def __init__(
        self, key: Array, obs_size: int, action_size: int, hidden: tuple[int, ...], features: int = 16
    ):
        key_first, key_rest, key_t, key_s = jax.random.split(key, 4)
        first = eqx.nn.Linear(obs_size + action_size + 2 * features, hidden[0], key=key_first)
        cuts = (obs_size, obs_size + action_size)
        self.from_obs, self.from_action, time_weight = jnp.split(first.weight, cuts, axis=1)
        time_layer = eqx.nn.Linear(2 * features, hidden[0], key=key_first)
        self.from_time = eqx.tree_at(
            lambda layer: (layer.weight, layer.bias), time_layer, (time_weight, first.bias)
        )
        self.embed_t = TimeEmbedding(key_t, features)
        self.embed_s = TimeEmbedding(key_s, features)
        self.rest = MLP(key_rest, hidden[0], hidden[1:], action_size)

    def bind(self, obs: Array) -> Callable[[Array, Array, Array], Array]:
        """Fix the observation; what remains is the network (a_t, t, s) -> F that `flow.endpoint` wants."""
        obs_share = product(obs, self.from_obs)

        def network(a_t: Array, t: Array, s: Array) -> Array:
            times = jnp.concatenate([self.embed_t(jnp.asarray(t)), self.embed_s(jnp.asarray(s))], axis=-1)
            x = obs_share + product(a_t, self.from_action) + linear(self.from_time, times)
            return self.rest(mish(x))

        return network


class Normaliser(NamedTuple):
    """Mean and scale of observations; part of every agent's parameters, so no saved policy can lose it."""

    mean: Array
    std: Array

    @classmethod
    def fit(cls, obs: Array, enabled: bool) -> Normaliser:
        """Statistics of the data; the identity if not enabled. A constant feature keeps its scale."""
        if not enabled:
            return cls(jnp.zeros(obs.shape[1:]), jnp.ones(obs.shape[1:]))
        std = jnp.std(obs, axis=0)
        return cls(jnp.mean(obs, axis=0), jnp.where(std > 1e-6, std, 1.0))

    def __call__(self, obs: Array) -> Array:
        """Standardise."""
        return (obs - self.mean) / self.std


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
