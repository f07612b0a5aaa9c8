"""Onestep RL: what the published code is set to.

The paper then tunes α (or T) for every task, on the score itself; those values are not in the code, and so
not here.
"""

from __future__ import annotations

from gtp.presets import LOCOMOTION, RUN, tasks

_NETWORKS = {"hidden": (1024, 1024), "actor_lr": 1e-4, "critic_lr": 1e-4}
_RUN = RUN | {"steps": 2_000_000, "batch_size": 512, "eval_episodes": 10}
PRESETS = {
    "reverse_kl": tasks(_NETWORKS | {"improvement": "reverse_kl", "alpha": 1.0}, _RUN, LOCOMOTION),
    "weighted": tasks(_NETWORKS | {"improvement": "weighted", "temperature": 0.01}, _RUN, LOCOMOTION),
}
"""preset -> data -> what it sets."""
