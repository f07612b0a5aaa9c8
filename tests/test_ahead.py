"""Splitting an update must change where work is done, and nothing else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtp import training
from gtp.agents import bc, gtp
from gtp.ahead import split
from gtp.types import State, Transition

SMALL = {"hidden": (16, 16), "sampling_steps": 2}
AGENTS = {
    "bc": bc.make(bc.Config(hidden=(16,)), 100),
    "gtp": gtp.make(gtp.Config(**SMALL), 100),
    "meanflow": gtp.make(gtp.Config(objective="meanflow", improvement="linear", **SMALL), 100),
}


def transitions(rows: int = 64) -> Transition:
    rng = np.random.default_rng(0)
    obs = rng.normal(2, 3, size=(rows, 3)).astype(np.float32)
    action = np.tanh(rng.normal(size=(rows, 2))).astype(np.float32)
    reward = rng.normal(size=rows).astype(np.float32)
    return Transition(obs, action, reward, obs[::-1].copy(), action, np.ones(rows, np.float32))


def close(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("name", AGENTS)
def test_the_two_parts_together_are_the_update(name):
    agent, batch, key = AGENTS[name], transitions(16), jax.random.key(3)
    state = jax.jit(agent.init)(key, transitions())._replace(step=jnp.int32(7))
    parts = split(agent.update, state, batch, key)
    got = jax.jit(lambda: parts.now(state, parts.ahead(state, state.step, batch, key)))()
    close(got, jax.jit(agent.update)(state, batch, key))


def test_random_numbers_and_what_hangs_on_them_alone_leave_the_update():
    agent, batch, key = AGENTS["gtp"], transitions(16), jax.random.key(0)
    state = jax.jit(agent.init)(key, transitions())
    parts = split(agent.update, state, batch, key)
    prepared = jax.eval_shape(parts.ahead, state, state.step, batch, key)
    later = str(jax.make_jaxpr(parts.now)(state, prepared))
    whole = str(jax.make_jaxpr(agent.update)(state, batch, key))
    for operation in ("random_bits", "random_split", "erf_inv"):
        assert operation in whole
        assert operation not in later
    # Of the time embeddings only those of the sampling grid, which hang on nothing at all, stay behind.
    assert 0 < later.count(" sin ") < whole.count(" sin ")


def test_only_what_no_update_changes_may_be_used_ahead():
    """`fixed` is handed on like a normaliser, `moving` is not, though both do nothing but scale the batch."""

    def update(state: State, batch: Transition, key):
        fixed, moving = state.params
        shift = jnp.mean(batch.obs * fixed) + jax.random.normal(key) + state.step
        return State(state.step + 1, (fixed, moving * 1.1), ()), {"m": shift + jnp.mean(batch.obs * moving)}

    state = State(jnp.int32(4), (jnp.float32(2.0), jnp.float32(3.0)), ())
    batch, key = transitions(8), jax.random.key(1)
    parts = split(update, state, batch, key)
    close(parts.now(state, parts.ahead(state, jnp.int32(4), batch, key)), update(state, batch, key))
    # The state of another update, as the loop has it: only `moving` and the step differ.
    later = State(jnp.int32(9), (jnp.float32(2.0), jnp.float32(5.0)), ())
    close(parts.now(later, parts.ahead(state, jnp.int32(9), batch, key)), update(later, batch, key))


@pytest.mark.parametrize("name", ["bc", "gtp"])
def test_the_loop_is_update_after_update(name):
    """The reference: no blocks, no packing, no scan; one batch drawn and one update made at a time."""
    config = gtp.Config(**SMALL) if name == "gtp" else bc.Config(hidden=(16,))
    make, data = (gtp.make if name == "gtp" else bc.make), transitions()
    *_, report = training.train(
        make, config, data, training.members([5]), steps=12, batch_size=16, log_every=6
    )
    agent, key, seen = make(config, 12), jax.random.key(5), []
    update = jax.jit(agent.update)
    state = jax.jit(agent.init)(jax.random.fold_in(key, 0), data)
    for step in range(12):
        key_index, key_update = jax.random.split(jax.random.fold_in(key, step + 1))
        index = jax.random.randint(key_index, (16,), 0, 64)
        state, metrics = update(state, jax.tree.map(lambda x, i=index: x[i], data), key_update)
        seen.append(metrics)
    close(training.take(report.state.params, 0), state.params)
    for metric, values in report.metrics.items():
        expected = np.mean([m[metric] for m in seen[6:]])
        np.testing.assert_allclose(values[0], expected, rtol=2e-3, atol=1e-4, err_msg=metric)


@pytest.mark.parametrize(
    ("steps", "size", "expected"), [(1000, 1, 100), (7, 1, 7), (1000, 2**30, 1), (12, 2**23, 6)]
)
def test_blocks_divide_the_chunk_and_fit_the_memory(steps, size, expected):
    assert training.whole_part(steps, size) == expected
