"""`gtp report RUN… --out DIR`: a page, and tables, of scores that say what they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from gtp import report


@dataclass(frozen=True)
class Options:
    """Turn runs, or files of episodes, into a page (index.html, needs no network) and plain tables."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN…")]
    """Run directories, folders of them, or csv files with the columns of eval.csv."""
    out: Path
    """Folder to create; it must not exist."""
    title: str = "Scores"
    """Headline of the page."""


def main(argv: list[str]) -> int:
    """`gtp report …`."""
    options = tyro.cli(Options, prog="gtp report", args=argv)
    made = report.write(options.runs, options.out, options.title)
    files = sum(1 for source in made.sources if source.rows)
    print(
        f"{sum(line.all_rows for line in made.lines):,} episodes from {files} file{'s' if files != 1 else ''}"
    )
    print(options.out / "index.html")
    return 0
