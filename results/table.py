"""Rebuild the tables of results/README.md from the rows: python results/table.py FOLDER.

Every number is that of the last evaluation; ± is the standard deviation over seeds, where there are several.
"""

import csv
import statistics
import sys
from collections import defaultdict
from pathlib import Path

WAYS = {"single": "one sample", "softmax": "50 candidates, softmax(Q)"}


def cell(seeds: dict[str, list[float]]) -> str:
    """Mean over seeds, each seed being the mean of its episodes."""
    means = [statistics.mean(episodes) for episodes in seeds.values()]
    if not means:
        return "–"
    spread = f" ± {statistics.stdev(means):.1f}" if len(means) > 1 else ""
    return f"{statistics.mean(means):.1f}{spread}"


def score(row: dict[str, str]) -> float:
    """The normalised score; the success rate, in percent, where there is none."""
    return float(row["normalised_score"]) if row["normalised_score"] else 100 * float(row["success"])


def main(folder: Path) -> None:
    """Print a row for each file and swept value."""
    print(f"| settings | seeds × episodes | {' | '.join(WAYS.values())} |\n|---|---|---|---|")
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        last = max(int(row["step"]) for row in rows)
        scores: dict[str, dict[str, dict[str, list[float]]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(list))
        )
        for row in rows:
            if int(row["step"]) == last:
                scores[row["variant"]][row["act"]][row["seed"]].append(score(row))
        for variant, by_act in scores.items():
            played = next(iter(by_act.values()))
            size = f"{len(played)} × {len(next(iter(played.values())))}"
            cells = " | ".join(cell(by_act[act]) for act in WAYS)
            print(f"| {' '.join(filter(None, (path.stem, variant)))} | {size} | {cells} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
