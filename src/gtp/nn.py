"""Networks, as Equinox modules whose leaves are all arrays, so that seeds can be stacked and vmapped.

Modules act on the last axis and broadcast over all others.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from gtp.types import Array, Transition

Activation = Callable[[Array], Array]
Module = TypeVar("Module")


@jax.custom_jvp
def mish(x: Array) -> Array:
    """x·tanh(softplus(x)), written with one exponential: x·n/(n + 2) with n = eˣ(eˣ + 2)."""
    n = _mish_n(x)[1]
    return x * n / (n + 2)


@mish.defjvp
def _mish_tangent(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """The slope from x alone, which is less to keep and to read again than what a tracer would keep."""
    (x,), (dx,) = primals, tangents
    e, n = _mish_n(x)
    part = 1 / (n + 2)
    return mish(x), (1 - 2 * part + x * (4 * e * (e + 1) * part * part)) * dx


def _mish_n(x: Array) -> tuple[Array, Array]:
    e = jnp.exp(jnp.minimum(x, 20.0))  # Beyond 20 the factor is 1 in float32, and eˣ would overflow.
    return e, e * (e + 2)


NARROW = 4
"""Products with so few inputs or outputs are no work for a matrix unit."""


def product(x: Array, weight: Array) -> Array:
    """x·Wᵀ over the last axis of x.

    A narrow product is written as plain sums for an accelerator, where XLA fuses them with what comes before
    and after instead of launching one more kernel. A CPU is better off with its matrix routine.
    """
    if weight.dtype == HALF:
        return jnp.matmul(x.astype(HALF), weight.T, preferred_element_type=jnp.float32)
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


HALF, WIDE = jnp.bfloat16, 128
"""What a CPU's matrix units multiply, and the narrowest matrix that is worth it."""


@functools.cache
def has_matrix_units() -> bool:
    """Whether training is on a CPU that multiplies half-precision matrices several times as fast (AMX)."""
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return jax.default_backend() == "cpu" and "amx_bf16" in flags


def halved(network: Module) -> Module:
    """The network with its wide matrices in half precision, if that makes their products faster."""
    wide = lambda x: has_matrix_units() and x.ndim == 2 and min(x.shape) >= WIDE  # noqa: E731
    return jax.tree.map(lambda x: x.astype(HALF) if wide(x) else x, network)


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
    """Dense layers with an activation between them, and layer normalisation after each if asked for."""

    layers: tuple[eqx.nn.Linear, ...]
    norms: tuple[eqx.nn.LayerNorm, ...]
    activation: Activation = eqx.field(static=True)

    def __init__(
        self,
        key: Array,
        inputs: int,
        hidden: tuple[int, ...],
        outputs: int,
        activation: Activation = mish,
        layer_norm: bool = False,
    ):
        sizes = (inputs, *hidden, outputs)
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = tuple(
            eqx.nn.Linear(a, b, key=k) for a, b, k in zip(sizes[:-1], sizes[1:], keys, strict=True)
        )
        self.norms = tuple(eqx.nn.LayerNorm(size) for size in hidden) if layer_norm else ()
        self.activation = activation

    def __call__(self, *inputs: Array) -> Array:
        """(…, inputs) -> (…, outputs); several inputs count as joined on their last axis, and broadcast."""
        first, *others = self.layers
        x = linear(first, *inputs)
        for i, layer in enumerate(others):
            x = self.activation(x)
            x = standardise(self.norms[i], x) if self.norms else x
            x = linear(layer, x)
        return x


def standardise(norm: eqx.nn.LayerNorm, x: Array) -> Array:
    """Apply an Equinox layer normalisation to the last axis of x."""
    return centred_and_scaled(x, norm.eps) * norm.weight + norm.bias


LAYER_NORM_EPSILON = 1e-5
"""Equinox's; what keeps a variance of 0 from being divided by."""


def centred_and_scaled(x: Array, eps: float = LAYER_NORM_EPSILON) -> Array:
    """The last axis of x with mean 0 and variance 1; export to ONNX knows it by its equations."""
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + eps)


class Impala(eqx.Module):
    """Pictures to features: the small residual encoder of IMPALA, three stacks of one block each."""

    stacks: tuple[tuple[eqx.nn.Conv2d, ...], ...]
    last: eqx.nn.Linear

    def __init__(
        self,
        key: Array,
        shape: tuple[int, ...],
        widths: tuple[int, ...] = (16, 32, 32),
        features: int = 512,
    ):
        height, width, channels = shape
        stacks = []
        for size in widths:
            key, *keys = jax.random.split(key, 4)
            layers = [
                eqx.nn.Conv2d(inputs, size, 3, padding=1, key=k)
                for inputs, k in zip((channels, size, size), keys, strict=True)
            ]
            stacks.append(tuple(layers))
            height, width, channels = -(-height // 2), -(-width // 2), size
        self.stacks = tuple(stacks)
        self.last = eqx.nn.Linear(height * width * channels, features, key=key)

    def __call__(self, pictures: Array) -> Array:
        """(…, height, width, channels) in [0, 1] -> (…, features)."""
        x = pictures.reshape(-1, *pictures.shape[-3:])
        for widen, inner, outer in self.stacks:
            x = convolve(widen, x)
            x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
            x = x + convolve(outer, jax.nn.relu(convolve(inner, jax.nn.relu(x))))
        x = jax.nn.relu(x).reshape(*pictures.shape[:-3], -1)
        return jax.nn.relu(linear(self.last, x))


def convolve(layer: eqx.nn.Conv2d, x: Array) -> Array:
    """Apply an Equinox convolution to (rows, height, width, channels), the layout pictures come in."""
    kernel = jnp.transpose(layer.weight, (2, 3, 1, 0))
    y = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y if layer.bias is None else y + layer.bias[:, 0, 0]


def encoder(key: Array, obs_shape: tuple[int, ...]) -> Impala | None:
    """What a network needs to see its observations: nothing for vectors, an IMPALA for pictures."""
    return Impala(key, obs_shape) if len(obs_shape) == 3 else None


def see(eyes: Impala | None, obs: Array) -> Array:
    """Features of an observation: vectors are their own."""
    return obs if eyes is None else eyes(obs)


def feature_size(eyes: Impala | None, obs_shape: tuple[int, ...]) -> int:
    """How many features `see` gives."""
    return obs_shape[-1] if eyes is None else eyes.last.weight.shape[0]


class Network(eqx.Module):
    """An MLP on [observation, further inputs]; pictures pass through an encoder of its own first."""

    eyes: Impala | None
    mlp: MLP

    def __init__(
        self,
        key: Array,
        obs_shape: tuple[int, ...],
        extra: int,
        hidden: tuple[int, ...],
        outputs: int,
        activation: Activation = mish,
        layer_norm: bool = False,
    ):
        key_eyes, key_mlp = jax.random.split(key)
        self.eyes = encoder(key_eyes, obs_shape)
        inputs = feature_size(self.eyes, obs_shape) + extra
        self.mlp = MLP(key_mlp, inputs, hidden, outputs, activation, layer_norm)

    def __call__(self, obs: Array, *inputs: Array) -> Array:
        """Observation and further inputs are broadcast: (…, outputs)."""
        return self.bind(obs)(*inputs)

    @property
    def outputs(self) -> int:
        """Size of the answer."""
        return self.mlp.layers[-1].weight.shape[-2]

    def bind(self, obs: Array) -> Callable[..., Array]:
        """Fix the observation, which is looked at once however often the rest is asked."""
        features = see(self.eyes, obs)
        return lambda *inputs: self.mlp(features, *inputs)


class Ensemble(eqx.Module):
    """Several MLPs of one shape side by side, with shared eyes: a twin critic Q(s, a), or a single V(s)."""

    eyes: Impala | None
    members: MLP

    def __init__(
        self,
        key: Array,
        obs_shape: tuple[int, ...],
        extra: int,
        hidden: tuple[int, ...],
        size: int = 2,
        activation: Activation = mish,
        layer_norm: bool = False,
    ):
        key_eyes, key_members = jax.random.split(key)
        self.eyes = encoder(key_eyes, obs_shape)
        inputs = feature_size(self.eyes, obs_shape) + extra
        self.members = jax.vmap(lambda k: MLP(k, inputs, hidden, 1, activation, layer_norm))(
            jax.random.split(key_members, size)
        )

    def __call__(self, obs: Array, *inputs: Array) -> Array:
        """Observation and further inputs are broadcast: (members, …)."""
        features = see(self.eyes, obs)
        return jax.vmap(lambda member: member(features, *inputs)[..., 0])(self.members)


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

    eyes: Impala | None
    from_obs: Array
    from_action: Array
    from_time: eqx.nn.Linear
    embed_t: TimeEmbedding
    embed_s: TimeEmbedding
    rest: MLP

    def __init__(
        self,
        key: Array,
        obs_shape: tuple[int, ...],
        action_size: int,
        hidden: tuple[int, ...],
        features: int = 16,
    ):
        key_eyes, key_first, key_rest, key_t, key_s = jax.random.split(key, 5)
        self.eyes = encoder(key_eyes, obs_shape)
        obs_size = feature_size(self.eyes, obs_shape)
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

    @property
    def action_size(self) -> int:
        """Dimensions of an action."""
        return self.from_action.shape[-1]

    def bind(self, obs: Array) -> BoundFlow:
        """Fix the observation; what remains is the network (a_t, t, s) -> F that `flow.endpoint` wants."""
        return BoundFlow(self, product(see(self.eyes, obs), self.from_obs))

    def time_share(self, t: Array, s: Array) -> Array:
        """What the two times, and the bias, give the first layer."""
        times = jnp.concatenate([self.embed_t(jnp.asarray(t)), self.embed_s(jnp.asarray(s))], axis=-1)
        return linear(self.from_time, times)


class BoundFlow(eqx.Module):
    """A `FlowNetwork` that has seen its observation."""

    network: FlowNetwork
    obs_share: Array
    """What the observation gives the first layer."""

    def __call__(self, a_t: Array, t: Array, s: Array) -> Array:
        """F(s, a_t, t, s')."""
        x = self.obs_share + product(a_t, self.network.from_action) + self.network.time_share(t, s)
        return self.network.rest(mish(x))


class Normaliser(NamedTuple):
    """Mean and scale of observations; part of every agent's parameters, so no saved policy can lose it."""

    mean: Array
    std: Array

    @classmethod
    def fit(cls, obs: Array, enabled: bool) -> Normaliser:
        """Statistics of the data; the identity if not enabled. A constant feature keeps its scale.

        Pictures are only brought from bytes to [0, 1].
        """
        if obs.ndim == 4:
            return cls(jnp.zeros(()), jnp.full((), 255.0))
        if not enabled:
            return cls(jnp.zeros(obs.shape[1:]), jnp.ones(obs.shape[1:]))
        std = jnp.std(obs, axis=0)
        return cls(jnp.mean(obs, axis=0), jnp.where(std > 1e-6, std, 1.0))

    def __call__(self, obs: Array) -> Array:
        """Standardise."""
        return (obs - self.mean) / self.std

    def batch(self, batch: Transition) -> Transition:
        """Standardise both observations of a batch."""
        return batch._replace(obs=self(batch.obs), next_obs=self(batch.next_obs))
