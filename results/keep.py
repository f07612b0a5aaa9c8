"""Put a run's rows among the results: python results/keep.py RUN/eval.csv results/FOLDER/NAME.csv.

The provenance of the data is the same long sentence in every row. Here it stands once, in datasets.csv beside
this file, by the data's fingerprint, which the rows keep.
"""

import sys
from pathlib import Path

from gtp import logs

DATASETS = Path(__file__).parent / "datasets.csv"
COLUMNS = ("data", "fingerprint", "provenance")


def keep(source: Path, target: Path, datasets: Path = DATASETS) -> None:
    """Copy the rows without their provenance, and note it where it is new."""
    if target.exists():
        sys.exit(f"{target} exists already; name another")
    rows = logs.read(source)
    if not rows:
        sys.exit(f"{source} has no rows")
    here, known = ({tuple(row[name] for name in COLUMNS) for row in x} for x in (rows, logs.read(datasets)))
    target.parent.mkdir(exist_ok=True)
    logs.append(datasets, [dict(zip(COLUMNS, new, strict=True)) for new in sorted(here - known)])
    logs.append(target, [{name: row[name] for name in row if name != "provenance"} for row in rows])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python results/keep.py RUN/eval.csv results/FOLDER/NAME.csv")
    keep(Path(sys.argv[1]), Path(sys.argv[2]))
