"""Published scores, as data with their sources: `published.tsv`.

`kind` says which score of a run it is: the last one, the best one, or that the source does not say.
"""

from __future__ import annotations

import functools
import re
from importlib import resources
from pathlib import Path
from typing import NamedTuple


class Score(NamedTuple):
    """One number somebody published."""

    agent: str
    task: str
    score: float
    std: float | None
    kind: str
    """last, best or unstated."""
    source: str

    def text(self) -> str:
        """The score as it was printed."""
        return f"{self.score:g}" if self.std is None else f"{self.score:g} ± {self.std:g}"


@functools.cache
def scores() -> tuple[Score, ...]:
    """All of them, in the order of the file."""
    lines = (resources.files("gtp") / "published.tsv").read_text().splitlines()[1:]
    rows = (line.split("\t") for line in lines)
    return tuple(
        Score(agent, task, float(score), float(std) if std else None, kind, source)
        for agent, task, score, std, kind, source in rows
    )


def task_name(data: str) -> str:
    """The name of a task as tables print it: of `d4rl:hopper-medium-v2`, of `…/hopper_medium-v2.hdf5`."""
    name = data.split(":", 1)[1] if re.match(r"[a-z0-9]+:", data) else Path(data).stem
    return name.rsplit("/", 1)[-1].removesuffix(".hdf5").replace("_", "-")


def for_task(data: str) -> list[Score]:
    """What was published for these data; other versions of the same task come along, under their own name."""
    task = task_name(data)
    return [s for s in scores() if _unversioned(s.task) == _unversioned(task)]


def _unversioned(task: str) -> str:
    return re.sub(r"-v\d+$", "", task)
