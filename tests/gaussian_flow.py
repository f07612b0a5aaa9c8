"""The one generative ODE known in closed form: data N(0, C²), da/dt = a·t/(C² + t²)."""

import jax.numpy as jnp

from gtp.flow import column

C = 0.5


def scale(t):
    """Standard deviation of a_t."""
    return jnp.sqrt(C**2 + t**2)


def flow_map(a_t, t, s):
    """Φ = a_t·√((C² + s²)/(C² + t²))."""
    return a_t * column(scale(s) / scale(t))


def velocity(a_t, t):
    """The ODE's right-hand side f."""
    return a_t * column(t / scale(t) ** 2)


def endpoint(a_t, t, s):
    """φ with Φ = (1 − s/t)·φ + (s/t)·a_t.

    The quotient (t·scale(s) − s·scale(t))/(t − s) is multiplied out, so that s = t is no special case:
    it is C²·(t + s)/(t·scale(s) + s·scale(t)).
    """
    return a_t * column(C**2 * (t + s) / (t * scale(s) + s * scale(t)) / scale(t))
