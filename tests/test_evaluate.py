"""Episodes are the same whoever steps the worlds and whatever is played beside them."""

import importlib.util
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from gtp import evaluate, plan, policy, run, scoring
from gtp.agents import gtp as agent
from gtp.data import toy
from gtp.envs import worlds
from gtp.errors import UserError
from gtp.types import Acting

POINT = "Point-v0"
if POINT not in gymnasium.registry:
    # The multi-goal world one at a time: an ordinary environment, which workers can make.
    gymnasium.register(POINT, "gtp.envs.multigoal:MultiGoalEnv")


@pytest.fixture(scope="module")
def pi() -> policy.Policy:
    """An untrained policy of two members, made as loaded ones are."""
    members = 2
    config = agent.Config(hidden=(16, 16), sampling_steps=2)
    settings = plan.Settings(data="toy:multigoal", steps=10, seeds=members)
    about = plan.Run(Path(), "gtp", config, settings, {}, toy.load("multigoal")).about()
    state = policy.template(agent.make(config, 10), about)
    rng = np.random.default_rng(0)
    params = policy.jax.tree.map(lambda x: (0.3 * rng.normal(size=x.shape)).astype(x.dtype), state.params)
    params = params._replace(normaliser=params.normaliser._replace(std=np.ones((members, 2), np.float32)))
    return policy.Policy(agent.make, config, params, about | {"step": 10})


def played(pi: policy.Policy, env: str, episodes: int, workers: int, ways: list[Acting], who=None):
    members = len(pi.about["members"])
    with evaluate.Stage(env, members, episodes, workers) as where:
        rows = scoring.score(pi, where, who or list(range(members)), ways)
    return {(row["seed"], row["act"], row["episode"]): (row["return"], row["length"]) for row in rows}


@pytest.mark.parametrize("way", [Acting(), Acting("softmax", 5)])
def test_workers_neighbours_and_order_change_no_bit(pi, way, monkeypatch):
    alone = played(pi, POINT, 23, 1, [way])
    assert len(set(alone.values())) > 5  # Episodes do differ.
    for workers in (2, 3):
        assert played(pi, POINT, 23, workers, [way]) == alone
    few = played(pi, POINT, 4, 1, [way])
    assert few == {k: v for k, v in alone.items() if k[2] < 4}
    one = played(pi, POINT, 23, 1, [way], who=[1])
    assert one == {k: v for k, v in alone.items() if k[0] == 1}
    monkeypatch.setattr(worlds, "MOST", 20)
    assert played(pi, POINT, 23, 1, [way]) == alone
    # The world vectorised in numpy is the same world.
    assert played(pi, "gtp/MultiGoal-v0", 23, 1, [way]) == alone


def test_members_together_are_one_player_that_acts_by_their_mean(pi):
    """Each with the noise it has alone, so that one member together with nobody is that member."""
    acting, seed = Acting("average", 5), scoring.EVAL_SEED
    obs, active = np.random.default_rng(0).normal(size=(2, 23, 2)).astype(np.float32), np.ones((2, 23), bool)
    both = pi.player(acting, 23, seed)
    one = evaluate.as_one(both, 2, [0, 1])
    apart = both(obs[:1].repeat(2, axis=0), active, 0, 3)
    assert not np.allclose(apart[0], apart[1], atol=0.01)
    np.testing.assert_array_equal(one(obs[:1], active[:1], 0, 3), apart.mean(axis=0, keepdims=True))
    with evaluate.Stage(POINT, 1, 23) as where:
        rows = scoring.score(pi, where, [1], [acting], together=True)
        of_both = scoring.score(pi, where, [0, 1], [acting], together=True)
        (walks,) = where.play(one, seed, [0])
    assert {(row["seed"], row["variant"]) for row in rows} == {(1, "together=1")}
    alone = played(pi, POINT, 23, 1, [acting], who=[1])
    assert {(r["seed"], r["act"], r["episode"]): (r["return"], r["length"]) for r in rows} == alone
    assert {(row["seed"], row["variant"]) for row in of_both} == {(0, "together=2")}
    assert [float(row["return"]) for row in of_both] == [walk.total for walk in walks]
    assert [row["return"] for row in of_both] != [row["return"] for row in rows]


class Recorded:
    """Worlds that show 10·time, end after so many steps, and write down what is done."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths, self.done = np.array(lengths), []

    def reset(self, seeds: list[int]) -> np.ndarray:
        self.done.append([])
        return np.zeros((len(seeds), 1))

    def step(self, actions: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, ...]:
        self.done[-1].append(actions[:, 0].tolist())
        time, none = len(self.done[-1]), np.full(len(actions), np.nan)
        return np.full((len(actions), 1), 10.0 * time), np.ones(len(actions)), time >= self.lengths, none


def test_all_of_an_answer_is_played_before_the_next_is_asked_for():
    """Each answer is what was seen, then 1 and 2 more; an episode may end within it."""
    asked = []

    def act(obs: np.ndarray, active: np.ndarray, first: int, time: int) -> np.ndarray:
        asked.append(time)
        return obs[:, :, None] + np.arange(3.0)[:, None]

    where = Recorded([5, 2])
    player = evaluate.one_by_one(act, 3)
    for _ in range(2):
        (one, two) = evaluate.play(player, where, 0, 0, np.ones((2, 1), bool))
        assert [(e.total, e.length) for e in one + two] == [(5, 5), (2, 2)]
    assert asked == [0, 3, 0, 3]
    assert where.done == 2 * [[[0, 0], [1, 1], [2, 2], [30, 30], [31, 31]]]
    assert evaluate.one_by_one(act, 1) is act


def test_few_robot_arms_are_alive_at_once():
    """Each of OGBench's takes about 150 MB: five members' fifty episodes at once took a machine down."""
    arm = "test/RobotArm-v0"  # Known to gymnasium as OGBench's are, whether that is installed or not.
    gymnasium.register(arm, entry_point="ogbench.manipspace.envs.cube_env:CubeEnv")
    try:
        assert worlds.most_at_once(arm) == 50
        assert worlds.most_at_once("gtp/MultiGoal-v0") == 500
    finally:
        del gymnasium.registry[arm]


def test_an_evaluation_opens_no_more_worlds_than_may_be_alive(pi, monkeypatch):
    asked = []

    def counted(env_id, count, *rest):
        asked.append(count)
        return worlds.open_worlds(env_id, count, *rest)

    monkeypatch.setattr(evaluate, "open_worlds", counted)
    monkeypatch.setattr(worlds, "MOST", 20)
    assert len(played(pi, POINT, 23, 1, [Acting()])) == 2 * 23
    assert asked == [20]


def test_a_policy_acts_alike_in_any_block(pi):
    """The actions themselves, to the last bit: returns alone might hide a difference."""
    obs = np.random.default_rng(1).normal(size=(2, 30, 2)).astype(np.float32)
    act, going = pi.player(Acting("softmax", 5), 30, 5), np.ones((2, 30), bool)
    whole = act(obs, going, 0, 3)
    assert whole.std() > 0.1
    few = pi.player(Acting("softmax", 5), 12, 5)
    np.testing.assert_array_equal(few(obs[:, :12], going[:, :12], 0, 3), whole[:, :12])
    np.testing.assert_array_equal(act(obs[:, 20:], going[:, 20:], 20, 3), whole[:, 20:])
    np.testing.assert_array_equal(act(obs, going & (np.arange(30) >= 20), 0, 3)[:, 20:], whole[:, 20:])
    assert np.abs(act(obs, going, 0, 4) - whole).max() > 0.01


def test_mujoco_worlds_in_workers_are_the_worlds_of_one_process():
    pytest.importorskip("mujoco")
    env, count = "gtp/AntMaze-umaze-v0", 8
    many, one = worlds.open_worlds(env, count, 2), worlds.open_worlds(env, count, 1)
    assert type(many) is not type(one)
    active = np.ones(count, bool)
    actions = np.random.default_rng(0).uniform(-1, 1, (3, count, 8)).astype(np.float32)
    try:
        seeds = list(range(count))
        # Worlds are used again and again: a second reset must not remember the first.
        starts = [w.reset(seeds) for w in (many, one, many, one)]
        for start in starts[1:]:
            np.testing.assert_array_equal(start, starts[0])
        for action in actions:
            for here, there in zip(many.step(action, active), one.step(action, active), strict=True):
                np.testing.assert_array_equal(here[active], there[active])
            active[-1] = False
    finally:
        many.close()
        one.close()


def test_workers_import_no_jax():
    code = "import sys, gtp.envs.workers, gtp.envs.worlds; print('jax' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_a_dead_worker_gives_one_sentence():
    crew = worlds.open_worlds(POINT, 8, 2)
    processes = crew._workers
    processes[1].kill()
    processes[1].wait()
    with pytest.raises(UserError, match=r"^a process that plays in Point-v0 died by signal SIGKILL.*$"):
        crew.reset(list(range(8)))
    crew.close()
    assert all(p.poll() is not None for p in processes)


def test_what_goes_wrong_in_a_worker_is_told():
    gymnasium.register("Broken-v0", "gtp.envs.multigoal:Nothing")
    with pytest.raises(UserError, match=r"^cannot play in Broken-v0: AttributeError: .*Nothing"):
        worlds.open_worlds("Broken-v0", 8, 2)
    del gymnasium.registry["Broken-v0"]


SCRIPT = """
import signal
import gymnasium, numpy as np
from gtp.envs import worlds
# A program started in the background of a shell ignores Ctrl-C, and so would its children.
signal.signal(signal.SIGINT, signal.default_int_handler)
# No guard around the main program: workers must not import it.
gymnasium.register("Point-v0", "gtp.envs.multigoal:MultiGoalEnv")
crew = worlds.open_worlds("Point-v0", 8, 2)
print(*(p.pid for p in crew._workers), flush=True)
while True:
    crew.reset(list(range(8)))
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_its_parent(how):
    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert parent.stdout is not None
    workers = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(workers) == 2
    assert all(alive(pid) for pid in workers)
    parent.send_signal(how)
    parent.communicate(timeout=60)
    end = time.monotonic() + 60
    while any(alive(pid) for pid in workers):
        assert time.monotonic() < end, "a worker is still there"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended but was not asked after does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_an_environment_that_cannot_be_played_is_found_before_training(tmp_path):
    settings = {"data": "toy:multigoal", "steps": 10, "log_every": 10}
    for env, words in (("gtp/MultiGoalPixels-v0", "observations"), ("Nowhere-v0", "Nowhere")):
        with pytest.raises(UserError, match=words):
            run.start(tmp_path / "run", "gtp", agent.Config(), plan.Settings(env=env, **settings), {})
        assert not (tmp_path / "run").exists()


def test_without_ogbench_its_environments_say_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'gtp\[ogbench\]'"):
        worlds.find("cube-nowhere-singletask-task1-v0")


def test_vectors_cannot_be_stacked_even_where_nothing_is_played(tmp_path):
    settings = plan.Settings(data="toy:multigoal", steps=10, log_every=10, frame_stack=2, eval_episodes=0)
    with pytest.raises(UserError, match=r"for pictures.*\(2,\)$"):
        run.start(tmp_path / "run", "gtp", agent.Config(), settings, {})
    assert not (tmp_path / "run").exists()
