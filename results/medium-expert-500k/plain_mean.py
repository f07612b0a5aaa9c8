"""Episodes by the plain mean of 50 candidates, all alike: python plain_mean.py RUN EPISODES ROWS.csv.

`gtp eval RUN --act average` weighs the candidates by softmax(Q). Without the weights one sees what of the
gain is the noise of a sample that goes, and what is the critic's. Rows say `mean` where others say `average`.
"""

import sys
from pathlib import Path

import jax.numpy as jnp

from gtp import logs, policy, scoring, values
from gtp.evaluate import Stage
from gtp.types import Acting, Array


def plain_mean(key: Array, actions: Array, q: Array, rule: str) -> Array:
    """In place of `values.choose`: neither the critic nor the rule has a say."""
    return jnp.mean(actions, axis=0)


def main() -> None:
    """Appends one row an episode to the table."""
    run, episodes, table = sys.argv[1:]
    values.choose = plain_mean
    pi = policy.load(Path(run))
    members = len(pi.about["members"])
    with Stage(pi.about["env"], members, int(episodes)) as where:
        rows = scoring.score(pi, where, list(range(members)), [Acting("average", 50)])
    logs.append(Path(table), [row | {"act": "mean"} for row in rows])


if __name__ == "__main__":
    main()
