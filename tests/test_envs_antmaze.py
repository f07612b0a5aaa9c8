"""D4RL's ant in D4RL's mazes against D4RL's own rows."""

import gymnasium
import numpy as np
import pytest

import gtp.envs  # noqa: F401
from slices import read_slice

pytest.importorskip("mujoco")


@pytest.mark.parametrize(
    "name",
    [
        "umaze-v0",
        "umaze-diverse-v0",
        "medium-play-v0",
        "medium-diverse-v0",
        "large-play-v0",
        "large-diverse-v0",
    ],
)
def test_one_step_reproduces_the_genuine_rows(name, capsys):
    """From the state logged with row i - 1 and action i to the state logged with row i, walls included."""
    rows = read_slice(f"antmaze-{name}")
    env = gymnasium.make(f"gtp/AntMaze-{name.split('-')[0]}-v2").unwrapped
    same_episode = (rows["infos/goal"][1:] == rows["infos/goal"][:-1]).all(1)
    errors = []
    for i in np.flatnonzero(same_episode) + 1:
        env.set_state(rows["infos/qpos"][i - 1], rows["infos/qvel"][i - 1])
        np.testing.assert_array_equal(env.observation(), rows["observations"][i])
        obs = env.step(rows["actions"][i])[0]
        errors.append(np.abs(obs - np.concatenate([rows["infos/qpos"][i], rows["infos/qvel"][i]])).max())
    middle, ninety, worst = np.median(errors), np.quantile(errors, 0.9), np.max(errors)
    with capsys.disabled():
        print(
            f"\nantmaze-{name}: {len(errors)} rows, median {middle:.1e}, 90 % {ninety:.1e}, worst {worst:.1e}"
        )
    assert middle < 1e-5
    assert ninety < 1e-5


@pytest.mark.filterwarnings("ignore:.*out of date")
@pytest.mark.parametrize("maze", ["umaze", "medium", "large"])
def test_goals_of_both_versions(maze):
    """v0 keeps its goal for life, v2 draws one an episode; both within the goal's cell."""
    fixed, fresh = (gymnasium.make(f"gtp/AntMaze-{maze}-{version}").unwrapped for version in ("v0", "v2"))
    goals = {}
    for name, env in (("v0", fixed), ("v2", fresh)):
        env.reset(seed=0)
        goals[name] = [env.goal.copy() for _ in range(4) if env.reset()]
    assert len({tuple(g) for g in goals["v0"]}) == 1
    assert len({tuple(g) for g in goals["v2"]}) == 4
    centre = {"umaze": (0, 8), "medium": (20, 20), "large": (32, 24)}[maze]
    offsets = np.array(goals["v2"]) - centre
    assert (offsets >= 0).all()
    assert (offsets <= 1.5).all()


def test_reaching_the_goal_ends_the_episode():
    env = gymnasium.make("gtp/AntMaze-umaze-v2")
    assert env.spec.max_episode_steps == 700
    env.reset(seed=0)
    inner = env.unwrapped
    *_, info = env.step(np.zeros(8, np.float32))
    assert info["success"] is False
    inner.place(np.random.default_rng(0), inner.goal)
    _, reward, terminated, truncated, info = env.step(np.zeros(8, np.float32))
    assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)


@pytest.mark.filterwarnings("ignore:.*A Box observation space")
def test_gymnasium_accepts_it():
    from gymnasium.utils.env_checker import check_env

    check_env(gymnasium.make("gtp/AntMaze-umaze-v2").unwrapped, skip_render_check=True)
