"""Minari's layout, written here by hand as Minari writes it."""

import json

import h5py
import numpy as np
import pytest

from gtp.data import load, read_log
from gtp.errors import UserError


def box(low, high):
    return json.dumps({"type": "Box", "dtype": "float32", "shape": [len(low)], "low": low, "high": high})


def make(folder, episodes, **metadata):
    (folder / "data").mkdir(parents=True)
    about = {
        "dataset_id": "my/set-v0",
        "action_space": box([-2, -4], [2, 4]),
        "env_spec": json.dumps({"id": "Toy-v1"}),
    }
    (folder / "data" / "metadata.json").write_text(json.dumps(about | metadata))
    with h5py.File(folder / "data" / "main_data.hdf5", "w") as file:
        for index, episode in enumerate(episodes):
            for key, value in episode.items():
                file[f"episode_{index}/{key}"] = value
    return folder


def episode(steps, end, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "observations/observation": rng.normal(size=(steps + 1, 3)),
        "observations/achieved_goal": rng.normal(size=(steps + 1, 2)),
        "actions": rng.uniform(-2, 2, size=(steps, 2)).astype(np.float32),
        "rewards": rng.normal(size=steps),
        "terminations": np.arange(steps) == (steps - 1 if end == "terminal" else -1),
        "truncations": np.arange(steps) == (steps - 1 if end == "timeout" else -1),
    }


def test_every_step_has_its_successor_and_dictionaries_lie_side_by_side(tmp_path):
    # Eleven episodes: their order is that of their numbers, not of their names.
    ends = ["terminal", "timeout", "neither"] * 3 + ["terminal", "timeout"]
    episodes = [episode(3 + k, end, seed=k) for k, end in enumerate(ends)]
    data = load(str(make(tmp_path / "set", episodes)))
    t = data.transitions
    start = 0
    for one, end in zip(episodes, ends, strict=True):
        obs = np.hstack([one["observations/achieved_goal"], one["observations/observation"]]).astype(
            np.float32
        )
        stop = start + len(one["rewards"])
        np.testing.assert_array_equal(t.obs[start:stop], obs[:-1])
        np.testing.assert_array_equal(t.next_obs[start:stop], obs[1:])
        np.testing.assert_allclose(t.action[start:stop], one["actions"] / [2, 4], atol=1e-7)
        np.testing.assert_array_equal(t.next_action[start : stop - 1], t.action[start + 1 : stop])
        assert t.bootstrap[start:stop].tolist() == [1] * (stop - start - 1) + [end != "terminal"]
        start = stop
    assert start == data.size
    assert data.env == "Toy-v1"
    assert data.metadata == {"dataset_id": "my/set-v0"}


def test_it_is_found_by_its_id(tmp_path, monkeypatch):
    make(tmp_path / "gtp-data" / "minari" / "D4RL" / "toy" / "set-v2", [episode(4, "terminal")])
    assert load("minari:D4RL/toy/set-v2").size == 4
    make(tmp_path / "elsewhere" / "my" / "set-v0", [episode(5, "terminal")])
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "elsewhere"))
    assert load("minari:my/set-v0").size == 5
    with pytest.raises(UserError, match="not on this machine"):
        load("minari:my/other-v0")


def test_a_cut_collection_ends_in_a_timeout(tmp_path):
    rows = read_log(str(make(tmp_path / "set", [episode(4, "neither")]))).rows
    assert rows.timeouts.tolist() == [False, False, False, True]


def bad_lengths(e):
    e["actions"] = e["actions"][:-1]


def no_rewards(e):
    del e["rewards"]


def jpeg(e):
    e["observations/observation"] = np.full(len(e["rewards"]) + 1, b"jpeg")


def discrete(e):
    e["actions"] = np.zeros(len(e["rewards"]), np.int64)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (bad_lengths, "episode_0: actions has 3 rows, wanted 4"),
        (no_rewards, "episode_0 has no array rewards"),
        (jpeg, "not numbers"),
        (discrete, "discrete actions"),
    ],
)
def test_faults_are_one_sentence(tmp_path, change, expected):
    one = episode(4, "terminal")
    change(one)
    with pytest.raises(UserError, match=expected):
        load(str(make(tmp_path / "set", [one])))


def test_a_group_inside_itself_is_refused(tmp_path):
    folder = make(tmp_path / "set", [episode(4, "terminal")])
    with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
        group = file["episode_0/observations"]
        group["a"], group["b"] = group, group
    with pytest.raises(UserError, match="nested too deeply"):
        load(str(folder))


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, "{"])
def test_metadata_that_is_none(tmp_path, text):
    folder = make(tmp_path / "set", [episode(4, "terminal")])
    (folder / "data" / "metadata.json").write_text(text)
    with pytest.raises(UserError, match="not the metadata"):
        load(str(folder))
