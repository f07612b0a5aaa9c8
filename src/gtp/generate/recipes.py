"""What `make` can make: names, and what each takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gtp.data.catalogue import SHOWN
from gtp.envs import locomotion as robots
from gtp.envs import physics
from gtp.envs.d4rl import LOCOMOTION
from gtp.errors import UserError, did_you_mean
from gtp.generate import antmaze, locomotion, manipulation, policy, replay, shards, toy
from gtp.generate.shards import Arrays

MILLION = 1_000_000
MAX_PICTURES = 300_000
Collect = Callable[[Path, int, Callable[[int], object]], list[Path]]
"""(folder, workers, report) -> the shards, in order."""


class Part(NamedTuple):
    """Rows made in one way."""

    collect: Collect
    rows: int
    whole: bool = False
    """Cut back to the last end of an episode."""


class Recipe(NamedTuple):
    """All that a made dataset is a function of."""

    parts: list[Part]
    suffix: str
    metadata: dict[str, str]
    validation: int = 0
    """Shards at the end that go into a validation file of their own."""


def names() -> list[str]:
    """Every name that can be made."""
    levels = ("random", "medium", "expert", "medium-expert", "medium-replay")
    gym = [f"d4rl:{task}-{level}-v2" for task in LOCOMOTION.values() for level in levels]
    mazes = [f"d4rl:antmaze-{name}-v2" for name in antmaze.RECIPES]
    play = [f"ogbench:{env}-play-v0" for env in manipulation.ORACLES]
    return gym + mazes + play + ["toy:multigoal", "toy:multigoal-pixels"]


def full_name(name: str) -> str:
    """A name with the version that OGBench's files carry; one sentence where nothing of it can be made."""
    if name.startswith("ogbench:") and name.endswith("-play"):
        name += "-v0"
    if name not in names():
        meant = did_you_mean(name, names(), SHOWN)
        raise UserError(f"{name} is none of the datasets that can be made{meant}")
    return name


def recipe(name: str, files: list[Path], steps: int | None, seed: int) -> Recipe:
    """The recipe of a name, or one sentence on what is wrong with what was asked."""
    if steps is not None and steps < 1:
        raise UserError(f"--steps must be at least 1, not {steps}.")
    if seed < 0:
        raise UserError(f"--seed must not be negative, as {seed} is.")
    name = full_name(name)
    kind, _, rest = name.partition(":")
    if kind == "ogbench":
        built = _manipulation(rest.removesuffix("-play-v0"), files, steps, seed)
    elif kind == "toy":
        built = _toy(rest, files, steps, seed)
    elif rest.startswith("antmaze-"):
        built = _antmaze(rest.removeprefix("antmaze-").removesuffix("-v2"), files, steps, seed)
    else:
        match = re.fullmatch(r"(\w+)-(.+)-v2", rest)
        assert match is not None
        task, level = match.groups()
        build = _replay if level == "medium-replay" else _gym
        built = build(task, level, files, steps, seed)
    return built._replace(metadata={"name": name, "regenerated": "yes", **built.metadata, "seed": str(seed)})


def _gym(task: str, level: str, files: list[Path], steps: int | None, seed: int) -> Recipe:
    wanted = {"random": 0, "medium-expert": 2}.get(level, 1)
    _take(
        files,
        wanted,
        f"{task}-{level}-v2",
        "first the medium one, then the expert one" if wanted == 2 else "",
    )
    for file in files:
        _fit(file, task)
    rows = (steps or MILLION * max(wanted, 1)) // max(wanted, 1)
    # A falling robot's random episodes are short, so that a shard takes more of them.
    episodes = {"hopper": 256, "walker2d": 256, "ant": 32}.get(task, 16) if level == "random" else 16
    parts = []
    for number, file in enumerate(files or [None]):
        path = None if file is None else str(file)
        work = partial(locomotion.shard, task, path, episodes, _stream(seed, number))
        parts.append(_part(work, rows, whole=number + 1 < wanted))
    protocol = "D4RL gym v2: stochastic policy, at most 1000 steps an episode, whole trajectories, then cut"
    if wanted == 2:
        protocol += "; the medium rows cut at their last trajectory end, then the expert rows"
    return Recipe(parts, ".hdf5", _metadata(files, protocol, physics.version()))


def _antmaze(name: str, files: list[Path], steps: int | None, seed: int) -> Recipe:
    _take(files, 1, f"antmaze-{name}-v2", "the goal-reaching one")
    actor = policy.load(files[0])
    if (actor.features, actor.actions) != (29, 8):
        raise UserError(f"{files[0]} is no goal-reaching ant: it does not take 27 + 2 numbers and give 8.")
    physics.mujoco()
    goal = antmaze.evaluation_goal(name, seed)
    protocol = (
        "D4RL AntMaze v2: breadth-first waypoints, goal-reaching policy, action noise 0.2,"
        f" episodes of {antmaze.RECIPES[name].rows} rows, sparse relabel against the evaluation goal"
    )
    work = partial(antmaze.shard, name, str(files[0]), 8, seed)
    metadata = _metadata(files, protocol, physics.version()) | {"evaluation_goal": " ".join(map(str, goal))}
    return Recipe([_part(work, steps or MILLION)], ".hdf5", metadata)


def _manipulation(env: str, files: list[Path], steps: int | None, seed: int) -> Recipe:
    _take(files, 0, f"{env}-play-v0", "")
    manipulation.require()
    episodes = max(1, (steps or 1000 * manipulation.ROWS) // manipulation.ROWS)
    validation = max(1, episodes // 10)
    work = partial(manipulation.shard, env, seed)
    part = _part(work, (episodes + validation) * manipulation.ROWS)
    protocol = (
        f"OGBench play: plan oracles, noise {manipulation.NOISE}, smoothing {manipulation.SMOOTHING},"
        f" a new target whenever one is done, {manipulation.ROWS} rows an episode"
    )
    metadata = _metadata([], protocol, f"stock mujoco {physics.mujoco().__version__}")
    return Recipe([part], ".npz", metadata | {"policy": "oracles of the ogbench package"}, validation)


def _replay(task: str, level: str, files: list[Path], steps: int | None, seed: int) -> Recipe:
    if files:
        _take(files, 1, f"{task}-{level}-v2", "the medium one, whose return is where training stops")
        _fit(files[0], task)
    target = replay.target(task, files[0] if files else None)
    limit = steps or MILLION
    collect = partial(replay.collect, task, target, limit, seed)
    protocol = (
        "D4RL gym v2 medium-replay: the buffer of SAC (2x256, batch 256, 1000 steps and 1000 updates an"
        f" epoch), stopped at an evaluation return of {target:.0f}"
    )
    metadata = _metadata(files, protocol, physics.version())
    return Recipe([Part(collect, limit)], ".hdf5", metadata | {"policy": "SAC of gtp in training"})


def _toy(name: str, files: list[Path], steps: int | None, seed: int) -> Recipe:
    _take(files, 0, name, "")
    pixels = name.endswith("-pixels")
    rows = steps or 10_000
    if pixels and rows > MAX_PICTURES:
        raise UserError(
            f"{name} is joined in memory, which {MAX_PICTURES:,} rows at most should fill, not {rows:,}."
        )
    part = _part(partial(toy.shard, pixels, seed), rows)
    metadata = {
        "policy": "wandering demonstrator",
        "protocol": "whole episodes, then cut",
        "physics": "numpy",
    }
    return Recipe([part], ".npz", metadata)


def _part(work: Callable[[int], Arrays], rows: int, whole: bool = False) -> Part:
    def collect(folder: Path, workers: int, report: Callable[[int], object]) -> list[Path]:
        return shards.collect(work, folder, rows, workers, report)

    return Part(collect, rows, whole)


def _metadata(files: list[Path], protocol: str, simulator: str) -> dict[str, str]:
    described = ", ".join(f"{file.name} sha256:{policy.digest(file)}" for file in files)
    return {"policy": described or "uniformly random actions", "protocol": protocol, "physics": simulator}


def _take(files: list[Path], wanted: int, name: str, which: str) -> None:
    """Refuse a wrong number of policy files in one sentence."""
    if len(files) != wanted:
        need = {0: "no policy file", 1: "one policy file", 2: "two policy files"}[wanted]
        raise UserError(f"{name} takes {need} (--policy){', ' + which if which else ''}; {len(files)} given.")


def _fit(file: Path, task: str) -> None:
    """Refuse a policy of another robot in one sentence."""
    actor = policy.load(file)
    model = robots.model(task)
    features = model.nq + model.nv - robots.TASKS[task].hidden + robots.TASKS[task].padding
    if (actor.features, actor.actions) != (features, model.nu):
        raise UserError(
            f"{file} is no policy for {task}: it takes {actor.features} numbers and gives {actor.actions},"
            f" where {task} has {features} and {model.nu}."
        )


def _stream(seed: int, number: int) -> int:
    """A seed of its own for the second policy of a dataset; the first keeps the one given."""
    return seed if number == 0 else int(np.random.SeedSequence((seed, number)).generate_state(1)[0])
