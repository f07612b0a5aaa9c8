"""D4RL's medium-replay: all that a SAC agent saw until it was as good as the medium policy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gtp.envs.locomotion import Locomotion
from gtp.errors import UserError
from gtp.generate import policy as policies
from gtp.generate.locomotion import rollout
from gtp.generate.official import OFFICIAL
from gtp.generate.shards import Arrays, read, save

EPOCH = 1000
"""Steps, then updates, of an epoch; an episode is cut where its epoch ends, as in D4RL's training code."""
BLOCK = 10
"""Epochs between two evaluations, and between two places to resume from."""
EPISODES = 20
"""Of an evaluation."""
EVALUATION, COLLECTION = 0, 1


def target(task: str, file: Path | None) -> float:
    """The return to stop at: that of the given medium policy, else of the official medium dataset."""
    if file is not None:
        return evaluate(task, policies.load(file), 0, 0)
    official = OFFICIAL.get(f"d4rl:{task}-medium-v2")
    if official is None or official.mean_return is None:
        raise UserError(
            f"The return to stop {task}-medium-replay-v2 at is not known: give its medium policy (--policy)."
        )
    return official.mean_return


def evaluate(task: str, actor: policies.Policy, seed: int, epoch: int) -> float:
    """Mean return of whole episodes, the policy sampled as it is in the data."""
    streams = [np.random.default_rng((seed, EVALUATION, epoch, i)) for i in range(EPISODES)]
    return float(rollout(task, actor, streams)["rewards"].sum() / EPISODES)


def collect(
    task: str,
    goal: float,
    limit: int,
    seed: int,
    folder: Path,
    workers: int,
    report: Callable[[int], object],
    block: int = BLOCK,
) -> list[Path]:
    """Train until the evaluation return is `goal` or `limit` rows are there; returns the buffer in order.

    The number of workers does not matter: one agent learns from one stream. After each block of epochs the
    state of training is kept, and goes on from there when asked for again.
    """
    import jax

    from gtp.generate import sac

    folder.mkdir(exist_ok=True)
    key = jax.random.key(seed)
    features, actions = _sizes(task)
    buffer = sac.empty_buffer(-(-limit // EPOCH) * EPOCH, features, actions)
    learner = sac.init(jax.random.fold_in(key, 2**31), features, actions)
    learner, count, reached = _load(folder, learner)
    paths = [_block_path(folder, i) for i in range(count)]
    size = 0
    for rows in read(paths):
        buffer = sac.store(buffer, sac.Buffer(*_transitions(rows)), size)
        size += len(rows["rewards"])
        report(len(rows["rewards"]))
    while size < limit and not reached:
        parts = []
        for _ in range(block):
            epoch = size // EPOCH
            rows = explore(task, sac.as_policy(learner), seed, epoch)
            buffer = sac.store(buffer, sac.Buffer(*_transitions(rows)), size)
            size += EPOCH
            if epoch > 0:  # The first thousand steps come before any training.
                learner = sac.train(learner, buffer, size, jax.random.fold_in(key, epoch), EPOCH)
            parts.append(rows)
            report(EPOCH)
            if size >= limit:
                break
        reached = evaluate(task, sac.as_policy(learner), seed, size // EPOCH) >= goal
        paths.append(_block_path(folder, len(paths)))
        save(paths[-1], {name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
        _save(folder, learner, len(paths), reached)
    return paths


def explore(task: str, actor: policies.Policy, seed: int, epoch: int) -> Arrays:
    """An epoch's steps: one episode after the other, the last one cut short."""
    parts, left = [], EPOCH
    while left:
        stream = np.random.default_rng((seed, COLLECTION, epoch, len(parts)))
        parts.append(rollout(task, actor, [stream], limit=left))
        left -= len(parts[-1]["rewards"])
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _transitions(rows: Arrays) -> tuple[np.ndarray, ...]:
    """What the learner sees of the rows, in the order of its buffer."""
    names = ("observations", "actions", "rewards", "next_observations", "terminals")
    return tuple(rows[name].astype(np.float32) for name in names)


def _sizes(task: str) -> tuple[int, int]:
    env = Locomotion(task)
    return len(env.observation()), env.model.nu


def _block_path(folder: Path, index: int) -> Path:
    return folder / f"{index:06d}.npz"


def _save(folder: Path, learner: Any, blocks: int, reached: bool) -> None:
    """Keep the state of training, which is a function of the seed and of the blocks before it."""
    import jax

    arrays = {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(learner))}
    save(folder / "state.npz", arrays | {"blocks": np.array(blocks), "reached": np.array(reached)})


def _load(folder: Path, fresh: Any) -> tuple[Any, int, bool]:
    """The state of training, the blocks behind it and whether it was done; the fresh one if none was kept."""
    import jax

    path = folder / "state.npz"
    if not path.exists():
        return fresh, 0, False
    (arrays,) = read([path])
    leaves = [jax.numpy.asarray(arrays[f"leaf{i}"]) for i in range(len(jax.tree.leaves(fresh)))]
    learner = jax.tree.unflatten(jax.tree.structure(fresh), leaves)
    return learner, int(arrays["blocks"]), bool(arrays["reached"])
