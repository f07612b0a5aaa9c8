"""Rows in CSV files: added while a run goes on, cut back when it goes on from a checkpoint."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def append(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Add rows; the first row decides the columns of a new file."""
    rows = list(rows)
    if not rows:
        return
    columns = list(rows[0])
    if path.exists():
        with path.open(newline="") as file:
            columns = next(csv.reader(file), columns)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore", restval="")
    if not path.exists():
        writer.writeheader()
    writer.writerows(rows)
    # One write call per log point: a killed process leaves whole rows or, at worst, one that `read` drops.
    with path.open("a", newline="") as file:
        file.write(text.getvalue())


def read(path: Path) -> list[dict[str, str]]:
    """All whole rows of a file; a missing file has none."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        return [row for row in reader if None not in row and None not in row.values()]


def cut(path: Path, last_step: int) -> None:
    """Drop the rows after `last_step`; they will be written again, the same."""
    if not path.exists():
        return
    rows = [row for row in read(path) if int(row["step"]) <= last_step]
    temporary = path.with_suffix(".tmp")
    temporary.unlink(missing_ok=True)
    if rows:
        append(temporary, rows)
        os.replace(temporary, path)
    else:
        path.unlink()
