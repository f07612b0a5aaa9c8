"""A user's own file: what comes out of a sound one, and the one sentence about each unsound one."""

from pathlib import Path

import numpy as np
import pytest
from data_helpers import log, write

from gtp.data import load, own
from gtp.data.arrays import read_arrays
from gtp.errors import UserError


@pytest.mark.parametrize("name", ["log.npz", "log.hdf5", "log.h5"])
def test_a_sound_file_becomes_scaled_transitions(tmp_path, name):
    arrays = log()
    data = load(write(tmp_path / name, arrays))
    np.testing.assert_array_equal(data.transitions.obs, arrays["observations"].astype(np.float32))
    np.testing.assert_array_equal(data.transitions.bootstrap, 1.0 - arrays["terminals"])
    np.testing.assert_allclose(data.action_low, arrays["actions"].min(0), rtol=1e-6)
    back = (data.transitions.action + 1) / 2 * (data.action_high - data.action_low) + data.action_low
    np.testing.assert_allclose(back, arrays["actions"], rtol=1e-5, atol=1e-6)
    assert abs(data.transitions.action).max() <= 1 + 1e-6
    assert len(data.fingerprint) == 64


def test_fortran_order_big_endian_and_columns_read_alike(tmp_path):
    arrays = log()
    plain = load(write(tmp_path / "a.npz", arrays)).fingerprint
    odd = {
        "observations": np.asfortranarray(arrays["observations"]),
        "actions": arrays["actions"].astype(">f8"),
        "rewards": arrays["rewards"][:, None],
        "terminals": arrays["terminals"].astype(np.int64)[:, None],
    }
    assert load(write(tmp_path / "b.npz", odd)).fingerprint == plain


def without(key):
    return lambda a: a.pop(key)


def put(key, index, value):
    return lambda a: a[key].__setitem__(index, value)


def replace(key, change):
    return lambda a: a.update({key: change(a[key])})


BROKEN = {
    "no observations": (without("observations"), "observations: this array is missing"),
    "no ends": (without("terminals"), "terminals: nothing marks where episodes end"),
    "nan": (
        put("observations", (7, 1), np.nan),
        "observations, row 7: not a finite 32-bit number, found nan",
    ),
    "too big for 32 bits": (put("rewards", 3, 1e300), "rewards, row 3: not a finite 32-bit number"),
    "a flag of 2": (
        replace("terminals", lambda x: np.where(np.arange(12) == 5, 2, x)),
        "terminals, row 5: a flag is 0 or 1, found 2",
    ),
    "short rewards": (replace("rewards", lambda x: x[:-1]), "rewards: 11 rows where observations has 12"),
    "flat actions": (
        replace("actions", lambda x: x[:, 0]),
        "actions: shape (12,), wanted (rows, dimensions)",
    ),
    "discrete actions": (replace("actions", lambda x: np.arange(12)), "look like discrete actions"),
    "no features": (replace("observations", lambda x: x[:, :0]), "at least one number a row"),
    "one row": (lambda a: a.update({k: v[:1] for k, v in a.items()}), "the log has 1 rows"),
    "another library's names": (lambda a: a.update(dones=a.pop("terminals")), "is 'dones' meant to be it?"),
    "a slip of the finger": (
        lambda a: a.update(observation=a.pop("observations")),
        "is 'observation' meant to be it?",
    ),
    "other next shape": (
        lambda a: a.update(next_observations=np.zeros((12, 4))),
        "next_observations: rows of shape (4,) where observations has (3,)",
    ),
    "strings": (replace("rewards", lambda x: np.full(12, "x")), "rewards holds <U1, not numbers"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_each_fault_is_one_sentence_naming_file_key_and_row(tmp_path, case):
    change, expected = BROKEN[case]
    arrays = log()
    change(arrays)
    with pytest.raises(UserError) as caught:
        load(write(tmp_path / "log.npz", arrays))
    message = str(caught.value)
    assert expected in message
    assert "log.npz" in message
    assert "\n" not in message


def test_all_faults_are_listed_at_once(tmp_path):
    arrays = log()
    for key in ("nan", "a flag of 2", "short rewards"):
        BROKEN[key][0](arrays)
    found = own.faults(read_arrays(Path(write(tmp_path / "log.npz", arrays)), own.KEYS))
    assert [(fault.key, fault.row) for fault in found] == [
        ("rewards", None),
        ("observations", 7),
        ("terminals", 5),
    ]


def test_timeouts_alone_mark_ends_and_truncations_are_the_same_thing(tmp_path):
    arrays = log()
    ends = arrays.pop("terminals")
    one = load(write(tmp_path / "a.npz", arrays | {"timeouts": ends}))
    two = load(write(tmp_path / "b.npz", arrays | {"truncations": ends}))
    assert one.fingerprint == two.fingerprint
    assert one.size == 9
    assert one.transitions.bootstrap.all()


@pytest.mark.parametrize("spec", ["nonsense", "d5rl:hopper", "missing.npz", "notes.txt"])
def test_a_spec_that_names_nothing_is_one_sentence(spec):
    with pytest.raises(UserError, match=r"no such file|names no data"):
        load(spec)
