"""The report's tables as Markdown and LaTeX."""

from __future__ import annotations

import re

import numpy as np

from gtp import stats
from gtp.report_lines import Line, Report, Task, published_beside

COLUMNS = (
    "method",
    "acting",
    "last",
    "95 % interval",
    "mean of last 3",
    "best",
    "success",
    "published",
    "seeds × episodes",
)


def cells(report: Report, line: Line) -> list[str]:
    """A line of a table."""
    last, three, best = (stats.summary(x) for x in (line.last(), line.last_three(), line.best()))
    success = line.success()
    each = sorted({len(steps[max(steps)]) for steps in line.episodes.values()})
    low, high = last.interval
    digits = report.digits(line.task)
    return [
        line.label,
        line.way.text(),
        _plus_minus(last, digits),
        f"{low:.{digits}f} to {high:.{digits}f}" if np.isfinite(low) else "–",
        _plus_minus(three, digits),
        _plus_minus(best, digits),
        "–" if success is None else f"{100 * success.mean():.1f} %",
        "; ".join(f"{s.text()} ({s.kind}, {s.source})" for s in published_beside(report, line)) or "–",
        f"{last.count} × {'–'.join(map(str, dict.fromkeys((each[0], each[-1]))))}",
    ]


def _plus_minus(summary: stats.Summary, digits: int) -> str:
    spread = f" ± {summary.std:.{digits}f}" if np.isfinite(summary.std) else ""
    return f"{summary.mean:.{digits}f}{spread}"


def statement(task: Task, lines: list[Line]) -> str:
    """What a task's numbers are."""
    unit = "Normalised score" if all(x.metric == "normalised_score" for x in lines) else "Return"
    provenance = next(iter(lines[0].rows()))["provenance"]
    steps = ", ".join(f"{s:,}" for s in sorted({s for line in lines for s in line.last_steps}))
    return (
        f"{unit}, mean ± standard deviation over seeds, each seed the mean of its episodes. Data {task.data}"
        + (f" ({provenance})" if provenance else "")
        + f", environment {task.env}, physics {task.physics}, after {steps} updates. “Best” is each seed's "
        "highest evaluation, chosen by its score, and too high by construction."
    )


def markdown(report: Report) -> str:
    """report.md."""
    text = f"# {_md(report.title)}\n"
    for task in report.tasks:
        lines = report.of(task)
        text += f"\n## {_md(task.name)}\n\n{_md(statement(task, lines))}\n\n"
        text += f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n"
        text += "".join(f"| {' | '.join(map(_md, cells(report, line)))} |\n" for line in lines)
    text += "\n## Rows\n\n| file | rows | SHA-256 |\n|---|---|---|\n"
    text += "".join(f"| {_md(str(s.file))} | {len(s.rows)} | {s.sha256} |\n" for s in report.sources)
    return text


def _md(text: str) -> str:
    """Text that stays in its cell and stays text."""
    text = re.sub(r"([\\`*_\[\]<>|#&])", r"\\\1", text)
    return re.sub(r"[\r\n]+", " ", text)


def latex(report: Report) -> str:
    """report.tex: a tabular for each task, to be put into a document as it is."""
    text = f"% {_line(report.title)}; made by gtp report\n"
    for task in report.tasks:
        lines = report.of(task)
        text += f"\n% {_line(statement(task, lines))}\n\\begin{{table}}\n\\centering\n"
        text += f"\\begin{{tabular}}{{ll{'r' * (len(COLUMNS) - 4)}lr}}\n\\hline\n"
        text += " & ".join(map(_tex, COLUMNS)) + " \\\\\n\\hline\n"
        text += "".join(" & ".join(map(_tex, cells(report, line))) + " \\\\\n" for line in lines)
        text += f"\\hline\n\\end{{tabular}}\n\\caption{{{_tex(task.name)}. {_tex(statement(task, lines))}}}\n"
        text += "\\end{table}\n"
    return text


TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "×": r"$\times$", "·": r"$\cdot$",
    "–": "--", "“": "``", "”": "''", "η": r"$\eta$", "−": "$-$",
}  # fmt: skip


def _tex(text: str) -> str:
    return "".join(TEX.get(c, c) for c in _line(text))


def _line(text: str) -> str:
    return re.sub(r"[\r\n]+", " ", text)
