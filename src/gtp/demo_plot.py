"""The picture `gtp demo` draws: the data, the policies at work, and how noise becomes an action."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Polygon
from PIL import Image

from gtp.envs import multigoal

INK, FAINT, PAPER, SEA, GROUND = "#1f2933", "#7b8794", "#ffffff", "#eef2f6", "#ffffff"
GOAL_COLOURS = ("#2f6fde", "#e08a00", "#12977b", "#8a4fc9")
"""One colour for each goal, in the order of `multigoal.GOALS`."""
STYLE: Any = {"font.family": "DejaVu Sans", "text.color": INK, "axes.titlecolor": INK}
ARROWS = "→↑←↓"
FAILED = "#d7263d"
PATHS = 250
"""Episodes drawn in a panel; the figures count all of them."""


def draw(
    path: Path,
    dataset_obs_paths: np.ndarray,
    rollouts: Mapping[str, np.ndarray],
    generative: np.ndarray,
    figures: Mapping[str, Mapping[str, Any]],
    levels: np.ndarray | None = None,
) -> None:
    """Write the picture to `path` as PNG.

    Args:
        path: Where to.
        dataset_obs_paths: The demonstrator's positions (time, episodes, 2), the last one repeated to the end.
        rollouts: Positions of each policy in the same layout, by the name that titles its panel. The last
            stands beside the generative trajectories, the others below.
        generative: Actions at the origin on their way from noise (levels, samples, 2).
        figures: For each rollout's name its `success` and its `goals`, the share of each goal.
        levels: Noise levels of `generative`, for its labels.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(12, 6.7), dpi=150, facecolor=PAPER)
        *below, beside = rollouts
        columns = len(below)
        grid = figure.add_gridspec(
            2, columns, left=0.012, right=0.988, top=0.912, bottom=0.015, wspace=0.045, hspace=0.2
        )
        world(figure.add_subplot(grid[0, 0]), dataset_obs_paths, "Demonstrations", "four goals, equally good")
        ways(figure.add_subplot(grid[0, 1 : columns - 1]), generative, levels)
        cells = [
            (beside, grid[0, columns - 1]),
            *zip(below, (grid[1, i] for i in range(columns)), strict=True),
        ]
        for name, cell in cells:
            world(figure.add_subplot(cell), rollouts[name], name, caption(figures[name]))
        write(figure, path)


def draw_walks(
    path: Path,
    dataset_obs_paths: np.ndarray,
    rollouts: Mapping[str, np.ndarray],
    figures: Mapping[str, Mapping[str, Any]],
) -> None:
    """Write a row of panels to `path` as PNG: the demonstrations, then each policy's walks as in `draw`."""
    with matplotlib.rc_context(STYLE):
        count = 1 + len(rollouts)
        figure = Figure(figsize=(3 * count, 3.5), dpi=150, facecolor=PAPER)
        grid = figure.add_gridspec(1, count, left=0.012, right=0.988, top=0.83, bottom=0.02, wspace=0.045)
        world(figure.add_subplot(grid[0, 0]), dataset_obs_paths, "Demonstrations", "four goals, equally good")
        for i, (name, paths) in enumerate(rollouts.items()):
            world(figure.add_subplot(grid[0, i + 1]), paths, name, caption(figures[name]))
        write(figure, path)


def write(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, whole or not at all."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    # With a palette the file is a third of the size, and nobody sees a difference.
    image = Image.open(picture).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    temporary = path.with_name(f".{path.name}.tmp")
    image.save(temporary, "PNG", optimize=True)
    temporary.replace(path)


def caption(figures: Mapping[str, Any]) -> str:
    """Success and the goals' shares, in a line."""
    shares = "  ".join(
        f"{arrow}{100 * share:.0f}" for arrow, share in zip(ARROWS, figures["goals"], strict=True)
    )
    return f"{100 * figures['success']:.1f} % succeed:  {shares}"


def heading(axes: Axes, title: str, subtitle: str) -> None:
    """A title with a line below it."""
    axes.text(0.5, 1.095, title, transform=axes.transAxes, ha="center", va="bottom", size=12, weight="bold")
    axes.text(0.5, 1.025, subtitle, transform=axes.transAxes, ha="center", va="bottom", size=9, color=FAINT)


def world(axes: Axes, paths: np.ndarray, title: str, subtitle: str) -> None:
    """The ground, the goals, and the paths of points coloured by the goal they reached."""
    end, width = multigoal.DISTANCE + 2 * multigoal.RADIUS, multigoal.BRIDGE
    size = end + 0.1
    corners = [
        (width, width), (end, width), (end, -width), (width, -width), (width, -end), (-width, -end),
        (-width, -width), (-end, -width), (-end, width), (-width, width), (-width, end), (width, end),
    ]  # fmt: skip
    axes.add_patch(Polygon(corners, facecolor=GROUND, edgecolor="#c3ccd6", linewidth=0.8, zorder=0))
    for goal, colour in zip(multigoal.GOALS, GOAL_COLOURS, strict=True):
        axes.add_patch(Circle(goal, multigoal.RADIUS, facecolor=colour, alpha=0.2, zorder=1))
        axes.add_patch(Circle(goal, multigoal.RADIUS, fill=False, edgecolor=colour, linewidth=1.0, zorder=4))
    paths = paths[:, :PATHS]
    goal, fell = multigoal.reached(paths[-1]), multigoal.fallen(paths[-1])
    colours = np.array([*GOAL_COLOURS, FAILED])[goal]
    for which, alpha, order in ((goal >= 0, 0.3, 2), (goal < 0, 0.4, 3)):
        lines = paths[:, which].swapaxes(0, 1)
        axes.add_collection(
            LineCollection(list(lines), colors=colours[which], linewidths=0.6, alpha=alpha, zorder=order)
        )
    axes.scatter(*paths[-1, fell].T, s=13, marker="x", linewidths=0.9, color=FAILED, zorder=5)
    axes.plot(0, 0, marker="o", markersize=3.2, color=INK, zorder=6)
    axes.set(xlim=(-size, size), ylim=(-size, size), aspect="equal", xticks=[], yticks=[], facecolor=SEA)
    axes.spines[:].set_visible(False)
    heading(axes, title, subtitle)


def ways(axes: Axes, generative: np.ndarray, levels: np.ndarray | None) -> None:
    """Samples on their way through the noise levels, each level a plane seen from the side.

    A plane is scaled to the spread of what lies in it; only the last one shows actions at their true size.
    """
    count, samples, _ = generative.shape
    spread = np.sqrt((generative**2).mean((1, 2)))
    scaled = np.clip(generative / spread[:, None, None], -2.6, 2.6) * 0.5
    scaled[-1] = generative[-1]
    offset = 2.3 * np.arange(count)

    def project(points: np.ndarray, plane: np.ndarray | float) -> np.ndarray:
        """A plane leans to the right, its x axis foreshortened."""
        x, y = points[..., 0], points[..., 1]
        return np.stack([plane + 0.7 * x, y + 0.25 * x], -1)

    nearest = np.argmax(generative[-1] @ multigoal.GOALS.T, axis=1)
    colours = np.array(GOAL_COLOURS)[nearest]
    square = 1.32 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    for i in range(count):
        axes.add_patch(
            Polygon(project(square, offset[i]), facecolor=SEA, edgecolor="#c3ccd6", linewidth=0.8, alpha=0.9)
        )
        label = "action" if i == count - 1 else "noise" if i == 0 else ""
        if levels is not None:
            label = f"{label}\n$t$ = {levels[i]:.2g}".strip()
        axes.text(offset[i], -1.86, label, ha="center", va="top", size=9, color=FAINT, linespacing=1.4)
    points = project(scaled, offset[:, None])
    axes.add_collection(
        LineCollection(list(points.swapaxes(0, 1)), colors=colours, linewidths=0.5, alpha=0.35, zorder=2)
    )
    for i in range(count):
        last = i == count - 1
        axes.scatter(
            *points[i].T, s=9 if last else 4, c=colours, linewidths=0, alpha=0.9 if last else 0.6, zorder=3
        )
    axes.set(xlim=(-1.3, offset[-1] + 1.3), ylim=(-2.45, 1.8), xticks=[], yticks=[])
    axes.set_axis_off()
    heading(
        axes,
        "From noise to action at the origin",
        f"{samples} samples of GTP, {count - 1} jumps of its flow map",
    )
