"""What the page shows beside scores: times, training metrics, offline scores, pictures of policies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from gtp import published, stats
from gtp.report_charts import Series, escape, flow_picture, histogram, ink, line_chart, number
from gtp.report_figures import figure_box, legend, split_by_colour, who_was_timed
from gtp.report_lines import Method, Report, Way
from gtp.report_policy import SAMPLES, Looks
from gtp.report_sources import Source, variants

SHORT = 12
"""Rows up to which the table of differing settings is open at once."""


POINTS = 200
"""Points of a metric's line; more of them no screen shows."""


DIMENSIONS = 6
"""Dimensions of an action whose histograms are drawn."""


SCALE = (("weight_ess", "Effective sample size of the weights"), ("q_mean", "Mean Q"), ("q_max", "Largest Q"))
"""Metrics drawn first, where an agent logs them."""


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
            body += f'<tr><td class="l">{escape(who_was_timed(row))}</td>'
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
                for apart, panel in split_by_colour(series).items():
                    svg = line_chart(panel, "updates", name, f"{name} on {data}", marks=False)
                    found += figure_box(titles.get(name, name), f"{data}{apart}", svg)
                colours.update({s.name: s.colour for s in series})
        return found

    important, others = boxes(first), boxes(rest)
    text = (
        '<p class="soft">Mean over seeds; bands reach from the lowest to the highest seed. The effective '
        "sample size (Σw)²/Σw² says how many samples of a batch the actor really learns from; a Q that runs "
        f"away from the returns in the data has diverged.</p>{legend(colours)}"
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
        "Among runs of one --chunk the energy score is smallest for the best copy of the data; fqe, where it "
        "was asked for, ranks policies best; a critic's opinion of its own policy (q_policy) ranks "
        "nothing by itself.</p>" + text
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
            boxes += figure_box(f"Action {i}", published.task_name(data), svg)
        more = f" The first {DIMENSIONS} of {size} dimensions are drawn." if size > DIMENSIONS else ""
        extra = '<li><span class="dot" style="background:var(--faint);opacity:.5"></span>data</li>'
        text += (
            f"<h3>Actions in {escape(published.task_name(data))}</h3>"
            f'<p class="soft">At {len(group[0].data):,} observations drawn from the data: what the data did, '
            f"and one sample of each policy (first member of its run).{more}</p>"
            f'{legend(shown, extra)}<div class="charts">{boxes}</div>'
        )
    if looks.flows:
        boxes = ""
        for seen in looks.flows:
            levels = " → ".join(f"{v:.3g}" for v in seen.levels)
            plane = "action dimensions 0 and 1" if seen.dimensions > 1 else "noise left, action right"
            label = _first_label(report, seen.source)
            svg = flow_picture(seen.paths, seen.levels, f"From noise to action, {label}")
            boxes += figure_box(label, f"{plane}; levels {levels}", svg)
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
