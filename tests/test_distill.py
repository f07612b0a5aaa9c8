"""A student does what its teacher's average does, says whose student it is, and mistakes cost nothing."""

import json

import jax
import numpy as np
import pytest

from gtp import cli, data, distill, policy
from gtp.data.dataset import transitions
from gtp.errors import UserError
from gtp.types import Acting

pytestmark = pytest.mark.xdist_group("distill")
AVERAGE = Acting("average", 50)


def test_every_state_gets_its_own_label_whatever_their_number():
    obs = np.random.default_rng(0).normal(size=(2 * distill.AT_ONCE + 17, 3)).astype(np.float32)
    told, asked = [], []

    def act(given, key):
        asked.append(len(given))
        return 2 * given[:, :2]

    np.testing.assert_array_equal(distill.labels(act, obs, told.append), 2 * obs[:, :2])
    assert told == [distill.AT_ONCE, 2 * distill.AT_ONCE, len(obs)]
    assert asked == [distill.AT_ONCE] * 3


def test_states_are_spread_over_the_whole_log():
    dataset = data.load("toy:multigoal")
    obs = dataset.transitions.obs
    np.testing.assert_array_equal(distill.states(dataset, 2), obs[[0, -1]])
    np.testing.assert_array_equal(distill.states(dataset, dataset.size + 5), obs)
    chosen = distill.states(dataset, 101)
    np.testing.assert_array_equal(chosen[50], obs[round((dataset.size - 1) / 2)])


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """A teacher of two seeds that has learned a little, and a student of the second."""
    folder = tmp_path_factory.mktemp("distill")
    small = ["--agent.hidden", "32", "32", "--agent.sampling-steps", "2", "--agent.actor-lr", "0.001"]
    words = [
        "train",
        "gtp",
        "--data",
        "toy:multigoal",
        "--steps",
        "400",
        "--log-every",
        "200",
        "--seeds",
        "2",
    ]
    assert cli.main([*words, *small, "--eval-episodes", "0", "--out", str(folder / "teacher")]) == 0
    student = ["--out", str(folder / "student"), "--members", "1", "--rows", "3000", "--steps", "4000"]
    more = ["--hidden", "64", "64", "--eval-episodes", "2"]
    assert cli.main(["distill", str(folder / "teacher"), *student, *more]) == 0
    of_both = ["--out", str(folder / "of_both"), "--rows", "3000", "--steps", "4000", *more]
    assert cli.main(["distill", str(folder / "teacher"), *of_both, "--eval-episodes", "0"]) == 0
    return folder


@pytest.mark.usefixtures("optimised")
def test_a_student_is_nearer_to_the_average_than_any_one_sample_is(taught):
    """On states it has not seen, against the average of many more candidates than made its labels."""
    dataset = data.load("toy:multigoal")
    seen = np.linspace(0, dataset.size - 1, 3000).round().astype(int)
    obs = dataset.transitions.obs[np.setdiff1d(np.arange(dataset.size), seen)[::91]]
    teacher, student = policy.load(taught / "teacher"), policy.load(taught / "student")
    aim = np.mean([teacher.act(obs, AVERAGE, member=1) for _ in range(20)], axis=0)
    other = np.mean([teacher.act(obs, AVERAGE, member=0) for _ in range(20)], axis=0)

    def off(actions):
        return np.sqrt(np.mean((actions - aim) ** 2))

    done = student.act(obs)
    np.testing.assert_array_equal(done, student.act(obs))
    assert off(done) < 0.2 * off(teacher.act(obs, member=1))
    # And not of the other teacher.
    assert off(done) < 0.2 * off(other)


@pytest.mark.usefixtures("optimised")
def test_a_student_of_two_does_what_they_do_in_the_mean(taught):
    obs = data.load("toy:multigoal").transitions.obs[::173]
    teacher, student = policy.load(taught / "teacher"), policy.load(taught / "of_both")
    one, other = (
        np.mean([teacher.act(obs, AVERAGE, member=member) for _ in range(20)], axis=0) for member in (0, 1)
    )
    apart, off = (np.sqrt(np.mean((x - (one + other) / 2) ** 2)) for x in (one, student.act(obs)))
    assert off < 0.3 * apart
    assert "labels of gtp, the mean of seeds 0 1, 400 updates" in student.about["provenance"]


def test_teachers_that_act_together_draw_noise_of_their_own(taught):
    """Or the mean of a member with itself would have the noise of one."""
    pi, obs = policy.load(taught / "teacher"), data.load("toy:multigoal").transitions.obs[:1000]
    key = jax.random.key(3)
    alone, twice = (distill.together(pi, Acting(), members)(obs, key) for members in ([0], [0, 0]))
    np.testing.assert_array_equal(alone, pi.act(obs, key=key))
    aim = np.mean([pi.act(obs) for _ in range(50)], axis=0)
    assert np.var(twice - aim) == pytest.approx(np.var(alone - aim) / 2, rel=0.2)


def test_who_teaches(taught):
    pi = policy.load(taught / "teacher")
    assert distill.teachers(pi, ()) == [0, 1]
    assert distill.teachers(pi, (1,)) == distill.teachers(pi, (1, 1)) == [1]
    pi.about["alive"] = [False, True]
    assert distill.teachers(pi, ()) == [1]
    with pytest.raises(UserError, match="member 0, seed 0, diverged in training; 1 did not"):
        distill.teachers(pi, (0, 1))
    pi.about["alive"] = [False, False]
    with pytest.raises(UserError, match="nobody to learn from"):
        distill.teachers(pi, ())
    del pi.about["alive"]
    for label, eta in zip(pi.about["members"], (1.0, 5.0), strict=True):
        label["eta"] = eta
    with pytest.raises(UserError, match=r"differ \(eta=1, eta=5\) and cannot act as one"):
        distill.teachers(pi, ())
    assert distill.teachers(pi, (1,)) == [1]


def test_a_student_says_whose_it_is(taught):
    log = data.read_log(str(taught / "student.npz"))
    made = log.metadata["made"]
    assert "labels of gtp, seed 1, 400 updates, by the average of 50 candidates of 2 jumps" in made
    assert "3000 states of toy:multigoal" in made
    t = transitions(log.rows)
    assert len(t.reward) == 3000
    # Nobody knows what follows, or what it earns.
    assert not t.bootstrap.any()
    assert not t.reward.any()
    content = json.loads((taught / "student" / "config.json").read_text())
    assert content["data"]["metadata"]["made"] == made
    assert content["settings"]["seed"] == 1
    rows = (taught / "student" / "eval.csv").read_text().splitlines()
    assert len(rows) == 1 + 2
    assert made.split(";")[0] in rows[1]


def test_a_student_of_a_hard_choice_learns_the_best_candidate(taught, tmp_path):
    """An average by softmax(Q/T) is the best candidate as T falls, and the labels say so."""
    words = ["--members", "1", "--rows", "40", "--steps", "10", "--eval-episodes", "0"]
    words += ["--out", str(tmp_path / "hard"), "--choice-temperature", "1e-7"]
    assert cli.main(["distill", str(taught / "teacher"), *words]) == 0
    log = data.read_log(str(tmp_path / "hard.npz"))
    assert "seed 1, choice_temperature=1e-07, 400 updates" in log.metadata["made"]
    pi = policy.load(taught / "teacher")
    best = distill.together(pi, Acting("argmax", 50), [1])
    np.testing.assert_allclose(
        log.rows.actions, distill.labels(best, log.rows.observations, print), atol=1e-5
    )
    wrong = ["--out", str(tmp_path / "wrong"), "--choice-temperature", "0"]
    assert cli.main(["distill", str(taught / "teacher"), *wrong]) == 2
    assert not list(tmp_path.glob("wrong*"))


def test_swept_values_and_temperatures_are_named(taught):
    pi = policy.load(taught / "teacher")
    pi.about["members"][1] |= {"eta": 5.0}
    pi.about["config"] |= {"choice_temperature": 0.3}
    pi.about["provenance"] = "regenerated"
    assert distill.origin(pi, 7, Acting("average", 9, 4), [1]) == (
        "labels of gtp, seed 1, eta=5, 400 updates, by the average of 9 candidates of 4 jumps "
        "at temperature 0.3; 7 states of toy:multigoal; regenerated"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["{teacher}", "--out", "{student}"], "exists already"),
        (["{student}", "--out", "{new}"], "acts by single, not by average"),
        (["{teacher}", "--out", "{new}", "--members", "2"], "no member 2; there are 2"),
        (["{teacher}", "--out", "{new}", "--rows", "1"], "--rows must be 2 or more"),
        (["{teacher}", "--out", "{new}", "--steps", "1500"], "--steps must be a multiple of 1000, not 1500"),
        (["{teacher}", "--out", "{new}", "--candidates", "0"], "cannot take 0 candidates"),
        (["{nowhere}", "--out", "{new}"], "there is no run"),
    ],
)
def test_mistakes_get_one_sentence_and_leave_nothing(taught, tmp_path, capsys, words, sentence):
    names = {name: str(taught / name) for name in ("teacher", "student", "nowhere")}
    before = sorted(taught.rglob("*"))
    assert cli.main(["distill", *(word.format(new=tmp_path / "new", **names) for word in words)]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert sentence in said[0]
    assert sorted(taught.rglob("*")) == before
    assert not list(tmp_path.iterdir())


def test_other_data_than_the_teachers_are_refused(taught):
    pi, dataset = policy.load(taught / "teacher"), data.load("toy:multigoal")
    distill.check(pi, dataset)
    pi.about["fingerprint"] = "another"
    with pytest.raises(UserError, match="not what this policy was trained on"):
        distill.check(pi, dataset)
    pi.about |= {"fingerprint": dataset.fingerprint, "frame_stack": 3}
    with pytest.raises(UserError, match="several pictures"):
        distill.check(pi, dataset)


@pytest.mark.usefixtures("optimised")
def test_a_student_of_one_who_plays_several_actions_plays_them_too(tmp_path):
    """Each of its three actions is nearer to the teacher's average than one sample, or another state's."""
    small = ["--agent.hidden", "32", "32", "--agent.sampling-steps", "2", "--agent.actor-lr", "0.001"]
    words = ["train", "gtp", "--data", "toy:multigoal", "--chunk", "3", "--n-step", "3", "--steps", "400"]
    assert (
        cli.main(
            [*words, "--log-every", "200", *small, "--eval-episodes", "0", "--out", str(tmp_path / "teacher")]
        )
        == 0
    )
    student = [
        "--out",
        str(tmp_path / "student"),
        "--rows",
        "3000",
        "--steps",
        "4000",
        "--hidden",
        "64",
        "64",
    ]
    assert cli.main(["distill", str(tmp_path / "teacher"), *student, "--eval-episodes", "2"]) == 0
    obs = data.load("toy:multigoal").transitions.obs[::173]
    teacher, pupil = (policy.load(tmp_path / name) for name in ("teacher", "student"))
    aim = np.mean([teacher.act(obs, AVERAGE) for _ in range(20)], axis=0)
    assert pupil.action_shape == (3, 2) == aim.shape[1:]
    for time in range(3):
        one, done, other = (x[:, time] for x in (teacher.act(obs), pupil.act(obs), pupil.act(obs[::-1])))
        errors = [np.sqrt(np.mean((x - aim[:, time]) ** 2)) for x in (done, one, other)]
        assert errors[0] < 0.3 * min(errors[1:])
    assert len((tmp_path / "student" / "eval.csv").read_text().splitlines()) == 1 + 2
