"""What is saved comes back, whole or with one sentence."""

import json
from typing import NamedTuple

import numpy as np
import pytest

from gtp import checkpoint
from gtp.errors import UserError


class Tree(NamedTuple):
    a: np.ndarray
    b: dict


TREE = Tree(np.arange(6, dtype=np.float32).reshape(2, 3), {"x": np.int32(7), "y": np.array([True, False])})


def test_round_trip(tmp_path):
    checkpoint.save(tmp_path / "c", TREE, {"step": 3})
    back = checkpoint.load(tmp_path / "c", TREE)
    np.testing.assert_array_equal(back.a, TREE.a)
    assert back.b["x"] == 7
    assert checkpoint.read_meta(tmp_path / "c")["step"] == 3
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_a_truncated_file_gets_a_sentence(tmp_path):
    checkpoint.save(tmp_path / "c", TREE, {})
    arrays = tmp_path / "c" / checkpoint.ARRAYS
    whole = arrays.read_bytes()
    for length in range(0, len(whole), 7):
        arrays.write_bytes(whole[:length])
        with pytest.raises(UserError, match="not a whole checkpoint"):
            checkpoint.load(tmp_path / "c", TREE)


def test_a_newer_format_gets_a_sentence(tmp_path):
    checkpoint.save(tmp_path / "c", TREE, {})
    (tmp_path / "c" / checkpoint.META).write_text(json.dumps({"format": checkpoint.FORMAT + 1}))
    with pytest.raises(UserError, match="newer gtp"):
        checkpoint.load(tmp_path / "c", TREE)


def test_another_agents_arrays_do_not_fit(tmp_path):
    checkpoint.save(tmp_path / "c", TREE, {})
    with pytest.raises(UserError, match="does not fit"):
        checkpoint.load(tmp_path / "c", TREE._replace(a=np.zeros((2, 4), np.float32)))
    with pytest.raises(UserError, match="does not fit"):
        checkpoint.load(tmp_path / "c", TREE._replace(b={}))


def test_an_interrupted_writer_leaves_the_old_one(tmp_path, monkeypatch):
    checkpoint.save(tmp_path / "c", TREE, {"step": 1})

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(OSError, match="space"):
        checkpoint.save(tmp_path / "c", TREE, {"step": 2})
    assert checkpoint.read_meta(tmp_path / "c")["step"] == 1
    checkpoint.prune(tmp_path, 1)
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_prune_keeps_the_newest(tmp_path):
    for step in (100, 20, 3000):
        checkpoint.save(tmp_path / f"{step:09d}", TREE, {})
    checkpoint.prune(tmp_path, 2)
    assert checkpoint.steps(tmp_path) == [100, 3000]
