"""Consistency-AC as `gtp train` has it, but for how its network sees an action and a level.

The published network gets a_t as it is, as large as 80, and sines of t itself; ours gets c_in·a_t and sines
of ln t. The published c_skip and c_out also end at ε instead of 0. Every argument goes to `gtp`:

    python results/consistency-ac-network/published_network.py train consistency_ac --data … --out RUN
"""

import sys

import jax.numpy as jnp

from gtp import cli, flow, nn


def published_endpoint(self, a_t, t, s):
    """f(a_t, t) with the scalings of consistency models, and the network's input as it is."""
    t, end, scale = jnp.asarray(t), self.noise.t_min, self.noise.sigma_data
    c_skip = scale**2 / ((t - end) ** 2 + scale**2)
    c_out = scale * (t - end) / jnp.sqrt(t**2 + scale**2)
    answer = self.network(a_t, t, jnp.maximum(s, end))
    return flow.column(c_skip) * a_t + flow.column(c_out) * answer


def published_embedding(self, t):
    """Sines and cosines of t, with periods from 6 to 60,000, through the same small network."""
    frequencies = jnp.exp(-jnp.arange(8) * jnp.log(10_000.0) / 7)
    angle = t[..., None] * frequencies
    return self.mlp(jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1))


flow.NetworkEndpoint.__call__ = published_endpoint
nn.TimeEmbedding.__call__ = published_embedding

if __name__ == "__main__":
    sys.exit(cli.main())
