"""Reports: from rows of episodes to scores that say what they are.

Everything here is plain data: `read` finds the files, `gather` turns their rows into lines of a table, and
`write` hands them to the page (`report_page`) and the plain tables (`report_text`). No agent is named.

A *line* is one method on one task acting in one way. Of every seed it has a sequence of evaluations, each the
mean of its episodes, and three numbers that are always shown together: the last evaluation, the mean of the
last three, and the best.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import json
import math
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gtp import logs, published, stats
from gtp.errors import UserError

EPISODE_COLUMNS = (
    "agent", "data", "env", "physics", "seed", "step", "weights", "act", "candidates", "return",
)  # fmt: skip
TIME_COLUMNS = {
    "microseconds": ("microseconds", 1.0),
    "median_us": ("microseconds", 1.0),
    "action_ms": ("microseconds", 1000.0),
    "update_ms": ("update_ms", 1.0),
    "updates_per_s": ("updates_per_s", 1.0),
}
"""A csv with `agent`, `sampling_steps` and one of these holds measured times: column -> (name, factor)."""
OFFLINE_COLUMNS = ("agent", "seed", "step", "act", "candidates", "sampling_steps", "weights", "variant", "on")


class Task(NamedTuple):
    """What was evaluated in; scores of two tasks are never put into one mean unknowingly."""

    data: str
    fingerprint: str
    env: str
    physics: str

    @property
    def name(self) -> str:
        """As tables print it."""
        return published.task_name(self.data)


class Way(NamedTuple):
    """A way to act, in the order people read tables: fewer candidates first."""

    candidates: int
    act: str
    sampling_steps: str
    weights: str

    def text(self, steps: bool = True) -> str:
        """In words."""
        words = "one sample" if self.act == "single" else f"{self.act} of {self.candidates}"
        words += f", K = {self.sampling_steps}" if steps and self.sampling_steps else ""
        return words + (", EMA weights" if self.weights == "ema" else "")


class Method(NamedTuple):
    """Who acted: an agent with its settings."""

    agent: str
    variant: str
    """Swept values, as `eta=2`."""
    identity: str
    """Equal for the same settings: a run's configuration, or the path of a file of rows."""


@dataclass(frozen=True)
class Source:
    """A file of episodes or a run directory, and what was read from it."""

    path: Path
    """The run directory, or the csv."""
    name: str
    rows: list[dict[str, str]]
    sha256: str
    """Of the file of rows; empty where a run has none."""
    config: dict[str, Any] | None = None
    metrics: list[dict[str, str]] = field(default_factory=list)
    offline: list[dict[str, str]] = field(default_factory=list)
    """Scores from data alone, one row each."""
    times: bool = False
    """Whether rows are measured times instead of episodes."""
    label: str = ""
    """The method's name, where whoever asks for the report has one."""

    @property
    def file(self) -> Path:
        """The file the rows stand in."""
        return self.path / "eval.csv" if self.config is not None else self.path

    @property
    def identity(self) -> str:
        """The same for two runs that differ in seeds, data and how often they were looked at only."""
        return self.identity_without()

    def identity_without(self, *names: str) -> str:
        """The same for two runs that differ in these of the agent's settings too."""
        if self.config is None:
            return str(self.path)
        chosen = ("reward", "steps", "batch_size")
        settings = {k: v for k, v in self.config.get("settings", {}).items() if k in chosen}
        options = {k: v for k, v in (self.config.get("config") or {}).items() if k not in names}
        return json.dumps({"config": options, "settings": settings}, sort_keys=True)


@dataclass
class Line:
    """One method on one task, acting in one way."""

    task: Task
    method: Method
    way: Way
    label: str = ""
    """The method's name in this report."""
    episodes: dict[int, dict[int, list[dict[str, str]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    """seed -> step -> rows."""
    sources: list[int] = field(default_factory=list)
    """Places in the report's list of sources."""

    @property
    def metric(self) -> str:
        """What is scored: the normalised score where there is one, else the return."""
        scored = all(row["normalised_score"] != "" for row in self.rows())
        return "normalised_score" if scored else "return"

    def rows(self) -> Iterable[dict[str, str]]:
        """All episodes."""
        return (row for steps in self.episodes.values() for rows in steps.values() for row in rows)

    def curve(self, column: str = "") -> dict[int, dict[int, float]]:
        """Mean over episodes: seed -> step -> score."""
        column = column or self.metric
        found: dict[int, dict[int, float]] = {}
        for seed in sorted(self.episodes):
            steps = self.episodes[seed]
            found[seed] = {
                step: float(np.mean([float(row[column]) for row in steps[step]])) for step in sorted(steps)
            }
        return found

    def last(self, column: str = "") -> np.ndarray:
        """Each seed's last evaluation."""
        return np.array([list(c.values())[-1] for c in self.curve(column).values()])

    def last_three(self) -> np.ndarray:
        """Each seed's mean of its last three evaluations, or of all where there are fewer."""
        return np.array([np.mean(list(c.values())[-3:]) for c in self.curve().values()])

    def best(self) -> np.ndarray:
        """Each seed's best evaluation: what one gets by peeking."""
        return np.array([max(c.values()) for c in self.curve().values()])

    def success(self) -> np.ndarray | None:
        """Each seed's share of successful episodes at its last evaluation; None where nobody says."""
        if any(row["success"] == "" for row in self.rows()):
            return None
        return self.last("success")

    @property
    def evaluations(self) -> int:
        """The most evaluations a seed has."""
        return max(len(c) for c in self.curve().values())

    @property
    def last_steps(self) -> list[int]:
        """Updates before the last evaluation of each seed."""
        return [max(steps) for steps in self.episodes.values()]

    @property
    def last_rows(self) -> int:
        """Rows behind the last evaluations of all seeds."""
        return sum(len(steps[max(steps)]) for steps in self.episodes.values())

    @property
    def all_rows(self) -> int:
        """Rows behind the best."""
        return sum(1 for _ in self.rows())


@dataclass(frozen=True)
class Report:
    """All a report says."""

    title: str
    sources: list[Source]
    lines: list[Line]
    labels: dict[Method, str]
    made: str

    @property
    def tasks(self) -> list[Task]:
        """In the order of their names."""
        return sorted({line.task for line in self.lines})

    def of(self, task: Task) -> list[Line]:
        """The lines of one task, by method and way."""
        return sorted((x for x in self.lines if x.task == task), key=lambda x: (natural(x.label), x.way))

    def digits(self, task: Task) -> int:
        """Decimals of a task's scores: one for normalised scores, else about three figures in all."""
        lines = self.of(task)
        if all(line.metric == "normalised_score" for line in lines):
            return 1
        top = max(float(np.abs(line.last()).max()) for line in lines)
        return 2 if top == 0 else min(4, max(0, 2 - math.floor(math.log10(top))))

    def colour(self, label: str) -> int:
        """The place of a method among all, which decides its colour on every chart."""
        return sorted(set(self.labels.values()), key=natural).index(label)


def natural(text: str) -> list[tuple[float, str]]:
    """A key to sort names by, in which 10 comes after 2."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return [(float(part), "") if i % 2 else (-math.inf, part) for i, part in enumerate(parts)]


def read(paths: Sequence[Path], labels: Sequence[str] = ()) -> list[Source]:
    """Every run and file of rows at or below the given paths, in a fixed order.

    Labels, if there are any, are one a path: the name of what is there.
    """
    found: list[Source] = []
    for path, label in zip(paths, labels or [""] * len(paths), strict=True):
        if not path.exists():
            raise UserError(f"there is nothing at {path}")
        before = len(found)
        for place in sorted(_places(path)):
            source = read_run(place) if place.is_dir() else read_rows(place)
            if source is not None:
                found.append(dataclasses.replace(source, label=label))
            elif place == path:
                needed = ", ".join(EPISODE_COLUMNS)
                raise UserError(f"{path} is no file of episodes: its columns must include {needed}")
        if len(found) == before:
            raise UserError(f"{path} holds neither a run nor a csv of episodes")
    unique = {source.path.resolve(): source for source in found}
    return list(unique.values())


def _places(path: Path) -> Iterable[Path]:
    """Run directories and csv files at or below a path; nothing inside a run is looked at twice."""
    if path.is_file() or (path / "config.json").is_file():
        yield path
        return
    for folder, folders, files in os.walk(path):
        here = Path(folder)
        if "config.json" in files and here != path:
            folders.clear()
            yield here
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (here / name for name in files if name.endswith(".csv"))


def read_run(folder: Path) -> Source:
    """A run directory."""
    try:
        config = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{folder} is not a run: its config.json cannot be read ({error})") from None
    if not _describes_a_run(config):
        raise UserError(f"{folder} is not a run: its config.json does not describe one")
    file = folder / "eval.csv"
    rows = _episodes(file, _csv(file)) if file.exists() else []
    metrics = folder / "metrics.csv"
    return Source(
        folder,
        folder.resolve().name,
        rows,
        _sha256(file) if file.exists() else "",
        config,
        _metrics(metrics, config) if metrics.exists() else [],
        _offline(folder / "offline.csv"),
    )


def _describes_a_run(config: Any) -> bool:
    """Whether a json has all of a run's configuration that a report looks at."""
    try:
        texts = (config["agent"], config["settings"]["data"], config["settings"]["reward"])
        texts = (*texts, config["data"]["name"], config["data"]["fingerprint"])
        numbers = [v for member in config["members"] for v in member.values()]
        dicts = (config["config"], config["sweep"])
    except (KeyError, TypeError, AttributeError):
        return False
    return (
        all(isinstance(text, str) for text in texts)
        and all(isinstance(number, int | float) for number in numbers)
        and all(isinstance(part, dict) for part in dicts)
        and len(config["members"]) > 0
    )


def _offline(path: Path) -> list[dict[str, str]]:
    """The rows of offline.csv, checked; a missing file has none."""
    rows = _csv(path)
    for number, row in enumerate(rows, 2):
        for column in (*OFFLINE_COLUMNS, "score", "value"):
            if column not in row:
                raise UserError(f"{path} has no column {column}")
        for column in ("seed", "step", "candidates"):
            if not row[column].isdecimal():
                raise UserError(f"{path}, line {number}: {column} is {row[column]!r}, not a whole number")
        _number(path, number, row, "value")
    return rows


def _metrics(path: Path, config: dict[str, Any]) -> list[dict[str, str]]:
    """The rows of metrics.csv, checked to be numbers (nan and infinity among them)."""
    rows = _csv(path)
    for number, row in enumerate(rows, 2):
        for column in ("step", *config["sweep"]):
            if column not in row:
                raise UserError(f"{path} has no column {column}")
        try:
            int(row["step"])
            [float(value) for value in row.values() if value]
        except ValueError as error:
            raise UserError(f"{path}, line {number}: {error}") from None
    return rows


def read_rows(path: Path) -> Source | None:
    """A csv of episodes or of latencies; None where its columns are neither's."""
    rows = _csv(path)
    columns = set(rows[0]) if rows else set()
    if set(EPISODE_COLUMNS) <= columns:
        return Source(path, path.stem, _episodes(path, rows), _sha256(path))
    units = [name for name in TIME_COLUMNS if name in columns]
    if units and {"agent", "sampling_steps"} <= columns:
        for number, row in enumerate(rows, 2):
            for unit in units:
                _number(path, number, row, unit)
                name, factor = TIME_COLUMNS[unit]
                row[name] = repr(float(row[unit]) * factor)
        return Source(path, path.stem, rows, _sha256(path), times=True)
    return None


def short_names(sources: Sequence[Source]) -> list[str]:
    """A name for each source: its label, or the end of its path, as much of it as tells all apart."""
    paths = [source.path.resolve().with_name(source.name).parts for source in sources]
    for depth in range(1, max(map(len, paths), default=1) + 1):
        names = [x.label or "/".join(parts[-depth:]) for x, parts in zip(sources, paths, strict=True)]
        if len(set(names)) == len(names):
            return names
    return [x.label or str(x.path) for x in sources]


def _csv(path: Path) -> list[dict[str, str]]:
    try:
        return logs.read(path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read as csv ({error})") from None


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _episodes(path: Path, rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """The rows of a file of episodes, checked, the optional columns filled in."""
    for number, row in enumerate(rows, 2):
        for column in EPISODE_COLUMNS:
            if column not in row:
                raise UserError(f"{path} has no column {column}")
        for column in ("seed", "step", "candidates"):
            if not row[column].isdecimal():
                raise UserError(f"{path}, line {number}: {column} is {row[column]!r}, not a whole number")
        for column in ("normalised_score", "success", "variant", "fingerprint", "provenance", "episode"):
            row.setdefault(column, "")
        row.setdefault("sampling_steps", "")
        _number(path, number, row, "return")
        for column in ("normalised_score", "success"):
            if row[column] != "":
                _number(path, number, row, column)
    return rows


def _number(path: Path, line: int, row: dict[str, str], column: str) -> None:
    try:
        fine = math.isfinite(float(row[column]))
    except ValueError:
        fine = False
    if not fine:
        raise UserError(f"{path}, line {line}: {column} is {row[column]!r}, not a finite number")


def gather(sources: list[Source], title: str) -> Report:
    """Rows into lines; an episode that stands twice in the same settings counts once."""
    lines: dict[tuple[Task, Method, Way], Line] = {}
    seen: set[tuple[str, ...]] = set()
    for place, source in enumerate(sources):
        for row in source.rows if not source.times else ():
            method = Method(row["agent"], row["variant"], source.identity)
            once = (source.identity, *row.values())
            if once in seen:
                continue
            seen.add(once)
            task = Task(row["data"], row["fingerprint"], row["env"], row["physics"])
            way = Way(int(row["candidates"]), row["act"], row["sampling_steps"], row["weights"])
            line = lines.setdefault((task, method, way), Line(task, method, way))
            line.episodes[int(row["seed"])][int(row["step"])].append(row)
            if place not in line.sources:
                line.sources.append(place)
    labels = _labels(sources, list(lines.values()))
    for line in lines.values():
        line.label = labels[line.method]
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return Report(title, sources, list(lines.values()), labels, made)


def _labels(sources: list[Source], lines: list[Line]) -> dict[Method, str]:
    """Names of methods: the agent's, with the source's where one task has the agent in several settings."""
    where: dict[Method, set[str]] = defaultdict(set)
    first: dict[Method, Source] = {}
    for line in lines:
        where[line.method].add(line.task.data)
        first.setdefault(line.method, sources[line.sources[0]])
    for source in sources:
        for variant in variants(source):
            config = source.config or {}
            method = Method(str(config["agent"]), variant, source.identity)
            where[method].add(str(config.get("data", {}).get("name")))
            first.setdefault(method, source)

    def name(method: Method, depth: int) -> str:
        folders, own = first[method].path.resolve().parts[:-1], first[method].name
        # Nothing, the source's own name, its folder's, both, and then more of the path.
        choices = ["", own, folders[-1], *("/".join([*folders[-n:], own]) for n in range(1, 8))]
        source = choices[depth]
        parts = [method.agent] if source in ("", method.agent) else [method.agent, source]
        given = first[method].label or " · ".join(parts)
        return given + (f" ({method.variant})" if method.variant else "")

    def ambiguous(methods: list[Method], depth: int) -> bool:
        shown = [(name(m, depth), data) for m in methods for data in where[m]]
        return len(shown) != len(set(shown))

    named = {}
    for agent in {method.agent for method in where}:
        methods = [m for m in where if m.agent == agent]
        # As little of the path as tells the settings apart.
        depth = next((d for d in range(9) if not ambiguous(methods, d)), 9)
        named |= {m: name(m, depth) for m in methods}
    return named


def variants(source: Source) -> list[str]:
    """The swept values of a run's members, as rows name them; none for a file of rows."""
    members = (source.config or {}).get("members") or []
    found = [
        " ".join(f"{name}={value:g}" for name, value in member.items() if name != "seed")
        for member in members
    ]
    return list(dict.fromkeys(found))


def published_name(method: Method, sources: list[Source]) -> str:
    """The name under which others publish a method: one whose critic has no say in the actor is a clone."""
    configs = [s.config["config"] for s in sources if s.config and s.identity == method.identity]
    settings = {key: str(value) for key, value in (configs[0] if configs else {}).items()}
    settings |= dict(part.split("=", 1) for part in method.variant.split() if "=" in part)
    cloned = any(settings.get(name) in ("0", "0.0") for name in ("eta", "q_weight"))
    return re.sub(r"_(ql|ac)$", "", method.agent) + "_bc" if cloned else method.agent


def published_beside(report: Report, line: Line) -> list[published.Score]:
    """What others publish for the same method and task; normalised scores only, as theirs are."""
    if line.metric != "normalised_score":
        return []
    name = published_name(line.method, report.sources)
    return [s for s in published.for_task(line.task.data) if s.agent == name]


def aggregate_lines(report: Report) -> dict[str, list[Line]]:
    """Methods with a way to act, each with its lines on the tasks that all of them share.

    A method's lines that differ in K or weights only are not put together: the first, plainest is taken.
    """
    table: dict[str, dict[Task, Line]] = defaultdict(dict)
    for task in report.tasks:
        for line in report.of(task):
            if line.metric == "normalised_score":
                table[f"{line.label}, {line.way.text()}"].setdefault(task, line)

    # Of all sets of tasks that some method has, the one with the most scores in it.
    def covered(tasks: frozenset[Task]) -> int:
        return len(tasks) * sum(tasks <= set(has) for has in table.values())

    tasks = max((frozenset(has) for has in table.values()), key=covered, default=frozenset())
    return {name: [has[k] for k in sorted(tasks)] for name, has in table.items() if tasks <= set(has)}


def table_rows(report: Report) -> list[dict[str, str]]:
    """The rows of report.csv: one a line, every number with what it is."""
    found = []
    for task in report.tasks:
        for line in report.of(task):
            last = stats.summary(line.last())
            three, best = stats.summary(line.last_three()), stats.summary(line.best())
            success = line.success()
            theirs = published_beside(report, line)
            found.append(
                {
                    "task": task.name,
                    "data": task.data,
                    "fingerprint": task.fingerprint,
                    "provenance": next(iter(line.rows()))["provenance"],
                    "env": task.env,
                    "physics": task.physics,
                    "method": line.label,
                    "agent": line.method.agent,
                    "variant": line.method.variant,
                    "act": line.way.act,
                    "candidates": str(line.way.candidates),
                    "sampling_steps": line.way.sampling_steps,
                    "weights": line.way.weights,
                    "metric": line.metric,
                    "last_mean": repr(last.mean),
                    "last_std": repr(last.std),
                    "last_iqm": repr(last.iqm),
                    "last_low95": repr(last.interval[0]),
                    "last_high95": repr(last.interval[1]),
                    "last3_mean": repr(three.mean),
                    "last3_std": repr(three.std),
                    "best_mean": repr(best.mean),
                    "best_std": repr(best.std),
                    "success": "" if success is None else repr(float(success.mean())),
                    "seeds": str(last.count),
                    "evaluations": str(line.evaluations),
                    "last_step": str(max(line.last_steps)),
                    "last_rows": str(line.last_rows),
                    "all_rows": str(line.all_rows),
                    "rows_in": "; ".join(str(report.sources[i].file) for i in line.sources),
                    "published": "; ".join(f"{s.text()} ({s.task}, {s.kind}, {s.source})" for s in theirs),
                }
            )
    return found


def to_csv(rows: list[dict[str, str]]) -> str:
    """Rows as the text of a csv file."""
    text = io.StringIO()
    columns = list(dict.fromkeys(key for row in rows for key in row))
    writer = csv.DictWriter(text, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def all_episodes(report: Report) -> list[dict[str, str]]:
    """Every row that was used, with the method's name and the file it came from: rows.csv."""
    return [
        {"method": line.label, "rows_in": "; ".join(str(report.sources[i].file) for i in line.sources)} | row
        for task in report.tasks
        for line in report.of(task)
        for row in line.rows()
    ]


def write(paths: Sequence[Path], out: Path, title: str, labels: Sequence[str] = ()) -> Report:
    """Read runs and rows, and write the report's folder, whole or not at all."""
    if out.exists():
        raise UserError(f"{out} exists already; name another --out")
    report = gather(read(paths, labels), title)
    from gtp import report_page, report_policy, report_text

    files = {
        "index.html": report_page.page(report, report_policy.looks(report)),
        "report.md": report_text.markdown(report),
        "report.tex": report_text.latex(report),
        "report.csv": to_csv(table_rows(report)),
        "rows.csv": to_csv(all_episodes(report)),
    }
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        for name, content in files.items():
            (temporary / name).write_text(content)
        temporary.replace(out)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise UserError(f"cannot write {out}: {error.strerror}") from None
    return report
