"""The visual twin shows exactly what the multi-goal world does."""

import gymnasium
import numpy as np
import pytest

import gtp.envs  # noqa: F401

multigoal = pytest.importorskip("gtp.envs.multigoal")


def test_where_the_point_is_can_be_read_off_the_picture():
    from gtp.envs import pixels

    # Clear of the goals, whose colours would mix in.
    positions = np.random.default_rng(0).uniform(-1, 1, (200, 2)).astype(np.float32)
    pictures = pixels.draw(positions)
    assert pictures.shape == (200, 64, 64, 3)
    assert pictures.dtype == np.uint8
    white = pictures.min(-1).astype(float) * (np.abs(pictures.max(-1).astype(int) - pictures.min(-1)) < 20)
    along = (np.arange(64) + 0.5) * 2 * pixels.VIEW / 64 - pixels.VIEW
    x = (white * along[None, None, :]).sum((1, 2)) / white.sum((1, 2))
    y = (white * -along[None, :, None]).sum((1, 2)) / white.sum((1, 2))
    np.testing.assert_allclose(np.stack([x, y], 1), positions, atol=0.02)
    far = pixels.draw(np.array([[100.0, 0.0]]))
    assert far[0, 32, 63].min() > 200


def test_goals_have_their_own_colours():
    from gtp.envs import pixels

    picture = pixels.draw(np.zeros((1, 2)))[0]
    at = {(0, 1): (7, 32), (1, 0): (32, 56), (0, -1): (56, 32), (-1, 0): (32, 7)}
    colours = {tuple(picture[pixel]) for pixel in at.values()}
    assert len(colours) == 4
    right = tuple(int(c) for c in picture[at[1, 0]])
    assert right == tuple(int(c) for c in pixels.COLOURS[0])


def test_the_twins_agree_step_by_step():
    from gtp.envs import pixels

    seen, known = gymnasium.make("gtp/MultiGoalPixels-v0"), gymnasium.make("gtp/MultiGoal-v0")
    picture, position = seen.reset(seed=3)[0], known.reset(seed=3)[0]
    rng = np.random.default_rng(0)
    for _ in range(20):
        np.testing.assert_array_equal(picture, pixels.draw(position[None])[0])
        action = rng.uniform(-1, 1, 2).astype(np.float32)
        (picture, *rest), (position, *expected) = seen.step(action), known.step(action)
        assert rest == expected
    many = gymnasium.make_vec("gtp/MultiGoalPixels-v0", num_envs=3)
    pictures, _ = many.reset(seed=0)
    assert pictures.shape == (3, 64, 64, 3)
    assert many.single_observation_space == seen.observation_space
    assert many.step(np.zeros((3, 2), np.float32))[0].dtype == np.uint8


def test_made_pictures_are_those_of_the_demonstrations(tmp_path):
    pytest.importorskip("gtp.data.toy")
    from gtp.envs.pixels import draw
    from gtp.generate import make

    numbers, pictures = (
        np.load(make(f"toy:multigoal{twin}", tmp_path, steps=300, workers=1, progress=False))
        for twin in ("", "-pixels")
    )
    np.testing.assert_array_equal(draw(numbers["observations"]), pictures["observations"])
    for key in ("actions", "rewards", "terminals", "timeouts"):
        np.testing.assert_array_equal(numbers[key], pictures[key])
        assert len(pictures[key]) == 300
