"""Reports: from rows of episodes to scores that say what they are.

`report_sources` finds and reads the files, `report_lines` turns their rows into lines of a table, and `write`
hands these to the page (`report_page`) and the plain tables (`report_text`), and puts all into one folder.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from gtp import stats
from gtp.errors import UserError
from gtp.report_lines import Report, gather, published_beside
from gtp.report_sources import read


def table_rows(report: Report) -> list[dict[str, str]]:
    """The rows of report.csv: one a line, every number with what it is."""
    found = []
    for task in report.tasks:
        for line in report.of(task):
            last = stats.summary(line.last())
            three, best = stats.summary(line.last_three()), stats.summary(line.best())
            success = line.success()
            theirs = published_beside(report, line)
            found.append(
                {
                    "task": task.name,
                    "data": task.data,
                    "fingerprint": task.fingerprint,
                    "provenance": next(iter(line.rows()))["provenance"],
                    "env": task.env,
                    "physics": task.physics,
                    "method": line.label,
                    "agent": line.method.agent,
                    "variant": line.method.variant,
                    "act": line.way.act,
                    "candidates": str(line.way.candidates),
                    "sampling_steps": line.way.sampling_steps,
                    "weights": line.way.weights,
                    "metric": line.metric,
                    "last_mean": repr(last.mean),
                    "last_std": repr(last.std),
                    "last_iqm": repr(last.iqm),
                    "last_low95": repr(last.interval[0]),
                    "last_high95": repr(last.interval[1]),
                    "last3_mean": repr(three.mean),
                    "last3_std": repr(three.std),
                    "best_mean": repr(best.mean),
                    "best_std": repr(best.std),
                    "success": "" if success is None else repr(float(success.mean())),
                    "seeds": str(last.count),
                    "evaluations": str(line.evaluations),
                    "last_step": str(max(line.last_steps)),
                    "last_rows": str(line.last_rows),
                    "all_rows": str(line.all_rows),
                    "rows_in": "; ".join(str(report.sources[i].file) for i in line.sources),
                    "published": "; ".join(f"{s.text()} ({s.task}, {s.kind}, {s.source})" for s in theirs),
                }
            )
    return found


def to_csv(rows: list[dict[str, str]]) -> str:
    """Rows as the text of a csv file."""
    text = io.StringIO()
    columns = list(dict.fromkeys(key for row in rows for key in row))
    writer = csv.DictWriter(text, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def all_episodes(report: Report) -> list[dict[str, str]]:
    """Every row that was used, with the method's name and the file it came from: rows.csv."""
    return [
        {"method": line.label, "rows_in": "; ".join(str(report.sources[i].file) for i in line.sources)} | row
        for task in report.tasks
        for line in report.of(task)
        for row in line.rows()
    ]


def write(paths: Sequence[Path], out: Path, title: str, labels: Sequence[str] = ()) -> Report:
    """Read runs and rows, and write the report's folder, whole or not at all."""
    if out.exists():
        raise UserError(f"{out} exists already; name another --out")
    report = gather(read(paths, labels), title)
    from gtp import report_page, report_policy, report_text

    files = {
        "index.html": report_page.page(report, report_policy.looks(report)),
        "report.md": report_text.markdown(report),
        "report.tex": report_text.latex(report),
        "report.csv": to_csv(table_rows(report)),
        "rows.csv": to_csv(all_episodes(report)),
    }
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        for name, content in files.items():
            (temporary / name).write_text(content)
        temporary.replace(out)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise UserError(f"cannot write {out}: {error.strerror}") from None
    return report
