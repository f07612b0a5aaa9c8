"""Every agent starts at the size it was published with.

The other tests train small networks. A program can be sound for those and hang for real ones: several QR
decompositions in one compiled start have done so. Hence real widths, in processes that have a limit.
"""

import dataclasses
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtp import agents, presets, training
from gtp.types import Transition

ROWS, BATCH, ACTION = 300, 8, 6
VECTORS, PICTURES = (17,), (64, 64, 9)
LIMIT = 180
"""Seconds after which a child hangs; it needs a tenth of them."""
WIDE = 512
"""Networks so wide take an update as well; the others' would cost half a minute."""


def widths(config) -> tuple:
    """The hidden layers of all its networks."""
    return tuple(getattr(config, f.name) for f in dataclasses.fields(config) if "hidden" in f.name)


def starts():
    """(agent, observation's shape, config): one for each size of networks of an agent, presets included."""
    for name in agents.NAMES:
        default = agents.get(name).Config()
        cells = [cell for tasks in presets.presets(name).values() for cell in tasks.items()]
        found = {(VECTORS, widths(default)): default}
        for data, preset in cells:
            config = dataclasses.replace(default, **preset.agent)
            shape = PICTURES if ":visual-" in data else VECTORS
            found.setdefault((shape, widths(config)), config)
        yield from ((name, shape, config) for (shape, _), config in found.items())


def rows(shape):
    rng = np.random.default_rng(0)
    draw = lambda *size: rng.uniform(-1, 1, size).astype(np.float32)  # noqa: E731
    count = ROWS if shape == VECTORS else BATCH
    obs = draw(count, *shape) if shape == VECTORS else rng.integers(0, 255, (count, *shape)).astype(np.uint8)
    action, ones = draw(count, ACTION), np.ones(count, np.float32)
    return jax.tree.map(jnp.asarray, Transition(obs, action, draw(count), obs, action, ones))


def start(name, shape, config):
    """The agent by the program of a run, and one update of it where that is worth it."""
    data, make = rows(shape), agents.get(name).make
    seeds = jax.vmap(jax.random.key)(jnp.arange(1))
    states = training.build(make, config, 1, BATCH, 1).init(seeds, {}, data)
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(states)), name
    if max(map(max, widths(config))) < WIDE or shape == PICTURES:  # Pictures train in `test_devices`.
        return
    batch, state = jax.tree.map(lambda x: x[:BATCH], data), jax.tree.map(lambda x: x[0], states)
    update = jax.jit(make(config, 1000).update, compiler_options=training.ONCE_OPTIONS)
    _, metrics = update(state, batch, jax.random.key(1))
    for metric, value in metrics.items():
        assert np.isfinite(value), (name, metric)


def start_all(share: int, shares: int) -> None:
    """Each of its share of the starts; says what it does, so that whoever waits knows what hung."""
    for case in list(starts())[share::shares]:
        print("starting", case[0], case[1], widths(case[2]), flush=True)
        start(*case)


def test_the_starts_are_all_there():
    found = [(name, shape, widths(config)) for name, shape, config in starts()]
    assert {name for name, _, _ in found} == set(agents.NAMES)
    assert ("cql", VECTORS, ((256,) * 3, (256,) * 5)) in found
    assert ("onestep", VECTORS, ((1024, 1024),)) in found
    assert ("fql", PICTURES, ((512,) * 4,)) in found


@pytest.mark.parametrize("share", range(2))
def test_every_agent_starts_at_its_published_size(share):
    script = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import test_sizes; "
    child = subprocess.Popen(
        [sys.executable, "-c", f"{script}test_sizes.start_all({share}, 2)"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        said, _ = child.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        child.kill()
        said, _ = child.communicate()
        pytest.fail(f"hung for {LIMIT} seconds: {said[-2000:]}")
    assert child.returncode == 0, said[-2000:]
