"""D4RL's hand and kitchen against D4RL's own rows."""

import importlib.util

import gymnasium
import h5py
import numpy as np
import pytest

import gtp.envs  # noqa: F401
from gtp.envs import adroit, kitchen, physics, scores
from gtp.errors import UserError
from slices import read_slice, shared

pytest.importorskip("mujoco", reason="MuJoCo is not installed.")
needs_robotics = pytest.mark.skipif(
    importlib.util.find_spec("gymnasium_robotics") is None, reason="gymnasium-robotics is not installed."
)
HANDS = {task: f"gtp/{task.capitalize()}-d4rl-v1" for task in adroit.TASKS}
KITCHENS = [f"gtp/Kitchen-{task}-d4rl-v0" for task in kitchen.TASKS]
PLACES = {"door": "infos/door_body_pos", "hammer": "infos/board_pos", "pen": "infos/desired_orien"}


def lay_out(env, task, rows, i):
    """Lay out the episode that begins in row i; what is placed, as one array."""
    model = env.model
    if task == "relocate":  # What the files call obj_pos and target_pos is another episode's.
        env.set_state(rows["infos/qpos"][i], rows["infos/qvel"][i])
        palm, seen = env.data.site("S_grasp").xpos.copy(), rows["observations"][i]
        model.body("Object").pos[:] = palm - seen[30:33]
        model.site("target").pos[:] = palm - seen[33:36]
        return np.concatenate([model.body("Object").pos[:2], model.site("target").pos])
    place = rows[PLACES[task]][i]
    if task == "pen":
        model.body("target").quat[:] = place
    else:
        model.body("frame" if task == "door" else "nail_board").pos[:] = place
    return place


@needs_robotics
@pytest.mark.parametrize("kind", ["human", "cloned", "expert"])
@pytest.mark.parametrize("task", HANDS)
def test_one_step_reproduces_the_genuine_rows(task, kind, capsys):
    """From the state logged with a row and its action: the next observation and the reward."""
    rows = read_slice(f"{task}-{kind}-v1")
    env = gymnasium.make(HANDS[task]).unwrapped
    ends = rows["terminals"] | rows["timeouts"]
    begins = np.append(True, ends[:-1])
    obs_error, reward_error = [], []
    for i in range(len(ends) - 1):
        if begins[i]:
            lay_out(env, task, rows, i)
        if ends[i] or i % 3 == 2:  # Two rows of three are enough and save a second.
            continue
        env.set_state(rows["infos/qpos"][i], rows["infos/qvel"][i])
        if begins[i] and kind != "human":
            assert not rows["infos/qpos"][i].any()
            np.testing.assert_allclose(env.observation(), rows["observations"][i], atol=1e-6)
        obs, reward, failed, _, _ = env.step(rows["actions"][i])
        obs_error.append(np.abs(obs - rows["observations"][i + 1]).max())
        reward_error.append(abs(reward - rows["rewards"][i]))
        assert failed == (task == "pen" and obs[26] < 0.075)
    (middle, ninety, worst), (r_middle, r_ninety) = (
        np.quantile(obs_error, (0.5, 0.9, 1)),
        np.quantile(reward_error, (0.5, 0.9)),
    )
    with capsys.disabled():
        print(
            f"\n{task}-{kind}: {len(obs_error)} rows, next observation median {middle:.1e}, 90 % {ninety:.1e}"
            f", worst {worst:.1e}, reward median {r_middle:.1e}, 90 % {r_ninety:.1e}"
        )
    assert middle < 1e-6
    assert r_middle < 1e-5
    # A sixth of the cloned door's rows stay apart: in all of them a capsule presses against a box.
    assert ninety < (5e-3 if (task, kind) == ("door", "cloned") else 1e-5)
    assert r_ninety < (5e-3 if (task, kind) == ("door", "cloned") else 1e-5)


@needs_robotics
@pytest.mark.parametrize("task", HANDS)
def test_episodes_are_laid_out_as_the_genuine_ones(task):
    """Whatever is drawn for an episode of the cloned and expert data lies in the range that is drawn from."""
    env, drawn = gymnasium.make(HANDS[task]).unwrapped, []
    what = {"door": ("body", "frame", "pos"), "hammer": ("body", "nail_board", "pos")}
    for seed in range(300):
        adroit.TASKS[task].place(env.model, np.random.default_rng(seed))
        if task == "relocate":
            drawn.append(np.concatenate([env.model.body("Object").pos[:2], env.model.site("target").pos]))
        else:
            kind, name, field = what.get(task, ("body", "target", "quat"))
            drawn.append(getattr(getattr(env.model, kind)(name), field).copy())
    other = gymnasium.make(HANDS[task])
    first = other.reset(seed=1)[0]
    env.reset(seed=2)  # Each environment lays out a model of its own.
    np.testing.assert_array_equal(other.unwrapped.observation(), first)
    low, high = np.min(drawn, axis=0), np.max(drawn, axis=0)
    margin = 0.05 * (high - low) + 1e-6
    for kind in ("cloned", "expert"):
        rows = read_slice(f"{task}-{kind}-v1")
        ends = rows["terminals"] | rows["timeouts"]
        for i in np.flatnonzero(np.append(True, ends[:-1])):
            genuine = lay_out(env, task, rows, i)
            assert (genuine >= low - margin).all()
            assert (genuine <= high + margin).all()
            if task == "pen":  # Two turns of a unit quaternion: w·z = x·y.
                np.testing.assert_allclose(genuine[0] * genuine[3], genuine[1] * genuine[2], atol=1e-6)


@needs_robotics
@pytest.mark.parametrize(("task", "tolerance"), [("door", 1.0), ("hammer", 10.0)])
def test_random_actions_earn_the_reference_return(task, tolerance):
    """Over 60 episodes they earn -56.56 ± 0.09 and -275.4 ± 0.7; D4RL's references are -56.51 and -274.9."""
    env, rng, total = gymnasium.make(HANDS[task]), np.random.default_rng(0), 0.0
    for seed in range(3):
        env.reset(seed=seed)
        truncated = False
        while not truncated:
            _, reward, _, truncated, _ = env.step(rng.uniform(-1, 1, env.action_space.shape))
            total += reward / 3
    assert total == pytest.approx(scores.REFERENCES[task].random, abs=tolerance)


@pytest.fixture(scope="module")
def kitchen_rows():
    with h5py.File(shared("kitchen", "mini_kitchen_microwave_kettle_light_slider-v0.hdf5")) as file:
        return {key: np.asarray(file[key]) for key in ("observations", "actions", "rewards", "terminals")}


@needs_robotics
def test_the_kitchen_plays_genuine_episodes_through(kitchen_rows, capsys):
    """Whole episodes from the first row on: all moves as it was seen to, and is done when it was."""
    obs, actions = kitchen_rows["observations"].astype(float), kitchen_rows["actions"]
    env = gymnasium.make(KITCHENS[0]).unwrapped
    np.testing.assert_allclose(env.goal, obs[0, 30:], atol=1e-6)
    ends = np.flatnonzero(kitchen_rows["terminals"])
    begins = np.append(0, ends[:-1] + 1)
    off, late = [], []
    for begin, end in list(zip(begins, ends, strict=True))[::7]:
        start = np.concatenate([obs[begin, : kitchen.ARM], kitchen.START[kitchen.ARM :]])
        physics.set_state(env.model, env.data, start, np.zeros(env.model.nv))
        places = []
        for i in range(begin, end):
            target = obs[i, : kitchen.ARM] + kitchen.SPEED * actions[i] * env.dt
            env.advance(np.clip(target, kitchen.LOW, kitchen.HIGH))
            places.append(env.data.qpos.copy())
        off.append(np.abs(places - obs[begin + 1 : end + 1, :30]))
        for thing in env.things:
            first = [
                next(t for t, place in enumerate(walk) if kitchen.in_place(place, thing))
                for walk in (places, obs[begin + 1 : end + 1])
            ]
            late.append(first[0] - first[1])
    beyond = np.concatenate(off) - kitchen.NOISE  # What the noise on the genuine rows cannot explain.
    arm, things, kettle = beyond[:, :9], beyond[:, 9:23], beyond[:, 23:26]
    with capsys.disabled():
        print(
            f"\nkitchen: {len(beyond)} rows of {len(off)} episodes played through; beyond the noise: arm in"
            f" {(arm > 1e-6).mean():.2%} of positions, worst {arm.max():.1e}; cabinets, switch and microwave"
            f" worst {things.max():.1e}; kettle worst {kettle.max():.1e} m; {len(late)} things done"
            f" {min(late)} to {max(late)} steps later"
        )
    assert np.quantile(arm, 0.99) < 1e-3
    assert things.max() < 0.01
    assert kettle.max() < 0.02
    assert np.abs(late).max() <= 2


@needs_robotics
def test_the_kitchen_is_seen_and_rewarded_as_in_the_data(kitchen_rows):
    obs = kitchen_rows["observations"]
    things = kitchen.TASKS["complete"]
    done = [sum(kitchen.in_place(row, thing) for thing in things) for row in obs[:400]]
    np.testing.assert_array_equal(done, kitchen_rows["rewards"][:400])
    still = np.ptp(obs[:20, 9:30], axis=0) / 2  # Nothing but the arm moves in the first steps.
    np.testing.assert_allclose(still, kitchen.NOISE[9:], rtol=0.35)
    env = gymnasium.make(KITCHENS[2]).unwrapped
    first, second = env.reset(seed=0)[0], env.reset(seed=1)[0]
    assert 0 < np.abs(first - second)[:30].max() <= 0.02
    np.testing.assert_array_equal(first[30:], kitchen.goal_of("mixed").astype(np.float32))
    where, goal = kitchen.GOALS["microwave"]
    qpos = kitchen.START.copy()
    qpos[where] = goal
    physics.set_state(env.model, env.data, qpos, np.zeros(env.model.nv))
    *_, terminated, _, info = env.step(np.zeros(kitchen.ARM))
    assert (env.left, terminated, info["success"]) == (
        {"kettle", "bottom burner", "light switch"},
        False,
        False,
    )
    env.left = set()
    assert env.step(np.zeros(kitchen.ARM))[2]


@needs_robotics
@pytest.mark.filterwarnings("ignore:.*A Box observation space")
@pytest.mark.parametrize("env_id", [*HANDS.values(), KITCHENS[0]])
def test_gymnasium_accepts_it(env_id):
    from gymnasium.utils.env_checker import check_env

    env = gymnasium.make(env_id)
    check_env(env.unwrapped, skip_render_check=True)
    assert env.spec.max_episode_steps == {"Pen": 100, "Kit": 280}.get(env_id[4:7], 200)
    assert scores.reference(env_id) is not None
    assert scores.physics(env_id).startswith("d4rl-mpr mujoco")


def test_missing_models_are_one_sentence(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"gtp\[robotics\]"):
        physics.robotics_model("any.xml")
