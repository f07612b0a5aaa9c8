"""D4RL's physics against D4RL's own rows."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest

import gtp.envs  # noqa: F401
from slices import read_slice

IDS = {
    "hopper": "gtp/Hopper-d4rl-v2",
    "walker2d": "gtp/Walker2d-d4rl-v2",
    "halfcheetah": "gtp/HalfCheetah-d4rl-v2",
    "ant": "gtp/Ant-d4rl-v2",
}


@pytest.mark.parametrize("name", IDS)
def test_one_step_reproduces_the_genuine_rows(name, capsys):
    """From each row's state and action: the next observation, the reward, the terminal."""
    pytest.importorskip("mujoco")
    rows = read_slice(f"{name}_medium-v2")
    env = gymnasium.make(IDS[name]).unwrapped
    limit = env.task.speed_limit
    obs_error, reward_error, wrong_ends, before = [], [], 0, None
    for i in range(len(rows["rewards"])):
        if (np.abs(rows["infos/qvel"][i]) >= limit).any():
            before = None  # What the velocity was before it was clipped is not in the file.
            continue
        env.set_state(rows["infos/qpos"][i], rows["infos/qvel"][i])
        np.testing.assert_allclose(env.observation(), rows["observations"][i], atol=1e-6)
        fresh = env.x()
        obs, reward, terminated, _, _ = env.step(rows["actions"][i])
        obs_error.append(np.abs(obs - rows["next_observations"][i]).max())
        if name != "ant":
            reward_error.append(abs(reward - rows["rewards"][i]))
        elif before is not None:  # The ant's reward starts from where the previous step left its torso.
            reward_error.append(abs(reward + (fresh - before) / env.dt - rows["rewards"][i]))
        before = None if rows["terminals"][i] or rows["timeouts"][i] else env.x()
        wrong_ends += terminated != rows["terminals"][i]
    with capsys.disabled():
        print(
            f"\n{name}: {len(obs_error)} rows, next observation median {np.median(obs_error):.1e}"
            f" worst {np.max(obs_error):.1e}, reward worst {np.max(reward_error):.1e},"
            f" wrong ends {wrong_ends}"
        )
    assert len(obs_error) > 700
    assert np.median(obs_error) < 1e-5
    assert np.max(obs_error) < 1e-4
    assert np.max(reward_error) < 1e-5
    assert wrong_ends == 0


@pytest.mark.filterwarnings("ignore:.*A Box observation space")
@pytest.mark.parametrize("name", IDS)
def test_gymnasium_accepts_it(name):
    pytest.importorskip("mujoco")
    from gymnasium.utils.env_checker import check_env

    env = gymnasium.make(IDS[name])
    check_env(env.unwrapped, skip_render_check=True)
    assert env.spec.max_episode_steps == 1000
    first, second = (env.reset(seed=3)[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_importing_loads_no_simulator_and_no_jax():
    code = "import sys, gtp.envs, gtp.generate; sys.exit('mujoco' in sys.modules or 'jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_missing_mujoco_is_one_sentence(monkeypatch):
    from gtp.envs import physics
    from gtp.errors import UserError

    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(UserError, match=r"gtp\[mujoco\]"):
        physics.mujoco()
