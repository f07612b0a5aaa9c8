"""Members dealt out over several devices train as they do on one."""

import os
import subprocess
import sys

import jax
import numpy as np

from gtp import training
from gtp.agents import bc
from gtp.types import Transition

SCRIPT = """
import sys, numpy as np, jax
sys.path.insert(0, {here!r})
from test_devices import run
assert len(jax.devices()) == 4
leaves, devices = run()
np.savez({out!r}, *leaves, devices=devices)
"""


def run(members: int = 6) -> tuple[list[np.ndarray], int]:
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(50, 3)).astype(np.float32)
    action, ones = np.tanh(obs[:, :2]), np.ones(50, np.float32)
    data = Transition(obs, action, ones, obs, action, ones)
    who = training.members(range(members // 2), {"actor_lr": [1e-3, 1e-2]})
    config = bc.Config(hidden=(8,))
    first, last = training.train(bc.make, config, data, who, steps=10, batch_size=8, log_every=5)
    # Going on with a state that was saved and read again ends in the same place.
    state = jax.tree.map(np.asarray, first.state)
    again = list(training.train(bc.make, config, data, who, steps=10, batch_size=8, log_every=5, state=state))
    for a, b in zip(jax.tree.leaves(again[-1].state), jax.tree.leaves(last.state), strict=True):
        np.testing.assert_array_equal(a, b)
    leaves = jax.tree.leaves((last.state, last.metrics))
    used = max(len(x.sharding.device_set) for x in jax.tree.leaves(last.state))
    return [np.asarray(x) for x in leaves], used


def test_six_members_on_three_of_four_devices_are_six_members_on_one(tmp_path):
    out = str(tmp_path / "out.npz")
    script = SCRIPT.format(here=os.path.dirname(__file__), out=out)
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    env = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = np.load(out)
    assert found["devices"] == 3
    alone, used = run()
    assert used == 1
    for i, leaf in enumerate(alone):
        np.testing.assert_allclose(found[f"arr_{i}"], leaf, rtol=1e-6, atol=1e-7)


def test_one_device_needs_no_mesh():
    assert len(jax.local_devices()) > 1 or training.spread(4) is None
