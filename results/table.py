"""Rebuild the tables of results/README.md from the rows: python results/table.py FOLDER."""

import csv
import statistics
import sys
from collections import defaultdict
from pathlib import Path


def main(folder: Path) -> None:
    """Print mean score by file and way to act: over seeds, each seed the mean of its episodes."""
    print("| settings | one sample | 50 candidates, softmax(Q) |\n|---|---|---|")
    for path in sorted(folder.glob("*.csv")):
        scores: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                scores[row["act"]][row["seed"]].append(float(row["normalised_score"]))
        cells = []
        for act in ("single", "softmax"):
            means = [statistics.mean(episodes) for episodes in scores[act].values()]
            cells.append(f"{statistics.mean(means):.1f} ± {statistics.stdev(means):.1f}")
        print(f"| {path.stem} | {cells[0]} | {cells[1]} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
