"""The report as one html page that needs nothing else: no script, no font, no picture from elsewhere."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from importlib import resources
from string import Template
from typing import Any

import numpy as np

import gtp
from gtp import published, stats
from gtp.report_charts import (
    Series,
    escape,
    fixed,
    flow_picture,
    histogram,
    ink,
    interval_bar,
    limits,
    line_chart,
    number,
)
from gtp.report_lines import Line, Method, Report, Task, Way, aggregate_lines, published_beside
from gtp.report_policy import SAMPLES, Looks
from gtp.report_sources import Source, short_names, variants

POINTS = 200
"""Points of a metric's line; more of them no screen shows."""
DIMENSIONS = 6
"""Dimensions of an action whose histograms are drawn."""

SHORT = 12
"""Rows up to which the table of differing settings is open at once."""

SCALE = (("weight_ess", "Effective sample size of the weights"), ("q_mean", "Mean Q"), ("q_max", "Largest Q"))
"""Metrics drawn first, where an agent logs them."""


WORDS = {
    "last": "each seed's last evaluation, the mean of its episodes; then mean and standard deviation (n − 1) "
    "over seeds.",
    "mean of last 3": "the same with each seed's last three evaluations averaged, or all if there are fewer.",
    "best": "each seed's highest evaluation. It is chosen by looking at the scores themselves, so it is too "
    "high by construction; it equals “last” where there was one evaluation.",
    "normalised score": "100 · (return − random) / (expert − random), with D4RL's reference returns.",
    "IQM": "interquartile mean: the mean of the middle half of the seeds.",
    "95 % interval": "percentile bootstrap over seeds (within tasks), 2,000 resamples, fixed seed. It is too "
    "narrow with few seeds: with three seeds of one task it covers the truth in about three of four cases.",
    "one sample": "the policy's action as drawn; its only one, or its mean, where the agent acts so.",
    "softmax of N": "N actions drawn, one of them chosen at random with odds exp Q of the target critic; "
    "argmax takes the highest Q. This is another policy than one sample.",
    "published": "as printed by the source named in the title. Environment, physics, data, acting rule and "
    "choice of checkpoint behind it are the source's, and often not said.",
}
"""What the words in the tables mean."""


def page(report: Report, looks: Looks) -> str:
    """The whole page."""
    sections = [
        ("scores", "Scores", scores(report)),
        ("comparison", "Comparison", comparison(report)),
        ("curves", "Learning curves", curves(report)),
        ("steps", "Sampling steps K", sampling_steps(report)),
        ("swept", "Swept numbers", swept(report)),
        ("costs", "Times", costs(report)),
        ("training", "Training", training(report)),
        ("offline", "Scores without an environment", offline(report)),
        ("policies", "What the policies do", policies(report, looks)),
        ("meaning", "What each number is", meaning(report)),
        ("settings", "Run configurations", settings(report)),
        ("rows", "Rows", rows(report)),
    ]
    present = [(anchor, name, body) for anchor, name, body in sections if body]
    links = "".join(f'<a href="#{anchor}">{name}</a>' for anchor, name, _ in present)
    body = header(report) + f"<nav>{links}</nav>" + glance(report)
    body += "".join(f'<section id="{a}"><h2>{name}</h2>{text}</section>' for a, name, text in present)
    body += f"<footer>Made by gtp {escape(gtp.__version__)}, {escape(report.made)}.</footer>"
    template = Template((resources.files("gtp") / "report.html").read_text())
    return template.substitute(title=escape(report.title), body=body)


def header(report: Report) -> str:
    """Title, and how much there is."""
    lines = report.lines
    episodes = sum(line.all_rows for line in lines)
    seeds = max((len(line.episodes) for line in lines), default=0)
    facts: dict[str, Any] = {
        "tasks": len(report.tasks),
        "methods": len(set(report.labels.values())),
        "most seeds": seeds,
        "episodes": f"{episodes:,}",
    }
    lead = (
        "Every number comes from rows of single episodes. Rest the pointer on one to see which, or follow it "
        "to their file."
    )
    if all(source.times for source in report.sources):
        facts = {"measurements": sum(len(source.rows) for source in report.sources)}
        lead = (
            "Every number is a measurement, with the file it stands in behind it. There are no scores here."
        )
    cells = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts.items())
    return f'<h1>{escape(report.title)}</h1><p class="lead">{lead}</p><dl class="facts">{cells}</dl>'


def glance(report: Report) -> str:
    """The highest last score of every task, never without what it is."""
    cards = []
    for task in report.tasks:
        line = max(report.of(task), key=lambda x: x.last().mean())
        last, three, best = (stats.summary(x) for x in (line.last(), line.last_three(), line.best()))
        theirs = "; ".join(f"{s.text()} ({s.kind}, {s.source})" for s in published_beside(report, line))
        unit = "normalised score" if line.metric == "normalised_score" else "return"
        each, digits = _episodes_per_seed(line), report.digits(task)
        over = f"± {fixed(last.std, digits)} over {last.count} seeds" if last.count > 1 else "one seed"
        cards.append(
            f'<div class="card"><div class="eyebrow">{escape(task.name)}: highest last {unit}</div>'
            f'<div class="who">{_dot(report, line)}{escape(line.label)}</div>'
            f'<div class="big">{fixed(last.mean, digits)} '
            f"<small>{over}</small></div>"
            f"<p>{escape(line.way.text())}, {each} at update {max(line.last_steps):,}. "
            f"Mean of last three evaluations {fixed(three.mean, digits)}, "
            f"best {fixed(best.mean, digits)}.</p>"
            + (f"<p>Published: {escape(theirs)}.</p>" if theirs else "")
            + "</div>"
        )
    if not cards and all(source.times for source in report.sources):
        return ""
    if not cards:
        return '<p class="note">There are no episodes here: no environment, or no evaluation yet.</p>'
    return f'<div class="glance">{"".join(cards)}</div>'


def _dot(report: Report, line: Line) -> str:
    return f'<span class="dot" style="background:{ink(report.colour(line.label))}"></span>'


def _episodes_per_seed(line: Line) -> str:
    each = sorted({len(steps[max(steps)]) for steps in line.episodes.values()})
    counts = str(each[0]) if len(each) == 1 else f"{each[0]} to {each[-1]}"
    return f"{counts} episode{'s' if counts != '1' else ''} a seed"


def _traced(report: Report, line: Line, text: str, what: str, count: int) -> str:
    """A number linked to its file, saying in its title which rows it is made of."""
    files = ", ".join(str(report.sources[i].file) for i in line.sources)
    where = (
        f"agent={line.method.agent} data={line.task.data} variant={line.method.variant or '–'} "
        f"act={line.way.act} candidates={line.way.candidates} weights={line.way.weights} "
        f"sampling_steps={line.way.sampling_steps or '–'}"
    )
    title = f"{what}\n{count} rows: {where}\nin {files}"
    return f'<a href="#rows-{line.sources[0]}" title="{escape(title)}">{text}</a>'


def scores(report: Report) -> str:
    """A table for each task, ours beside what others published."""
    return "".join(_task_scores(report, task) for task in report.tasks)


def _task_scores(report: Report, task: Task) -> str:
    lines = report.of(task)
    metric = "normalised score" if all(x.metric == "normalised_score" for x in lines) else "return"
    summaries = {id(x): stats.summary(x.last()) for x in lines}
    theirs = {id(x): published_beside(report, x) for x in lines}
    spans = [np.array([s.mean, *s.interval]) for s in summaries.values()]
    spans += [np.array([s.score for s in found]) for found in theirs.values()]
    scale = limits(spans)
    with_success = any(x.success() is not None for x in lines)
    with_published = any(theirs.values())
    digits = report.digits(task)
    span = f"95 % interval ({fixed(scale[0], 0)} to {fixed(scale[1], 0)})"
    head = [("method, and how it acts", "l"), ("last", ""), (span, "l")]
    head += [("published", "l")] if with_published else []
    head += [("mean of last 3", ""), ("best", ""), ("IQM of last", "")]
    head += [("success", "")] if with_success else []
    head += [("seeds × episodes", ""), ("update", "")]
    top = max(s.mean for s in summaries.values())
    body = ""
    for line in lines:
        last = summaries[id(line)]

        def cell(what: str, summary: stats.Summary, count: int, bold: bool = False, line: Line = line) -> str:
            value = f"<b>{fixed(summary.mean, digits)}</b>" if bold else fixed(summary.mean, digits)
            spread = f' <span class="pm">± {fixed(summary.std, digits)}</span>' if summary.count > 1 else ""
            title = f"Mean ± deviation over {summary.count} seed{'s'[: summary.count > 1]} of the {what}"
            text = value + spread
            return f"<td>{_traced(report, line, text, title, count)}</td>"

        def plain(what: str, text: str, line: Line = line) -> str:
            return f"<td>{_traced(report, line, text, f'{what}, last evaluation', line.last_rows)}</td>"

        cells = [
            f'<td class="l who">{_dot(report, line)}{escape(line.label)}'
            f"<small>{escape(line.way.text())}</small></td>",
            cell("last evaluation", last, line.last_rows, last.mean == top),
            f"<td>{_bar(report, line, last, theirs[id(line)], scale)}</td>",
        ]
        if with_published:
            shown = "<br>".join(
                f'<span title="{escape(s.source)}">{s.text()} '
                f'<span class="pm">{escape(_kind(s, task))}</span></span>'
                for s in theirs[id(line)]
            )
            cells.append(f'<td class="l">{shown}</td>')
        cells += [
            cell("mean of the last three evaluations", stats.summary(line.last_three()), line.all_rows),
            cell("best evaluation of each seed", stats.summary(line.best()), line.all_rows),
            plain("Interquartile mean over seeds", fixed(last.iqm, digits)),
        ]
        if with_success:
            success = line.success()
            share = "–" if success is None else f"{100 * success.mean():.1f} %"
            cells.append(plain("Share of successful episodes", share))
        each = sorted({len(steps[max(steps)]) for steps in line.episodes.values()})
        steps = sorted(set(line.last_steps))
        cells += [
            f"<td>{last.count} × {'–'.join(map(str, dict.fromkeys((each[0], each[-1]))))}</td>",
            f"<td>{' to '.join(f'{s:,}' for s in dict.fromkeys((steps[0], steps[-1])))}</td>",
        ]
        body += f"<tr>{''.join(cells)}</tr>"
    columns = "".join(f'<th class="{side}">{escape(name)}</th>' for name, side in head)
    return (
        f"<h3>{escape(task.name)}</h3>"
        f'<p class="soft">{escape(_of_task(task, lines, metric))}</p>'
        f'<div class="scroll"><table><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table></div>'
        f"{_published_table(task, metric)}"
    )


def _of_task(task: Task, lines: list[Line], metric: str) -> str:
    """What a table's numbers are, in two sentences."""
    provenance = next(iter(lines[0].rows()))["provenance"]
    made = f" ({provenance})" if provenance else ""
    return (
        f"{metric.capitalize()} in {task.env}, {task.physics}, from {task.data}{made}. "
        "Mean ± standard deviation over seeds, each seed the mean of its episodes; bars are 95 % intervals "
        "of the last evaluation's mean" + (", diamonds published scores." if metric != "return" else ".")
    )


def _bar(
    report: Report,
    line: Line,
    summary: stats.Summary,
    theirs: list[published.Score],
    scale: tuple[float, float],
) -> str:
    low, high = summary.interval
    ends = f"95 % interval {fixed(low)} to {fixed(high)}"
    interval = ends if np.isfinite(low) else "one seed has no interval"
    others = [(s.score, f"published: {s.text()}, {s.kind}, {s.source}") for s in theirs]
    title = f"{fixed(summary.mean)}, {interval} (bootstrap over {summary.count} seeds)"
    return interval_bar(summary.mean, low, high, scale, report.colour(line.label), others, title)


def _kind(score: published.Score, task: Task) -> str:
    other = "" if score.task == task.name else f" {score.task.rsplit('-', 1)[-1]}"
    return f"{score.kind}{other}"


def _published_table(task: Task, metric: str) -> str:
    """Everything others published for a task, with sources."""
    found = published.for_task(task.data) if metric != "return" else []
    if not found:
        return ""
    body = "".join(
        f'<tr><td class="l">{escape(s.agent)}</td><td class="l">{escape(s.task)}</td><td>{s.text()}</td>'
        f'<td class="l">{s.kind}</td><td class="l wrap">{escape(s.source)}</td></tr>'
        for s in sorted(found, key=lambda s: -s.score)
    )
    head = "".join(
        f'<th class="{side}">{name}</th>'
        for name, side in (
            ("agent", "l"),
            ("task", "l"),
            ("score", ""),
            ("which score", "l"),
            ("source", "l"),
        )
    )
    return (
        f"<details><summary>All {len(found)} published scores of this task</summary>"
        '<p class="soft">“Unstated” means that the source does not say whether it is the last or the best '
        "evaluation of a run; best scores are higher by construction.</p>"
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        "</details>"
    )


def comparison(report: Report) -> str:
    """Aggregates over the tasks all methods share: means, probability of improvement, profiles."""
    table = aggregate_lines(report)
    if len(table) < 2:
        return ""
    scores_of = {name: [line.last() for line in lines] for name, lines in table.items()}
    tasks = [line.task.name for line in next(iter(table.values()))]
    colours = {name: report.colour(lines[0].label) for name, lines in table.items()}
    rows_of = {name: sum(line.last_rows for line in lines) for name, lines in table.items()}

    body = ""
    for name, runs in scores_of.items():
        cells = ""
        for statistic in (stats.mean, stats.iqm):
            low, high = stats.bootstrap(statistic, runs)
            interval = f"{fixed(float(low))} to {fixed(float(high))}"
            cells += (
                f'<td title="over {rows_of[name]} rows of {len(tasks)} task(s), last evaluations">'
                f'{float(statistic(runs)):.1f} <span class="pm">[{interval}]</span></td>'
            )
        count = sum(len(r) for r in runs)
        dot = f'<span class="dot" style="background:{ink(colours[name])}"></span>'
        body += f'<tr><td class="l">{dot}{escape(name)}</td>{cells}<td>{count}</td></tr>'
    # Over one task the mean is what the task's own table says.
    means = (
        ""
        if len(tasks) < 2
        else (
            '<div class="scroll"><table><thead><tr><th class="l">method</th><th>mean</th>'
            f"<th>interquartile mean</th><th>runs</th></tr></thead><tbody>{body}</tbody></table></div>"
        )
    )

    # Columns have the numbers of the rows: names as wide as these would not fit twice.
    names = list(scores_of)
    head = "".join(f'<th title="{escape(name)}">{i}</th>' for i, name in enumerate(names, 1))
    body = ""
    for i, ours in enumerate(names, 1):
        cells = ""
        for theirs in names:
            if ours == theirs:
                cells += "<td>–</td>"
                continue
            pair = scores_of[ours], scores_of[theirs]
            value = float(stats.probability_of_improvement(*pair))
            low, high = (float(v) for v in stats.bootstrap(stats.probability_of_improvement, *pair))
            title = f"{ours} over {theirs}: 95 % interval {fixed(low, 2)} to {fixed(high, 2)}"
            cells += f'<td title="{escape(title)}">{value:.2f}</td>'
        label, way = table[ours][0].label, table[ours][0].way.text()
        who = f'<span class="pm">{i}</span>&ensp;{escape(label)}<small>{escape(way)}</small>'
        body += f'<tr><td class="l who">{who}</td>{cells}</tr>'
    improvement = (
        '<h3>Probability that a run of the row beats one of the column</h3><div class="scroll"><table><thead>'
        f'<tr><th class="l"></th>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )

    low, high = limits([r for runs in scores_of.values() for r in runs])
    thresholds = np.linspace(low, high, 60)
    series = []
    for name, runs in scores_of.items():
        band = stats.bootstrap(
            lambda drawn: stats.performance_profile(drawn, thresholds), runs, resamples=500
        )
        lows, highs = (np.asarray(b) if np.ndim(b) else None for b in band)
        profile = stats.performance_profile(runs, thresholds)
        series.append(Series(name, colours[name], thresholds, profile, lows, highs))
    charts = []
    for way, chosen in _split_by_colour(series).items():
        charts.append(
            _figure_box(
                f"Performance profile{way}",
                "share of runs whose last normalised score is higher, 95 % bands",
                line_chart(chosen, "normalised score", "share of runs", "Performance profile", marks=False),
            )
        )
    legend = _legend({lines[0].label: colours[name] for name, lines in table.items()})
    sentence = (
        f"Last evaluations on {len(tasks)} task{'s' if len(tasks) > 1 else ''} "
        f"({escape(', '.join(tasks))}), every task counting the same. Intervals resample seeds within tasks."
    )
    pictures = f'{legend}<div class="charts">{"".join(charts)}</div>'
    return f'<p class="soft">{sentence}</p>{means}{improvement}{pictures}'


def _split_by_colour(series: Sequence[Series]) -> dict[str, list[Series]]:
    """Series of one colour apart, so that a chart never shows two lines that look the same."""
    panels: list[list[Series]] = []
    for s in series:
        panel = next((p for p in panels if all(ink(x.colour) != ink(s.colour) for x in p)), None)
        if panel is None:
            panels.append(panel := [])
        panel.append(s)
    if len(panels) == 1:
        return {"": panels[0]}
    named = {}
    for panel in panels:
        ways = {s.name.split(", ", 1)[-1] for s in panel}
        named[": " + " / ".join(sorted(ways))] = panel
    return named


def _legend(colours: dict[str, int], extra: str = "") -> str:
    items = "".join(
        f'<li><span class="dot" style="background:{ink(c)}"></span>{escape(n)}</li>'
        for n, c in colours.items()
    )
    return f'<ul class="legend">{items}{extra}</ul>'


def _figure_box(title: str, subtitle: str, svg: str) -> str:
    return f"<figure><figcaption>{escape(title)}<span>{escape(subtitle)}</span></figcaption>{svg}</figure>"


def _series(report: Report, line: Line) -> Series:
    """A line's evaluations over training, with the interval of the mean over seeds."""
    curve = line.curve()
    steps = sorted({step for c in curve.values() for step in c})
    found = []
    for step in steps:
        values = np.array([c[step] for c in curve.values() if step in c])
        low, high = stats.bootstrap(stats.mean, [values])
        found.append((step, values.mean(), float(low), float(high)))
    x, y, low, high = np.array(found).T
    return Series(line.label, report.colour(line.label), x, y, low, high)


def curves(report: Report) -> str:
    """Score against updates, a panel for each task and way to act."""
    charts, shown = [], {}
    for task in report.tasks:
        ways: dict[str, list[Line]] = defaultdict(list)
        for line in report.of(task):
            if line.evaluations > 1:
                ways[line.way.text(steps=False)].append(line)
        for way, lines in ways.items():
            unit = "normalised score" if lines[0].metric == "normalised_score" else "return"
            series = [_series(report, line) for line in lines]
            for name, panel in _split_by_colour(series).items():
                rows = sum(line.all_rows for line in lines)
                svg = line_chart(panel, "updates", unit, f"{task.name}, {way}")
                charts.append(_figure_box(f"{task.name}{name}", f"{way}; {rows:,} rows", svg))
            shown |= {line.label: report.colour(line.label) for line in lines}
    if not charts:
        return ""
    return (
        '<p class="soft">Mean over seeds; bands are 95 % bootstrap intervals of it. Only runs that were '
        f'evaluated more than once are here.</p>{_legend(shown)}<div class="charts">{"".join(charts)}</div>'
    )


JUMPS = "K, jumps from noise to action"

Curves = dict[tuple[str, str, str], dict[float, Line]]
"""(way to act, name, what else tells one curve from another) -> value -> line."""


def sampling_steps(report: Report) -> str:
    """Score, and latency where it was measured, against K."""
    charts, shown = [], {}
    for task in report.tasks:
        groups: Curves = defaultdict(dict)
        for line in report.of(task):
            if not line.way.sampling_steps.isdecimal():
                continue
            steps, way = float(line.way.sampling_steps), line.way.text(steps=False)
            groups[(way, line.label, "")][steps] = line
            # Runs that were trained for one K each, and differ in nothing else, are a curve too.
            source = report.sources[line.sources[0]]
            trained = (source.config or {}).get("config", {}).get("sampling_steps")
            if trained == steps:
                name = f"{line.method.agent}, trained for each K"
                name += f" ({line.method.variant})" if line.method.variant else ""
                groups[(way, name, source.identity_without("sampling_steps"))][steps] = line
        found = _score_charts(report, task, groups, JUMPS)
        charts += found[0]
        shown |= found[1]
    text = f'{_legend(shown)}<div class="charts">{"".join(charts)}</div>' if charts else ""
    boxes, timed = "", {}
    for name, series in _latency(report).items():
        svg = line_chart(series, JUMPS, "microseconds", f"latency, {name}", log_x=True)
        boxes += _figure_box("Latency of one action", name, svg)
        timed |= {s.name: s.colour for s in series}
    if boxes:
        return text + f'{_legend(timed)}<div class="charts">{boxes}</div>'
    return '<p class="soft">No measured latencies are among these files.</p>' + text if text else ""


def swept(report: Report) -> str:
    """Score against a number that a run was swept over."""
    charts, shown = [], {}
    for task in report.tasks:
        by_setting: dict[str, Curves] = defaultdict(lambda: defaultdict(dict))
        for line in report.of(task):
            if single := re.fullmatch(r"(\w+)=(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)", line.method.variant):
                label = line.label.removesuffix(f" ({line.method.variant})")
                curve = (line.way.text(), label, line.method.identity)
                by_setting[single[1]][curve][float(single[2])] = line
        for setting, groups in by_setting.items():
            found = _score_charts(report, task, groups, setting)
            charts += found[0]
            shown |= found[1]
    return f'{_legend(shown)}<div class="charts">{"".join(charts)}</div>' if charts else ""


def _score_charts(
    report: Report, task: Task, groups: Curves, x_label: str
) -> tuple[list[str], dict[str, int]]:
    """Last evaluations against a number: a chart for each way to act, and its legend."""
    panels: dict[str, list[Series]] = defaultdict(list)
    shown: dict[str, int] = {}
    lines = report.of(task)
    unit = "normalised score" if all(x.metric == "normalised_score" for x in lines) else "return"
    for (way, name, _), by_value in groups.items():
        if len(by_value) < 2:
            continue
        at = sorted(by_value)
        summaries = [stats.summary(by_value[x].last()) for x in at]
        low, high = np.array([s.interval for s in summaries]).T
        y = np.array([s.mean for s in summaries])
        colour = report.colour(by_value[at[0]].label)
        panels[way].append(Series(name, colour, np.array(at), y, low, high))
        shown[name] = colour
    charts = []
    for way, series in panels.items():
        positive = all((s.x > 0).all() for s in series)
        svg = line_chart(series, x_label, unit, f"{task.name}: {x_label} against {unit}", log_x=positive)
        words = f"{way}, last evaluation, 95 % intervals"
        charts.append(_figure_box(f"{task.name}: {unit}", words, svg))
    return charts, shown


def _who_was_timed(row: dict[str, str]) -> str:
    """Whose time a row is."""
    who = row.get("method") or row["agent"]
    return f"{who}, {row['policy']}" if row.get("policy") else who


def _latency(report: Report) -> dict[str, list[Series]]:
    """Measured latencies by device and candidates, where something was measured at several K."""
    found: dict[str, dict[str, dict[int, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for source in report.sources:
        for row in source.rows if source.times else ():
            if row["sampling_steps"].isdecimal() and "microseconds" in row:
                words = [
                    row.get("device", ""),
                    f"{row['candidates']} candidates" if row.get("candidates") else "",
                ]
                name = ", ".join(w for w in words if w) or source.name
                steps, time = int(row["sampling_steps"]), float(row["microseconds"])
                found[name][_who_was_timed(row)][steps].append(time)
    everyone = sorted({who for timed in found.values() for who in timed})
    panels = {}
    for name, timed in found.items():
        series = []
        for who, by_k in sorted(timed.items()):
            ks = sorted(by_k)
            y = np.array([float(np.median(by_k[k])) for k in ks])
            series.append(Series(who, everyone.index(who), np.array(ks, float), y))
        if any(len(s.x) > 1 for s in series):
            panels[name] = series
    return panels


TIMES = {
    "sampling_steps": "K",
    "candidates": "candidates",
    "seeds": "seeds at once",
    "batch_size": "batch",
    "microseconds": "one action, µs",
    "update_ms": "one update, ms",
    "updates_per_s": "updates a second",
    "device": "device",
}
"""Columns of the table of times, where any row has them."""


def costs(report: Report) -> str:
    """Every measured time as it stands in its file."""
    text = ""
    for place, source in enumerate(report.sources):
        if not source.times:
            continue
        columns = [name for name in TIMES if any(row.get(name) for row in source.rows)]
        body = ""
        for row in source.rows:
            body += f'<tr><td class="l">{escape(_who_was_timed(row))}</td>'
            for name in columns:
                measured = name in ("microseconds", "update_ms", "updates_per_s") and row.get(name)
                shown = number(float(row[name])) if measured else escape(row.get(name) or "–")
                shown = f'<a href="#rows-{place}">{shown}</a>' if measured else shown
                body += f'<td class="{"l" if name == "device" else ""}">{shown}</td>'
            body += "</tr>"
        head = "".join(f'<th class="{"l" if n == "device" else ""}">{TIMES[n]}</th>' for n in columns)
        table = (
            f'<div class="scroll"><table><thead><tr><th class="l">{escape(source.name)}: who</th>{head}</tr>'
            f"</thead><tbody>{body}</tbody></table></div>"
        )
        many = (
            f"<details><summary>{len(source.rows)} times of {escape(source.name)}</summary>{table}</details>"
        )
        text += table if len(source.rows) <= SHORT else many
    if not text:
        return ""
    words = "Times as measured, on the device named: one action for one observation, one update of one batch."
    return f'<p class="soft">{words}</p>{text}'


def _metric_series(report: Report, name: str) -> dict[str, list[Series]]:
    """A metric of every run over training, by task: mean over seeds, with the range of them."""
    panels: dict[str, list[Series]] = defaultdict(list)
    for source in report.sources:
        if not source.metrics or name not in source.metrics[0]:
            continue
        config = source.config or {}
        swept = list(config.get("sweep") or {})
        data = published.task_name(str(config["settings"]["data"]))
        for variant in variants(source):
            table: dict[int, list[float]] = defaultdict(list)
            for row in source.metrics:
                label = " ".join(f"{n}={float(row[n]):g}" for n in swept)
                if label == variant and row[name] not in ("", None):
                    value = float(row[name])
                    if np.isfinite(value):
                        table[int(row["step"])].append(value)
            if not table:
                continue
            steps = sorted(table)
            steps = steps[:: max(1, len(steps) // POINTS)]
            label = report.labels[Method(str(config["agent"]), variant, source.identity)]
            panels[data].append(
                Series(
                    label,
                    report.colour(label),
                    np.array(steps, float),
                    np.array([np.mean(table[s]) for s in steps]),
                    np.array([np.min(table[s]) for s in steps]),
                    np.array([np.max(table[s]) for s in steps]),
                )
            )
    return panels


def training(report: Report) -> str:
    """Effective sample size and Q scale first, all other metrics behind a fold."""
    logged = dict.fromkeys(name for source in report.sources if source.metrics for name in source.metrics[0])
    swept = {n for source in report.sources for n in (source.config or {}).get("sweep") or {}}
    first = [name for name, _ in SCALE if name in logged]
    rest = [n for n in logged if n not in {"step", "seed", *swept, *first}]
    if not logged:
        return ""
    titles, colours = dict(SCALE), {}

    def boxes(names: Iterable[str]) -> str:
        found = ""
        for name in names:
            for data, series in _metric_series(report, name).items():
                for apart, panel in _split_by_colour(series).items():
                    svg = line_chart(panel, "updates", name, f"{name} on {data}", marks=False)
                    found += _figure_box(titles.get(name, name), f"{data}{apart}", svg)
                colours.update({s.name: s.colour for s in series})
        return found

    important, others = boxes(first), boxes(rest)
    text = (
        '<p class="soft">Mean over seeds; bands reach from the lowest to the highest seed. The effective '
        "sample size (Σw)²/Σw² says how many samples of a batch the actor really learns from; a Q that runs "
        f"away from the returns in the data has diverged.</p>{_legend(colours)}"
    )
    text += f'<div class="charts">{important}</div>' if important else ""
    if others:
        text += (
            f'<details><summary>All other metrics</summary><div class="charts small">{others}</div></details>'
        )
    return text


def offline(report: Report) -> str:
    """What runs were found to be worth from data alone, a table for each dataset."""
    tables: dict[str, dict[tuple[str, str, str], dict[str, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    files: dict[tuple[str, str, str], tuple[int, Source]] = {}
    for place, source in enumerate(report.sources):
        last = max((int(row["step"]) for row in source.offline), default=0)
        for row in source.offline:
            if int(row["step"]) != last:
                continue
            method = Method(row["agent"], row["variant"], source.identity)
            label = report.labels.get(method, row["agent"])
            way = Way(int(row["candidates"]), row["act"], row["sampling_steps"], row["weights"]).text()
            key = (label, way, row["on"])
            tables[str((source.config or {})["data"]["name"])][key][row["score"]].append(float(row["value"]))
            files[key] = (place, source)
    text = ""
    for data, lines in tables.items():
        names = list(dict.fromkeys(name for scores in lines.values() for name in scores))
        body = ""
        for key, scores in lines.items():
            label, way, on = key
            place, source = files[key]
            known = label in report.labels.values()
            dot = f'<span class="dot" style="background:{ink(report.colour(label) if known else 7)}"></span>'
            body += (
                f'<tr><td class="l who">{dot}{escape(label)}<small>{escape(way)}, {escape(on)}</small></td>'
            )
            for name in names:
                if name not in scores:
                    body += "<td>–</td>"
                    continue
                values = np.array(scores[name])
                where = source.path / "offline.csv"
                title = f"{name}: mean ± deviation over {len(values)} rows of {where}"
                spread = f'<span class="pm">± {stats.std(values):.2g}</span>' if len(values) > 1 else ""
                shown = f"{number(float(values.mean()))} {spread}"
                body += f'<td><a href="#rows-{place}" title="{escape(title)}">{shown}</a></td>'
            body += "</tr>"
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        text += (
            f"<h3>{escape(published.task_name(data))}</h3>"
            f'<div class="scroll"><table><thead><tr><th class="l">method, and how it acts</th>{head}</tr>'
            f"</thead><tbody>{body}</tbody></table></div>"
        )
    if not text:
        return ""
    return (
        '<p class="soft">Taken from data alone at the end of each run; mean ± standard deviation over seeds. '
        "The energy score is smallest for the best copy of the data; fqe, where it was asked for, ranks "
        "policies best; a critic's opinion of its own policy (q_policy) ranks nothing by itself.</p>" + text
    )


def policies(report: Report, looks: Looks) -> str:
    """Actions beside the data's, and noise on its way to an action."""
    text = ""
    groups: dict[str, list] = defaultdict(list)
    for seen in looks.actions:
        groups[seen.fingerprint].append(seen)
    for group in groups.values():
        config: dict[str, Any] = group[0].source.config or {}
        data, size = str(config["settings"]["data"]), group[0].data.shape[1]
        drawn = [(_first_label(report, s.source), s.policy) for s in group]
        shown = {label: report.colour(label) for label, _ in drawn}
        boxes = ""
        for i in range(min(size, DIMENSIONS)):
            values = [(label, report.colour(label), actions[:, i]) for label, actions in drawn]
            svg = histogram(group[0].data[:, i], values, f"Actions of {data}, dimension {i}")
            boxes += _figure_box(f"Action {i}", published.task_name(data), svg)
        more = f" The first {DIMENSIONS} of {size} dimensions are drawn." if size > DIMENSIONS else ""
        extra = '<li><span class="dot" style="background:var(--faint);opacity:.5"></span>data</li>'
        text += (
            f"<h3>Actions in {escape(published.task_name(data))}</h3>"
            f'<p class="soft">At {len(group[0].data):,} observations drawn from the data: what the data did, '
            f"and one sample of each policy (first member of its run).{more}</p>"
            f'{_legend(shown, extra)}<div class="charts">{boxes}</div>'
        )
    if looks.flows:
        boxes = ""
        for seen in looks.flows:
            levels = " → ".join(f"{v:.3g}" for v in seen.levels)
            plane = "action dimensions 0 and 1" if seen.dimensions > 1 else "noise left, action right"
            label = _first_label(report, seen.source)
            svg = flow_picture(seen.paths, seen.levels, f"From noise to action, {label}")
            boxes += _figure_box(label, f"{plane}; levels {levels}", svg)
        text += (
            "<h3>From noise to action</h3>"
            f'<p class="soft">{SAMPLES} samples at the first observation of the data, on their way down the '
            "noise levels in K jumps, each level scaled to its own spread. Faint dots are noise, strong dots "
            f'actions; the colour is where a sample ends.</p><div class="charts">{boxes}</div>'
        )
    if looks.absent and text:
        items = "".join(f"<li>{escape(why)}</li>" for why in looks.absent)
        text += f'<details><summary>What is not drawn</summary><ul class="soft">{items}</ul></details>'
    elif looks.absent:
        text = f'<p class="note">{escape("; ".join(looks.absent))}.</p>'
    return text


def _first_label(report: Report, source: Source) -> str:
    """The name of a run's first member."""
    config = source.config or {}
    return report.labels[Method(str(config["agent"]), variants(source)[0], source.identity)]


def meaning(report: Report) -> str:
    """A plain statement of what is measured, and how."""
    if not report.lines:
        return ""
    items = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in WORDS.items())
    text = f'<dl class="plain">{items}</dl>'
    for task in report.tasks:
        lines = report.of(task)
        provenance = next(iter(lines[0].rows()))["provenance"] or "provenance not recorded in these rows"
        steps = sorted({s for line in lines for s in line.last_steps})
        seeds = sorted({len(line.episodes) for line in lines})
        facts = {
            "data": f"{task.data}; {provenance}; fingerprint {task.fingerprint[:16] or 'not recorded'}",
            "environment": f"{task.env}, physics {task.physics}",
            "acting": "; ".join(sorted({line.way.text() for line in lines})),
            "weights": ", ".join(sorted({line.way.weights for line in lines})),
            "seeds": " or ".join(map(str, seeds)),
            "evaluations": " or ".join(map(str, sorted({line.evaluations for line in lines}))) + " a seed",
            "updates": ", ".join(f"{s:,}" for s in steps),
            "episodes": " or ".join(sorted({_episodes_per_seed(line) for line in lines}))
            + " at the last evaluation",
        }
        items = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())
        text += f'<h3>{escape(task.name)}</h3><dl class="plain">{items}</dl>'
    return text


def settings(report: Report) -> str:
    """How runs differ, then each in full."""
    runs = [source for source in report.sources if source.config is not None]
    if not runs:
        return ""
    names = short_names(runs)
    flat = [_flat(source.config or {}) for source in runs]
    keys = dict.fromkeys(k for f in flat for k in f)
    differing = [k for k in keys if len({f.get(k) for f in flat}) > 1]
    text = ""
    if len(runs) > 1 and differing:
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        body = "".join(
            f'<tr><td class="l mono">{escape(k)}</td>'
            + "".join(f"<td>{escape(f.get(k, '–'))}</td>" for f in flat)
            + "</tr>"
            for k in differing
        )
        text += (
            f"<details{' open' if len(differing) <= SHORT else ''}>"
            f"<summary>{len(differing)} setting{'s'[: len(differing) > 1]} in which the {len(runs)} runs "
            "differ</summary>"
            f'<div class="scroll"><table><thead><tr><th class="l">setting</th>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div></details>"
        )
    for name, source in zip(names, runs, strict=True):
        whole = json.dumps(source.config, indent=2, ensure_ascii=False)
        fold = f"<pre>{escape(whole)}</pre>"
        text += f"<details><summary>{escape(name)}: config.json</summary>{fold}</details>"
    return text


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as `settings.steps`; members and metadata are not settings."""
    found: dict[str, str] = {}
    for key, value in config.items():
        if key in ("members", "metadata", "sweep"):
            continue
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            found[prefix + key] = text if len(text) <= 40 else f"{text[:37]}…"
    return found


def rows(report: Report) -> str:
    """The files behind every number."""
    body, names = "", short_names(report.sources)
    for place, source in enumerate(report.sources):
        path = os.path.abspath(source.file)
        kind = "measurement" if source.times else "episode"
        body += (
            f'<tr id="rows-{place}"><td class="l">{escape(names[place])}</td>'
            f'<td class="l wrap mono"><a href="{escape("file://" + path)}">{escape(source.file)}</a></td>'
            f'<td>{len(source.rows):,}</td><td class="l">{kind}</td>'
            f'<td class="l mono" title="{escape(source.sha256)}">{escape(source.sha256[:16] or "–")}</td>'
            "</tr>"
        )
    head = (
        '<th class="l">source</th><th class="l">file</th><th>rows</th><th class="l">one row is</th>'
        '<th class="l">SHA-256</th>'
    )
    return (
        '<p class="soft">One row is one episode (or one measurement). All rows used are also in '
        '<a href="rows.csv">rows.csv</a>, the tables in <a href="report.csv">report.csv</a>, '
        '<a href="report.md">report.md</a> and <a href="report.tex">report.tex</a>.</p>'
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )
