"""D4RL's files: row for row what its own loop gives, with AntMaze's missing time-outs put in."""

import h5py
import numpy as np
import pytest
from data_helpers import SLICES, every_slice, genuine, needs_slices

from gtp.data import catalogue, d4rl, load, read_log
from gtp.data.dataset import Rows, qlearning, transitions
from gtp.data.inspect import summary


def literal_qlearning_dataset(observations, actions, rewards, terminals, timeouts):
    """D4RL's rule, spelled out a row at a time; `next_observations` in the file play no part in it."""
    kept = []
    for i in range(len(rewards) - 1):
        if timeouts[i]:
            continue
        kept.append(
            (
                observations[i].astype(np.float32),
                actions[i].astype(np.float32),
                np.float32(rewards[i]),
                observations[i + 1].astype(np.float32),
                bool(terminals[i]),
            )
        )
    return [np.array(column) for column in zip(*kept, strict=True)]


def arrays_of(path):
    with h5py.File(path) as file:
        keys = ("observations", "actions", "rewards", "terminals", "timeouts")
        arrays = {key: file[key][:] for key in keys}
    return {
        k: v.reshape(len(v)) if k in ("rewards", "terminals", "timeouts") else v for k, v in arrays.items()
    }


@needs_slices
@every_slice
def test_every_genuine_slice_reads_as_the_literal_loop_does(path):
    arrays = arrays_of(path)
    if path.name.startswith("antmaze"):
        # The one difference: rows that jump across the maze are cut, which the loop would pair.
        moved = np.linalg.norm(np.diff(arrays["observations"][:, :2], axis=0), axis=1)
        assert ((moved < 0.5) | (moved > 2)).all()
        arrays["timeouts"] = arrays["timeouts"] | np.append(moved > 2, False)
    obs, action, reward, next_obs, done = literal_qlearning_dataset(**arrays)
    got = load(f"d4rl:{path}").transitions
    np.testing.assert_array_equal(got.obs, obs)
    np.testing.assert_array_equal(got.reward, reward)
    np.testing.assert_array_equal(got.next_obs, next_obs)
    np.testing.assert_array_equal(got.bootstrap, 1.0 - done)
    np.testing.assert_array_equal(got.action, action)


@needs_slices
def test_antmaze_v0_lacks_a_timeout_at_the_end_of_its_first_episode():
    found = {}
    for path in SLICES:
        if path.name.startswith("antmaze"):
            log = read_log(f"d4rl:{path}")
            marked = arrays_of(path)["timeouts"]
            found[path.stem] = np.flatnonzero(log.rows.timeouts & ~marked).tolist()
    assert found == {
        "antmaze-large-diverse-v0": [1000],
        "antmaze-large-play-v0": [1000],
        "antmaze-medium-diverse-v0": [],
        "antmaze-medium-play-v0": [1000],
        "antmaze-umaze-diverse-v0": [1000],
        # The umaze slice has its time-out where the episode ends.
        "antmaze-umaze-v0": [],
    }


@needs_slices
def test_an_ant_walks_on_after_its_goal():
    """Rows at the goal are terminals one after the other and no ends (the log stops in the last one)."""
    log = read_log(f"d4rl:{genuine('antmaze-medium-diverse-v0')}")
    at_goal = np.flatnonzero(log.rows.terminals)
    assert len(at_goal) == 3
    assert not log.ends[at_goal].any()
    assert (log.pair(log.rows).bootstrap[at_goal[:-1]] == 0).all()
    facts = summary(log)
    assert facts["episodes"] == 1
    assert facts["return"]["max"] == 3
    assert not [doubt for doubt in facts["suspicions"] if "terminal" in doubt]


@needs_slices
def test_actions_that_follow_are_those_of_the_next_row():
    t = load(f"d4rl:{genuine('walker2d_medium-v2')}").transitions
    same_episode = np.flatnonzero((t.next_obs[:-1] == t.obs[1:]).all(1) & (t.bootstrap[:-1] == 1))
    assert len(same_episode) > 1900
    np.testing.assert_array_equal(t.next_action[same_episode], t.action[same_episode + 1])


@pytest.mark.parametrize(
    ("name", "env"),
    [
        ("hopper-medium-v2", "gtp/Hopper-d4rl-v2"),
        ("walker2d-medium-replay-v2", "gtp/Walker2d-d4rl-v2"),
        ("halfcheetah-medium-expert-v2", "gtp/HalfCheetah-d4rl-v2"),
        ("ant-random-v0", "gtp/Ant-d4rl-v2"),
        ("antmaze-umaze-v0", "gtp/AntMaze-umaze-v0"),
        ("antmaze-large-diverse-v2", "gtp/AntMaze-large-v2"),
        ("pen-human-v1", "gtp/Pen-d4rl-v1"),
        ("relocate-expert-v0", "gtp/Relocate-d4rl-v1"),
        ("kitchen-mixed-v0", "gtp/Kitchen-mixed-d4rl-v0"),
        ("kitchen-other-v0", None),
        ("anything", None),
    ],
)
def test_the_environment_comes_from_the_name(name, env):
    assert d4rl.task(name).env == env


def test_official_file_names_are_known():
    names = {
        entry.path.rpartition("/")[2]: spec.removeprefix("d4rl:")
        for spec, entry in catalogue.entries().items()
        if spec.startswith("d4rl:")
    }
    assert len(names) == 83
    for file, name in names.items():
        assert catalogue.d4rl_name(catalogue.Path(file)) == name


def test_a_terminal_that_is_a_timeout_too_and_the_last_row_are_dropped():
    rows = Rows(
        observations=np.arange(6, dtype=np.float32)[:, None],
        actions=np.zeros((6, 1), np.float32),
        rewards=np.arange(6, dtype=np.float32),
        terminals=np.array([0, 1, 0, 1, 0, 1], bool),
        timeouts=np.array([0, 0, 0, 1, 0, 0], bool),
    )
    assert qlearning(rows).reward.tolist() == [0, 1, 2, 4]
    assert qlearning(rows).bootstrap.tolist() == [1, 0, 1, 1]
    assert transitions(rows).reward.tolist() == [0, 1, 2, 3, 4, 5]


def test_logged_successors_keep_timeout_rows_unless_d4rl_rules():
    rows = Rows(
        observations=np.arange(4, dtype=np.float32)[:, None],
        actions=np.zeros((4, 1), np.float32),
        rewards=np.zeros(4, np.float32),
        terminals=np.zeros(4, bool),
        timeouts=np.array([0, 1, 0, 1], bool),
        next_observations=np.array([1, 10, 3, 30], np.float32)[:, None],
    )
    assert transitions(rows).next_obs[:, 0].tolist() == [1, 10, 3, 30]
    assert transitions(rows).bootstrap.tolist() == [1, 1, 1, 1]
    assert qlearning(rows).next_obs[:, 0].tolist() == [1, 3]


def test_without_timeouts_episodes_are_cut_at_the_task_limit(tmp_path):
    count, limit = 250, 100
    terminals = np.zeros(count, bool)
    terminals[29] = True
    expected, step = [], 0
    for i in range(count):
        step += 1
        expected.append(step == limit and not terminals[i])
        step = 0 if step == limit or terminals[i] else step
    assert d4rl.limit_timeouts(terminals, limit).tolist() == expected
    path = tmp_path / "pen-human-v0.hdf5"
    with h5py.File(path, "w") as file:
        file["observations"] = np.random.default_rng(0).normal(size=(count, 2))
        file["actions"] = np.zeros((count, 1))
        file["rewards"] = np.zeros(count)
        file["terminals"] = terminals
    assert read_log(f"d4rl:{path}").rows.timeouts.tolist() == expected
