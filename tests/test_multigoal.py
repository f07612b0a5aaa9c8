"""The multi-goal world and its demonstrator."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from gtp import demo
from gtp.data import toy
from gtp.envs import multigoal
from gtp.envs.multigoal import BRIDGE, DISTANCE, GOALS, LIMIT, RADIUS, SPEED, MultiGoalEnv, MultiGoalVectorEnv

STILL, RIGHT, UP = np.zeros(2, np.float32), np.array([1, 0], np.float32), np.array([0, 1], np.float32)


def world(*positions: tuple[float, float]) -> MultiGoalVectorEnv:
    """Points at given places, no time gone by."""
    env = MultiGoalVectorEnv(len(positions))
    env.reset(seed=0)
    env._position = np.array(positions, np.float32)
    return env


def test_a_step_moves_by_speed_and_costs_one():
    obs, reward, terminated, truncated, info = world((0, 0), (0, 0.1)).step(np.stack([RIGHT / 2, -UP]))
    np.testing.assert_allclose(obs, [[SPEED / 2, 0], [0, 0.1 - SPEED]], atol=1e-6)
    assert reward.tolist() == [-1, -1]
    assert not terminated.any()
    assert not truncated.any()
    assert info["goal"].tolist() == [-1, -1]
    assert not info["success"].any()


def test_actions_beyond_the_range_are_clipped():
    obs, *_ = world((0, 0)).step(3 * RIGHT[None])
    np.testing.assert_allclose(obs[0], [SPEED, 0])


def test_goals_lie_equally_far_and_are_reached_within_the_radius():
    np.testing.assert_allclose(np.linalg.norm(GOALS, axis=1), DISTANCE)
    for i, goal in enumerate(GOALS):
        inward = -goal / DISTANCE
        inside, outside = goal + 0.99 * RADIUS * inward, goal + 1.01 * RADIUS * inward
        _, reward, terminated, _, info = world(inside, outside).step(np.stack([STILL, STILL]))
        assert info["goal"].tolist() == [i, -1]
        assert info["success"].tolist() == [True, False]
        assert terminated.tolist() == [True, False]
        assert reward.tolist() == [-1, -1]


def test_stepping_off_the_bridges_ends_the_episode_at_a_price():
    edge = BRIDGE - 0.01
    before = ((1.5, edge), (1.5, edge), (0.0, edge))
    _, reward, terminated, _, info = world(*before).step(np.stack([UP / 10, -UP / 10, UP / 10]))
    assert terminated.tolist() == [True, False, False]
    assert reward.tolist() == [-LIMIT, -1, -1]
    assert not info["success"].any()


def test_a_goal_is_firm_ground():
    beside = GOALS[0] + (BRIDGE + RADIUS) / 2 * UP
    _, reward, terminated, _, info = world(beside).step(STILL[None])
    assert info["goal"].tolist() == [0]
    assert terminated.tolist() == [True]
    assert reward.tolist() == [-1]
    assert not multigoal.fallen(beside)


def test_the_time_limit_cuts_and_what_is_over_stays_over():
    env = world((0, 0), GOALS[0] - RADIUS * RIGHT)
    rewards, cuts = [], []
    for _ in range(LIMIT + 1):
        obs, reward, terminated, truncated, info = env.step(np.stack([STILL, RIGHT / 10]))
        rewards.append(reward)
        cuts.append(truncated)
    assert np.flatnonzero(np.array(cuts)[:, 0])[0] == LIMIT - 1
    assert not np.array(cuts)[:, 1].any()
    assert np.sum(rewards, axis=0).tolist() == [-LIMIT, -1]
    np.testing.assert_allclose(obs[1], GOALS[0] - (RADIUS - SPEED / 10) * RIGHT, atol=1e-6)
    assert info["goal"].tolist() == [-1, 0]
    assert not terminated[0]


def test_a_seed_gives_each_point_its_own_start():
    env = MultiGoalVectorEnv(3)
    first, _ = env.reset(seed=5)
    again, _ = env.reset(seed=5)
    shifted, _ = env.reset(seed=6)
    chosen, _ = env.reset(seed=[7, 5, 6])
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first[1:], shifted[:2])
    np.testing.assert_array_equal(first[[2, 0, 1]], chosen)
    assert np.abs(first).max() < 5 * multigoal.START_STD
    unseeded, _ = env.reset()
    assert len(np.unique(unseeded, axis=0)) == 3


def test_one_point_is_one_of_many():
    many, one = MultiGoalVectorEnv(4), MultiGoalEnv()
    actions = np.random.default_rng(0).uniform(-1, 1, (6, 4, 2)).astype(np.float32)
    starts, _ = many.reset(seed=11)
    steps = [many.step(a) for a in actions]
    for i in range(4):
        obs, _ = one.reset(seed=11 + i)
        np.testing.assert_array_equal(obs, starts[i])
        for action, (many_obs, reward, terminated, truncated, info) in zip(actions, steps, strict=True):
            single = one.step(action[i])
            np.testing.assert_array_equal(single[0], many_obs[i])
            assert single[1:4] == (reward[i], terminated[i], truncated[i])
            assert single[4] == {"success": info["success"][i], "goal": info["goal"][i]}
            if terminated[i] or truncated[i]:
                break


def test_gymnasium_accepts_it():
    env = gymnasium.make("gtp/MultiGoal-v0")
    assert isinstance(env.unwrapped, MultiGoalEnv)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=True)


@pytest.fixture(scope="module")
def data():
    return toy.load("multigoal").transitions


def test_the_demonstrator_visits_all_goals_alike_and_never_falls(data):
    assert not multigoal.fallen(data.next_obs).any()
    ends = data.next_obs[data.bootstrap == 0]
    goal = multigoal.reached(ends)
    assert len(ends) == toy.EPISODES  # every episode reaches a goal
    np.testing.assert_allclose(np.bincount(goal, minlength=4) / len(goal), 0.25, atol=0.03)


def test_the_demonstrator_obeys_the_world(data):
    assert np.abs(data.action).max() <= 1
    assert (data.reward == -1).all()
    np.testing.assert_allclose(multigoal.move(data.obs, data.action), data.next_obs, atol=1e-6)
    np.testing.assert_array_equal(data.bootstrap == 0, multigoal.reached(data.next_obs) >= 0)


def test_the_demonstrator_walks_fast_and_reproducibly(data):
    paths = demo.paths(data)
    assert paths.shape[1:] == (toy.EPISODES, 2)
    length = (np.diff(paths, axis=0) != 0).any(-1).sum(0)
    shortest = (DISTANCE - RADIUS) / SPEED
    assert shortest - 1 < length.min()
    assert length.mean() < 1.6 * shortest + 1
    assert length.max() < LIMIT
    np.testing.assert_array_equal(toy.load("multigoal").transitions.obs, data.obs)


def test_rollouts_count_what_happened():
    def right_or_stay(obs, key):
        del key
        return np.where(np.arange(len(obs))[:, None] % 2, 0.0, GOALS[0] - obs)

    walk = demo.rollout(right_or_stay, episodes=10, seed=3)
    assert walk.positions.shape == (LIMIT + 1, 10, 2)
    assert walk.goal.tolist() == [0, -1] * 5
    assert walk.figures() == {"success": 0.5, "goals": [0.5, 0, 0, 0]}
