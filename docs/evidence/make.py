"""The numbers behind docs/reading-the-paper.md: python docs/evidence/make.py [TABLE…].

Each function computes one table, writes it beside this file as csv, and puts it into the page between its
marks. All are closed forms or seeded; under a minute in all on two cores. No training, no device.
"""

from __future__ import annotations

import csv
import itertools
import re
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from gtp import published, report, report_lines, report_sources, stats, values
from gtp.noise import Noise, karras_level

HERE = Path(__file__).parent
PAGE = HERE.parent / "reading-the-paper.md"
RESULTS = HERE.parents[1] / "results" / "hopper-medium-200k"
SPREAD = 0.5
"""Standard deviation of the Gaussian data that have closed forms."""
Row = dict[str, str]


def theorem() -> list[Row]:
    """How far the surrogate is from the solver's result, on Gaussian data where both are linear.

    The solver's n Euler steps from a_t = a + t·z give k·a_t; the surrogate is a + u·z. Their difference
    (k − 1)·a + (k·t − u)·z is Gaussian, so its mean size is √(2/π) times its deviation, exactly.
    """
    rows = []
    for t, u in ((1.0, 0.5), (1.0, 0.9), (1.0, 0.99)):
        for steps in (1, 10, 1000):
            taus = np.linspace(t, u, steps + 1)
            k = np.prod(1 + np.diff(taus) * taus[:-1] / (SPREAD**2 + taus[:-1] ** 2))
            size = np.sqrt(2 / np.pi * (((k - 1) * SPREAD) ** 2 + (k * t - u) ** 2))
            bias = abs(k - (SPREAD**2 + u * t) / (SPREAD**2 + t**2))
            rows.append(
                {
                    "t": f"{t:g}",
                    "u": f"{u:g}",
                    "solver steps": str(steps),
                    "h": f"{(t - u) / steps:.2g}",
                    "E|solver − surrogate|": f"{size:.4f}",
                    "bias of its mean, per unit of a_t": "0" if bias < 1e-12 else f"{bias:.1e}",
                }
            )
    return rows


def levels(count: int) -> np.ndarray:
    """The training grid, ascending."""
    return np.asarray(karras_level(jnp.arange(count), jnp.float32(count), Noise()), float)


def jumps(grid: np.ndarray, count: int, start: float = Noise().t_max) -> list[int]:
    """Places on the training grid of the levels at which K jumps stop on their way down from `start`."""
    noise = Noise(t_max=start)
    stops = np.asarray(karras_level(jnp.arange(count, -1, -1), jnp.float32(count + 1), noise), float)
    return [int(np.argmin(np.abs(grid - stop))) for stop in stops]


def reachable(rule: str, j: int, target: int) -> range:
    """Places u may have below t = grid[j], as `noise.draw_times` draws them."""
    return {
        "adjacent": range(j - 1, j),
        "gap": range(max(target, j - 3), j),
        "uniform": range(target, j),
    }[rule]


def gaussian_factors(grid: np.ndarray, target: int, rule: str) -> np.ndarray:
    """Fixed point of the consistency loss on Gaussian data: Φ(x, t_j, t_target) = factor_j · x.

    The best prediction is the mean of the teacher's: E[a + u·z | a_t] = (c² + u·t)/(c² + t²)·a_t.
    """
    factor = np.ones(len(grid))
    for j in range(target + 1, len(grid)):
        u = np.array(reachable(rule, j, target))
        factor[j] = np.mean(factor[u] * (SPREAD**2 + grid[u] * grid[j]) / (SPREAD**2 + grid[j] ** 2))
    return factor


def fixed_points() -> list[Row]:
    """Spread of samples over the data's, at the exact fixed point, for each rule of u."""
    rows = []
    for rule in ("adjacent", "gap", "uniform"):
        for count in (11, 41, 161, 321):
            grid = levels(count)
            row = {"u": rule, "N": str(count)}
            for k in (1, 2, 5):
                stops = jumps(grid, k)
                scale = grid[-1] / SPREAD
                for a, b in itertools.pairwise(stops):
                    scale *= gaussian_factors(grid, b, rule)[a]
                row[f"K = {k}"] = f"{scale:.3f}"
            rows.append(row)
    return rows


POINTS = np.unique(np.r_[np.linspace(-6, 6, 1201), np.linspace(-1.3, 1.3, 1201)])
"""Where maps for two modes are tabulated, in units of the spread √(1 + t²) at their level."""


def two_mode_maps(grid: np.ndarray, target: int, rule: str) -> list[np.ndarray | None]:
    """Fixed point of the consistency loss for data at −1 and +1, tabulated at each level above the target."""
    maps: list[np.ndarray | None] = [None] * len(grid)
    maps[target] = POINTS * np.sqrt(1 + grid[target] ** 2)
    for j in range(target + 1, len(grid)):
        t = grid[j]
        x = POINTS * np.sqrt(1 + t**2)
        right = 1 / (1 + np.exp(np.clip(-2 * x / t**2, -60, 60)))
        places = reachable(rule, j, target)
        total = np.zeros_like(x)
        for u in places:
            for mode, share in ((1.0, right), (-1.0, 1 - right)):
                total += share * evaluate(maps[u], grid[u], mode + grid[u] * (x - mode) / t)
        maps[j] = total / len(places)
    return maps


def evaluate(table: np.ndarray | None, level: float, x: np.ndarray) -> np.ndarray:
    """A tabulated map at any point."""
    assert table is not None
    return np.interp(x / np.sqrt(1 + level**2), POINTS, table)


def share_at_modes(grid: np.ndarray, rule: str, stops: list[int]) -> float:
    """Share of samples that end within 0.1 of a mode, from noise of the first stop's level."""
    x = grid[stops[0]] * np.random.default_rng(0).normal(size=50_000)
    for a, b in itertools.pairwise(stops):
        x = evaluate(two_mode_maps(grid[: a + 1], b, rule)[a], grid[a], x)
    return float(np.mean(np.abs(np.abs(x) - 1) < 0.1))


def two_modes() -> list[Row]:
    """Share of samples that end within 0.1 of a mode, at the fixed point."""
    rows = []
    for rule, count in (("adjacent", 41), ("adjacent", 641), ("uniform", 41), ("uniform", 81)):
        grid = levels(count)
        shares = {f"K = {k}": f"{share_at_modes(grid, rule, jumps(grid, k)):.3f}" for k in (1, 2, 5)}
        rows.append({"u": rule, "N": str(count)} | shares)
    return rows


def sampling_levels() -> list[Row]:
    """The same from T = 80 by other levels: Karras' grid down from a lower top, but for its first level."""
    grid = levels(641)
    rows = []
    for top in (80.0, 20.0, 10.0, 5.0, 2.5):
        row = {"top": f"{top:g}"}
        for k in (1, 2, 5):
            stops = [len(grid) - 1, *jumps(grid, k, top)[1:]]
            passed = ", ".join(f"{grid[stop]:.2g}" for stop in stops[1:-1])
            share = f"{share_at_modes(grid, 'adjacent', stops):.3f}"
            row[f"K = {k}"] = f"{share} (by {passed})" if passed else share
        rows.append(row)
    return rows


def weights() -> list[Row]:
    """Effective sample size of the paper's weight in batches of 256 simulated advantages."""
    rng = np.random.default_rng(0)
    rows = []
    for eta in (1.0, 5.0):
        for name, draws in (
            ("normal", rng.normal(size=(1000, 256))),
            ("Student t, 4 degrees", rng.standard_t(4, (1000, 256))),
        ):
            row = {"η": f"{eta:g}", "advantages": name}
            for clip in (np.inf, 100.0):
                batches = [values.advantage_weight(a, eta, clip) for a in draws.astype(np.float32)]
                sizes = [float(values.effective_sample_size(w)) for w in batches]
                words = "without clip" if np.isinf(clip) else "clipped at 100"
                row[f"effective samples of 256, {words}"] = f"{np.mean(sizes):.1f}"
            rows.append(row)
    return rows


def best_of() -> list[Row]:
    """What the best of 20 evaluations of 100 episodes says of a policy that never changes."""
    rng = np.random.default_rng(0)
    rows = []
    for truth in (0.6, 0.8, 0.9):
        fixed = rng.binomial(100, truth, (20_000, 20)).max(1).mean()
        rate = np.clip(rng.normal(truth, 0.1, (20_000, 20)), 0, 1)
        moving = rng.binomial(100, rate).max(1).mean()
        rows.append(
            {
                "true success": f"{100 * truth:.0f} %",
                "last": f"{100 * truth:.0f} %",
                "best, the same goal every time": f"{fixed:.1f} %",
                "best, a goal per evaluation (rates ± 10 points)": f"{moving:.1f} %",
            }
        )
    return rows


def last_and_best() -> list[Row]:
    """CORL's own last and best scores, averaged: the same runs, read twice."""
    rows = []
    for agent in ("bc", "td3_bc", "awac", "cql", "iql", "rebrac", "dt"):
        row = {"agent": agent}
        for suite, words in (("antmaze", "AntMaze v2"), ("", "Gym v2")):
            means = {}
            for kind in ("last", "best"):
                chosen = [
                    s.score
                    for s in published.scores()
                    if (s.agent, s.kind) == (agent, kind)
                    and s.task.endswith("-v2")
                    and s.task.startswith("antmaze") == bool(suite)
                ]
                means[kind] = np.mean(chosen)
                row[f"{words} {kind}"] = f"{means[kind]:.1f}"
            row[f"{words} gap"] = f"{means['best'] - means['last']:.1f}"
        rows.append(row)
    return rows


def candidates() -> list[Row]:
    """One sample against 50 candidates chosen by the critic: the same policies, from the rows in results/."""
    made = report_lines.gather(report_sources.read([RESULTS]), "")
    rows = []
    for label in sorted({line.label for line in made.lines}):
        one, many = (
            next(x.last() for x in made.lines if x.label == label and x.way.act == act)
            for act in ("single", "softmax")
        )
        rows.append(
            {
                "settings": label.removeprefix("gtp · "),
                "one sample": f"{one.mean():.1f} ± {stats.std(one):.1f}",
                "softmax of 50": f"{many.mean():.1f} ± {stats.std(many):.1f}",
                "gain": f"{many.mean() - one.mean():.1f}",
            }
        )
    return rows


def coverage() -> list[Row]:
    """How often a 95 % bootstrap interval holds the truth, in simulated experiments with normal scores."""
    rows = []
    for tasks in (1, 9):
        for seeds in (3, 5, 10, 20):
            rng = np.random.default_rng(seeds + tasks)
            hits = {"mean": 0, "IQM": 0}
            for _ in range(600):
                scores = [
                    rng.normal(place, 8, seeds) for place in np.linspace(0, 90, tasks) - 45 * (tasks > 1)
                ]
                for name, statistic in (("mean", stats.mean), ("IQM", stats.iqm)):
                    draw = int(rng.integers(1 << 30))
                    low, high = stats.bootstrap(statistic, scores, resamples=400, seed=draw)
                    hits[name] += bool(low <= 0 <= high)
            shares = {f"covers the {name}": f"{100 * hit / 600:.0f} %" for name, hit in hits.items()}
            rows.append({"tasks": str(tasks), "seeds": str(seeds)} | shares)
    return rows


TABLES = {
    f.__name__: f
    for f in (
        theorem,
        fixed_points,
        two_modes,
        sampling_levels,
        weights,
        best_of,
        last_and_best,
        candidates,
        coverage,
    )
}


def read(name: str) -> list[Row]:
    """A committed table."""
    with (HERE / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def markdown(rows: list[Row]) -> str:
    """A table as the page shows it."""
    columns = list(rows[0])
    lines = [columns, ["---"] * len(columns), *([row[c] for c in columns] for row in rows)]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def placed(page: str, name: str, rows: list[Row]) -> str:
    """The page with a table between its marks."""
    block = f"<!-- {name} -->\n{markdown(rows)}<!-- end -->"
    return re.sub(rf"<!-- {name} -->\n.*?<!-- end -->", lambda _: block, page, flags=re.S)


def main(names: list[str]) -> None:
    """Compute tables, write them, and put them into the page."""
    for name in names or TABLES:
        rows = TABLES[name]()
        (HERE / f"{name}.csv").write_text(report.to_csv(rows))
        PAGE.write_text(placed(PAGE.read_text(), name, rows))
        print(name, markdown(rows), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
