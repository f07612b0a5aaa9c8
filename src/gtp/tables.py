"""Tables for the terminal."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
from rich import box
from rich.table import Table


def evaluation_table(rows: list[dict[str, Any]]) -> Table:
    """Mean ± deviation over episodes, a line for each member and way to act."""
    first = rows[0]
    title = (
        f"{first['agent']} on {first['data']}, in {first['env']} ({first['physics']}), update {first['step']}"
    )
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("seed", "variant", "acting", "episodes", "return", "score", "success"):
        table.add_column(name, justify="left" if name == "acting" else "right", no_wrap=True)
    keys = ("variant", "seed", "weights", "act", "candidates", "sampling_steps")
    for key, group in groupby(rows, key=lambda row: tuple(str(row[k]) for k in keys)):
        episodes = list(group)
        variant, seed, weights, act, candidates, steps = key
        acting = act + (f" of {candidates}" if act != "single" else "") + (f", K={steps}" if steps else "")
        acting += ", ema" if weights == "ema" else ""
        cells = [seed, variant, acting, str(len(episodes))]
        for column, form in (("return", ".1f"), ("normalised_score", ".1f"), ("success", ".2f")):
            values = np.array([float(row[column]) for row in episodes if str(row[column]) != ""])
            text = "" if values.size == 0 else format(values.mean(), form)
            spread = "" if values.size == 0 or column == "success" else f" ± {values.std():{form}}"
            cells.append(text + spread)
        table.add_row(*cells)
    return table
