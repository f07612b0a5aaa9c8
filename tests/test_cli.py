"""The command line as a user meets it."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import gtp
from gtp import cli, experiment_times, logs
from gtp.errors import UserError

SMALL = ["--agent.hidden", "16", "16", "--agent.sampling-steps", "2", "--agent.baseline-samples", "1"]


def start(*argv: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "gtp.cli", *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def own_arrays(path: Path, **changes) -> Path:
    rng = np.random.default_rng(0)
    arrays = {
        "observations": rng.normal(size=(60, 4)).astype(np.float32),
        "actions": rng.uniform(2, 6, (60, 2)).astype(np.float32),
        "rewards": rng.normal(size=60).astype(np.float32),
        "terminals": np.arange(60) % 20 == 19,
    } | changes
    np.savez(path, **{k: v for k, v in arrays.items() if v is not None})
    return path


COMMON = ["train", "gtp", "--data", "toy:multigoal", "--steps", "600", "--log-every", "20"]
COMMON += ["--batch-size", "32", "--eval-episodes", "0", "--seeds", "2", *SMALL]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nobody interrupts."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    assert cli.main([*COMMON, "--save-every", "40", "--out", str(out)]) == 0
    return out


@pytest.mark.xdist_group("whole")
@pytest.mark.parametrize(
    ("how", "save_every", "sign"), [("SIGKILL", "40", "checkpoints"), ("SIGTERM", "600", "metrics.csv")]
)
def test_a_stopped_run_goes_on_to_the_uninterrupted_parameters(tmp_path, whole, how, save_every, sign):
    out = tmp_path / "stopped"
    process = start(*COMMON, "--save-every", save_every, "--out", str(out))
    while not list(out.glob(f"{sign}/0*" if sign == "checkpoints" else sign)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    os.kill(process.pid, signal.Signals[how])
    said, _ = process.communicate()
    assert not (out / "policy").exists()
    if how == "SIGTERM":  # Asked, not killed: everything up to here is saved.
        assert process.returncode == 143
        assert f"--resume {out}" in said
        last = logs.read(out / "metrics.csv")[-1]["step"]
        assert [int(folder.name) for folder in (out / "checkpoints").iterdir()] == [int(last)]
    assert cli.main(["train", "gtp", "--resume", str(out)]) == 0
    got, want = (load_file(x / "checkpoints" / "000000600" / "arrays.safetensors") for x in (out, whole))
    assert got.keys() == want.keys()
    assert all(np.array_equal(got[name], want[name]) for name in want)
    assert (out / "metrics.csv").read_text() == (whole / "metrics.csv").read_text()


def test_own_arrays_train_and_act_in_their_own_units(tmp_path, capsys):
    data = own_arrays(tmp_path / "my.npz")
    out = tmp_path / "run"
    settings = ["--steps", "40", "--log-every", "20", "--batch-size", "16", "--seeds", "2"]
    assert cli.main(["train", "gtp", "--data", str(data), *settings, "--out", str(out), *SMALL]) == 0
    import gtp

    policy = gtp.load(out)
    action = policy.act(np.zeros(4))
    assert action.shape == (2,)
    many = policy.act(np.zeros((300, 4)), member=1)
    assert many.shape == (300, 2)
    assert many.min() >= 2 - 1e-4
    assert many.max() <= 6 + 1e-4
    assert 3 < many.mean() < 5  # The middle of the data's range, not of [-1, 1].
    with (out / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(r["step"], r["seed"]) for r in rows] == [("20", "0"), ("20", "1"), ("40", "0"), ("40", "1")]
    # There is no environment: the log itself says what it can of the policy.
    scores = {(row["score"], row["act"]) for row in logs.read(out / "offline.csv")}
    assert scores >= {("energy_score", "single"), ("td_error", "softmax"), ("q_policy", "softmax")}
    config = json.loads((out / "config.json").read_text())
    assert config["data"]["transitions"] == 60
    assert config["data"]["fingerprint"]
    # The directory is never overwritten.
    capsys.readouterr()
    assert cli.main(["train", "gtp", "--data", str(data), "--out", str(out)]) == 2
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rewards": None}, "rewards"),
        ({"actions": np.zeros((59, 2), np.float32)}, "59"),
        ({"observations": np.full((60, 4), np.nan, np.float32)}, "observations"),
        ({"terminals": None}, "terminals"),
    ],
)
def test_faulty_arrays_get_one_sentence(tmp_path, capsys, changes, words):
    data = own_arrays(tmp_path / "bad.npz", **changes)
    assert cli.main(["train", "gtp", "--data", str(data), "--out", str(tmp_path / "run")]) == 2
    message = capsys.readouterr().err.strip()
    assert words in message
    assert len(message.splitlines()) == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["nonsense"], "no command"),
        (["train", "nobody"], "no agent"),
        (["train", "gtp", "--data", "toy:nowhere"], "toy"),
        (["train", "gtp", "--data", "toy:multigoal", "--agent.eta", "-1"], "eta must be 0 or more"),
        (["train", "gtp", "--data", "toy:multigoal", "--agent.eta", "1", "nan"], "eta must be 0 or more"),
        (["train", "gtp", "--data", "toy:multigoal", "--steps", "1500"], "multiple"),
        (["train", "gtp", "--data", "toy:multigoal", "--agent.levels-start", "2000"], "levels_end"),
        (["train", "gtp", "--data", "toy:multigoal", "--preset", "paper"], "says nothing"),
        (["train", "bc", "--data", "toy:multigoal", "--preset", "paper"], "no preset"),
        (["train", "gtp", "--resume", "nowhere"], "not a run"),
        (["eval", "nowhere"], "no run"),
        (["presets", "nobody"], "no presets"),
    ],
)
def test_mistakes_get_one_sentence_and_exit_2(argv, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(argv) == 2
    message = capsys.readouterr().err.strip()
    assert words in message
    assert len(message.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("argv", [["train", "gtp", "--data", "toy:multigoal", "--agent.etta", "1"]])
def test_an_unknown_field_is_an_error(argv, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        cli.main(argv)
    assert stop.value.code == 2
    assert list(tmp_path.iterdir()) == []


def test_help_is_the_manual(capsys):
    assert cli.main([]) == 0
    assert "gtp demo" in capsys.readouterr().out
    assert cli.main(["train"]) == 0
    assert "Generative Trajectory Policies" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", "gtp", "--help"])
    assert stop.value.code == 0
    assert "temperature of the advantage weight" in capsys.readouterr().out


def test_eval_repeats_the_episodes_of_training(tmp_path, capsys):
    out = tmp_path / "run"
    settings = ["--steps", "40", "--log-every", "40", "--batch-size", "16", "--eval-episodes", "6"]
    sweep = ["--agent.eta", "0", "1", "--agent.t-max", "20"]
    assert (
        cli.main(["train", "gtp", "--data", "toy:multigoal", *settings, *SMALL, *sweep, "--out", str(out)])
        == 0
    )
    capsys.readouterr()
    assert cli.main(["eval", str(out), "--episodes", "6", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    trained = logs.read(out / "eval.csv")
    assert len(trained) == 2 * 3 * 6
    assert [{k: str(v) for k, v in row.items()} for row in again] == trained
    assert cli.main(["eval", str(out), "--episodes", "4", "--act", "softmax", "--json"]) == 0
    fewer = json.loads(capsys.readouterr().out)
    some = [row for row in trained if row["act"] == "softmax" and int(row["episode"]) < 4]
    assert [{k: str(v) for k, v in row.items()} for row in fewer] == some
    assert {row["act"] for row in trained} == {"single", "softmax", "average"}
    assert {row["sampling_steps"] for row in trained} == {"2"}

    def returns(*words):
        assert cli.main(["eval", str(out), "--episodes", "4", "--json", *words]) == 0
        rows = json.loads(capsys.readouterr().out)
        return {row["variant"] for row in rows}, [row["return"] for row in rows]

    _, best = returns("--act", "argmax")
    variants, hardest = returns("--act", "softmax", "--choice-temperature", "1e-7")
    assert variants == {"eta=0 choice_temperature=1e-07", "eta=1 choice_temperature=1e-07"}
    assert hardest == best
    assert returns("--act", "softmax", "--choice-temperature", "1e7")[1] != best
    assert len(returns("--choice-temperature", "2")[1]) == 2 * 2 * 4  # One sample is not played again.
    for words in (["0"], ["2", "--offline"], ["2", "--act", "argmax"]):
        assert cli.main(["eval", str(out), "--choice-temperature", *words]) == 2
        assert "choice" in capsys.readouterr().err


def test_presets_are_commands_that_parse(capsys):
    assert cli.main(["presets", "gtp"]) == 0
    commands = capsys.readouterr().out.splitlines()
    assert "gtp train gtp --data d4rl:hopper-medium-v2 --preset paper --seeds 5" in commands
    from gtp import agents, config, plan, presets

    for name in agents.NAMES:
        for by_data in presets.presets(name).values():
            for preset in by_data.values():
                config.check(agents.get(name).Config(**preset.agent))
                config.check(plan.Settings(data="x", **preset.settings))


@pytest.mark.parametrize("words", [["presets"], ["--help"], ["eval", "--help"]])
def test_a_reader_who_leaves_is_no_error(words):
    """`gtp presets | head -1`: the pipe has no reader any more when the output comes."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "gtp.cli", *words], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.fixture(scope="module")
def half_diverged(tmp_path_factory):
    """A run whose first member trained and whose second did not bear its learning rate."""
    out = tmp_path_factory.mktemp("runs") / "half"
    words = ["train", "bc", "--data", "toy:multigoal", "--steps", "40", "--log-every", "20", "--agent.hidden"]
    more = ["8", "--agent.actor-lr", "0.001", "1e30", "--eval-episodes", "2", "--out", str(out)]
    assert cli.main([*words, *more]) == 1
    return out


@pytest.mark.xdist_group("half_diverged")
def test_who_diverged_does_not_play_again(half_diverged, capsys):
    """Its last good state is older than the rows would say."""
    first = {row["variant"] for row in logs.read(half_diverged / "eval.csv")}
    assert cli.main(["eval", str(half_diverged), "--episodes", "2", "--json"]) == 0
    said = capsys.readouterr()
    assert {row["variant"] for row in json.loads(said.out)} == first == {"actor_lr=0.001"}
    note = "seed 0 with actor_lr=1e+30 diverged in training and does not play"
    assert " ".join(said.err.split()) == note


@pytest.mark.xdist_group("half_diverged")
def test_members_play_together_without_who_diverged(half_diverged, capsys):
    words = ["eval", str(half_diverged), "--episodes", "2", "--together"]
    assert cli.main([*words, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {(row["seed"], row["variant"]) for row in rows} == {(0, "actor_lr=0.001 together=1")}
    assert cli.main([*words, "--offline"]) == 2
    assert "--together is for episodes" in capsys.readouterr().err


@pytest.mark.xdist_group("half_diverged")
def test_who_diverged_neither_acts_nor_is_exported(half_diverged, tmp_path, capsys):
    policy = gtp.load(half_diverged)
    obs = np.zeros(policy.obs_shape)
    assert np.isfinite(policy.act(obs)).all()
    for what in (obs, obs[None]):
        with pytest.raises(UserError, match="member 1, seed 0, diverged in training; 0 did not"):
            policy.act(what, member=1)
    out = tmp_path / "policy.onnx"
    assert (
        cli.main(["export", str(half_diverged), "--member", "1", "--format", "onnx", "--out", str(out)]) == 2
    )
    assert "diverged in training" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.xdist_group("half_diverged")
def test_where_one_member_serves_it_is_one_that_lives(half_diverged, tmp_path, capsys):
    folder = shutil.copytree(half_diverged, tmp_path / "half")
    meta = folder / "policy" / "meta.json"
    about = json.loads(meta.read_text())
    assert (about["alive"], gtp.load(folder).first) == ([True, False], 0)
    meta.write_text(json.dumps(about | {"alive": [False, True]}))
    policy = gtp.load(folder)
    assert policy.first == 1
    assert experiment_times.action_ms(policy, np.zeros(policy.obs_shape)) > 0
    assert cli.main(["report", str(folder), "--out", str(tmp_path / "page")]) == 0
    assert (
        "diverged in training" not in (tmp_path / "page" / "index.html").read_text() + capsys.readouterr().err
    )
    meta.write_text(json.dumps(about | {"alive": [False, False]}))
    with pytest.raises(UserError, match="every member of this run of bc on toy:multigoal diverged"):
        _ = gtp.load(folder).first
