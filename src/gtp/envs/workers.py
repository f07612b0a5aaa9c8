"""Worlds in processes of their own, started once and stepped many times.

A worker is a fresh interpreter, not a fork (unsafe once JAX has threads) and not `multiprocessing`'s spawn
(which would import the user's script again). It imports no JAX, reads commands from its standard input and
answers on its standard output, fixed numbers of bytes each, and ends when its input does: however the parent
goes, no worker outlives it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
from typing import Any, BinaryIO

import numpy as np

from gtp.errors import UserError

START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from gtp.envs import workers; workers.main()"
)
RESET, STEP = b"R", b"S"


class WorkerWorlds:
    """World i lives in worker i modulo their number, so that long and short episodes spread evenly."""

    def __init__(self, spec: Any, count: int, workers: int) -> None:
        self._id, self._count = spec.id, count
        # Ctrl-C reaches the whole terminal; workers are to end by their parent, in order.
        quiet = os.environ | {"PYTHONWARNINGS": "ignore"}
        self._workers = [
            subprocess.Popen(
                [sys.executable, "-c", START, json.dumps([os.path.abspath(p) for p in sys.path])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=quiet,
                start_new_session=True,
            )
            for _ in range(workers)
        ]
        try:
            for i, worker in enumerate(self._workers):
                plan = {"spec": spec.to_json(), "count": len(range(i, count, workers))}
                self._send(worker, json.dumps(plan).encode() + b"\n")
            facts = [json.loads(self._receive(worker)) for worker in self._workers]
        except BaseException:
            self.close()
            raise
        self.obs_shape, self.action_shape = tuple(facts[0]["obs_shape"]), tuple(facts[0]["action_shape"])
        self._dtype = np.dtype(facts[0]["dtype"])

    def reset(self, seeds: list[int]) -> np.ndarray:
        """Observations at the start."""
        every = np.asarray(seeds, np.int64)
        for part, worker in self._parts():
            self._send(worker, RESET + every[part].tobytes())
        obs = np.empty((self._count, *self.obs_shape), self._dtype)
        for part, worker in self._parts():
            obs[part] = np.frombuffer(self._receive(worker), self._dtype).reshape(obs[part].shape)
        return obs

    def step(self, actions: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, ...]:
        """One step of the active worlds, all workers at once."""
        actions = np.asarray(actions, np.float32)
        busy = [(part, worker) for part, worker in self._parts() if active[part].any()]
        for part, worker in busy:
            self._send(worker, STEP + active[part].tobytes() + actions[part].tobytes())
        obs = np.zeros((self._count, *self.obs_shape), self._dtype)
        reward, over, success = (np.zeros(self._count, kind) for kind in (float, bool, float))
        for part, worker in busy:
            answer, n = self._receive(worker), len(reward[part])
            numbers = np.frombuffer(answer, float, 2 * n)
            reward[part], success[part] = numbers[:n], numbers[n:]
            over[part] = np.frombuffer(answer, bool, n, offset=16 * n)
            obs[part] = np.frombuffer(answer, self._dtype, offset=17 * n).reshape(obs[part].shape)
        return obs, reward, over, success

    def close(self) -> None:
        """End the workers; one that does not end by itself is ended."""
        for worker in self._workers:
            for pipe in (worker.stdin, worker.stdout):
                with contextlib.suppress(OSError):
                    assert pipe is not None
                    pipe.close()
        for worker in self._workers:
            try:
                worker.wait(timeout=5)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()

    def _parts(self) -> list[tuple[slice, subprocess.Popen]]:
        return [(slice(i, None, len(self._workers)), worker) for i, worker in enumerate(self._workers)]

    def _send(self, worker: subprocess.Popen, message: bytes) -> None:
        assert worker.stdin is not None
        try:
            worker.stdin.write(message)
            worker.stdin.flush()
        except OSError:
            raise self._death(worker) from None

    def _receive(self, worker: subprocess.Popen) -> bytes:
        assert worker.stdout is not None
        header = worker.stdout.read(HEADER.size)
        failed, size = HEADER.unpack(header) if len(header) == HEADER.size else (False, 1)
        answer = worker.stdout.read(size)
        if len(answer) < size:
            raise self._death(worker)
        if failed:
            raise UserError(f"cannot play in {self._id}: {answer.decode()}")
        return answer

    def _death(self, worker: subprocess.Popen) -> UserError:
        code = worker.wait()
        how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return UserError(f"a process that plays in {self._id} died {how}; the evaluation is not complete")


HEADER = struct.Struct("<?Q")
"""Before each answer: whether it is the text of a failure, and its number of bytes."""


def main() -> None:
    """Serve as a worker."""
    # A cluster sends it to all processes of a run; the one that trains ends the workers when it is done.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # What environments print must not get among the answers.
    inbox, outbox = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        serve(inbox, outbox)
    except BrokenPipeError:
        pass
    except Exception as error:
        text = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        with contextlib.suppress(BrokenPipeError):
            answer(outbox, " ".join(text.split()).encode(), failed=True)


def serve(inbox: BinaryIO, outbox: BinaryIO) -> None:
    """Make worlds as the first line says, then reset and step them until the input ends."""
    from gymnasium.envs.registration import EnvSpec

    from gtp.envs.worlds import ListedWorlds

    plan = json.loads(inbox.readline() or "null")
    if plan is None:
        return
    count = plan["count"]
    worlds = ListedWorlds(EnvSpec.from_json(plan["spec"]), count)
    # The type of what `reset` gives is the one that counts; spaces do not always tell the truth.
    dtype = worlds.reset(list(range(count))).dtype
    facts = {"obs_shape": worlds.obs_shape, "action_shape": worlds.action_shape, "dtype": dtype.str}
    answer(outbox, json.dumps(facts).encode())
    actions = count * int(np.prod(worlds.action_shape))
    while command := inbox.read(1):
        if command == RESET:
            seeds = np.frombuffer(inbox.read(8 * count), np.int64)
            answer(outbox, worlds.reset([int(seed) for seed in seeds]).tobytes())
        else:
            active = np.frombuffer(inbox.read(count), bool)
            action = np.frombuffer(bytearray(inbox.read(4 * actions)), np.float32)
            obs, reward, over, success = worlds.step(action.reshape(count, *worlds.action_shape), active)
            answer(outbox, reward.tobytes() + success.tobytes() + over.tobytes() + obs.tobytes())


def answer(outbox: BinaryIO, content: bytes, failed: bool = False) -> None:
    """Send one answer."""
    outbox.write(HEADER.pack(failed, len(content)) + content)
    outbox.flush()
