"""Put a run's rows among the results: python results/keep.py RUN/eval.csv results/FOLDER/NAME.csv.

The provenance of the data is the same long sentence in every row. Here it stands once, in datasets.csv beside
this file, by the data's fingerprint, which the rows keep.
"""

import csv
import sys
from pathlib import Path

DATASETS = Path(__file__).parent / "datasets.csv"
COLUMNS = ("data", "fingerprint", "provenance")


def keep(source: Path, target: Path, datasets: Path = DATASETS) -> None:
    """Copy the rows without their provenance, and note it where it is new."""
    if target.exists():
        sys.exit(f"{target} exists already; name another")
    rows = read(source)
    if not rows or any(None in row.values() for row in rows):
        sys.exit(f"{source} has no rows, or one that was not written to its end")
    known = read(datasets) if datasets.exists() else []
    for row in rows:
        made = {column: row[column] for column in COLUMNS}
        if made not in known:
            known.append(made)
    target.parent.mkdir(exist_ok=True)
    write(datasets, sorted(known, key=lambda made: tuple(made.values())))
    write(target, [{name: value for name, value in row.items() if name != "provenance"} for row in rows])


def read(path: Path) -> list[dict[str, str]]:
    """All rows of a file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: list[dict[str, str]]) -> None:
    """The rows as a file, whole or not at all."""
    part = path.with_suffix(".part")
    with part.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    part.replace(path)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python results/keep.py RUN/eval.csv results/FOLDER/NAME.csv")
    keep(Path(sys.argv[1]), Path(sys.argv[2]))
