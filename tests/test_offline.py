"""Scores that take no environment, against what is known of them in closed form."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtp import cli, logs, offline, plan, training
from gtp.agents import bc
from gtp.data import toy
from gtp.data.dataset import episode_numbers, hold_out
from gtp.errors import UserError
from gtp.types import Acting, Agent, State, Transition

GAMMA = 0.8


@dataclasses.dataclass(frozen=True)
class Config:
    discount: float = GAMMA


class Params(NamedTuple):
    mean: jnp.ndarray
    spread: jnp.ndarray


def make(config, total_steps):
    """A policy that is known: a Gaussian whose mean and deviation are its parameters."""
    del total_steps

    def act(params, obs, key, acting):
        del acting
        return params.mean + params.spread * jax.random.normal(key, (obs.shape[0], 1))

    def update(state, batch, key):
        del key
        return state, {"reward_error": jnp.mean(batch.reward), "levels": jnp.float32(3)}

    def q(params, obs, action):
        return jnp.sum(obs, axis=-1) * action[..., 0]

    return Agent(lambda *_: None, update, act, ("single",), q if config.discount else None)  # ty: ignore


def subject(means, spreads, config=None):
    state = State(
        jnp.zeros(len(means), int), Params(jnp.asarray(means)[:, None], jnp.asarray(spreads)[:, None]), None
    )
    return offline.Subject(make, config or Config(), 1, training.members(range(len(means))), state)


def walk(rows=4000):
    """s' = s/2 with reward s·a, for ever where s > 0 and one step long where s < 0; actions at random."""
    rng = np.random.default_rng(0)
    s, a = (rng.uniform(-1, 1, (rows, 1)).astype(np.float32) for _ in range(2))
    alive = (s[:, 0] > 0).astype(np.float32)
    return Transition(s, a, (s * a)[:, 0], s / 2, a, alive)


def test_fitted_q_finds_the_value_of_each_policy_not_of_the_data(monkeypatch):
    """V(s) = c·s/(1 − γ/2) for s > 0 and c·s below, where the policy is the constant c."""
    for name, value in {"HIDDEN": (32, 32), "LEARNING_RATE": 2e-3, "TARGET_RATE": 0.02}.items():
        monkeypatch.setattr(offline, name, value)
    who = subject([0.5, -1.0], [0.0, 0.0])
    judged, alive = offline.fit_q(who, walk(), Acting(), steps=1500, batch_size=128)
    assert alive.all()
    for start, factor in ((0.9, 1 / (1 - GAMMA / 2)), (0.4, 1 / (1 - GAMMA / 2)), (-0.9, 1.0)):
        found = offline.value_of(judged, np.full((5, 1), start, np.float32), Acting())
        np.testing.assert_allclose(found, np.array([0.5, -1.0]) * start * factor, atol=0.05)


def test_behaviour_scores_in_closed_form():
    rng = np.random.default_rng(1)
    n = offline.ROWS
    one = np.ones((n, 1), np.float32)
    action = rng.normal(0.3, 0.4, (n, 1)).astype(np.float32)
    data = Transition(one, action, 0 * one[:, 0], 2 * one, action, one[:, 0])
    copy, constant, wide = range(3)
    found = offline.behaviour(subject([0.3, 0.3, 0.3], [0.4, 0.0, 0.8]), data, Acting())
    # E|X − a| of independent Gaussians is √(2/π) times the deviation of their difference.
    expected = np.sqrt(2 / np.pi) * (np.hypot([0.4, 0.0, 0.8], 0.4) - np.array([0.4, 0.0, 0.8]) / np.sqrt(2))
    np.testing.assert_allclose(found["energy_score"], expected, atol=0.03)
    assert found["energy_score"].argmin() == copy
    # The square alone would prefer the policy without spread.
    assert found["sample_error"].argmin() == constant
    np.testing.assert_allclose(found["sample_error"][wide], 0.8**2 + 0.4**2, atol=0.06)
    np.testing.assert_allclose(found["q_data"], action.mean(), atol=1e-5)
    np.testing.assert_allclose(found["q_policy"], 0.3, atol=0.06)
    np.testing.assert_allclose(found["q_better"], 0.5, atol=0.05)
    # Q(s, a) − γ·Q(s', a') = a − γ·2·a'.
    a_next = np.array([0.4, 0.0, 0.8])
    mean, deviation = 0.3 * (1 - 2 * GAMMA), np.hypot(0.4, 2 * GAMMA * a_next)
    np.testing.assert_allclose(found["td_error"], np.hypot(mean, deviation), rtol=0.06)


def test_losses_are_those_of_the_update_and_nothing_else():
    who, data = subject([0.0, 0.0], [0.0, 0.0]), walk(100)
    found = offline.losses(who, data, 50)
    assert list(found) == ["reward_error"]
    np.testing.assert_allclose(found["reward_error"], data.reward.mean(), atol=1e-6)


def test_an_agent_without_a_critic_has_no_q_scores():
    found = offline.behaviour(subject([0.0], [1.0], Config(discount=0)), walk(60), Acting())
    assert set(found) == {"sample_error", "energy_score"}


def test_episodes_are_held_out_whole():
    t = toy.load("multigoal").transitions
    episode = episode_numbers(t)
    assert episode[-1] + 1 == toy.EPISODES
    held = hold_out(t, 0.25)
    inside, outside = set(episode[held]), set(episode[~held])
    assert not inside & outside
    assert len(inside) == toy.EPISODES / 4
    np.testing.assert_array_equal(held, hold_out(t, 0.25))
    assert (held != hold_out(t, 0.25, seed=1)).any()
    with pytest.raises(UserError, match="one side is empty"):
        hold_out(t, 1e-6)


def test_training_sees_all_but_what_is_held_out(tmp_path):
    settings = plan.Settings(data="toy:multigoal", holdout=0.25)
    it = plan.Run(tmp_path, "bc", bc.Config(), settings, {}, toy.load("multigoal"))
    kept = ~hold_out(it.dataset.transitions, 0.25)
    for field, whole in zip(it.trained_on, it.dataset.transitions, strict=True):
        np.testing.assert_array_equal(field, whole[kept])


def test_eval_offline_repeats_what_training_wrote_and_adds_fqe(tmp_path, capsys, monkeypatch):
    trained_on = []

    def recorded(make, config, data, *rest, **settings):
        trained_on.append(len(data.reward))
        return train(make, config, data, *rest, **settings)

    train = training.train
    monkeypatch.setattr(training, "train", recorded)
    monkeypatch.setattr(offline, "HIDDEN", (16,))
    rng = np.random.default_rng(0)
    arrays = {"observations": rng.normal(size=(200, 3)), "actions": rng.uniform(-1, 1, (200, 2))}
    arrays = {k: v.astype(np.float32) for k, v in arrays.items()}
    arrays |= {"rewards": np.ones(200, np.float32), "terminals": np.arange(200) % 10 == 9}
    np.savez(tmp_path / "my.npz", **arrays)
    out = str(tmp_path / "run")
    data = ["--data", str(tmp_path / "my.npz"), "--steps", "10", "--holdout", "0.2", "--batch-size", "16"]
    assert cli.main(["train", "bc", *data, "--agent.hidden", "16", "--out", out]) == 0
    before = logs.read(tmp_path / "run" / "offline.csv")
    assert cli.main(["eval", out, "--offline", "--fqe", "20", "--save"]) == 0
    added = logs.read(tmp_path / "run" / "offline.csv")[len(before) :]
    # A fifth of the episodes is out, for the policy and for its judge.
    assert trained_on == [160, 160]
    assert {r["on"] for r in before} == {"held-out episodes"}
    assert {r["score"] for r in before} == {"actor_loss", "mean_error", "sample_error", "energy_score"}
    assert before == [r for r in added if r["score"] != "fqe"]
    (fqe,) = [r for r in added if r["score"] == "fqe"]
    assert np.isfinite(float(fqe["value"]))
    assert cli.main(["eval", out]) == 2
    assert "--offline" in capsys.readouterr().err
