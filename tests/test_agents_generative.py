"""The generative agents: what they must keep and what they must find (see `probe`).

Settings, and why: small networks and fast moving averages, so that a few thousand updates are enough; Adam at
3e-3, for at 1e-3 a small network stays too long on the plateau of one Gaussian. Discrete diffusions,
whose updates are dear, leave it at 1e-2 in fewer and smaller ones. GTP's modes are in `test_learning`.
"""

import pytest

import probe
from gtp import agents
from gtp.types import Acting

MODE_UPDATES, CHAIN_UPDATES, BATCH = 2000, 3000, 256
ALL = {"hidden": (64, 64), "discount": 0.95, "critic_target_rate": 0.02}
QUICK = ALL | {"actor_lr": 3e-3, "critic_lr": 2e-3}
FOLLOW = {"actor_target_rate": 0.05}
AT_ONCE = FOLLOW | {"actor_target_every": 1, "actor_target_start": 0}


def trained(name, settings, data, updates, batch=BATCH):
    module = agents.get(name)
    agent = module.make(module.Config(**settings), updates)
    return agent, probe.train(agent, data, updates, batch=batch)


FULL, HALF, BRIEF = (MODE_UPDATES, BATCH), (MODE_UPDATES, 128), (1600, 64)
DIFFUSION = QUICK | {"actor_lr": 1e-2, "sampling_steps": 10}
# Without values where there is a choice; updates and batch; the share of samples within 0.2 of a mode, of
# which one Gaussian has .08. QGPO is guided by the energy it learns, and all actions are worth the same.
MODES = {
    "flow_bc": ({"hidden": (64, 64), "actor_lr": 3e-3}, FULL, 0.65),
    "ifql": ({"hidden": (64, 64), "lr": 3e-3}, HALF, 0.65),
    "diffusion_ql": (DIFFUSION | AT_ONCE | {"q_weight": 0.0}, BRIEF, 0.35),
    "idql": (DIFFUSION | {"actor_hidden": (64, 64)}, BRIEF, 0.35),
    "qgpo": (DIFFUSION | FOLLOW | {"support": 2}, BRIEF, 0.35),
    "consistency_ac": (
        QUICK | AT_ONCE | {"q_weight": 0.0, "t_max": 2.5, "levels_end": 40, "levels_period": MODE_UPDATES},
        HALF,
        0.45,
    ),
    "shortcut": (
        QUICK | FOLLOW | {"eta": 0.0, "smallest_steps": 8, "bootstrap_every": 2, "baseline_samples": 1},
        FULL,
        0.6,
    ),
    "meanflow": (QUICK | FOLLOW | {"eta": 0.0, "sampling_steps": 2, "baseline_samples": 1}, HALF, 0.8),
    "fql": (ALL | {"lr": 3e-3, "alpha": 30.0, "flow_steps": 5}, FULL, 0.5),
}


@pytest.mark.parametrize("name", MODES)
def test_four_modes_stay_four(name):
    settings, training, share = MODES[name]
    near = probe.near_each_mode(*trained(name, settings, probe.four_modes(), *training))
    assert near.sum() > share, near
    assert near.min() > 0.3 * near.max(), near


# A rule that chooses needs many candidates: most of the data are uniform, few of them near the best.
CHOOSE = Acting("argmax", 512)
CHAIN = {
    "diffusion_ql": (QUICK | AT_ONCE, CHOOSE),
    "consistency_ac": (
        QUICK | AT_ONCE | {"t_max": 2.5, "levels_end": 40, "levels_period": CHAIN_UPDATES},
        CHOOSE,
    ),
    "fql": (ALL | {"lr": 2e-3, "alpha": 1.0, "flow_steps": 5}, Acting()),
    "ifql": (ALL | {"lr": 1e-3}, CHOOSE),
    "idql": (QUICK | {"actor_hidden": (64, 64)}, CHOOSE),
    "shortcut": (QUICK | FOLLOW | {"eta": 3.0, "smallest_steps": 8, "bootstrap_every": 2}, CHOOSE),
    "meanflow": (QUICK | FOLLOW | {"eta": 3.0}, CHOOSE),
    "qgpo": (QUICK | FOLLOW | {"sampling_steps": 5, "support": 4}, CHOOSE),
}
CHAIN_BATCH = {"qgpo": 128, "idql": 128}
"""Smaller where an update is dearest and it makes no difference."""


@pytest.mark.parametrize("name", CHAIN)
def test_mixed_data_suffice_for_the_optimal_return(name):
    settings, acting = CHAIN[name]
    agent, params = trained(name, settings, probe.chain(), CHAIN_UPDATES, CHAIN_BATCH.get(name, BATCH))
    assert probe.share_of_optimal_return(agent, params, acting) >= 0.95


def test_cloning_with_a_flow_stays_with_the_data():
    agent, params = trained("flow_bc", {"hidden": (64, 64), "actor_lr": 2e-3}, probe.chain(), CHAIN_UPDATES)
    assert probe.share_of_optimal_return(agent, params) < 0.4
