"""Work cut into numbered shards, done on all cores, kept on disk until the whole is written."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gtp.errors import UserError

try:
    import fcntl
except ImportError:  # Not on Windows, where two makers of one file are not kept apart.
    fcntl = None

Arrays = dict[str, np.ndarray]
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@contextmanager
def open_folder(folder: Path, key: dict[str, str]) -> Generator[None]:
    """Hold the folder for finished shards; keep what is in it only if it was made for the same key."""
    label = folder / "key.json"
    if folder.exists() and any(folder.iterdir()) and not label.is_file():
        raise UserError(
            f"{folder} is in the way: it is not the work of an earlier, unfinished `gtp data make`."
        )
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        _lock(lock.fileno(), folder)
        text = json.dumps(key, sort_keys=True)
        if not label.is_file() or label.read_text() != text:
            for stale in folder.iterdir():
                if stale.is_dir():
                    shutil.rmtree(stale)
            temporary = label.with_name("key.json.tmp")
            temporary.write_text(text)
            os.replace(temporary, label)
        yield


def collect(
    make: Callable[[int], Arrays], folder: Path, steps: int, workers: int, report: Callable[[int], object]
) -> list[Path]:
    """Shards 0, 1, 2, … until they hold `steps` rows together; `report` hears of rows as they are made.

    Which shards are kept depends on their contents alone, so the number of workers changes nothing.
    """
    folder.mkdir(exist_ok=True)
    rows: dict[int, int] = {}
    running: dict[Future[int], int] = {}
    index = 0
    with _one_thread_each(), _deaths_in_one_sentence(), _pool(workers) as pool:
        while _leading(rows, steps)[1] < steps:
            while len(running) < workers and _more_needed(rows, len(running), steps):
                path = _path(folder, index)
                if path.exists():
                    rows[index] = count_rows(path)
                    report(rows[index])
                else:
                    running[pool.submit(_make_one, make, index, path)] = index
                index += 1
            for done in wait(running, return_when=FIRST_COMPLETED).done if running else ():
                number = running.pop(done)
                rows[number] = done.result()
                report(rows[number])
    return [_path(folder, i) for i in range(_leading(rows, steps)[0])]


def read(paths: list[Path]) -> Iterator[Arrays]:
    """The arrays of each shard in turn."""
    for path in paths:
        with np.load(path, allow_pickle=False) as file:
            yield {key: file[key] for key in file.files}


def save(path: Path, arrays: dict[str, Any]) -> None:
    """Write a shard under another name, then rename: the path holds all of it or does not exist."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        np.savez(file, **arrays)
    os.replace(temporary, path)


def default_workers() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _path(folder: Path, index: int) -> Path:
    return folder / f"{index:06d}.npz"


def _leading(rows: dict[int, int], steps: int) -> tuple[int, int]:
    """How many shards from the first on are there, and their rows; stops counting at `steps` rows."""
    count = total = 0
    while total < steps and count in rows:
        total += rows[count]
        count += 1
    return count, total


def _more_needed(rows: dict[int, int], running: int, steps: int) -> bool:
    """Whether the shards under way are unlikely to be enough, judged by those done."""
    mean = sum(rows.values()) / len(rows) if rows else 0.0
    return running == 0 or sum(rows.values()) + running * mean < steps


def _make_one(make: Callable[[int], Arrays], index: int, path: Path) -> int:
    """Make one shard in a worker and write it; returns its rows."""
    arrays = make(index)
    save(path, arrays)
    return len(arrays["actions"])


def count_rows(path: Path) -> int:
    """Rows of a shard."""
    with np.load(path, allow_pickle=False) as file:
        return len(file["actions"])


def _pool(workers: int) -> ProcessPoolExecutor:
    """Spawned, not forked: the caller may have JAX's threads running."""
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=spawn, initializer=_begin_work)


@contextmanager
def _deaths_in_one_sentence() -> Generator[None]:
    try:
        yield
    except BrokenProcessPool:
        raise UserError(
            "A process that makes rows ended unexpectedly: killed, for want of memory most often. What is "
            "finished is kept: run the same again, with fewer workers if it happens again."
        ) from None


def _begin_work() -> None:
    """Let Ctrl-C reach the caller alone, which lets shards under way finish; but never outlive the caller."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _lock(descriptor: int, folder: Path) -> None:
    """Refuse to work beside another process on the same dataset; the lock goes when its holder ends."""
    if fcntl is None:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise UserError(f"Another `gtp data make` is at work in {folder}.") from None


@contextmanager
def _one_thread_each() -> Generator[None]:
    """Let each worker's BLAS use one thread: faster for small matrices, and sums always in the same order."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
