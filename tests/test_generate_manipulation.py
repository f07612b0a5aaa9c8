"""OGBench's play data by its own oracles."""

import sys

import numpy as np
import pytest

from gtp.errors import UserError
from gtp.generate import make, manipulation, validation_path


def test_missing_ogbench_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ogbench", None)
    with pytest.raises(UserError, match=r"gtp\[ogbench\]"):
        make("ogbench:cube-single-play", tmp_path / "x.npz", progress=False)


def test_a_lost_cube_is_noticed():
    qpos = np.zeros((3, 25), np.float32)
    assert manipulation._cube_in_sight(qpos)
    for y, z, seen in ((0.3, 0.0, False), (-0.35, 0.0, False), (-0.35, 0.07, True), (0.2, 0.5, True)):
        qpos[1, 15:17] = y, z
        assert manipulation._cube_in_sight(qpos) is seen


@pytest.mark.filterwarnings("ignore")
def test_play_data_load_in_ogbench(tmp_path):
    pytest.importorskip("ogbench")
    from ogbench.utils import load_dataset

    path = make("ogbench:cube-single-play", tmp_path, steps=1001, workers=2, progress=False)
    assert path == tmp_path / "cube-single-play-v0.npz"
    for file in (path, validation_path(path)):
        data = load_dataset(str(file), add_info=True)
        assert data["observations"].shape == (1000, 28)
        assert np.abs(data["actions"]).max() <= 1
