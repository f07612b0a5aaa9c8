"""Progress on the terminal: a bar with losses and the time that is left."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

SHOWN = {"actor_loss": "actor", "critic_loss": "critic", "q_mean": "Q"}
Move = Callable[[int, dict[str, np.ndarray], np.ndarray], None]


@contextmanager
def bar(console: Console, label: str, total: int, done: int = 0) -> Generator[Move, None, None]:
    """A bar of `total` updates; the function it gives is called at each log point."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(label, total=total, completed=done)

        def move(step: int, metrics: dict[str, np.ndarray], alive: np.ndarray) -> None:
            living = alive if alive.any() else np.ones_like(alive)
            means = {word: metrics[name][living].mean() for name, word in SHOWN.items() if name in metrics}
            words = [f"{word} {mean:.3g}" for word, mean in means.items()]
            progress.update(task, completed=step, description="  ".join(words) or label)

        yield move
