"""What a report says: rows of episodes gathered into lines of a table, each with its name. No agent is named.

A *line* is one method on one task acting in one way. Of every seed it has a sequence of evaluations, each the
mean of its episodes, and three numbers that are always shown together: the last evaluation, the mean of the
last three, and the best.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from gtp import published
from gtp.report_sources import Source, variants


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
