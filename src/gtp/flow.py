"""The flow map of a generative ODE and its relatives, each in one place.

Along the ODE da/dt = f(a_t, t) an action travels from noise (t = T) to data (t = 0). All of it follows from
one function of the network, the endpoint

    φ(a_t, t, s) = a_t + t/(t−s)·∫_t^s f dτ,

the clean action one reaches by holding the average velocity of [s, t]. Functions here take φ with network
and observation already bound, so that tests can hand in closed forms. Levels t, s have the shape of the
action without its last axis, or are scalars.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from gtp import jumps
from gtp.nn import Network, halved
from gtp.noise import Noise, precondition
from gtp.types import Array

Endpoint = Callable[[Array, Array, Array], Array]
"""φ(a_t, t, s) -> a clean action."""

Velocity = Callable[[Array, Array], Array]
"""f(a_t, t) -> da/dt."""


def column(level: Array) -> Array:
    """Give a level a last axis of one, so that it multiplies actions."""
    return jnp.asarray(level)[..., None]


class NetworkEndpoint(NamedTuple):
    """φ from a raw network F(c_in·a_t, t, s): c_skip·a_t + c_out·F, with EDM's scalings.

    The network never sees a target below ε, where a logarithm of time would run away.
    """

    network: Callable[[Array, Array, Array], Array]
    noise: Noise

    def __call__(self, a_t: Array, t: Array, s: Array) -> Array:
        """φ(a_t, t, s)."""
        c_skip, c_out, c_in = (column(c) for c in precondition(jnp.asarray(t), self.noise.sigma_data))
        return c_skip * a_t + c_out * self.network(c_in * a_t, t, jnp.maximum(s, self.noise.t_min))


endpoint = NetworkEndpoint


def flow_map(phi: Endpoint, a_t: Array, t: Array, s: Array) -> Array:
    """Φ(a_t, t, s) = (1 − s/t)·φ(a_t, t, s) + (s/t)·a_t, the action at level s.

    Exact at both ends without any care: Φ(a, t, t) = a and Φ(a, t, 0) = φ.
    """
    ratio = column(s / t)
    return (1 - ratio) * phi(a_t, t, s) + ratio * a_t


def ask(phi: Endpoint, a_t: Array, t: Array, *targets: Array) -> list[Endpoint]:
    """φ(a_t, t, s) for several targets s in one pass of the network; each comes as an endpoint of its own."""
    rows = lambda x: jnp.broadcast_to(x, (len(targets), *x.shape))  # noqa: E731
    answers = phi(rows(a_t), rows(t), jnp.stack(targets))
    return [lambda *_, answer=answer: answer for answer in answers]


def denoise(phi: Endpoint, a_t: Array, t: Array) -> Array:
    """φ^inst(a_t, t) = φ(a_t, t, t), the denoiser E[a | a_t]."""
    return phi(a_t, t, t)


def velocity(phi: Endpoint, a_t: Array, t: Array) -> Array:
    """f(a_t, t) = (a_t − φ^inst(a_t, t)) / t."""
    return (a_t - denoise(phi, a_t, t)) / column(t)


def integrate(
    field: Velocity, a_t: Array, t: Array, u: Array, steps: int, method: Literal["euler", "heun"] = "euler"
) -> Array:
    """Solver(a_t, t, u): follow the velocity `field` from t to u in equal steps."""

    def step(a: Array, index: Array) -> tuple[Array, None]:
        now, then = t + (u - t) * (index / steps), t + (u - t) * ((index + 1) / steps)
        slope = field(a, now)
        if method == "heun":
            slope = (slope + field(a + column(then - now) * slope, then)) / 2
        return a + column(then - now) * slope, None

    return jax.lax.scan(step, a_t, jnp.arange(steps))[0]


def trajectory(phi: Endpoint, a_start: Array, grid: Array) -> Array:
    """All actions on the way down the `grid` of levels, noise first: (levels, …, action)."""

    def step(a_t: Array, levels: tuple[Array, Array]) -> tuple[Array, Array]:
        a_s = flow_map(phi, a_t, *levels)
        return a_s, a_s

    # A handful of steps: unrolled, each has its own constants and XLA fuses across them.
    _, later = jax.lax.scan(step, a_start, (grid[:-1], grid[1:]), unroll=True)
    return jnp.concatenate([a_start[None], later])


def sample(phi: Endpoint, z: Array, grid: Array) -> Array:
    """π(s): turn noise z ~ N(0, I) into an action in K jumps of Φ, clipped to the action range at the end."""
    return jnp.clip(trajectory(phi, grid[0] * z, grid)[-1], -1.0, 1.0)


def draw(phi: NetworkEndpoint, z: Array, grid: Array) -> Array:
    """The same for a target or a baseline: nobody asks for its gradient, and half precision is enough.

    So products are of half-precision numbers where the device is quick with them: on a Hopper GPU in one
    kernel for all jumps, on a CPU with matrix units in as many products as before.
    """
    if jumps.suits(phi, z):
        return jnp.clip(jump_in_one_kernel(phi, grid[0] * z, grid), -1.0, 1.0)
    return jax.lax.stop_gradient(sample(phi._replace(network=halved(phi.network)), z, grid))


def jump_in_one_kernel(phi: NetworkEndpoint, a_start: Array, grid: Array) -> Array:
    """The end of the `trajectory`, with Φ as one line keep·a_t + add·F(c_in·a_t)."""
    t, s = grid[:-1], grid[1:]
    bound: Any = phi.network  # A BoundFlow, as `jumps.suits` has seen.
    c_skip, c_out, c_in = precondition(t, phi.noise.sigma_data)
    lines = jumps.Jumps(
        keep=(1 - s / t) * c_skip + s / t,
        add=(1 - s / t) * c_out,
        scale=c_in,
        time_share=bound.network.time_share(t, jnp.maximum(s, phi.noise.t_min)),
    )
    return jumps.run(lines, bound, a_start)


def resample(phi: Endpoint, z: Array, grid: Array, noise: Noise) -> Array:
    """Consistency models' way to act: jump to the data, add the noise of the next level, jump again.

    z holds fresh noise for each of the K jumps: (K, …, action). Clipped to the action range at the end.
    """
    a = phi(grid[0] * z[0], grid[0], jnp.zeros(()))
    for level, fresh in zip(grid[1:-1], z[1:], strict=True):
        spread = jnp.sqrt(level**2 - noise.t_min**2)
        a = phi(a + spread * fresh, level, jnp.zeros(()))
    return jnp.clip(a, -1.0, 1.0)


def linear_field(network: Network, obs: Array) -> Velocity:
    """v(x, t) of the linear path from noise at t = 0 to data at t = 1; the network sees t as it is."""
    bound = network.bind(obs)
    return lambda x, t: bound(x, column(t))


def linear_sample(field: Velocity, z: Array, steps: int) -> Array:
    """Follow the field of a linear path from noise z to an action, clipped to the action range at the end."""
    return jnp.clip(integrate(field, z, jnp.float32(0), jnp.float32(1), steps), -1.0, 1.0)
