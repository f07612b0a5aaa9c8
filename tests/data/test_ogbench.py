"""OGBench's files and the rewards of a task, against the rule written out a row at a time."""

import re
import shutil

import numpy as np
import pytest

from gtp.data import catalogue, load, ogbench, read_log
from gtp.errors import UserError

EPISODES, STEPS = 40, 9


def make(folder, name="cube-double-play-v0", seed=0):
    """A file as OGBench writes it, each row near the goal of one of the five tasks often enough to matter."""
    rng = np.random.default_rng(seed)
    count = EPISODES * STEPS
    goals = ogbench.goals()[ogbench.parse(name).domain]["goals"]
    pick = rng.integers(5, size=count)

    def goal(thing):
        return np.array([goal[thing] for goal in goals])[pick]

    def near(spread, far, *shape):
        return rng.normal(scale=spread, size=(count, *shape)) + far * (
            rng.random((count, *shape[:-1], 1)) > 0.7
        )

    qpos = rng.normal(scale=0.01, size=(count, 80))
    arrays = {}
    cubes = goal("cubes").shape[1] if "cubes" in goals[0] else 0
    if cubes:
        places = goal("cubes") + near(0.02, 0.1, cubes, 3)
        for k in range(cubes):
            qpos[:, 14 + 7 * k : 17 + 7 * k] = places[:, k]
    if "buttons" in goals[0]:
        arrays["button_states"] = goal("buttons") ^ (rng.random(goal("buttons").shape) > 0.95)
    if "drawer" in goals[0]:
        slide = 14 + 7 * cubes + goal("buttons").shape[1]
        qpos[:, slide : slide + 2] = np.stack([goal("drawer"), goal("window")], 1) + near(0.02, 0.1, 2)
    if "agent" in goals[0]:
        qpos[:, :2] = goal("agent") + near(0.4, 1.0, 2)
    if "ball" in goals[0]:
        qpos[:, 15:17] = goal("ball") + near(0.4, 1.0, 2)
    arrays |= {
        "observations": rng.normal(size=(count, 5)).astype(np.float32),
        "actions": rng.uniform(-1, 1, size=(count, 3)).astype(np.float32),
        "terminals": np.arange(count) % STEPS == STEPS - 1,
        "qpos": qpos,
    }
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / f"{name}.npz", **arrays)
    return arrays


def cube_success(arrays, i, goals):
    return [
        np.linalg.norm(arrays["qpos"][i, 14 + 7 * k : 17 + 7 * k] - xyz) <= 0.04
        for k, xyz in enumerate(goals)
    ]


@pytest.mark.parametrize("timing", ["pre", "post"])
def test_rewards_count_the_cubes_that_are_not_there(tmp_path, timing):
    arrays = make(tmp_path)
    data = load(f"ogbench:{tmp_path}/cube-double-play-singletask-task1-v0@{timing}")
    # Task 1 of cube-double, as OGBench states it.
    goals = [[0.425, 0.0, 0.02], [0.425, 0.1, 0.02]]
    rows = [i for i in range(EPISODES * STEPS) if not arrays["terminals"][i]]
    done = [cube_success(arrays, i + (timing == "post"), goals) for i in rows]
    assert data.transitions.reward.tolist() == [sum(d) - 2 for d in done]
    assert data.transitions.bootstrap.tolist() == [0.0 if all(d) else 1.0 for d in done]
    assert 0 < data.transitions.bootstrap.mean() < 0.99
    np.testing.assert_array_equal(data.transitions.obs, arrays["observations"][rows])
    np.testing.assert_array_equal(data.transitions.next_obs, arrays["observations"][np.array(rows) + 1])
    assert data.env == "cube-double-singletask-task1-v0"
    assert data.metadata == {"success_timing": timing}


def test_the_default_task_is_the_domains_own(tmp_path):
    make(tmp_path)
    default, second = (
        load(f"ogbench:{tmp_path}/cube-double-play-singletask{task}-v0").fingerprint
        for task in ("", "-task2")
    )
    assert default == second
    assert second != load(f"ogbench:{tmp_path}/cube-double-play-singletask-task1-v0").fingerprint


@pytest.mark.parametrize(
    "name",
    [
        "cube-single-play",
        "scene-play",
        "puzzle-3x3-play",
        "antmaze-medium-navigate",
        "antsoccer-arena-stitch",
    ],
)
def test_success_of_every_kind_of_thing_happens_and_fails(tmp_path, name):
    make(tmp_path, f"{name}-v0")
    log = read_log(f"ogbench:{tmp_path}/{name}-singletask-task1-v0")
    done = log.rows.rewards
    assert len(np.unique(done)) > 1
    assert (log.rows.terminals == (done == 0)).all()
    assert log.ends.sum() == EPISODES


@pytest.mark.parametrize(
    "name", ["cube-double-play", "scene-play", "puzzle-3x3-play", "antmaze-large-navigate"]
)
@pytest.mark.filterwarnings("ignore")
def test_equal_to_ogbench_itself(tmp_path, name):
    theirs = pytest.importorskip("ogbench", reason="OGBench is not installed.")
    make(tmp_path, f"{name}-v0")
    # OGBench insists on a validation file beside the other.
    shutil.copy(tmp_path / f"{name}-v0.npz", tmp_path / f"{name}-v0-val.npz")
    for task in range(1, 6):
        full = f"{name}-singletask-task{task}-v0"
        _, train, _ = theirs.make_env_and_datasets(full, dataset_path=str(tmp_path / f"{name}-v0.npz"))
        ours = load(f"ogbench:{tmp_path}/{full}").transitions
        for mine, key in zip(ours, ("observations", "actions", "rewards", "next_observations"), strict=False):
            np.testing.assert_array_equal(mine, train[key], err_msg=f"{full} {key}")
        np.testing.assert_array_equal(ours.bootstrap, train["masks"])


def test_without_a_task_rewards_are_zero_and_it_says_so(tmp_path):
    make(tmp_path / "gtp-data" / "ogbench")
    log = read_log("ogbench:cube-double-play-v0")
    assert not log.rows.rewards.any()
    assert "all rewards are zero" in log.notes[0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cube-double-play-singletask-task6-v0", "tasks 1 to 5, not 6"),
        ("cube-double-play-singletask-task1", "is no OGBench name"),
        ("cube-double-play-v0@late", "is no OGBench name"),
        ("v0", "is no OGBench name"),
        ("powderworld-easy-play-singletask-task1-v0", "has no tasks"),
        ("cube-quadruple-play-singletask-task1-v0", "not the shape"),
    ],
)
def test_names_and_files_that_do_not_fit_are_one_sentence(tmp_path, name, expected):
    arrays = make(tmp_path)
    for other in ("powderworld-easy-play-v0", "cube-quadruple-play-v0"):
        np.savez(tmp_path / f"{other}.npz", **arrays | {"qpos": arrays["qpos"][:, :28]})
    with pytest.raises(UserError, match=re.escape(expected)):
        load(f"ogbench:{tmp_path}/{name}")


def test_a_task_needs_joint_positions(tmp_path):
    arrays = make(tmp_path)
    del arrays["qpos"]
    np.savez(tmp_path / "cube-double-play-v0.npz", **arrays)
    with pytest.raises(UserError, match="qpos: the rewards of a task cannot be found"):
        load(f"ogbench:{tmp_path}/cube-double-play-singletask-task1-v0")


def test_every_catalogued_name_is_well_formed_and_every_domain_with_tasks_has_five():
    for spec in catalogue.entries():
        if spec.startswith("ogbench:"):
            name = ogbench.parse(spec.removeprefix("ogbench:"))
            assert name.domain in ogbench.goals()
    assert all(len(domain["goals"]) == 5 for domain in ogbench.goals().values())
