"""Whether our kernels learn what XLA's plain program learns, on a GPU they serve.

Four seeds, 4,000 updates at the paper's size, three times: with our kernels, with XLA's products in tf32, and
with XLA's in float32. A row is a metric over the last thousand updates: mean and standard error over seeds.
"""

import jax
import numpy as np

from gtp import jumps, leaves, training
from gtp.agents import gtp
from gtp.types import Transition

ROWS, SEEDS = 50_000, range(4)
CONFIG = gtp.Config(eta=1.0, critic_layer_norm=False)


def data() -> Transition:
    """A made-up world of the hopper's size."""
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(ROWS, 11)).astype(np.float32)
    action = np.tanh(obs[:, :3] + 0.3 * rng.normal(size=(ROWS, 3))).astype(np.float32)
    reward = (action[:, 0] * obs[:, 4] - 0.1 * (action**2).sum(1)).astype(np.float32)
    next_obs = np.clip(0.9 * obs + 0.2 * rng.normal(size=obs.shape), -3, 3).astype(np.float32)
    return Transition(obs, action, reward, next_obs, action, np.ones(ROWS, np.float32))


def learn(ours: bool, precision: str | None) -> dict[str, np.ndarray]:
    """Metrics of the last thousand updates, one number a seed."""
    serves = leaves.our_kernels
    leaves.our_kernels = jumps.our_kernels = serves if ours else lambda: False
    jax.config.update("jax_default_matmul_precision", precision)
    jax.clear_caches()
    *_, last = training.train(gtp.make, CONFIG, data(), training.members(SEEDS), steps=4000, log_every=1000)
    leaves.our_kernels = jumps.our_kernels = serves
    return last.metrics


if __name__ == "__main__":
    assert leaves.our_kernels(), "our kernels do not serve this device"
    print("metric,way,mean,error")
    ways = {"kernels": (True, None), "tf32": (False, None), "float32": (False, "float32")}
    for way, how in ways.items():
        for metric, values in learn(*how).items():
            print(f"{metric},{way},{values.mean():.5f},{values.std(ddof=1) / len(values) ** 0.5:.5f}")
