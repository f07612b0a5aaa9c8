"""Where a report's rows come from: run directories and files of rows, found, read and checked."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gtp import logs
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
LEARNT_BY = {
    "reward": "none",
    "n_step": 1,
    "chunk": 1,
    "steps": 0,
    "batch_size": 256,
    "frame_stack": 1,
    "holdout": 0.0,
}
"""Settings of a run that change what is learnt, and what they were in runs too old to name them."""
OFFLINE_COLUMNS = ("agent", "seed", "step", "act", "candidates", "sampling_steps", "weights", "variant", "on")


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
        stored = self.config.get("settings", {})
        settings = {name: stored.get(name, earlier) for name, earlier in LEARNT_BY.items()}
        options = {k: v for k, v in (self.config.get("config") or {}).items() if k not in names}
        return json.dumps({"config": options, "settings": settings}, sort_keys=True)


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


def variants(source: Source) -> list[str]:
    """The swept values of a run's members, as rows name them; none for a file of rows."""
    members = (source.config or {}).get("members") or []
    found = [
        " ".join(f"{name}={value:g}" for name, value in member.items() if name != "seed")
        for member in members
    ]
    return list(dict.fromkeys(found))
