"""The SAC that makes medium-replay data."""

import numpy as np
import pytest

from gtp.generate import policy as policies

pytest.importorskip("mujoco")


@pytest.fixture(autouse=True)
def _small_networks(monkeypatch):
    from gtp.generate import replay, sac

    monkeypatch.setattr(sac, "WIDTH", 32)
    monkeypatch.setattr(sac, "BATCH", 64)
    monkeypatch.setattr(replay, "EPOCH", 40)
    monkeypatch.setattr(replay, "EPISODES", 2)


def test_training_goes_on_bit_for_bit_where_it_stopped(tmp_path):
    from gtp.generate import replay
    from gtp.generate.shards import read

    def train(folder, report=lambda rows: None):
        return list(read(replay.collect("hopper", 1e9, 200, 0, folder, 1, report, block=2)))

    def interrupt_in_the_second_block(rows):
        seen.append(rows)
        if len(seen) == 4:
            raise KeyboardInterrupt

    seen = []
    whole = train(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "cut", interrupt_in_the_second_block)
    assert sorted(path.name for path in (tmp_path / "cut").iterdir()) == ["000000.npz", "state.npz"]
    resumed = train(tmp_path / "cut")
    assert [len(block["rewards"]) for block in whole] == [80, 80, 40]
    for one, two in zip(whole, resumed, strict=True):
        for key in one:
            np.testing.assert_array_equal(one[key], two[key])
    rows = {key: np.concatenate([block[key] for block in whole]) for key in whole[0]}
    ends = np.flatnonzero(rows["terminals"] | rows["timeouts"]) + 1
    assert {40, 80, 120, 160, 200} <= set(ends.tolist())
    assert not (rows["terminals"] & rows["timeouts"]).any()


def test_training_stops_at_the_goal(tmp_path):
    from gtp.generate import replay

    assert len(replay.collect("hopper", -1e9, 1000, 0, tmp_path / "x", 1, lambda rows: None, block=1)) == 1
    assert replay.target("hopper", None) == 1422


def test_learner_solves_a_bandit():
    """One state, reward -|a - 0.5|: the actor must end up near 0.5, and numpy must act as JAX does."""
    import jax

    from gtp.generate import sac

    rng = np.random.default_rng(0)
    action = rng.uniform(-1, 1, (2000, 1)).astype(np.float32)
    obs = np.ones((2000, 2), np.float32)
    reward = -np.abs(action[:, 0] - 0.5)
    buffer = sac.store(
        sac.empty_buffer(4000, 2, 1), sac.Buffer(obs, action, 10 * reward, obs, np.ones(2000, np.float32)), 0
    )
    learner = sac.init(jax.random.key(0), 2, 1)
    learner = sac.train(learner, buffer, 2000, jax.random.key(1), 3000)
    actor = sac.as_policy(learner)
    mean, log_std = policies.distribution(actor, obs[:1])
    assert abs(np.tanh(mean[0, 0]) - 0.5) < 0.15
    expected = sac._apply(learner.actor, obs[:1])
    np.testing.assert_allclose(np.concatenate([mean, log_std], 1), expected, rtol=1e-4, atol=1e-5)
