"""What each generative agent must learn, on one set of data with two parts (see `probe`).

In the chain the data take the best action or its opposite, each half the time: an agent with values must find
the first, one without must not. Beside it lies a state in which the data take four actions, all worth the
same: whatever else it learns, a generative policy must keep all four.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import probe
from gtp import agents
from gtp.types import Acting, Transition

FORK = np.array([0.0, 3.0], np.float32)
"""The observation of the four modes; the chain's second feature ends at 1."""
UPDATES = 2000
SMALL = {"hidden": (64, 64, 64)}
FAST = {"actor_lr": 1e-3, "critic_lr": 1e-3, "critic_target_rate": 0.02}
TEACHER = {"actor_target_rate": 0.05}

# Settings, the rule of acting that improves, and the share of samples near a mode that a trained policy has.
AGENTS = {
    "diffusion_ql": (
        {"sampling_steps": 10, "actor_target_start": 0, **FAST, **TEACHER},
        Acting("softmax", 50),
        0.7,
    ),
    "consistency_ac": (
        {
            "t_max": 2.5,
            "levels_period": UPDATES,
            "actor_target_every": 1,
            "actor_target_start": 0,
            **FAST,
            **TEACHER,
        },
        Acting("softmax", 50),
        0.5,
    ),
    "fql": ({"lr": 1e-3, "alpha": 30.0, "critic_target_rate": 0.02}, Acting(), 0.6),
    "flow_bc": ({"actor_lr": 1e-3}, Acting(), 0.7),
    "ifql": ({"lr": 1e-3, "critic_target_rate": 0.02}, Acting("argmax", 32), 0.7),
    "idql": (
        {"sampling_steps": 10, "actor_hidden": (64, 64, 64), "expectile": 0.9, **FAST},
        Acting("argmax", 64),
        0.7,
    ),
    "shortcut": ({"smallest_steps": 8, "bootstrap_every": 2, **FAST, **TEACHER}, Acting("argmax", 32), 0.6),
    "meanflow": ({"sampling_steps": 2, **FAST, **TEACHER}, Acting("argmax", 32), 0.5),
    "qgpo": ({"sampling_steps": 10, "support": 4, **FAST, **TEACHER}, Acting("argmax", 32), 0.5),
}
CLONES = ("flow_bc",)


def both_parts():
    chain, modes = probe.chain(6000), probe.four_modes(10_000)
    obs = jnp.broadcast_to(FORK, (len(modes.obs), 2))
    modes = modes._replace(obs=obs, next_obs=obs)
    return Transition(*(jnp.concatenate(parts) for parts in zip(chain, modes, strict=True)))


@functools.cache
def trained(name):
    settings, _, _ = AGENTS[name]
    module = agents.get(name)
    agent = module.make(module.Config(**SMALL | settings), UPDATES)
    return agent, probe.train(agent, both_parts(), UPDATES)


@pytest.mark.parametrize("name", AGENTS)
def test_four_modes_stay_four(name):
    agent, params = trained(name)
    obs = np.broadcast_to(FORK, (2000, 2))
    actions = jax.jit(lambda key: agent.act(params, obs, key, Acting()))(jax.random.key(9))
    gap = np.linalg.norm(np.asarray(actions)[:, None] - probe.CORNERS, axis=-1)
    near = np.mean(gap < 0.2, axis=0)
    assert near.sum() > AGENTS[name][2], near
    assert near.min() > 0.25 * near.max(), near


@pytest.mark.parametrize("name", AGENTS)
def test_values_find_the_best_action_and_cloning_does_not(name):
    agent, params = trained(name)
    found = probe.share_of_optimal_return(agent, params, AGENTS[name][1])
    assert found < 0.5 if name in CLONES else found >= 0.95
