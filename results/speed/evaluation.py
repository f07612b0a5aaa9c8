"""How long an evaluation takes: five seeds, ten episodes each, one sample of an untrained GTP policy.

    python results/speed/evaluation.py > results/speed/evaluation-cpu.csv

An untrained policy lets the hopper fall at once, so the time of whole episodes is taken on the half-cheetah,
whose episodes always have 1,000 steps and whose simulator does more in each. The first evaluation of a run
opens the worlds and compiles the policy; the second is what later ones cost.
"""

import csv
import dataclasses
import sys
import time

import jax
import numpy as np

from gtp import evaluate, policy, scoring
from gtp.agents import gtp
from gtp.envs import scores
from gtp.types import Acting

SEEDS, EPISODES = 5, 10
WORLDS = {"gtp/HalfCheetah-d4rl-v2": (17, 6), "gtp/Hopper-d4rl-v2": (11, 3)}


def random_policy(env: str, obs: int, action: int) -> policy.Policy:
    """A policy of the default size whose members are as good as none."""
    config = gtp.Config()
    about = {
        "agent": "gtp",
        "config": dataclasses.asdict(config),
        "steps": 1,
        "step": 1,
        "members": [{"seed": seed} for seed in range(SEEDS)],
        "obs_shape": [obs],
        "frame_stack": 1,
        "action_size": action,
        "action_low": [-1.0] * action,
        "action_high": [1.0] * action,
        "data": "none",
        "fingerprint": "",
        "provenance": "",
        "env": env,
    }
    rng = np.random.default_rng(0)
    shapes = policy.template(gtp.make(config, 1), about).params
    params = jax.tree.map(lambda x: rng.normal(0, 0.05, x.shape).astype(x.dtype), shapes)
    return policy.Policy(gtp.make, config, params, about)


def main() -> None:
    """Print a row for each evaluation."""
    writer = None
    for env, (obs, action) in WORLDS.items():
        pi = random_policy(env, obs, action)
        with evaluate.Stage(env, SEEDS, EPISODES) as where:
            for which in ("first", "second"):
                began = time.perf_counter()
                rows = scoring.score(pi, where, list(range(SEEDS)), [Acting()])
                took = time.perf_counter() - began
                steps = sum(row["length"] for row in rows)
                row = {
                    "env": env,
                    "physics": scores.physics(env),
                    "evaluation": which,
                    "seeds": SEEDS,
                    "episodes": EPISODES,
                    "sampling_steps": rows[0]["sampling_steps"],
                    "steps": steps,
                    "seconds": f"{took:.1f}",
                    "steps_per_s": f"{steps / took:.0f}",
                    "device": str(jax.devices()[0].device_kind),
                }
                if writer is None:
                    writer = csv.DictWriter(sys.stdout, list(row), lineterminator="\n")
                    writer.writeheader()
                writer.writerow(row)


if __name__ == "__main__":
    main()
