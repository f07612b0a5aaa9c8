"""Made datasets: the same on any number of workers, whole or absent, in D4RL's layout."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pytest

from gtp.errors import UserError
from gtp.generate import compare, files, make, names, shards, summarise
from slices import read_slice, shared
from test_generate_policy import random_arrays

pytest.importorskip("mujoco")


@pytest.fixture
def hopper_policy(tmp_path):
    """A policy that falls soon, for speed."""
    rng = np.random.default_rng(0)
    arrays = random_arrays(True)
    arrays["W0"] = rng.standard_normal((7, 11)).astype(np.float32)
    for key, shape in (("Wmu", (3, 7)), ("Wls", (3, 7)), ("bmu", 3), ("bls", 3)):
        arrays[key] = rng.standard_normal(shape).astype(np.float32)
    np.savez(tmp_path / "policy.npz", **arrays)
    return tmp_path / "policy.npz"


def contents(path: Path) -> dict[str, np.ndarray]:
    out = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda key, item: out.update({key: item[()]}) if isinstance(item, h5py.Dataset) else None
        )
    return out


def test_workers_do_not_change_a_bit_and_the_layout_is_d4rls(tmp_path, hopper_policy):
    made = [
        make("d4rl:hopper-medium-v2", tmp_path / f"{n}.hdf5", [hopper_policy], 900, 7, n, progress=False)
        for n in (1, 3)
    ]
    first, second = map(contents, made)
    assert first.keys() == second.keys()
    for key in first:
        np.testing.assert_array_equal(first[key], second[key])
        assert len(first[key]) == 900
    assert not list(tmp_path.glob("*.parts"))
    assert not list(tmp_path.glob("*.tmp"))

    inside = ~(first["terminals"] | first["timeouts"])
    inside[-1] = False
    np.testing.assert_array_equal(first["next_observations"][inside], first["observations"][1:][inside[:-1]])
    np.testing.assert_array_equal(first["observations"][:, :5], first["infos/qpos"][:, 1:].astype(np.float32))
    assert (first["next_observations"][first["terminals"], 0] < 1.25).all()

    with h5py.File(made[0]) as file:
        metadata = json.loads(file.attrs["gtp_metadata"])
    assert metadata["regenerated"] == "yes"
    assert metadata["seed"] == "7"
    assert metadata["policy"].startswith("policy.npz sha256:")
    assert metadata["physics"].startswith("d4rl-capsule mujoco 3.")
    assert {"protocol", "gtp_version", "mujoco_version"} <= metadata.keys()
    assert all(isinstance(value, str) for value in metadata.values())

    genuine = read_slice("hopper_medium-v2")
    rows = {key: value for key, value in genuine.items() if not key.startswith("metadata/")}
    assert {key: (value.dtype, value.shape[1:]) for key, value in rows.items()} == {
        key: (value.dtype, value.shape[1:]) for key, value in first.items()
    }


def test_official_policy_looks_like_the_official_rows(tmp_path, capsys):
    """Halfcheetah's episodes all last 1000 steps, so a few of them already say something."""
    policy = shared("policies", "d4rl_official_medium-v2_halfcheetah.npz")
    path = make("d4rl:halfcheetah-medium-v2", tmp_path, [policy], 16000, progress=False)
    assert path == tmp_path / "halfcheetah-medium-v2.hdf5"
    summary = summarise(path)
    with capsys.disabled():
        print("\n" + compare("d4rl:halfcheetah-medium-v2", path))
    assert (summary.rows, summary.episodes, summary.mean_length) == (16000, 16, 1000)
    assert 4300 < summary.mean_return < 5100


def test_another_seed_gives_other_rows_and_random_needs_no_policy(tmp_path):
    one, two = (
        contents(make("d4rl:hopper-random-v2", tmp_path / f"{s}.hdf5", steps=300, seed=s, progress=False))
        for s in (0, 1)
    )
    assert not np.array_equal(one["actions"], two["actions"])
    assert np.abs(one["actions"]).max() <= 1
    assert np.abs(one["actions"].mean()) < 0.1
    np.testing.assert_allclose(one["infos/action_log_probs"], -3 * np.log(2), rtol=1e-6)


def test_medium_expert_joins_at_a_trajectory_end(tmp_path, hopper_policy):
    path = make(
        "d4rl:hopper-medium-expert-v2",
        tmp_path / "me.hdf5",
        [hopper_policy] * 2,
        600,
        workers=1,
        progress=False,
    )
    rows = contents(path)
    size = len(rows["rewards"])
    assert size <= 600
    ends = np.flatnonzero(rows["terminals"] | rows["timeouts"]) + 1
    assert size - 300 in ends
    assert not np.array_equal(rows["actions"][:20], rows["actions"][size - 300 :][:20])


def counted(note: str, index: int) -> dict[str, np.ndarray]:
    """A shard of three rows that leaves a note of having been made."""
    with Path(note).open("a") as file:
        file.write(f"{index}\n")
    return {"actions": np.full(3, index)}


def test_finished_shards_are_not_made_again(tmp_path):
    key = {"seed": "0"}
    folder, note = tmp_path / "x.parts", tmp_path / "note"
    work = partial(counted, str(note))
    with shards.open_folder(folder, key):
        paths = shards.collect(work, folder / "0", 7, 1, lambda rows: None)
        with pytest.raises(UserError, match="Another"), shards.open_folder(folder, key):
            pass
    assert [int(arrays["actions"][0]) for arrays in shards.read(paths)] == [0, 1, 2]
    assert sorted(note.read_text().split()) == ["0", "1", "2"]

    paths[1].unlink()
    note.unlink()
    seen = []
    with shards.open_folder(folder, key):
        assert shards.collect(work, folder / "0", 7, 2, seen.append) == paths
    assert note.read_text().split() == ["1"]
    assert seen == [3, 3, 3]

    with shards.open_folder(folder, {"seed": "1"}):
        assert not (folder / "0").exists()


def test_a_strangers_folder_is_not_deleted(tmp_path):
    (tmp_path / "x.parts").mkdir()
    (tmp_path / "x.parts" / "precious").touch()
    with pytest.raises(UserError, match="in the way"), shards.open_folder(tmp_path / "x.parts", {}):
        pass
    assert (tmp_path / "x.parts" / "precious").exists()


def test_nothing_is_left_where_writing_fails(tmp_path):
    good, bad = tmp_path / "0.npz", tmp_path / "1.npz"
    shards.save(good, {"actions": np.zeros(3), "rewards": np.zeros(3)})
    shards.save(bad, {"actions": np.zeros(3), "rewards": np.zeros((3, 2))})
    with pytest.raises((TypeError, ValueError)):
        files.write_hdf5(tmp_path / "out.hdf5", [files.Piece([good, bad], 6)], {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.npz", "1.npz"]


def test_mistakes_are_one_sentence(tmp_path, hopper_policy):
    exists = tmp_path / "there.hdf5"
    exists.write_text("keep me")
    out = tmp_path / "new.hdf5"
    for name, path, policy, steps, seed, expected in (
        ("d4rl:hopper-medium-v3", out, [hopper_policy], 10, 0, "none of the datasets"),
        ("d4rl:hopper-medium-v2", out, [], 10, 0, "one policy file"),
        ("d4rl:hopper-random-v2", out, [hopper_policy], 10, 0, "no policy file"),
        ("d4rl:hopper-medium-expert-v2", out, [hopper_policy], 10, 0, "two policy files"),
        ("d4rl:walker2d-medium-v2", out, [hopper_policy], 10, 0, "no policy for walker2d"),
        ("d4rl:antmaze-umaze-v2", out, [hopper_policy], 10, 0, "no goal-reaching ant"),
        ("d4rl:hopper-medium-v2", out, [hopper_policy], 0, 0, "--steps"),
        ("d4rl:hopper-medium-v2", out, [hopper_policy], 10, -1, "--seed"),
        ("d4rl:hopper-medium-v2", tmp_path / "x.npz", [hopper_policy], 10, 0, "hdf5"),
        ("d4rl:hopper-medium-v2", tmp_path / "no" / "x.hdf5", [hopper_policy], 10, 0, "no folder"),
        ("d4rl:hopper-medium-v2", exists, [hopper_policy], 10, 0, "not overwritten"),
        ("d4rl:ant-medium-replay-v2", out, [], 10, 0, "medium policy"),
    ):
        with pytest.raises(UserError, match=expected):
            make(name, path, policy, steps, seed, progress=False)
    assert exists.read_text() == "keep me"
    assert len(names()) == len(set(names())) == 32


def rows_until_killed(fatal: int, index: int) -> shards.Arrays:
    """Stands in for a worker that the system kills at one shard."""
    if index == fatal:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"actions": np.full(3, index)}


def test_a_killed_worker_is_one_sentence_and_finished_shards_are_kept(tmp_path):
    """The caller hears that it was killed; the shard made before is not made again."""
    report: list[int] = []
    with pytest.raises(UserError, match=r"ended unexpectedly.*finished is kept"):
        shards.collect(partial(rows_until_killed, 1), tmp_path / "0", 6, 1, report.append)
    assert report == [3]
    made_at = (tmp_path / "0" / "000000.npz").stat().st_mtime_ns
    paths = shards.collect(partial(rows_until_killed, -1), tmp_path / "0", 6, 1, report.append)
    assert [int(arrays["actions"][0]) for arrays in shards.read(paths)] == [0, 1]
    assert paths[0].stat().st_mtime_ns == made_at


def test_a_killed_make_leaves_no_file_and_goes_on(tmp_path):
    """Killed without warning after its first shard: nothing under the name, and the shard is used again."""
    out = tmp_path / "x.hdf5"
    code = (
        f"from gtp.generate import make; make('d4rl:hopper-random-v2', {str(out)!r}, steps=12000, workers=1)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL)
    shard = tmp_path / "x.hdf5.parts" / "0" / "000000.npz"
    while not shard.exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert not out.exists()
    made_at = shard.stat().st_mtime_ns
    before = shard.read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shutil.rmtree", lambda folder: None)
        make("d4rl:hopper-random-v2", out, steps=12000, workers=1, progress=False)
    assert (shard.stat().st_mtime_ns, shard.read_bytes()) == (made_at, before)
    assert len(contents(out)["rewards"]) == 12000


def test_what_is_made_is_found_by_its_name(tmp_path, monkeypatch, capsys):
    """Without --out a dataset goes where its SPEC is looked up, in folders that need not be there."""
    from gtp import cli, data

    monkeypatch.setenv("GTP_DATA", str(tmp_path / "new" / "data"))
    assert cli.main(["data", "make", "d4rl:hopper-random-v2", "--steps", "150", "--workers", "1"]) == 0
    made = data.load("d4rl:hopper-random-v2")
    assert made.metadata["name"] == "d4rl:hopper-random-v2"
    assert made.env == "gtp/Hopper-d4rl-v2"
    capsys.readouterr()
    monkeypatch.setenv("GTP_DATA", str(tmp_path / "policy.npz"))
    (tmp_path / "policy.npz").touch()
    for name in ("toy:multigoal-pixels", "nonsense", "d4rl:hopper-random-v2"):
        assert cli.main(["data", "make", name, "--steps", "150"]) == 2
        (message,) = capsys.readouterr().err.splitlines()
        assert message.startswith("gtp: ")


def test_a_play_dataset_is_named_as_its_file_is():
    from gtp.data import catalogue, ogbench
    from gtp.generate import full_name

    assert full_name("ogbench:cube-single-play") == "ogbench:cube-single-play-v0"
    home = catalogue.home_of(full_name("ogbench:cube-single-play"))
    assert home.stem == ogbench.parse("cube-single-play-singletask-task1-v0").data
