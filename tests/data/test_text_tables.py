"""Tables of text: the same log as from arrays, and each mistake told with its line and column."""

import json

import numpy as np
import pytest
from data_helpers import log, write

from gtp import data
from gtp.cli import main
from gtp.data import read_log, text_tables
from gtp.data.text_tables import Columns
from gtp.errors import UserError

ASKED = ["--observations", "temp", "flow", "--actions", "valve", "--rewards", "yield", "--episodes", "batch"]


def lines(*rows, mark=",", header="batch,temp,flow,valve,yield,broke"):
    return "\n".join([header.replace(",", mark), *(mark.join(map(str, row)) for row in rows)]) + "\n"


SOUND = [
    ("B1", 20.5, 1, -8, 0.25, "false"),
    ("B1", 21.5, 2, 8, 0.5, "False"),
    ("B1", 22.5, 3, 8, 0.75, "FALSE"),
    ("B2", 18.0, 4, -8, 1.0, "false"),
    ("B2", 17.0, 5, 8, 1.25, "true"),
]


def converted(tmp_path, text, *more, name="plant.csv"):
    (tmp_path / name).write_text(text, encoding="utf-8")
    done = main(["data", "convert", str(tmp_path / name), str(tmp_path / "plant.npz"), *more])
    return done, tmp_path / "plant.npz"


def test_columns_become_the_arrays_they_are_said_to_be(tmp_path):
    done, path = converted(tmp_path, lines(*SOUND), *ASKED, "--terminals", "broke")
    assert done == 0
    rows = read_log(str(path)).rows
    np.testing.assert_array_equal(rows.observations, [[20.5, 1], [21.5, 2], [22.5, 3], [18, 4], [17, 5]])
    np.testing.assert_array_equal(rows.actions[:, 0], [-8, 8, 8, -8, 8])
    np.testing.assert_array_equal(rows.rewards, [0.25, 0.5, 0.75, 1, 1.25])
    # The first recording was cut, the second ended by breaking.
    np.testing.assert_array_equal(rows.timeouts, [False, False, True, False, False])
    np.testing.assert_array_equal(rows.terminals, [False, False, False, False, True])
    assert data.load(str(path)).size == 4  # What followed the cut was not seen.


@pytest.mark.parametrize(("mark", "name"), [(";", "plant.csv"), ("\t", "plant.tsv")])
def test_marks_between_columns_empty_lines_and_a_byte_order_mark_change_nothing(tmp_path, mark, name):
    _, plain = converted(tmp_path, lines(*SOUND), *ASKED)
    first = read_log(str(plain)).rows
    plain.unlink()
    text = (
        "\ufeff"
        + lines(*SOUND, mark=mark).replace("\n", "\r\n").replace("B2", '"B2"', 1).replace("B1", " B1", 1)
        + "\r\n"
    )
    _, other = converted(tmp_path, text, *ASKED, name=name)
    for one, same in zip(first, read_log(str(other)).rows, strict=True):
        np.testing.assert_array_equal(one, same)


def test_names_that_nobody_asked_for_may_be_odd(tmp_path):
    """Spreadsheets add columns without names; a name may hold a line's end, or a comma between tabs."""
    header = 'batch\ttemp\tflow\tvalve\tyield\tbroke\t"a,b,c,d,e,f,g\nh"\t\t'
    text = lines(*[(*row, "", "", "") for row in SOUND], mark="\t", header=header.replace(",", "\0"))
    done, path = converted(tmp_path, text.replace("\0", ","), *ASKED, name="plant.tsv")
    assert done == 0
    assert len(read_log(str(path)).rows.rewards) == len(SOUND)


def test_patterns_stand_for_columns_and_a_flag_of_its_own_for_ends(tmp_path):
    whole = log(60) | {"timeouts": np.arange(60) % 20 == 9}
    table = np.column_stack([array.astype(float) for array in whole.values()])
    text = lines(*table.tolist(), header="x0,x1,x2,u0,u1,r,end,cut")
    asked = ["--observations", "x*", "--actions", "u*", "--rewards", "r", "--terminals", "end"]
    done, path = converted(tmp_path, text, *asked, "--timeouts", "cut")
    assert done == 0
    same = read_log(write(tmp_path / "arrays.npz", whole)).rows
    for one, other in zip(read_log(str(path)).rows, same, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_mistake_below_the_first_chunk_is_told_with_its_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("gtp.data.text_tables.CHUNK", 2)
    text = lines(*SOUND[:4], ("B2", 17.0, 5, "open", 1, "true"))
    done, path = converted(tmp_path, text, *ASKED)
    assert done == 2
    assert not path.exists()
    assert capsys.readouterr().err.endswith("plant.csv, line 6, column valve: 'open' is no finite number.\n")


@pytest.mark.parametrize(
    ("text", "more", "says"),
    [
        (lines(*SOUND), [], "say which columns are what with --observations, --actions, --rewards, one of"),
        (lines(*SOUND), [*ASKED, "--terminals", "broken"], "no column 'broken'; did you mean broke?"),
        (lines(*SOUND), [*ASKED, "--timeouts", "zzz"], "no column 'zzz'; there are batch, temp, flow"),
        (lines(*SOUND), [*ASKED, "--terminals", "*"], "stands for 6 columns"),
        (lines(*SOUND, ("B3", 1)), ASKED, "line 7: 2 cells, and 6 columns have names"),
        (
            lines(*SOUND, ("B3", "", 1, 1, 1, 1)),
            ASKED,
            "line 7, column temp: an empty cell is no finite number",
        ),
        (lines(*SOUND, ("B3", "nan", 1, 1, 1, 1)), ASKED, "line 7, column temp: 'nan' is no finite number"),
        (
            lines(SOUND[0], ("B1", 1, 1, 1, 1, 2)),
            [*ASKED, "--terminals", "broke"],
            "line 3: terminals: a flag is",
        ),
        (lines(), ASKED, "the log has 0 rows"),
        (lines(*SOUND, header="batch,temp,temp,valve,yield,broke"), ASKED, "2 columns are called 'temp'"),
        ("", ASKED, "no line of names at its top"),
        ("\n" + lines(*SOUND), ASKED, "no line of names at its top"),
        (
            lines(SOUND[0], ("B1", 1, 1, 1, 1, 2)),
            [*ASKED, "--timeouts", "broke"],
            "line 3: timeouts: a flag is",
        ),
        (lines(*SOUND), [*ASKED, "--terminals", "valve"], "column valve is given as two things"),
        (lines(*SOUND, SOUND[0]), ASKED, "line 7: episode 'B1' is there again after another"),
        (lines(*SOUND, ("B3", "1e39", 1, 1, 1, 1)), ASKED, "line 7, column temp: '1e39' is no finite"),
        (lines(*SOUND[:4], ('"B\n2"', "x", 1, 1, 1, 1)), ASKED, "line 7, column temp: 'x' is no finite"),
    ],
)
def test_mistakes_get_one_sentence_and_leave_nothing(tmp_path, capsys, text, more, says):
    done, path = converted(tmp_path, text, *more)
    told = capsys.readouterr()
    assert (done, told.out) == (2, "")
    assert told.err.startswith("gtp: ")
    assert told.err.count("\n") == 1
    assert says in told.err
    assert not path.exists()


def test_mutated_tables_are_read_or_refused(tmp_path):
    """Whatever the bytes, a log or one sentence comes of them."""
    rng, read, refused = np.random.default_rng(0), 0, []
    sound = lines(*SOUND).encode()
    columns = Columns(["temp", "flow"], ["valve"], "yield", "broke", "", "batch")
    for number in range(300):
        content = bytearray(sound)
        for place in rng.integers(len(content), size=rng.integers(1, 4)):
            content[place] = rng.integers(256) if number % 2 else rng.choice(list(b'",;\t\n\r\0 .-e1'))
        (tmp_path / "a.csv").write_bytes(content)
        try:
            rows = text_tables.read(tmp_path / "a.csv", columns).rows
            assert np.isfinite(rows.observations).all()
            read += 1
        except UserError as error:
            refused.append(str(error))
    assert read > 10
    assert len(refused) > 30
    assert not [text for text in refused if "\n" in text or "a.csv" not in text]


def test_bytes_that_are_no_text_and_files_that_are_not_there(tmp_path, capsys):
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00temp,flow\n")
    for name, told in (("a.csv", "cannot be read as a table"), ("b.csv", "there is no such file")):
        assert main(["data", "convert", str(tmp_path / name), str(tmp_path / "c.npz"), *ASKED]) == 2
        assert told in capsys.readouterr().err


def test_columns_are_for_tables_only(tmp_path, capsys):
    source = write(tmp_path / "a.npz", log())
    assert main(["data", "convert", source, str(tmp_path / "b.npz"), *ASKED]) == 2
    assert "is no table" in capsys.readouterr().err


def test_a_table_where_a_data_file_is_wanted_is_answered_with_the_way(tmp_path, capsys):
    (tmp_path / "plant.csv").write_text(lines(*SOUND))
    with pytest.raises(UserError, match="is a table; make a data file of it: gtp data convert"):
        data.load(str(tmp_path / "plant.csv"))
    assert main(["data", "check", str(tmp_path / "plant.csv")]) == 2
    assert "'gtp data convert' makes one of a table" in capsys.readouterr().err


def test_where_it_came_from_is_known(tmp_path, capsys):
    _, path = converted(tmp_path, lines(*SOUND), *ASKED)
    capsys.readouterr()
    assert main(["data", "show", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metadata"]["made"] == "from plant.csv"
