"""The score tables of the page, task by task, beside published scores."""

from __future__ import annotations

import numpy as np

from gtp import published, stats
from gtp.report_charts import escape, fixed, ink, interval_bar, limits
from gtp.report_lines import Line, Report, Task, published_beside


def dot(report: Report, line: Line) -> str:
    """The colour of a line."""
    return f'<span class="dot" style="background:{ink(report.colour(line.label))}"></span>'


def episodes_per_seed(line: Line) -> str:
    """How many episodes the last evaluation of a seed had."""
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
            f'<td class="l who">{dot(report, line)}{escape(line.label)}'
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
