"""Members dealt out over several devices train as they do on one."""

import os
import subprocess
import sys
from unittest import mock

import jax
import numpy as np

from gtp import nn, training
from gtp.agents import bc
from gtp.types import Transition

SCRIPT = """
import sys, numpy as np, jax
sys.path.insert(0, {here!r})
import test_devices
assert len(jax.devices()) == 4
leaves, devices = test_devices.{run}()
np.savez({out!r}, *leaves, devices=devices)
"""


def elsewhere(run: str, folder) -> tuple[list[np.ndarray], int]:
    """What one of the functions here gives on four devices."""
    out = str(folder / "out.npz")
    script = SCRIPT.format(here=os.path.dirname(__file__), out=out, run=run)
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    env = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = np.load(out)
    return [found[f"arr_{i}"] for i in range(len(found.files) - 1)], int(found["devices"])


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


def run_pixels() -> tuple[list[np.ndarray], int]:
    rng = np.random.default_rng(0)
    obs = rng.integers(0, 255, (40, 8, 8, 1)).astype(np.uint8)
    action, ones = rng.uniform(-1, 1, (40, 2)).astype(np.float32), np.ones(40, np.float32)
    data = Transition(obs, action, ones, obs, action, ones)
    config, who = bc.Config(hidden=(8,)), training.members([3])
    small_eyes = lambda key, shape: nn.Impala(key, shape, widths=(4,), features=8)  # noqa: E731
    with mock.patch.object(nn, "encoder", small_eyes):
        *_, last = training.train(bc.make, config, data, who, steps=4, batch_size=12, log_every=2)
    used = max(len(x.sharding.device_set) for x in jax.tree.leaves(last.state))
    return [np.asarray(x) for x in jax.tree.leaves((last.state, last.metrics))], used


def test_six_members_on_three_of_four_devices_are_six_members_on_one(tmp_path):
    found, devices = elsewhere("run", tmp_path)
    assert devices == 3
    alone, used = run()
    assert used == 1
    for a, b in zip(found, alone, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


def test_a_batch_of_pictures_on_four_devices_is_a_batch_on_one(tmp_path):
    found, devices = elsewhere("run_pixels", tmp_path)
    assert devices == 4
    alone, used = run_pixels()
    assert used == 1
    for a, b in zip(found, alone, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_one_device_needs_no_mesh():
    assert len(jax.local_devices()) > 1 or training.spread(4) is None
