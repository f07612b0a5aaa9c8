"""Charts as inline SVG, written by hand: colours are the page's CSS variables, so they follow light and dark.

Text is sized for a viewBox of 360 units, which a phone shows at nearly its own width. Every mark that
stands for a number has a <title>, which browsers show when the pointer rests on it.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

WIDTH, HEIGHT = 360, 220
LEFT, RIGHT, TOP, BOTTOM = 44, 20, 24, 34
COLOURS = 12
MINUS = "−"


class Series(NamedTuple):
    """One line of a chart, with an optional band."""

    name: str
    colour: int
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None


def escape(text: Any) -> str:
    """Any text as it may stand in html, attributes included."""
    return html.escape(str(text), quote=True)


def ink(colour: int) -> str:
    """The page's variable for a method's colour."""
    return f"var(--c{colour % COLOURS})"


def number(value: float) -> str:
    """A number as an axis shows it."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e6 or size < 1e-3:
        mantissa, power = f"{value:.2e}".split("e")
        text = f"{float(mantissa):g}e{int(power)}"
    else:
        text = f"{value / 1000:g}k" if size >= 10_000 else f"{value:.4g}"
    return text.replace("-", MINUS)


def fixed(value: float, digits: int = 1) -> str:
    """A number as a table shows it; a dash where there is none."""
    return f"{value:.{digits}f}".replace("-", MINUS) if math.isfinite(value) else "–"


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers between two values."""
    span = high - low
    if not span > 0:
        return [low]
    raw = span / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * 0.999)
    start = math.ceil(low / step - 1e-9) * step
    return [round(start + i * step, 12) for i in range(int((high - start) / step + 1e-9) + 1)]


def limits(values: Sequence[np.ndarray], margin: float = 0.06) -> tuple[float, float]:
    """The range of some values with a margin; never empty."""
    flat = np.concatenate([np.ravel(v) for v in values])
    flat = flat[np.isfinite(flat)]
    if flat.size == 0:
        return 0.0, 1.0
    low, high = float(flat.min()), float(flat.max())
    room = (high - low) * margin if high > low else abs(low) * 0.1 or 1.0
    return low - room, high + room


class Frame:
    """A pair of axes: maps values to the viewBox, and draws grid and labels."""

    def __init__(
        self,
        x: tuple[float, float],
        y: tuple[float, float],
        x_label: str,
        y_label: str,
        x_ticks: list[float] | None = None,
        log_x: bool = False,
    ) -> None:
        self.x, self.y, self.log_x = x, y, log_x
        self.parts: list[str] = []
        for value in ticks(*y, 4):
            at = self.at_y(value)
            self.parts.append(
                f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
                f'<text class="tick" x="{LEFT - 7}" y="{at + 3.5:.1f}" text-anchor="end">'
                f"{number(value)}</text>"
            )
        for value in x_ticks or ticks(*x, 5):
            at = self.at_x(value)
            self.parts.append(
                f'<text class="tick" x="{at:.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">'
                f"{number(value)}</text>"
            )
        end = WIDTH - RIGHT
        self.parts.append(
            f'<text class="axis" x="{end}" y="{HEIGHT - 3}" text-anchor="end">{escape(x_label)}</text>'
            f'<text class="axis" x="2" y="11">{escape(y_label)}</text>'
        )

    def at_x(self, value: float) -> float:
        """Where a value stands from left to right."""
        low, high = self.x
        if self.log_x:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def at_y(self, value: float) -> float:
        """Where a value stands from top to bottom."""
        low, high = self.y
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def points(self, x: np.ndarray, y: np.ndarray) -> str:
        """Coordinates of a polyline."""
        return " ".join(f"{self.at_x(a):.1f},{self.at_y(b):.1f}" for a, b in zip(x, y, strict=True))

    def svg(self, label: str) -> str:
        """The finished picture."""
        return figure(WIDTH, HEIGHT, label, "".join(self.parts))


def figure(width: int, height: int, label: str, body: str) -> str:
    """An <svg> with a name for those who cannot see it."""
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}" '
        f'xmlns="http://www.w3.org/2000/svg">{body}</svg>'
    )


def line_chart(
    series: Sequence[Series],
    x_label: str,
    y_label: str,
    label: str,
    marks: bool = True,
    log_x: bool = False,
) -> str:
    """Lines with bands over a common axis; a logarithmic one, for few values, is marked at each of them."""
    spans = [v for s in series for v in (s.y, s.low, s.high) if v is not None]
    xs = [s.x for s in series]
    low, high = limits(xs, 0.0)
    if log_x:
        low, high = low * 0.9, high * 1.1
        shown = sorted({float(v) for x in xs for v in x})
        frame = Frame((low, high), limits(spans), x_label, y_label, shown, log_x=True)
    else:
        frame = Frame((low, high), limits(spans), x_label, y_label)
    for s in series:
        if s.low is not None and s.high is not None and np.isfinite(s.low).all():
            band = frame.points(np.r_[s.x, s.x[::-1]], np.r_[s.high, s.low[::-1]])
            frame.parts.append(f'<polygon class="band" points="{band}" fill="{ink(s.colour)}"/>')
    for s in series:
        frame.parts.append(
            f'<polyline class="line" points="{frame.points(s.x, s.y)}" stroke="{ink(s.colour)}">'
            f"<title>{escape(s.name)}</title></polyline>"
        )
        for i in range(len(s.x)) if marks else ():
            band = ""
            if s.low is not None and s.high is not None and np.isfinite(s.low[i]):
                band = f" [{number(float(s.low[i]))}, {number(float(s.high[i]))}]"
            frame.parts.append(
                f'<circle class="mark" cx="{frame.at_x(s.x[i]):.1f}" cy="{frame.at_y(s.y[i]):.1f}" r="3" '
                f'fill="{ink(s.colour)}"><title>{escape(s.name)}\n{escape(x_label)} {number(float(s.x[i]))}: '
                f"{number(float(s.y[i]))}{band}</title></circle>"
            )
    return frame.svg(label)


def interval_bar(
    value: float,
    low: float,
    high: float,
    scale: tuple[float, float],
    colour: int,
    others: Sequence[tuple[float, str]],
    title: str,
) -> str:
    """A dot with its interval on a scale shared by a whole table column; published scores as hollow marks."""
    width, height, pad = 150, 22, 6

    def at(x: float) -> float:
        return pad + (x - scale[0]) / (scale[1] - scale[0]) * (width - 2 * pad)

    body = f'<line class="grid" x1="{pad}" x2="{width - pad}" y1="11" y2="11"/>'
    for other, text in others:
        shape = f"M{at(other):.1f} 5l5 6-5 6-5-6z"
        body += f'<path class="published" d="{shape}"><title>{escape(text)}</title></path>'
    if math.isfinite(low):
        body += (
            f'<line class="whisker" x1="{at(low):.1f}" x2="{at(high):.1f}" y1="11" y2="11" '
            f'stroke="{ink(colour)}"/>'
        )
    body += f'<circle cx="{at(value):.1f}" cy="11" r="4.5" fill="{ink(colour)}"/>'
    return (
        f'<svg class="bar" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>{body}</svg>'
    )


def histogram(data: np.ndarray, policies: Sequence[tuple[str, int, np.ndarray]], label: str) -> str:
    """Actions of the data as a filled shape, those of policies as lines, as shares of their number."""
    edges = np.linspace(-1, 1, 41)
    middle = (edges[1:] + edges[:-1]) / 2

    def shares(values: np.ndarray) -> np.ndarray:
        return np.histogram(values, edges)[0] / max(1, len(values))

    filled = shares(data)
    drawn = [(name, colour, shares(values)) for name, colour, values in policies]
    top = max(float(filled.max()), *(float(s.max()) for _, _, s in drawn)) * 1.06 or 1.0
    frame = Frame((-1, 1), (0, top), "action, scaled to [−1, 1]", "share of actions", [-1, -0.5, 0, 0.5, 1])
    area = frame.points(np.r_[middle, middle[-1], middle[0]], np.r_[filled, 0, 0])
    frame.parts.append(f'<polygon class="area" points="{area}"><title>data</title></polygon>')
    for name, colour, values in drawn:
        frame.parts.append(
            f'<polyline class="line" points="{frame.points(middle, values)}" stroke="{ink(colour)}">'
            f"<title>{escape(name)}</title></polyline>"
        )
    return frame.svg(label)


def flow_picture(paths: np.ndarray, levels: np.ndarray, label: str) -> str:
    """Samples on their way from noise to action: (levels, samples, 2 or 1), each level at its own scale.

    Samples are coloured by where they end, so that one sees which noise becomes which action.
    """
    size, pad = 360, 14
    count, samples, dimensions = paths.shape
    last = paths[-1]
    if dimensions == 1:
        along = np.broadcast_to(np.linspace(-1, 1, count)[:, None, None], paths.shape)
        paths = np.concatenate([along, paths], axis=-1)
        hue = 20 + 220 * (np.clip(last[:, 0], -1, 1) + 1) / 2
    else:
        hue = np.degrees(np.arctan2(last[:, 1], last[:, 0])) % 360
    reach = max(1.05, float(np.quantile(np.abs(paths), 0.995)))
    place = pad + (np.clip(paths, -reach, reach) / reach * [1, -1] + 1) / 2 * (size - 2 * pad)
    unit = (size - 2 * pad) / 2 / reach
    centre = size / 2
    body = (
        f'<rect class="unit" x="{centre - unit:.1f}" y="{centre - unit:.1f}" width="{2 * unit:.1f}" '
        f'height="{2 * unit:.1f}"><title>the range of actions, [−1, 1]</title></rect>'
    )
    for i in range(samples):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in place[:, i])
        colour = f"hsl({hue[i]:.0f} 68% var(--flow-light))"
        body += f'<polyline class="path" points="{points}" stroke="{colour}"/>'
        x, y = place[0, i]
        body += f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.4" fill="{colour}" opacity=".45"/>'
    for i in range(samples):
        colour = f"hsl({hue[i]:.0f} 68% var(--flow-light))"
        x, y = place[-1, i]
        ends = ", ".join(f"{v:.2f}" for v in last[i])
        body += (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"><title>action ({ends})</title></circle>'
        )
    return figure(size, size, label, body)
