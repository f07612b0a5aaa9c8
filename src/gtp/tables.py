"""Tables for the terminal."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from gtp import stats


def evaluation_table(rows: list[dict[str, Any]]) -> Table:
    """Mean ± deviation over episodes, a line for each member and way to act."""
    first = rows[0]
    about = f"{first['agent']} on {first['data']}, update {first['step']}"
    table = Table(
        title=f"{about}\n{first['env']}, {first['physics']}",
        caption="mean ± standard deviation over episodes",
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
    )
    keys = ("variant", "seed", "weights", "act", "candidates", "sampling_steps")
    groups = [(key, list(g)) for key, g in groupby(rows, key=lambda row: tuple(str(row[k]) for k in keys))]
    lines = [_line(key, episodes) for key, episodes in groups]
    # A column nobody has anything to say in is left out.
    shown = [name for name in lines[0] if any(line[name] for line in lines)]
    for name in shown:
        table.add_column(name, justify="left" if name == "acting" else "right", no_wrap=True)
    for line in lines:
        table.add_row(*(line[name] for name in shown))
    return table


def offline_table(rows: list[dict[str, Any]]) -> Table:
    """Offline scores, a line each, mean ± deviation over seeds; a column for each set of swept values."""
    first = rows[0]
    table = Table(
        title=f"{first['agent']} on {first['data']}, update {first['step']}: offline scores",
        caption="mean ± standard deviation over seeds",
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
    )
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    for name in ("score", "acting", "on"):
        table.add_column(name, no_wrap=True)
    for variant in variants:
        table.add_column(variant or "value", justify="right")
    keys = ("score", "act", "candidates", "sampling_steps", "weights", "on")
    for key in dict.fromkeys(tuple(str(row[k]) for k in keys) for row in rows):
        cells = []
        for variant in variants:
            same = [r for r in rows if tuple(str(r[k]) for k in keys) == key and r["variant"] == variant]
            values = np.array([float(row["value"]) for row in same])
            spread = f" ± {stats.std(values):.3g}" if len(values) > 1 else ""
            cells.append(f"{values.mean():.4g}{spread}" if len(values) else "")
        score, act, candidates, steps, weights, on = key
        table.add_row(score, _acting(act, candidates, steps, weights), on, *cells)
    return table


def _acting(act: str, candidates: str, steps: str, weights: str) -> str:
    words = act + (f" of {candidates}" if act != "single" else "") + (f", K={steps}" if steps else "")
    return words + (", ema" if weights == "ema" else "")


def _line(key: tuple[str, ...], episodes: list[dict[str, Any]]) -> dict[str, str]:
    variant, seed, weights, act, candidates, steps = key
    acting = _acting(act, candidates, steps, weights)
    line = {"seed": seed, "variant": variant, "acting": acting, "episodes": str(len(episodes))}
    for name, column in (("return", "return"), ("score", "normalised_score"), ("success", "success")):
        values = np.array([float(row[column]) for row in episodes if str(row[column]) != ""])
        spread = f" ± {stats.std(values):.1f}" if values.size > 1 and name != "success" else ""
        line[name] = f"{values.mean():.{2 if name == 'success' else 1}f}{spread}" if values.size else ""
    return line
