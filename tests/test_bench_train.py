"""`gtp bench train`: rows and faults; the figures themselves depend on the machine."""

import pytest

from gtp import bench_train, logs
from gtp.cli import main

FAST = ["--steps", "4", "--repeats", "2", "--batch-size", "8", "--rows", "50"]


def test_a_row_for_every_agent_and_number_of_seeds(tmp_path, capsys):
    out = tmp_path / "speed.csv"
    assert main(["bench", "train", "bc", "--seeds", "1", "2", "--out", str(out), *FAST]) == 0
    rows = logs.read(out)
    assert [(r["agent"], r["seeds"], r["sampling_steps"], r["updates"]) for r in rows] == [
        ("bc", "1", "", "8"),
        ("bc", "2", "", "8"),
    ]
    for row in rows:
        assert float(row["seed_updates_per_s"]) == pytest.approx(
            int(row["seeds"]) * float(row["updates_per_s"]), rel=0.01
        )
        assert float(row["updates_per_s"]) >= float(row["slowest_updates_per_s"]) > 0
        assert row["device"]
        assert row["jax"]
    assert "updates/s" in capsys.readouterr().out


def test_k_and_the_baseline_reach_the_agents_that_have_them():
    options = bench_train.Bench(sampling_steps=(2, 5), baseline_samples=3)
    found = [
        (config.sampling_steps, config.baseline_samples, k)
        for config, k in bench_train.configs("gtp", options)
    ]
    assert found == [(2, 3, 2), (5, 3, 5)]
    assert [k for _, k in bench_train.configs("bc", options)] == [""]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such-agent"], "no agent called"),
        (["bc", "--seeds", "0"], "seeds"),
        (["bc", "--out", "no/such/folder/x.csv"], "no folder"),
    ],
)
def test_mistakes_are_told_before_anything_runs(arguments, words, capsys):
    assert main(["bench", "train", *arguments, *FAST]) == 2
    assert words in capsys.readouterr().err


def test_an_unknown_benchmark_is_a_mistake(capsys):
    assert main(["bench", "sleep"]) == 2
    assert "no benchmark" in capsys.readouterr().err
