"""The compiled training program alone: python results/speed/program.py SEEDS ...

GTP at the paper's size on random data of the hopper's, as `gtp bench train` measures it but without what a
log point does beside training. A row is the best of four calls of 1,000 updates, after one not timed.
"""

import sys
import time

import jax
import jax.numpy as jnp

from gtp import training
from gtp.agents import gtp
from gtp.bench_train import Bench, random_data

UPDATES = 1000
CONFIG = gtp.Config(eta=1.0, baseline_samples=1, critic_layer_norm=False)


def best(seeds: int) -> float:
    """Updates a second of so many seeds side by side."""
    data = training.to_device(random_data(Bench()))
    program = training.build(gtp.make, CONFIG, 1_000_000, 256, UPDATES)
    keys, alive = jax.vmap(jax.random.key)(jnp.arange(seeds)), jnp.ones(seeds, bool)
    state = program.init(keys, {}, data)
    chunk = program.chunk.lower(state, keys, {}, alive, data).compile()
    times = []
    for _ in range(5):
        began = time.perf_counter()
        state, _ = jax.block_until_ready(chunk(state, keys, {}, alive, data))
        times.append(time.perf_counter() - began)
    return UPDATES / min(times[1:])


if __name__ == "__main__":
    print("seeds,updates_per_s,seed_updates_per_s")
    for seeds in map(int, sys.argv[1:]):
        speed = best(seeds)
        print(f"{seeds},{speed:.0f},{speed * seeds:.0f}", flush=True)
