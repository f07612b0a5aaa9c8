"""Scores against figures anybody can work out."""

import pytest

from gtp.envs import scores


@pytest.mark.parametrize(
    ("env_id", "value", "score"),
    [
        ("gtp/Hopper-d4rl-v2", 3234.3, 100.0),
        ("gtp/Hopper-d4rl-v2", -20.272305, 0.0),
        ("d4rl:hopper-medium-v2", 1422.0, 44.315),
        ("walker2d-medium-replay-v2", 1.629008, 0.0),
        ("gtp/HalfCheetah-d4rl-v2", 4770.0, 40.677),
        ("gtp/AntMaze-large-v0", 0.25, 25.0),
        ("gtp/Ant-d4rl-v2", 3879.7, 100.0),
        ("gtp/Pen-d4rl-v1", 96.262799, 0.0),
        ("gtp/Door-d4rl-v1", 2880.5693087298737, 100.0),
        ("gtp/Kitchen-mixed-d4rl-v0", 3.0, 75.0),
    ],
)
def test_known_scores(env_id, value, score):
    assert scores.normalised_score(env_id, value) == pytest.approx(score, abs=1e-3)


@pytest.mark.parametrize(
    "env_id", ["gtp/MultiGoal-v0", "Hopper-v4", "cube-single-v0", "minari:hopper", "", "Ünbekannt"]
)
def test_no_reference_is_none(env_id):
    assert scores.normalised_score(env_id, 1.0) is None


def test_physics_names_the_simulator():
    mujoco = pytest.importorskip("mujoco")
    assert scores.physics("gtp/Hopper-d4rl-v2") == f"d4rl-capsule mujoco {mujoco.__version__}"
    assert scores.physics("gtp/AntMaze-umaze-v2").startswith("d4rl-capsule")
    assert scores.physics("gtp/MultiGoal-v0") == "numpy"
    assert scores.physics("Hopper-v4") == f"stock mujoco {mujoco.__version__}"
