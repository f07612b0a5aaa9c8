"""Converting: what is read back is what was written, and files come whole or not at all."""

import errno
import json
import os

import h5py
import numpy as np
import pytest
from data_helpers import every_slice, genuine, log, needs_slices, write

from gtp.data import load, read_log
from gtp.data.write import write as convert
from gtp.errors import UserError


def assert_same_rows(one, two):
    for a, b, key in zip(one, two, one._fields, strict=True):
        assert (a is None) == (b is None), key
        if a is not None:
            np.testing.assert_array_equal(a, b, err_msg=key)
            assert a.dtype == b.dtype, key


@needs_slices
@pytest.mark.parametrize(
    "stem", ["hopper_medium-v2", "antmaze-medium-play-v0", "door-human-v1", "ant_medium_replay-v1"]
)
def test_rows_survive_npz_and_hdf5_and_back(tmp_path, stem):
    first = read_log(f"d4rl:{genuine(stem)}")
    convert(first, tmp_path / "a.npz")
    second = read_log(str(tmp_path / "a.npz"))
    convert(second, tmp_path / "b.hdf5")
    third = read_log(f"d4rl:{tmp_path / 'b.hdf5'}")
    assert_same_rows(first.rows, second.rows)
    assert_same_rows(first.rows, third.rows)
    assert first.env == second.env == third.env


@needs_slices
@every_slice
def test_a_minari_folder_gives_the_transitions_d4rl_gives(tmp_path, path):
    log = read_log(f"d4rl:{path}")
    # D4RL's rule looks at the next row only; what it leaves out of the log is left out here too.
    plain = log.rows._replace(next_observations=None)
    convert(type(log)(plain, log.pair, log.ends, log.action_low, log.action_high, log.env), tmp_path / "set")
    got = load(str(tmp_path / "set")).transitions
    want = load(f"d4rl:{path}").transitions
    # The one row D4RL drops for want of a next one, though a true end needs none.
    extra = int(plain.terminals[-1] and not plain.timeouts[-1])
    assert len(got.reward) == len(want.reward) + extra
    counts = want.bootstrap == 1
    for key in ("obs", "action", "reward", "bootstrap"):
        np.testing.assert_array_equal(getattr(got, key)[: len(counts)], getattr(want, key), err_msg=key)
    np.testing.assert_array_equal(got.next_obs[: len(counts)][counts], want.next_obs[counts])


def test_minari_to_npz_and_back_keeps_successors_of_timeouts(tmp_path):
    arrays = log()
    arrays["timeouts"] = np.arange(12) == 5
    arrays["next_observations"] = np.random.default_rng(1).normal(size=(12, 3))
    inside = [i for i in range(11) if not (arrays["terminals"] | arrays["timeouts"])[i]]
    arrays["next_observations"][inside] = arrays["observations"][1:][inside]
    first = write(tmp_path / "a.npz", arrays)
    convert(read_log(first), tmp_path / "set")
    convert(read_log(str(tmp_path / "set")), tmp_path / "b.hdf5")
    assert (
        load(first).fingerprint
        == load(str(tmp_path / "set")).fingerprint
        == load(str(tmp_path / "b.hdf5")).fingerprint
    )


@pytest.mark.filterwarnings("ignore")
def test_minari_itself_reads_the_folder(tmp_path, monkeypatch):
    minari = pytest.importorskip("minari", reason="Minari is not installed.")
    source = write(tmp_path / "a.npz", log())
    convert(read_log(source), tmp_path / "sets" / "mine" / "set-v0")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "sets"))
    theirs = minari.load_dataset("mine/set-v0")
    assert (theirs.total_episodes, theirs.total_steps) == (3, 12)
    rewards = np.concatenate([episode.rewards for episode in theirs.iterate_episodes()])
    np.testing.assert_array_equal(rewards, read_log(source).rows.rewards)


def test_metadata_goes_along(tmp_path):
    path = tmp_path / "made.hdf5"
    write(path, log())
    with h5py.File(path, "a") as file:
        about = {"physics": "d4rl", "env": "gtp/Hopper-d4rl-v2", "seed": 3}
        file.attrs["gtp_metadata"] = np.bytes_(json.dumps(about))
    convert(read_log(str(path)), tmp_path / "copy.npz")
    data = load(str(tmp_path / "copy.npz"))
    assert data.metadata == {"physics": "d4rl", "env": "gtp/Hopper-d4rl-v2", "seed": "3"}
    assert data.env == "gtp/Hopper-d4rl-v2"
    np.savez(tmp_path / "text.npz", **log(), gtp_metadata=np.array(json.dumps(about)))
    assert load(str(tmp_path / "text.npz")).metadata == data.metadata


def test_nothing_is_overwritten(tmp_path):
    source = write(tmp_path / "a.npz", log())
    with pytest.raises(UserError, match="nothing is overwritten"):
        convert(read_log(source), tmp_path / "a.npz")
    with pytest.raises(UserError, match="without a suffix"):
        convert(read_log(source), tmp_path / "a.csv")


@pytest.mark.parametrize("name", ["b.npz", "b.hdf5", "set"])
def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch, name):
    rows = read_log(write(tmp_path / "a.npz", log()))

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UserError, match=r"cannot be written .*No space"):
        convert(rows, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]
