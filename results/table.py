"""Rebuild every table of results/README.md from the rows: python results/table.py.

A table stands between `<!-- rows: FOLDER -->` and `<!-- end -->`. Its numbers are means over seeds, each seed
being the mean of its episodes. *last* is the last evaluation, ± the standard deviation over seeds; *last 3*
the mean of the last three evaluations; *best* the best evaluation of all, the same for all seeds.
"""

import csv
import re
import statistics
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
WAYS = {"single": "one sample", "softmax": "50 candidates"}
Evaluations = dict[int, dict[str, list[float]]]
"""update -> seed -> scores of its episodes."""


def score(row: dict[str, str]) -> float:
    """The normalised score; the success rate, in percent, where there is none."""
    return float(row["normalised_score"]) if row["normalised_score"] else 100 * float(row["success"])


def seed_means(seeds: dict[str, list[float]]) -> list[float]:
    """One number a seed."""
    return [statistics.mean(episodes) for episodes in seeds.values()]


def last(evaluations: Evaluations) -> str:
    """Mean and deviation over seeds of the last evaluation."""
    means = seed_means(evaluations[max(evaluations)])
    spread = f" ± {statistics.stdev(means):.1f}" if len(means) > 1 else ""
    return f"{statistics.mean(means):.1f}{spread}"


def last_three(evaluations: Evaluations) -> str:
    """Mean of the last three evaluations."""
    if len(evaluations) < 3:
        return "–"
    steps = sorted(evaluations)[-3:]
    return f"{statistics.mean(statistics.mean(seed_means(evaluations[step])) for step in steps):.1f}"


def best(evaluations: Evaluations) -> str:
    """The best evaluation, and after how many updates it was."""
    means = {step: statistics.mean(seed_means(seeds)) for step, seeds in evaluations.items()}
    step = max(means, key=lambda step: means[step])
    return f"{means[step]:.1f} ({step // 1000}k)"


def read(folder: Path) -> dict[tuple[str, str], dict[str, Evaluations]]:
    """(settings, K) -> way of acting -> evaluations, over all files of a folder."""
    table: dict = defaultdict(lambda: defaultdict(lambda: defaultdict(lambda: defaultdict(list))))
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                settings = " ".join(filter(None, (path.stem, row["variant"])))
                ways = table[settings, row["sampling_steps"]]
                ways[row["act"]][int(row["step"])][row["seed"]].append(score(row))
    return table


def table(folder: Path) -> str:
    """The table of a folder; with several evaluations, what last, last three and best of them are."""
    rows = read(folder)
    longest = max(len(evaluations) for ways in rows.values() for evaluations in ways.values())
    columns = {"": last} if longest == 1 else {": last": last, ", best": best}
    if longest > 2:
        columns = {": last": last, ", last 3": last_three, ", best": best}
    heads = [f"{name}{column}" for name in WAYS.values() for column in columns]
    lines = [["settings", "K", "updates", "seeds × episodes", *heads]]
    lines.append(["---"] * len(lines[0]))
    for (settings, steps), ways in rows.items():
        evaluations = next(iter(ways.values()))
        seeds = evaluations[max(evaluations)]
        size = f"{len(seeds)} × {len(next(iter(seeds.values())))}"
        cells = [column(ways[way]) if way in ways else "–" for way in WAYS for column in columns.values()]
        lines.append([settings, steps or "–", f"{max(evaluations):,}", size, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def rebuilt(text: str) -> str:
    """The page with every table made anew."""
    return re.sub(
        r"(<!-- rows: (\S+) -->\n).*?(?=<!-- end -->)",
        lambda match: f"{match[1]}\n{table(HERE / match[2])}\n\n",
        text,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    page = HERE / "README.md"
    page.write_text(rebuilt(page.read_text()))
