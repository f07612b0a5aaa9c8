"""The page's figures of scores: methods side by side, over updates, over K, over a swept number."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from gtp import stats
from gtp.report_charts import Series, escape, fixed, ink, limits, line_chart
from gtp.report_lines import Line, Report, Task, aggregate_lines


def split_by_colour(series: Sequence[Series]) -> dict[str, list[Series]]:
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


def legend(colours: dict[str, int], extra: str = "") -> str:
    """Which colour is whose."""
    items = "".join(
        f'<li><span class="dot" style="background:{ink(c)}"></span>{escape(n)}</li>'
        for n, c in colours.items()
    )
    return f'<ul class="legend">{items}{extra}</ul>'


def figure_box(title: str, subtitle: str, svg: str) -> str:
    """A chart under its title."""
    return f"<figure><figcaption>{escape(title)}<span>{escape(subtitle)}</span></figcaption>{svg}</figure>"


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
    for way, chosen in split_by_colour(series).items():
        charts.append(
            figure_box(
                f"Performance profile{way}",
                "share of runs whose last normalised score is higher, 95 % bands",
                line_chart(chosen, "normalised score", "share of runs", "Performance profile", marks=False),
            )
        )
    key = legend({lines[0].label: colours[name] for name, lines in table.items()})
    sentence = (
        f"Last evaluations on {len(tasks)} task{'s' if len(tasks) > 1 else ''} "
        f"({escape(', '.join(tasks))}), every task counting the same. Intervals resample seeds within tasks."
    )
    pictures = f'{key}<div class="charts">{"".join(charts)}</div>'
    return f'<p class="soft">{sentence}</p>{means}{improvement}{pictures}'


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
            for name, panel in split_by_colour(series).items():
                rows = sum(line.all_rows for line in lines)
                svg = line_chart(panel, "updates", unit, f"{task.name}, {way}")
                charts.append(figure_box(f"{task.name}{name}", f"{way}; {rows:,} rows", svg))
            shown |= {line.label: report.colour(line.label) for line in lines}
    if not charts:
        return ""
    return (
        '<p class="soft">Mean over seeds; bands are 95 % bootstrap intervals of it. Only runs that were '
        f'evaluated more than once are here.</p>{legend(shown)}<div class="charts">{"".join(charts)}</div>'
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
    text = f'{legend(shown)}<div class="charts">{"".join(charts)}</div>' if charts else ""
    boxes, timed = "", {}
    for name, series in _latency(report).items():
        svg = line_chart(series, JUMPS, "microseconds", f"latency, {name}", log_x=True)
        boxes += figure_box("Latency of one action", name, svg)
        timed |= {s.name: s.colour for s in series}
    if boxes:
        return text + f'{legend(timed)}<div class="charts">{boxes}</div>'
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
    return f'{legend(shown)}<div class="charts">{"".join(charts)}</div>' if charts else ""


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
        charts.append(figure_box(f"{task.name}: {unit}", words, svg))
    return charts, shown


def who_was_timed(row: dict[str, str]) -> str:
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
                found[name][who_was_timed(row)][steps].append(time)
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
