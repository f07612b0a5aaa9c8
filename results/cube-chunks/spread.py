"""How far apart 50 candidates' values lie, and how many of them an average counts: tab-separated, on stdout.

python results/cube-chunks/spread.py RUN …, with the runs' data at hand; 1,000 of their states, evenly spaced.
"""

import csv
import sys
from pathlib import Path

import jax
import numpy as np

from gtp import agents, data, policy
from gtp.distill import states
from gtp.types import Acting

TEMPERATURES = (1, 5)
SHARES = (10, 50, 90)
"""Percentiles over states."""


def values(run: str) -> np.ndarray:
    """Q of 50 samples of a run's first member in each state: (samples, states)."""
    pi = policy.load(run)
    module = agents.get(pi.about["agent"])
    agent = module.make(module.Config(**pi.about["config"]), pi.about["steps"])
    params = jax.tree.map(lambda leaf: leaf[0], pi.params)
    # Candidates are chosen by the critic's moving average.
    params = params._replace(critic=params.critic_target)
    obs = states(data.load(pi.about["data"]), 1000)

    @jax.jit
    def of_a_sample(key):
        return agent.q(params, obs, agent.act(params, obs, key, Acting()))

    return np.stack([of_a_sample(jax.random.key(i)) for i in range(50)])


def counted(q: np.ndarray, temperature: float) -> np.ndarray:
    """1/Σw² of w = softmax(Q/T) in each state: how many candidates the average is of."""
    w = np.exp((q - q.max(axis=0)) / temperature)
    return 1 / np.sum((w / w.sum(axis=0)) ** 2, axis=0)


if __name__ == "__main__":
    table = csv.writer(sys.stdout, delimiter="\t", lineterminator="\n")
    table.writerow(["run", "quantity", *(f"percentile {share}" for share in SHARES)])
    for run in sys.argv[1:]:
        q = values(run)
        rows = {"deviation of Q": q.std(axis=0)}
        rows |= {f"candidates counted at temperature {t}": counted(q, t) for t in TEMPERATURES}
        for name, numbers in rows.items():
            table.writerow([Path(run).name, name, *np.percentile(numbers, SHARES).round(2)])
