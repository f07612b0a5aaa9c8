"""Draw the pictures of the README and of the pages of results from the rows: python results/figures.py.

docs/scores.png shows the README's first table, GTP with K = 5 on every task by each way of acting, and
results/medium-300k/curves.png every evaluation of the agents of its second. Numbers are `table.py`'s.
results/cube-starts/lifts.png shows how the cube's data depend on the height the hand comes at (lifts.csv).
"""

import csv
import statistics
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from table import HEADLINE, HERE, RARER, TARGETS, TASKS, WAYS, Evaluations, medium, of_line, seed_means, size

SCORES = HERE.parent / "docs" / "scores.png"
CURVES = HERE / "medium-300k" / "curves.png"
LIFTS = HERE / "cube-starts" / "lifts.png"
LOOKS = {
    "single": ("o", "#9a9a9a", -0.24),
    "softmax": ("s", "#1f77b4", -0.08),
    "average": ("D", "#d95f02", 0.08),
    "student": ("^", "#1b9e77", 0.24),
}
"""Marker, colour and height within its line of each way of acting."""
GAPS = {"hopper-medium-expert", "antmaze-umaze", "cube-single, five tasks"}
"""Lines with a gap above them."""
AGENTS = [name for name in HEADLINE if "K = 2" not in name]
"""Lines of the README's second table that have curves."""


def mean_and_spread(seeds: dict[str, list[float]]) -> tuple[float, float]:
    """Mean over seeds and their standard deviation, 0 for one seed."""
    means = seed_means(seeds)
    return statistics.mean(means), statistics.stdev(means) if len(means) > 1 else 0.0


def draw_scores(path: Path) -> None:
    """One line a task: three ways of acting with the same policies, their students, and the target."""
    lines = [(task, of_line(line), line[2]) for task, line in TARGETS.items()]
    figure, axes = plt.subplots(figsize=(9, 0.36 * len(lines) + 1.2), layout="constrained")
    height, heights = 0.0, []
    for name, ways, target in lines:
        height -= 1.5 if name in GAPS else 1.0
        heights.append(height)
        for way, (marker, colour, offset) in LOOKS.items():
            if way not in ways:
                continue
            mean, spread = mean_and_spread(ways[way][max(ways[way])])
            axes.errorbar(mean, height - offset, xerr=spread, fmt=marker, color=colour, ms=5, lw=1)
        if target is not None:
            axes.plot([target] * 2, [height - 0.4, height + 0.4], color="black", lw=2)
    names = {
        "single": WAYS["single"],
        "softmax": f"{WAYS['softmax']}, one drawn",
        "average": RARER["average"],
        "student": "student of the average, one pass",
    }
    for way, (marker, colour, _) in LOOKS.items():
        axes.plot([], [], marker, color=colour, ms=5, label=names[way])
    axes.plot([], [], "|", color="black", ms=10, mew=2, label="target")
    labels = [f"{name} ({size(ways['single'])})" for name, ways, _ in lines]
    axes.set_yticks(heights, labels, fontsize=8)
    figure.supxlabel("normalised score; on AntMaze and the cube percent of episodes that succeed", fontsize=9)
    axes.set(xlim=(0, 130), ylim=(height - 0.8, -0.2))
    axes.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def draw_curve(axes: Axes, evaluations: Evaluations, aside: float, **look) -> None:
    """Mean and deviation over seeds at every evaluation, moved aside of others' bars."""
    steps = sorted(evaluations)
    points = [mean_and_spread(evaluations[step]) for step in steps]
    thousands = [step / 1000 + aside for step in steps]
    axes.errorbar(thousands, [mean for mean, _ in points], yerr=[s for _, s in points], capsize=2, **look)


def draw_curves(path: Path) -> None:
    """Scores over updates on the medium tasks, by both ways of acting."""
    figure, panels = plt.subplots(2, 3, figsize=(11, 6.5), sharex=True, layout="constrained")
    for number, method in enumerate(AGENTS):
        aside = 1.2 * (number - len(AGENTS) / 2)
        look = {
            "color": f"C{number}",
            "label": method.replace("*", ""),
            "marker": "o",
            "ms": 4,
            "lw": 2.2 if number == 0 else 1.1,
        }
        for column, ways in enumerate(medium(method).values()):
            for row, way in enumerate(WAYS):
                if way in ways:
                    draw_curve(panels[row][column], ways[way], aside, **look)
    for column, task in enumerate(TASKS):
        panels[0][column].set_title(f"{task}-medium-v2")
        panels[1][column].set_xlabel("updates, thousands")
        for row, way in enumerate(WAYS.values()):
            panels[row][column].grid(alpha=0.3)
            panels[row][0].set_ylabel(f"normalised score, {way}")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_lifts(path: Path) -> None:
    """One point an episode of the cube's data: when the cube is lifted, by how high the hand came."""
    with (HERE / "cube-starts" / "lifts.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    heights, starts = ([100 * float(row[name]) for row in rows] for name in ("height", "distance"))
    figure, axes = plt.subplots(figsize=(7.5, 3.2), layout="constrained")
    points = axes.scatter(heights, [int(row["steps_to_lift"]) for row in rows], s=16, c=starts, alpha=0.8)
    figure.colorbar(points, label="start, cm from the cube")
    axes.set_xlabel("height of the hand at 20 cm from the cube, cm")
    axes.set_ylabel("steps until it is lifted")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    draw_scores(SCORES)
    draw_curves(CURVES)
    draw_lifts(LIFTS)
