"""The tables of an experiment, summary.csv and summary.md: their rows, and what their columns are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gtp import logs, report_lines, report_sources, stats
from gtp.experiment_cells import Cell
from gtp.experiment_times import LATENCY_CALLS, LATENCY_ROUNDS

SCORES_ARE = (
    "`last` and `best` are means over seeds of each seed's last and best evaluation, itself the mean of its "
    "episodes (`episodes` counts those of all seeds' last evaluations); `_std` is the standard deviation "
    "over seeds (n − 1). `best` is chosen by its own score and too high by construction. `measure` says what "
    "is scored, `seeds` how many of the `seeds_asked` came to the end of training, `act` and `candidates` "
    "how the policy acted."
)
TIMES_ARE = (
    "`update_ms` is the time of one update of one seed without compilation, `action_ms` that of an action "
    f"for one observation, the lowest of {LATENCY_ROUNDS} medians of {LATENCY_CALLS} calls, both on the "
    "device named and beside whatever else it did."
)
"""What the columns of summary.md are."""


def summarise(root: Path, planned: list[Cell]) -> list[dict[str, Any]]:
    """A row for each run, swept value and way to act, with the numbers that a report has for it."""
    found: list[dict[str, Any]] = []
    for one in planned:
        if not (one.folder(root) / "eval.csv").exists():
            continue
        for line in report_lines.gather([report_sources.read_run(one.folder(root))], "").lines:
            last, best = stats.summary(line.last()), stats.summary(line.best())
            found.append(
                {
                    "method": one.method,
                    "agent": one.agent,
                    "data": one.settings.data,
                    "variant": line.method.variant,
                    "act": line.way.act,
                    "candidates": line.way.candidates,
                    "sampling_steps": line.way.sampling_steps,
                    "weights": line.way.weights,
                    "measure": line.metric,
                    "seeds": sum(step == one.settings.steps for step in line.last_steps),
                    "seeds_asked": one.settings.seeds,
                    "episodes": line.last_rows,
                    "step": max(line.last_steps),
                    "last": last.mean,
                    "last_std": _deviation(last),
                    "best": best.mean,
                    "best_std": _deviation(best),
                }
            )
    return found


def _deviation(summary: stats.Summary) -> float | str:
    """Empty for a single seed, which has none."""
    return summary.std if summary.count > 1 else ""


def write_table(root: Path, title: str, rows: list[dict[str, Any]]) -> None:
    """summary.csv and summary.md, each whole or not at all."""
    for name in ("summary.csv", "summary.md"):
        (root / name).with_suffix(".tmp").unlink(missing_ok=True)
    if rows:
        logs.append(root / "summary.tmp", rows)
        (root / "summary.tmp").replace(root / "summary.csv")
    (root / "summary.tmp").write_text(markdown(title, rows))
    (root / "summary.tmp").replace(root / "summary.md")


def markdown(title: str, rows: list[dict[str, Any]]) -> str:
    """The rows as a Markdown table, without the columns that nobody has anything to say in."""
    shown = [name for name in (rows[0] if rows else {}) if any(str(row[name]) for row in rows)]
    lines = [f"# {title}", ""]
    if shown:
        lines += [TIMES_ARE if "update_ms" in shown else SCORES_ARE, ""]
        lines += ["| " + " | ".join(shown) + " |", "|" + "---|" * len(shown)]
    lines += ["| " + " | ".join(_text(row[name]) for name in shown) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
