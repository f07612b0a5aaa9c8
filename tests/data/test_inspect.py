"""`show` and `check`: the numbers against the log they are of, and each doubt raised by what it is about."""

import json
from pathlib import Path

import numpy as np
import pytest
from data_helpers import SLICES, genuine, log, needs_slices, write

from gtp.cli import main
from gtp.data import catalogue, read_log
from gtp.data.inspect import histogram, summary
from gtp.generate import recipes


def test_the_summary_counts_what_is_there(tmp_path):
    arrays = log(14) | {"timeouts": np.arange(14) == 9}
    facts = summary(read_log(write(tmp_path / "a.npz", arrays)))
    # Ends at rows 3, 7, 9, 11; two rows of an episode that goes on.
    pieces = np.split(arrays["rewards"].astype(np.float32), [4, 8, 10, 12])
    assert [facts[key] for key in ("rows", "episodes", "terminals", "timeouts", "unfinished")] == [
        14,
        5,
        3,
        1,
        1,
    ]
    assert facts["transitions"] == 12
    assert facts["return"]["max"] == pytest.approx(max(piece.sum() for piece in pieces), rel=1e-5)
    assert facts["length"]["mean"] == pytest.approx(14 / 5)
    assert sum(facts["return"]["counts"]) == 5
    assert facts["observation"]["shape"] == [3]
    assert facts["action"]["min"] == pytest.approx(arrays["actions"].min())


def doubts(tmp_path, arrays):
    return summary(read_log(write(tmp_path / "a.npz", arrays)))["suspicions"]


def one_episode(a):
    a["terminals"] = np.zeros(40, bool)


def both(a):
    a["timeouts"] = np.arange(40) == 7


def twice(a):
    a["terminals"][[10, 11, 20]] = True


def timeouts_as_terminals(a):
    a["terminals"] = np.arange(40) % 10 == 9


def broken_succession(a):
    a["next_observations"] = np.roll(a["observations"], -1, axis=0)
    a["next_observations"][13] += 1


def jump(a):
    a["observations"][18:] += 1000


def constant_action(a):
    a["actions"][:, 1] = 0.5


def stuck_action(a):
    a["actions"][:30, 0] = a["actions"][:, 0].max()


def same_reward(a):
    a["rewards"][:] = 0


def constant_feature(a):
    a["observations"][:, 2] = 1


def huge_feature(a):
    a["observations"][:, 0] *= 1e6


DOUBTS = {
    one_episode: "whole log is one episode",
    both: "terminal and time-out at once, row 7 first",
    twice: "follow a terminal row, row 11 first",
    timeouts_as_terminals: "after exactly 10 rows: these are likely time-outs",
    broken_succession: "not the next row's observations, row 13 first",
    jump: "row 17 first: an episode end may be missing",
    constant_action: "Actions never change in dimension 1.",
    stuck_action: "at their bounds in dimension 0.",
    same_reward: "Every reward is 0",
    constant_feature: "never change in feature 2.",
    huge_feature: "in feature 0.",
}


def sound():
    arrays = log(40)
    arrays["terminals"] = np.isin(np.arange(40), [7, 16, 30])
    return arrays


def test_a_sound_log_raises_no_doubt(tmp_path):
    assert doubts(tmp_path, sound()) == []
    assert doubts(tmp_path, sound() | {"rewards": np.full(40, -1.0)}) == [], "a cost for every step is a task"


@pytest.mark.parametrize("change", DOUBTS, ids=lambda change: change.__name__)
def test_each_doubt_is_raised_by_its_cause_alone(tmp_path, change):
    arrays = sound()
    change(arrays)
    [doubt] = doubts(tmp_path, arrays)
    assert DOUBTS[change] in doubt


@needs_slices
def test_missing_antmaze_ends_are_doubted_and_genuine_gym_data_are_not():
    doubted = {
        path.stem: next(
            (text for text in summary(read_log(str(path)))["suspicions"] if "may be missing" in text), None
        )
        for path in SLICES
    }
    found = {stem: text for stem, text in doubted.items() if text}
    antmaze = {
        f"antmaze-{name}-v0" for name in ("large-diverse", "large-play", "medium-play", "umaze-diverse")
    }
    # The hammer that strikes its nail is the one false alarm.
    assert set(found) == antmaze | {"hammer-cloned-v1"}
    assert all("row 1000 first" in found[stem] for stem in antmaze)


def test_bars_are_as_long_as_their_counts():
    lines = histogram([4, 0, 1, 2], [0, 1, 2, 3, 4], width=8)
    assert [line.count("█") for line in lines] == [8, 0, 2, 4]
    assert [line.split()[-1] for line in lines] == ["4", "2", "1", "2"]


def test_show_prints_and_json_is_json(tmp_path, capsys):
    path = write(tmp_path / "[bold]a.npz", log())
    assert main(["data", "show", path]) == 0
    shown = capsys.readouterr().out
    assert "12 (12 transitions)" in shown
    assert "[bold]a.npz" in shown.replace("\n", "")
    assert main(["data", "show", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 12


def test_check_lists_every_fault_and_exits_with_2(tmp_path, capsys):
    arrays = log()
    arrays["observations"][7, 1] = np.nan
    arrays["rewards"] = arrays["rewards"][:-1]
    path = write(tmp_path / "a.npz", arrays)
    assert main(["data", "check", path, "--json"]) == 2
    faults = json.loads(capsys.readouterr().out)["faults"]
    assert [(fault["key"], fault["row"]) for fault in faults] == [("rewards", None), ("observations", 7)]
    assert main(["data", "check", path]) == 2
    shown = capsys.readouterr().out
    assert "observations" in shown
    assert "11 rows where observations has 12" in shown
    assert main(["data", "check", write(tmp_path / "b.npz", log())]) == 0


def test_a_mistake_is_one_line_on_stderr_and_2(tmp_path, capsys):
    for argv in (
        ["show", "nonsense"],
        ["check", str(tmp_path / "no.npz")],
        ["get", "d4rl:no"],
        ["show", "d4rl:no"],
    ):
        assert main(["data", *argv]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1
        assert captured.err.startswith("gtp: ")


def test_a_misspelt_name_is_answered_with_the_nearest(capsys):
    for verb in ("get", "show", "make"):
        assert main(["data", verb, "d4rl:hoper-medium-v2"]) == 2
        assert capsys.readouterr().err.endswith("; did you mean d4rl:hopper-medium-v2?\n")
    assert main(["data", "get", "hopper-medium-v2"]) == 2
    assert capsys.readouterr().err.endswith("; did you mean d4rl:hopper-medium-v2?\n")
    # What can be had but not made is not what somebody meant who wants to make it.
    assert main(["data", "make", "d4rl:hopper-full-replay-v2"]) == 2
    assert "d4rl:hopper-full-replay-v2?" not in capsys.readouterr().err
    assert main(["data", "make", "d4rl:x"]) == 2
    assert capsys.readouterr().err.endswith("; 'gtp data list' shows all there are.\n")


def test_what_the_list_says_can_be_made_is_what_make_makes():
    listed = {spec for spec, entry in catalogue.entries().items() if entry.can_make}
    assert listed == {name for name in recipes.names() if not name.startswith("toy:")}


def test_convert_and_list(tmp_path, capsys):
    assert main(["data", "convert", write(tmp_path / "a.npz", log()), str(tmp_path / "b.hdf5")]) == 0
    assert Path(tmp_path / "b.hdf5").exists()
    assert main(["data", "list", "hopper-medium-v2"]) == 0
    assert "d4rl:hopper-medium-v2" in capsys.readouterr().out


@needs_slices
def test_a_file_put_in_the_data_folder_is_found_by_name(tmp_path, capsys):
    folder = tmp_path / "gtp-data" / "d4rl"
    folder.mkdir(parents=True)
    (folder / "hopper-medium-v2.hdf5").write_bytes(genuine("hopper_medium-v2").read_bytes())
    assert main(["data", "show", "d4rl:hopper-medium-v2", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["env"] == "gtp/Hopper-d4rl-v2"
    assert facts["rows"] == 911
    assert main(["data", "get", "d4rl:hopper-medium-v2"]) == 0
    assert "is on this machine" in capsys.readouterr().out
