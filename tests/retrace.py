"""Every number of a report's score tables, computed again from the files of rows that it names.

    python tests/retrace.py PAGE/index.html

Knows nothing of gtp: the page's own words say which rows a number is made of and what it is.
"""

import csv
import re
import statistics
import sys
from html.parser import HTMLParser
from pathlib import Path

NUMBER = re.compile(r"−?\d+(?:\.\d+)?")
TITLE = re.compile(
    r"(?P<what>.*)\n(?P<count>\d+) rows: agent=(?P<agent>.*) data=(?P<data>.*) variant=(?P<variant>.*) "
    r"act=(?P<act>.*) candidates=(?P<candidates>\d+) weights=(?P<weights>.*) "
    r"sampling_steps=(?P<sampling_steps>.*)\nin (?P<files>.*)",
    re.S,
)
FILTER = ("agent", "data", "variant", "act", "candidates", "weights", "sampling_steps")


class Links(HTMLParser):
    """(title, text) of every link that says what it shows."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self._title, self._text = None, ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self._title, self._text = dict(attrs).get("title"), ""

    def handle_data(self, data):
        self._text += data

    def handle_endtag(self, tag):
        if tag == "a" and self._title:
            self.found.append((self._title, self._text))
            self._title = None


def rows_of(files: str, wanted: dict[str, str]) -> list[dict[str, str]]:
    """The rows of some csv files that have these values; an empty column is shown as a dash."""
    found: dict[tuple, dict[str, str]] = {}
    for path in files.split(", "):
        with Path(path).open(newline="") as file:
            for row in csv.DictReader(file):
                if all((row[name] or "–") == wanted[name] for name in FILTER):
                    found[tuple(row.values())] = row
    return list(found.values())


def middle_half(values: list[float]) -> float:
    """The mean of a sorted sample's middle half, its edges counted by the share that lies inside."""
    values, size = sorted(values), len(values)
    inside = [max(0.0, min((i + 1) / size, 0.75) - max(i / size, 0.25)) for i in range(size)]
    return sum(v * w for v, w in zip(values, inside, strict=True)) / sum(inside)


def expected(what: str, rows: list[dict[str, str]]) -> tuple[list[float], int]:
    """The numbers that a cell must show, and how many rows they are made of."""
    scored = all(row["normalised_score"] for row in rows)
    column = "success" if "successful" in what else "normalised_score" if scored else "return"
    episodes: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        episodes.setdefault(row["seed"], {}).setdefault(int(row["step"]), []).append(float(row[column]))
    curves = [[statistics.fmean(x) for _, x in sorted(steps.items())] for steps in episodes.values()]
    last_rows = sum(len(steps[max(steps)]) for steps in episodes.values())
    last = [curve[-1] for curve in curves]
    if what.startswith("Interquartile"):
        return [middle_half(last)], last_rows
    if "successful" in what:
        return [100 * statistics.fmean(last)], last_rows
    if "last three" in what:
        seeds, count = [statistics.fmean(curve[-3:]) for curve in curves], len(rows)
    elif "best" in what:
        seeds, count = [max(curve) for curve in curves], len(rows)
    else:
        seeds, count = last, last_rows
    return [statistics.fmean(seeds), *([statistics.stdev(seeds)] if len(seeds) > 1 else [])], count


def check(page: Path) -> int:
    """How many numbers were traced; an assertion says which one is not what its rows give."""
    traced = 0
    for title, text in Links(page.read_text()).found:
        named = TITLE.fullmatch(title)
        if named is None:
            continue
        rows = rows_of(named["files"], named.groupdict())
        values, count = expected(named["what"], rows)
        assert count == int(named["count"]), (title, count)
        shown = NUMBER.findall(text)
        assert len(shown) == len(values), (title, text, values)
        for one, value in zip(shown, values, strict=True):
            half = 0.5 * 10 ** -len(one.partition(".")[2])
            assert abs(float(one.replace("−", "-")) - value) <= half * (1 + 1e-6), (title, text, value)
            traced += 1
    return traced


if __name__ == "__main__":
    print(f"{check(Path(sys.argv[1]))} numbers traced to their rows")
