"""The paper's experiments: every run resolves, one of each kind is run, and nothing is run twice."""

import csv
import dataclasses
import json
from pathlib import Path

import pytest

from gtp import agents, checkpoint, cli, experiment_cells, experiment_times, experiments, logs, presets
from gtp.errors import UserError
from gtp.experiments import Experiment, Method
from gtp.plan import Settings

BC = Method("BC", "bc")


@pytest.mark.parametrize("scale", ["small", "full"])
@pytest.mark.parametrize("name", experiments.EXPERIMENTS)
def test_every_run_of_every_experiment_resolves(name, scale):
    experiment = experiments.find(name)
    planned, missing = experiment_cells.cells(experiment, scale)
    experiment_cells.check(planned)
    absent = [m for m in experiment.methods if m.agent not in agents.NAMES]
    assert len(missing) == len(absent)
    tasks = len(experiment.tasks) if scale == "full" else 1
    assert len(planned) == tasks * (len(experiment.methods) - len(absent))
    folders = {cell.folder(Path("x")) for cell in planned}
    assert len(folders) == len(planned)


def test_full_runs_take_the_papers_settings_and_the_methods_own():
    (ours, linear), _ = experiment_cells.cells(experiments.find("guidance"), "full")
    task = "d4rl:hopper-medium-expert-v2"
    preset = presets.find("gtp", "paper", task)
    assert ours.settings == Settings(data=task, seeds=5, **preset.settings)
    assert {k: getattr(ours.config, k) for k in preset.agent} == preset.agent
    assert linear.config.improvement == "linear"
    assert linear.sweep == {"q_weight": (0.01, 0.1, 1.0)}
    assert linear.config.actor_lr == preset.agent["actor_lr"]


def test_methods_that_are_not_there_are_said(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(experiments.EXPERIMENTS, "x", Experiment("X", (Method("Magic", "magic"),), ("t",)))
    assert cli.main(["experiment", "x", "--scale", "small", "--out", str(tmp_path / "x")]) == 2
    message = capsys.readouterr().err
    assert "Magic is left out: there is no agent magic" in message
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["nothing"], "no experiment"),
        (["eta", "--seeds", "0"], "--seeds"),
        (["eta", "--steps", "-1"], "--steps"),
    ],
)
def test_mistakes(argv, words, capsys):
    assert cli.main(["experiment", *argv]) == 2
    assert words in capsys.readouterr().err


def test_a_picture_with_its_rows_is_made_once(tmp_path, capsys, monkeypatch):
    figure = experiments.EXPERIMENTS["multigoal"]
    monkeypatch.setitem(experiments.EXPERIMENTS, "multigoal", figure._replace(methods=figure.methods[:1]))
    argv = ["experiment", "multigoal", "--scale", "small", "--seeds", "2", "--out", str(tmp_path / "out")]
    assert cli.main([*argv, "--steps", "6"]) == 0
    out = tmp_path / "out"
    assert (out / "multigoal.png").read_bytes().startswith(b"\x89PNG")
    assert set(json.loads((out / "figures.json").read_text())) == {"Gaussian BC"}
    with (out / "summary.csv").open() as file:
        (row,) = csv.DictReader(file)
    rows = logs.read(out / "gaussian-bc" / "toy-multigoal" / "eval.csv")
    means = [sum(float(r["return"]) for r in rows if r["seed"] == seed) / 100 for seed in ("0", "1")]
    assert float(row["last"]) == pytest.approx(sum(means) / 2)
    assert float(row["last_std"]) == pytest.approx(abs(means[0] - means[1]) / 2**0.5)
    assert (row["seeds"], row["step"], row["measure"]) == ("2", "6", "return")
    assert "| Gaussian BC |" in (out / "summary.md").read_text()
    assert "</html>" in (out / "page" / "index.html").read_text()
    # A second time nothing is trained; with other settings nothing is overwritten.
    (out / "multigoal.png").unlink()
    (out / "page" / "index.html").write_text("old")
    monkeypatch.setattr(
        experiment_cells.runs, "go", lambda *_: pytest.fail("a finished run was trained again")
    )
    assert cli.main([*argv, "--steps", "6"]) == 0
    assert (out / "multigoal.png").exists()
    assert "</html>" in (out / "page" / "index.html").read_text()
    capsys.readouterr()
    assert cli.main([*argv, "--steps", "7"]) == 2
    assert "other settings" in capsys.readouterr().err
    assert checkpoint.steps(out / "gaussian-bc" / "toy-multigoal" / "checkpoints") == [6]


def test_an_interrupted_run_goes_on(tmp_path):
    (cell,), _ = experiment_cells.cells(Experiment("X", (BC,), (experiments.TOY,)), "small", 1, 6)
    often = {"log_every": 2, "save_every": 2, "eval_episodes": 0}
    cell = cell._replace(settings=dataclasses.replace(cell.settings, **often))

    class Stop(Exception):
        pass

    def stop(run, step, report):
        if step == 4:
            raise Stop

    with pytest.raises(Stop):
        experiment_cells.perform(cell, tmp_path, stop)
    seen = []
    experiment_cells.perform(cell, tmp_path, lambda run, step, report: seen.append(step))
    assert seen == [6]


def test_costs_are_measured_once(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(experiment_times, "LATENCY_CALLS", 3)
    monkeypatch.setitem(experiments.EXPERIMENTS, "cost", Experiment("Cost", (BC,), ("x",), "cost"))
    argv = ["experiment", "cost", "--scale", "small", "--steps", "3", "--out", str(tmp_path)]
    assert cli.main(argv) == 0
    with (tmp_path / "summary.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert float(row["update_ms"]) > 0
    assert float(row["action_ms"]) > 0
    assert float(row["hours_per_2M_updates"]) == pytest.approx(float(row["update_ms"]) * 2e3 / 3600)
    assert "that of an action for one observation" in (tmp_path / "summary.md").read_text()
    assert "<h2>Times</h2>" in (tmp_path / "page" / "index.html").read_text()
    monkeypatch.setattr(experiment_times, "measure_cost", lambda *_: pytest.fail("measured again"))
    assert cli.main(argv) == 0


def test_score_and_latency_are_drawn_against_k(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment_times, "LATENCY_CALLS", 2)
    methods = tuple(Method(f"K = {k}", "flow_bc", {"sampling_steps": k, "hidden": (8,)}) for k in (1, 2))
    monkeypatch.setitem(experiments.EXPERIMENTS, "k", Experiment("K", methods, ("x",), "steps"))
    argv = ["experiment", "k", "--scale", "small", "--seeds", "1", "--steps", "2", "--out", str(tmp_path)]
    assert cli.main(argv) == 0
    rows = logs.read(tmp_path / "latency.csv")
    assert [row["sampling_steps"] for row in rows] == ["1", "2"]
    assert all(float(row["action_ms"]) > 0 for row in rows)
    page = (tmp_path / "page" / "index.html").read_text()
    assert "flow_bc, trained for each K\nK, jumps from noise to action 2: " in page
    assert "Latency of one action" in page
    assert "K = 2" in page


def test_an_unknown_experiment_is_an_error():
    with pytest.raises(UserError, match="table1"):
        experiments.find("table9")


def test_presets_print_the_experiments(capsys):
    assert cli.main(["presets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("gtp experiment table2 ") for line in lines)
