"""Reports: numbers against their rows, nothing from a file taken for html, a real browser's opinion."""

import csv
import dataclasses
import html
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import jax
import numpy as np
import pytest

import browser
import retrace
from gtp import cli, data, logs, plan, policy, published, report, report_charts, report_lines, report_sources
from gtp import run as runs
from gtp.agents import gtp as gtp_agent
from gtp.errors import UserError

# One process plays and reports the run that most of these tests look at.
pytestmark = pytest.mark.xdist_group("report")

RESULTS = Path(__file__).parents[1] / "results" / "hopper-medium-200k"
ROW = {
    "agent": "gtp", "data": "d4rl:hopper-medium-v2", "env": "gtp/Hopper-d4rl-v2", "physics": "d4rl",
    "seed": 0, "step": 100, "weights": "online", "act": "single", "candidates": 1,
    "sampling_steps": 5, "return": 1.0,
    "normalised_score": 10.0, "length": 5, "success": "", "episode": 0, "variant": "", "fingerprint": "f",
    "provenance": "",
}  # fmt: skip


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ROW)
        writer.writeheader()
        writer.writerows(ROW | row for row in rows)
    return path


def episodes(scores):
    """Rows from {(seed, step): [score of each episode]}."""
    return [
        {"seed": seed, "step": step, "episode": i, "return": value, "normalised_score": value}
        for (seed, step), values in scores.items()
        for i, value in enumerate(values)
    ]


def gathered(*paths):
    return report_lines.gather(report_sources.read(paths), "A title")


KNOWN = {
    (0, 1): [0.0], (0, 2): [90.0], (0, 3): [30.0], (0, 4): [10.0, 30.0],
    (1, 1): [10.0], (1, 2): [20.0], (1, 3): [30.0], (1, 4): [40.0, 40.0],
}  # fmt: skip


def test_last_mean_of_last_three_and_best_are_what_they_say(tmp_path):
    (line,) = gathered(write_rows(tmp_path / "a.csv", episodes(KNOWN))).lines
    assert line.last().tolist() == [20, 40]
    assert line.last_three() == pytest.approx([140 / 3, 30])
    assert line.best().tolist() == [90, 40]
    assert (line.evaluations, line.last_rows, line.all_rows) == (4, 4, 10)


def test_a_seed_that_stopped_early_counts_with_its_own_last_evaluation(tmp_path):
    scores = {(0, 1): [1.0], (0, 2): [2.0], (1, 1): [5.0]}
    (line,) = gathered(write_rows(tmp_path / "a.csv", episodes(scores))).lines
    assert line.last().tolist() == [2, 5]
    assert line.last_steps == [2, 1]


def test_an_episode_written_twice_counts_once(tmp_path):
    rows = episodes(KNOWN)
    (line,) = gathered(write_rows(tmp_path / "a.csv", rows + rows[:3])).lines
    assert line.all_rows == 10


def test_other_data_physics_acting_and_settings_are_other_lines(tmp_path):
    changes = [{}, {"physics": "stock"}, {"fingerprint": "g"}, {"act": "softmax", "candidates": 50}]
    changes += [{"sampling_steps": 2}, {"weights": "ema"}, {"variant": "eta=0"}, {"agent": "bc"}]
    assert len(gathered(write_rows(tmp_path / "a.csv", changes)).lines) == len(changes)


def test_methods_are_named_as_briefly_as_tells_them_apart(tmp_path):
    def labels(**files):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        for name, rows in files.items():
            write_rows(folder / f"{name.replace('__', '/')}.csv", rows)
        return sorted(line.label for line in gathered(folder).lines)

    assert labels(default=[{}], other=[{"agent": "bc"}]) == ["bc", "gtp"]
    assert labels(default=[{}], expectile=[{}]) == ["gtp · default", "gtp · expectile"]
    # The same settings on another task are the same method.
    assert labels(hopper=[{}], walker=[{"data": "d4rl:walker2d-medium-v2"}]) == ["gtp", "gtp"]
    assert labels(a__rows=[{}], b__rows=[{}]) == ["gtp · a", "gtp · b"]
    both = labels(a__x=[{}], a__y=[{}], b__x=[{}])
    assert both == ["gtp · a/x", "gtp · a/y", "gtp · b/x"]


def test_runs_that_learn_in_other_ways_are_other_methods():
    """Every setting of a run but its data, seeds, environment and what is only watched."""
    watched = {"data", "seeds", "seed", "env", "log_every", "save_every"}
    watched |= {"eval_every", "eval_episodes", "eval_workers"}
    assert report_sources.LEARNT_BY.keys() == {f.name for f in dataclasses.fields(plan.Settings)} - watched

    def identity(**settings):
        return report_sources.Source(Path("run"), "run", [], "", {"settings": settings}).identity

    assert identity(n_step=10) != identity(n_step=1) == identity()
    assert identity(chunk=5) != identity(chunk=1) == identity()
    assert identity(frame_stack=3) != identity(seeds=5) == identity(seed=1)


def test_lines_stand_in_the_order_of_their_numbers(tmp_path):
    rows = [{"variant": f"eta={eta}"} for eta in ("10", "2", "0.5", "20", "1")] + [{"agent": "bc"}]
    made = gathered(write_rows(tmp_path / "a.csv", rows))
    (task,) = made.tasks
    assert [line.method.variant for line in made.of(task)] == [
        "",
        "eta=0.5",
        "eta=1",
        "eta=2",
        "eta=10",
        "eta=20",
    ]
    assert [made.colour(line.label) for line in made.of(task)] == list(range(6))


def test_the_tables_of_all_pages_come_out_of_their_rows():
    """The figures that README and the pages of results state; of one page also as the report reads them."""
    lines = gathered(RESULTS).lines
    found = {(x.label, x.way.act): f"{x.last().mean():.1f} ± {np.std(x.last(), ddof=1):.1f}" for x in lines}
    sys.path.insert(0, str(RESULTS.parent))
    import table

    front = (RESULTS.parents[1] / "README.md").read_text()
    assert table.targets() in front
    assert table.headline() in front
    for path in table.pages():
        assert table.rebuilt(path.read_text()) == path.read_text(), path
    page = (RESULTS / "README.md").read_text()
    for name in ("default", "expectile", "paper_teacher", "weight_clip_4"):
        single, softmax = found[f"gtp · {name}", "single"], found[f"gtp · {name}", "softmax"]
        assert f"| {name} | 5 | 200,000 | 3 × 10 | {single} | {softmax} |" in page


def test_every_folder_of_rows_has_a_page_that_the_index_names():
    index = (RESULTS.parent / "README.md").read_text()
    folders = {path.parent.name for path in RESULTS.parent.glob("*/*.csv")} - {"speed"}
    assert len(folders) > 20
    for folder in folders:
        assert f"({folder}/README.md)" in index, folder
        page = (RESULTS.parent / folder / "README.md").read_text()
        assert f"<!-- rows: {folder} -->" in page or folder in ("cube-starts", "expert-noise"), folder


def test_runs_side_by_side_leave_out_what_ended_before():
    sys.path.insert(0, str(RESULTS.parent))
    import table

    long = {100: {"0": [1.0], "1": [3.0]}, 200: {"0": [2.0], "1": [4.0]}}
    short = {100: {"0": [9.0]}}
    both = table.pooled({"long": long, "again": long, "short": short})
    assert table.seed_means(both[200]) == [2.0, 4.0, 2.0, 4.0]
    assert table.seed_means(both[100]) == [1.0, 3.0, 1.0, 3.0]
    assert table.joined([long, short]) == {100: {"0": [1.0, 9.0], "1": [3.0]}}


def test_kept_rows_say_where_their_data_are_told_of(tmp_path):
    sys.path.insert(0, str(RESULTS.parent))
    import keep

    told = {row["fingerprint"] for row in logs.read(keep.DATASETS)}
    for path in RESULTS.parent.glob("*/*.csv"):
        rows = logs.read(path)
        assert "provenance" not in rows[0], path
        assert {row["fingerprint"] for row in rows if "fingerprint" in row} <= told, path

    source, target, datasets = (tmp_path / name for name in ("eval.csv", "kept.csv", "datasets.csv"))
    made = {"data": "d4rl:x", "fingerprint": "f", "provenance": "long, with a comma"}
    logs.append(source, [made | {"return": "1.5"}, made | {"return": "2.5"}])
    keep.keep(source, target, datasets)
    assert logs.read(datasets) == [made]
    assert [row["return"] for row in logs.read(target)] == ["1.5", "2.5"]
    assert list(logs.read(target)[0]) == ["data", "fingerprint", "return"]
    keep.keep(source, tmp_path / "again.csv", datasets)
    assert logs.read(datasets) == [made]
    with pytest.raises(SystemExit, match="exists already"):
        keep.keep(source, target, datasets)
    with pytest.raises(SystemExit, match="has no rows"):
        keep.keep(tmp_path / "none.csv", tmp_path / "another.csv", datasets)


def test_successes_are_counted_by_distance():
    sys.path.insert(0, str(RESULTS.parent))
    import table

    found = [(0.0, True), (0.2499, False), (0.25, True), (0.35, False), (0.44, True), (0.4, True)]
    assert table.by_distance(found) == ["1 of 2", "1 of 1", "2 of 3", "–"]


def test_the_pictures_of_results_show_the_tables_numbers(tmp_path):
    sys.path.insert(0, str(RESULTS.parent))
    import figures
    import table

    front = (RESULTS.parents[1] / "README.md").read_text()
    lines = {task: table.of_line(line) for task, line in table.TARGETS.items()}
    assert len(lines) == 10
    # Two runs on five tasks each, all with as many episodes: the mean of all is the mean of ten means.
    one_action = "cube-single, five tasks, one action at a time"
    runs, students, target = table.FURTHER[one_action]
    cubes = [
        table.read(RESULTS.parent / folder)[settings, "5"]["softmax"]
        for run in runs
        for folder, settings in run
    ]
    means = [figures.mean_and_spread(task[100_000])[0] for task in cubes]
    assert len(means) == 10
    five = table.of_line(table.FURTHER[one_action])["softmax"]
    assert figures.mean_and_spread(five[100_000])[0] == pytest.approx(np.mean(means))
    assert table.size(five) == "10 × 250"
    assert (len(students), target) == (5, 97)
    for name, ways in lines.items():
        shown = [ways[way] for way in figures.LOOKS if way in ways]
        pairs = [figures.mean_and_spread(one[max(one)]) for one in shown]
        # One policy has no spread.
        cells = [f"{mean:.1f}" + (f" ± {spread:.1f}" if spread else " (one)") for mean, spread in pairs]
        assert f"| {' | '.join(cells)} |" in front, name
    for draw in (figures.draw_scores, figures.draw_curves):
        draw(tmp_path / "drawn.png")
        assert (tmp_path / "drawn.png").read_bytes().startswith(b"\x89PNG")


def test_eta_zero_is_compared_with_behaviour_cloning(tmp_path):
    path = write_rows(tmp_path / "a.csv", [{}, {"variant": "eta=0"}])
    made = gathered(path)
    beside = {x.method.variant: {s.score for s in report_lines.published_beside(made, x)} for x in made.lines}
    assert beside == {"": {90.3}, "eta=0": {83.7}}


@pytest.mark.parametrize(
    ("agent", "options", "name"),
    [
        ("gtp", {"eta": 0.0, "q_weight": 0.01}, "gtp_bc"),
        ("gtp", {"eta": 1.0, "q_weight": 0.01}, "gtp"),
        ("diffusion_ql", {"q_weight": 0.0}, "diffusion_bc"),
        ("consistency_ac", {"q_weight": 0.0}, "consistency_bc"),
        ("td3_bc", {}, "td3_bc"),
    ],
)
def test_clones_go_by_the_names_of_the_papers_table(agent, options, name):
    source = report_sources.Source(Path("run"), "run", [], "", {"config": options, "settings": {}})
    assert report_lines.published_name(report_lines.Method(agent, "", source.identity), [source]) == name
    assert name in {score.agent for score in published.scores()}


def test_latencies_come_in_microseconds(tmp_path):
    (tmp_path / "cost.csv").write_text("agent,sampling_steps,action_ms\ngtp,2,0.5\n")
    (source,) = report_sources.read([tmp_path / "cost.csv"])
    assert source.times
    assert source.rows[0]["microseconds"] == "500.0"


def test_returns_are_never_put_beside_published_scores(tmp_path):
    made = gathered(write_rows(tmp_path / "a.csv", [{"normalised_score": ""}]))
    assert made.lines[0].metric == "return"
    assert report_lines.published_beside(made, made.lines[0]) == []


class Reader(HTMLParser):
    """Checks that tags are closed in order, and collects attributes, links and anchors."""

    VOID = frozenset({"meta", "link", "br"})

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.links, self.ids = [], [], [], set()
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        self.links += [v for k, v in attrs if k in ("href", "src")]
        self.ids |= {v for k, v in attrs if k == "id"}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>&| $body \\input{x}"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of two seeds and two swept values as `gtp train` lays it out, its policies made up.

    Training itself takes longer than all else here and is tested elsewhere.
    """
    folder = tmp_path_factory.mktemp("runs") / "small"
    config = gtp_agent.Config(hidden=(16, 16), sampling_steps=2)
    settings = plan.Settings("toy:multigoal", steps=40, log_every=20, seeds=2)
    begun = runs.start(folder, "gtp", config, settings, {"eta": (1.0, 0.0)})
    labels, agent = begun.members.labels(), gtp_agent.make(config, 40)
    rng, shapes = np.random.default_rng(0), policy.template(agent, begun.about()).params
    params = jax.tree.map(lambda x: rng.uniform(0.1, 0.3, x.shape).astype(x.dtype), shapes)
    policy.save(folder / "policy", params, begun.about() | {"step": 40})
    for step in (20, 40):
        values = [{"weight_ess": rng.uniform(50, 90), "q_mean": rng.normal(), "loss": 1.0} for _ in labels]
        rows = [{"step": step} | x | y for x, y in zip(labels, values, strict=True)]
        logs.append(folder / "metrics.csv", rows)
    for steps in ("2", "1"):
        play = [
            "eval",
            str(folder),
            "--episodes",
            "3",
            "--act",
            "single",
            "--sampling-steps",
            steps,
            "--save",
        ]
        assert cli.main(play) == 0
        earlier = [row | {"step": "20", "return": "-10.0"} for row in logs.read(folder / "eval.csv")]
        if steps == "2":
            logs.append(folder / "eval.csv", earlier)
    return folder


@pytest.fixture(scope="module")
def made(run, tmp_path_factory):
    """The report of that run, of the hopper rows, of measured latencies, and of a hostile file."""
    folder = tmp_path_factory.mktemp("report")
    evil = {"agent": EVIL, "data": EVIL, "env": EVIL, "physics": EVIL, "act": EVIL, "variant": EVIL}
    evil |= {"weights": EVIL, "sampling_steps": EVIL, "fingerprint": EVIL, "provenance": EVIL}
    hostile = write_rows(folder / "evil.csv", [evil, evil | {"seed": 1}])
    latency = folder / "latency.csv"
    latency.write_text(
        "agent,policy,sampling_steps,median_us,device\ngtp,jax,1,20,cpu\ngtp,jax,5,90,cpu\ngtp,numpy,5,200,cpu\n"
    )
    out = folder / "out"
    argv = ["report", str(run), str(RESULTS), str(hostile), str(latency), "--out", str(out), "--title", EVIL]
    assert cli.main(argv) == 0
    return out


def test_the_page_is_whole_and_needs_nothing_else(made):
    page = Reader((made / "index.html").read_text())
    assert not {tag for tag, _ in page.tags} & {"script", "img", "iframe", "object", "embed", "base"}
    for link in page.links:
        ours = link.startswith(("#", "file://", "data:,")) or (made / link).is_file()
        assert ours, link
        assert not link.startswith("#") or link[1:] in page.ids, link
    assert "url(" not in (made / "index.html").read_text()
    headings = re.findall(r"<h2>(.*?)</h2>", (made / "index.html").read_text())
    assert headings == [
        "Scores", "Comparison", "Learning curves", "Sampling steps K", "Swept numbers", "Times", "Training",
        "What the policies do", "What each number is", "Run configurations", "Rows",
    ]  # fmt: skip


def test_what_a_file_says_is_text_and_nothing_else(made):
    text = (made / "index.html").read_text()
    assert "<script" not in text
    assert "<img" not in text
    assert html.escape(EVIL, quote=True) in text
    assert not {k for _, attributes in Reader(text).tags for k in attributes if k.startswith("on")}
    markdown = (made / "report.md").read_text()
    assert "<script" not in markdown.replace("\\<", "")
    table = [line for line in markdown.splitlines() if line.startswith("| ") and "script" in line]
    assert table
    assert all(len(re.findall(r"(?<!\\)\|", line)) in (4, 10) for line in table)
    tex = (made / "report.tex").read_text()
    assert "\\input{x}" not in "\n".join(x for x in tex.splitlines() if not x.startswith("%"))


def test_every_number_of_the_tables_is_what_its_rows_give(made):
    """Of a line last, last three and best with their deviations, IQM, and success where somebody says it."""
    assert retrace.check(made / "index.html") == 8 * 7 + 4 * 8 + 1 * 7


def test_a_wrong_number_is_found(made, tmp_path):
    text = (made / "index.html").read_text()
    (tmp_path / "index.html").write_text(text.replace("<b>88.2</b>", "<b>88.3</b>"))
    assert (tmp_path / "index.html").read_text() != text
    with pytest.raises(AssertionError, match="88"):
        retrace.check(tmp_path / "index.html")


def test_the_csv_says_the_same_as_the_rows(made):
    with (made / "rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    with (made / "report.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 8 + 4 + 1
    for line in table:
        keys = ("method", "data", "act", "candidates", "sampling_steps", "weights")
        chosen = [row for row in rows if all(row[k] == line[k] for k in keys)]
        assert len(chosen) == int(line["all_rows"])
        seeds = {}
        for row in chosen:
            if row["step"] == line["last_step"]:
                seeds.setdefault(row["seed"], []).append(float(row[line["metric"]]))
        means = [np.mean(values) for values in seeds.values()]
        assert float(line["last_mean"]) == pytest.approx(np.mean(means))
        assert float(line["best_mean"]) >= float(line["last_mean"])
        assert float(line["last_low95"]) <= float(line["last_mean"]) <= float(line["last_high95"])


def test_the_same_rows_give_the_same_report(tmp_path):
    for name in ("a", "b"):
        assert cli.main(["report", str(RESULTS), "--out", str(tmp_path / name)]) == 0
    for name in ("report.csv", "report.md", "report.tex", "rows.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_nothing_is_overwritten(tmp_path, capsys):
    (tmp_path / "out").mkdir()
    assert cli.main(["report", str(RESULTS), "--out", str(tmp_path / "out")]) == 2
    assert "exists already" in capsys.readouterr().err
    assert not list((tmp_path / "out").iterdir())


def test_a_report_that_fails_leaves_nothing(tmp_path, monkeypatch):
    from gtp import report_text

    monkeypatch.setattr(report_text, "latex", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        report.write([RESULTS], tmp_path / "out", "x")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": "one"}, "line 2: seed is 'one', not a whole number"),
        ({"return": "nan"}, "line 2: return is 'nan', not a finite number"),
        ({"normalised_score": "high"}, "line 2: normalised_score is 'high'"),
        ({"success": "yes"}, "line 2: success is 'yes'"),
    ],
)
def test_a_bad_row_is_named(tmp_path, change, words):
    with pytest.raises(UserError, match=re.escape(words)):
        report_sources.read([write_rows(tmp_path / "a.csv", [change])])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"x,y\n1,2\n", "no file of episodes"),
        ("a.csv", b"", "no file of episodes"),
        ("a.csv", b"\xff\xfe\x00", "cannot be read as csv"),
        ("run/config.json", b"{", "config.json cannot be read"),
        ("run/config.json", b"[]", "does not describe one"),
        ("run/config.json", b'{"agent": "gtp", "settings": {}}', "does not describe one"),
        ("empty/nothing.txt", b"", "neither a run nor a csv"),
        (None, b"", "there is nothing at"),
    ],
)
def test_what_is_no_run_is_said_in_a_sentence(tmp_path, capsys, name, content, words):
    target = tmp_path / "absent"
    if name:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        target = path if path.suffix == ".csv" else path.parent
    assert cli.main(["report", str(target), "--out", str(tmp_path / "out")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_run_without_episodes_still_shows_its_training(run, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "metrics.csv"):
        (bare / name).write_bytes((run / name).read_bytes())
    assert cli.main(["report", str(bare), "--out", str(tmp_path / "out")]) == 0
    text = (tmp_path / "out" / "index.html").read_text()
    assert "There are no episodes here" in text
    assert "Effective sample size of the weights" in text
    assert "the run has no policy yet" in text


def test_scores_from_data_alone_have_their_table(run, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.json").write_bytes((run / "config.json").read_bytes())
    columns = {
        "agent": "gtp",
        "data": "toy:multigoal",
        "on": "held-out episodes",
        "step": 40,
        "act": "single",
    }
    columns |= {"weights": "online", "candidates": 1, "sampling_steps": 2, "score": "energy_score"}
    rows = [
        columns | {"seed": seed, "value": value, "variant": variant}
        for variant, values in (("eta=1", (0.25, 0.75)), ("eta=0", (3, 5)))
        for seed, value in enumerate(values)
    ]
    logs.append(bare / "offline.csv", rows)
    assert cli.main(["report", str(bare), "--out", str(tmp_path / "out")]) == 0
    text = (tmp_path / "out" / "index.html").read_text()
    table = text.split("Scores without an environment</h2>")[1].split("</section>")[0]
    cells = re.findall(r">([\d.]+) <span class=\"pm\">± ([\d.]+)</span>", table)
    assert cells == [("0.5", "0.35"), ("4", "1.4")]
    (bare / "offline.csv").write_text((bare / "offline.csv").read_text().replace(",0.25", ",low"))
    with pytest.raises(UserError, match="line 2: value is 'low'"):
        report_sources.read([bare])


def bare_run(folder, like, rows, **options):
    """A run without training or policy: a configuration with some options changed, and rows."""
    config = json.loads((like / "config.json").read_text())
    config["config"] |= options
    config["data"] |= {"name": ROW["data"], "fingerprint": ROW["fingerprint"]}
    config |= {"sweep": {}, "members": [{"seed": 0}]}
    write_rows(folder / "eval.csv", rows)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def chart_titles(page):
    """What the marks of all charts say, on one line each."""
    return [html.unescape(x).replace("\n", " ") for x in re.findall(r"<title>(.*?)</title>", page, re.S)]


def test_runs_trained_for_one_k_each_make_a_curve(run, tmp_path):
    for k, score in ((1, 10.0), (2, 40.0), (4, 50.0)):
        row = {"sampling_steps": k, "normalised_score": score}
        bare_run(tmp_path / f"k{k}" / "task", run, [row], sampling_steps=k)
    # Another K than it was trained for, and a run that differs in more than K, are no part of it.
    bare_run(tmp_path / "k1" / "task", run, [row | {"sampling_steps": 1}, row], sampling_steps=1)
    bare_run(tmp_path / "other" / "task", run, [row | {"sampling_steps": 8}], sampling_steps=8, eta=3.0)
    labels = ["One", "Two", "Four", "Other"]
    folders = [tmp_path / name / "task" for name in ("k1", "k2", "k4", "other")]
    made = report.write(folders, tmp_path / "out", "K", labels)
    assert sorted({line.label for line in made.lines}) == sorted(labels)
    marks = [
        t for t in chart_titles((tmp_path / "out" / "index.html").read_text()) if "trained for each" in t
    ]
    name = "gtp, trained for each K"
    where = "K, jumps from noise to action"
    assert marks == [name, f"{name} {where} 1: 50", f"{name} {where} 2: 40", f"{name} {where} 4: 50"]
    page = (tmp_path / "out" / "index.html").read_text()
    assert "<th>One</th><th>Two</th><th>Four</th><th>Other</th>" in page


def test_no_chart_has_two_lines_of_one_colour(tmp_path):
    """With more methods than colours there are more charts."""
    rows = [{"agent": f"a{i}", "step": step, "normalised_score": i} for i in range(15) for step in (1, 2)]
    report.write([write_rows(tmp_path / "a.csv", rows)], tmp_path / "out", "many")
    curves = (
        (tmp_path / "out" / "index.html").read_text().split("Learning curves</h2>")[1].split("</section>")[0]
    )
    charts = [
        re.findall(r'class="line"[^>]* stroke="([^"]*)"', chart) for chart in curves.split("</svg>")[:-1]
    ]
    assert sorted(map(len, charts)) == [3, 12]
    assert all(len(set(colours)) == len(colours) for colours in charts)
    style = (tmp_path / "out" / "index.html").read_text().split("</style>")[0]
    assert all(style.count(f"{colour[4:-1]}:") == 2 for colours in charts for colour in colours)


def test_a_swept_number_has_its_curve(tmp_path):
    rows = [{"variant": f"eta={eta}", "normalised_score": 10 * eta} for eta in (0.5, 2, 10)]
    rows += [{"variant": "eta=x"}, {"variant": "eta=1 tau=2"}]
    report.write([write_rows(tmp_path / "a.csv", rows)], tmp_path / "out", "eta")
    marks = [
        t for t in chart_titles((tmp_path / "out" / "index.html").read_text()) if t.startswith("gtp eta")
    ]
    assert marks == ["gtp eta 0.5: 5", "gtp eta 2: 20", "gtp eta 10: 100"]


def test_measured_times_stand_in_a_table_as_they_are(tmp_path):
    (tmp_path / "cost.csv").write_text(
        "method,agent,sampling_steps,batch_size,update_ms,action_ms,device\n"
        "D-QL,diffusion_ql,5,256,12.25,0.5,cpu\nsolver,gtp,5,256,7.5,0.25,cpu\nGTP,gtp,5,256,5,0.125,cpu\n"
    )
    (tmp_path / "train.csv").write_text(
        "agent,sampling_steps,seeds,updates_per_s,device\ngtp,5,1,3817.5,H200\ngtp,5,5,1687,H200\n"
    )
    assert cli.main(["report", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    text = (tmp_path / "out" / "index.html").read_text()
    assert "There are no scores here" in text
    tables = text.split("<h2>Times</h2>")[1].split("</section>")[0].split("</table>")
    cells = [re.findall(r"<td[^>]*>(?:<a [^>]*>)?([^<]*)", table) for table in tables]
    assert cells[0] == [
        *("D-QL", "5", "256", "500", "12.25", "cpu"),
        *("solver", "5", "256", "250", "7.5", "cpu"),
        *("GTP", "5", "256", "125", "5", "cpu"),
    ]
    assert cells[1] == ["gtp", "5", "1", "3818", "H200", "gtp", "5", "5", "1687", "H200"]
    # Three methods with one K each are no curve over K.
    assert "Latency of one action" not in text


def test_broken_metrics_are_a_sentence(run, tmp_path):
    (tmp_path / "config.json").write_bytes((run / "config.json").read_bytes())
    (tmp_path / "metrics.csv").write_text("step,seed,eta,q_mean\n20,0,1,high\n")
    with pytest.raises(UserError, match="line 2"):
        report_sources.read([tmp_path])


def test_data_that_changed_are_not_compared(run, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    config = json.loads((copy / "config.json").read_text())
    config["data"]["fingerprint"] = "another"
    (copy / "config.json").write_text(json.dumps(config))
    from gtp import report_policy

    looks = report_policy.looks(gathered(copy))
    assert not looks.actions
    assert "changed" in looks.absent[0]


def test_the_flow_picture_ends_in_actions(run):
    from gtp import report_policy

    looks = report_policy.looks(gathered(run))
    (flow,), (actions,) = looks.flows, looks.actions
    assert flow.paths.shape == (3, report_policy.SAMPLES, 2)
    assert flow.levels[-1] == 0
    # Noise at the top level, divided by its scale, has the deviation the data are assumed to have.
    assert flow.paths[0].std() == pytest.approx(0.5, rel=0.1)
    assert np.abs(actions.policy).max() <= 1 + 1e-6
    assert actions.data.shape == actions.policy.shape


def test_of_several_actions_at_once_the_first_is_compared(tmp_path):
    from gtp import report_policy

    words = ["train", "gtp", "--data", "toy:multigoal", "--chunk", "3", "--n-step", "3", "--steps", "20"]
    small = [
        "--agent.hidden",
        "8",
        "--log-every",
        "20",
        "--eval-episodes",
        "0",
        "--out",
        str(tmp_path / "run"),
    ]
    assert cli.main([*words, *small]) == 0
    looks = report_policy.looks(gathered(tmp_path / "run"))
    t = data.load("toy:multigoal").transitions
    rows = np.random.default_rng(0).choice(
        len(t.action), min(report_policy.ROWS, len(t.action)), replace=False
    )
    answers = policy.load(tmp_path / "run").act(t.obs[rows])
    assert answers.shape == (len(rows), 3, 2)
    np.testing.assert_allclose(looks.actions[0].policy, answers[:, 0], atol=1e-6)
    assert np.abs(answers[:, 0] - answers[:, 2]).max() > 0.1
    assert looks.flows[0].dimensions == 6


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (-3, 12, [0, 5, 10]),
        (7, 7, [7]),
        (0, 2e6, [0, 5e5, 1e6, 1.5e6, 2e6]),
    ],
)
def test_ticks_are_round(low, high, expected):
    assert report_charts.ticks(low, high) == pytest.approx(expected)


def test_one_score_and_one_point_can_be_drawn(tmp_path):
    path = write_rows(tmp_path / "a.csv", [{"return": 0, "normalised_score": 0}])
    report.write([path], tmp_path / "out", "one")
    text = (tmp_path / "out" / "index.html").read_text()
    assert not re.search(r"\bnan\b", text)
    assert "one seed has no interval" in text


@pytest.mark.skipif(
    browser.CHROMIUM is None, reason="Chromium is not installed, so no browser looks at the page"
)
def test_a_browser_shows_the_page_in_both_schemes_and_on_a_phone(made, tmp_path):
    tab = browser.Browser(tmp_path / "profile")
    try:
        papers = {}
        for width in (1240, 390):
            for scheme in ("light", "dark"):
                tab.open(made / "index.html", width, scheme)
                assert tab.ask("document.documentElement.scrollWidth") <= width
                papers[scheme] = tab.ask("getComputedStyle(document.body).backgroundColor")
                flat = "[...document.querySelectorAll('svg')].filter(s => s.checkVisibility() && "
                flat += "!(s.getBoundingClientRect().height > 15)).length"
                assert tab.ask(flat) == 0
                # No chart's text leaves its picture.
                out = "[...document.querySelectorAll('figure svg')].filter(s => s.checkVisibility())"
                out += ".flatMap(s => "
                out += "[...s.querySelectorAll('text')].filter(t => { const a = t.getBoundingClientRect(), "
                out += (
                    "b = s.getBoundingClientRect(); return a.left < b.left - 1 || a.right > b.right + 1; })"
                )
                out += ".map(t => t.textContent))"
                assert tab.ask(out) == []
        assert papers["light"] != papers["dark"]
        assert tab.ask("document.title") == EVIL
    finally:
        tab.close()
    complaints = {"Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"}
    assert not [event for event in tab.events if event.get("method") in complaints]
    asked = {
        e["params"]["request"]["url"] for e in tab.events if e.get("method") == "Network.requestWillBeSent"
    }
    assert all(url.startswith("file://") or url == "data:," for url in asked)
