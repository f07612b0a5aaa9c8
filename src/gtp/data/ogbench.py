"""OGBench's npz files, with the rewards of one task put on them: goals in a table, the rule in `successes`.

OGBench's own relabelling has always looked at the state an action is taken in; its environments did so only
from version 1.2 (`pre`), and at the state it leads to before that (`post`). Scores published with FQL were
taken in environments of the second kind, on data of the first.
"""

from __future__ import annotations

import functools
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gtp.data import own
from gtp.data.arrays import read_arrays, read_metadata
from gtp.data.dataset import Log, qlearning
from gtp.errors import UserError

NAME = re.compile(
    r"(?P<base>[a-z0-9-]+?)(?P<single>-singletask(-task(?P<task>\d+))?)?-v0(@(?P<timing>pre|post))?"
)
ARM = 14
"""Joint positions of arm and gripper, which stand before those of the objects."""
CUBE = 7
"""Joint positions of a cube: where it is, how it is turned."""
NEAR = 0.04
"""Metres within which a cube, a drawer or a window is where it should be."""


class Name(NamedTuple):
    """A name such as cube-single-play-singletask-task1-v0@pre, taken apart."""

    data: str
    """The file's name without suffix: cube-single-play-v0."""
    domain: str
    """cube-single."""
    env: str
    """Gymnasium id to evaluate in."""
    task: int | None
    """1 to 5; 0 stands for the domain's own default; None for data without a task."""
    timing: str
    """Whether success is that of the state acted in (`pre`) or that of the next one (`post`)."""


def parse(name: str) -> Name:
    """Take a name apart.

    Raises:
        UserError: where it is not shaped like one.
    """
    match = NAME.fullmatch(name)
    domain, _, kind = match["base"].rpartition("-") if match else ("", "", "")
    if match is None or not domain or not kind:
        raise UserError(f"'{name}' is no OGBench name; one looks like cube-single-play-singletask-task1-v0.")
    task = None if match["single"] is None else int(match["task"] or 0)
    env = f"{domain}{match['single'] or ''}-v0"
    return Name(f"{match['base']}-v0", domain.removeprefix("visual-"), env, task, match["timing"] or "pre")


@functools.cache
def goals() -> dict[str, Any]:
    """For each domain the default task and the goals of its tasks."""
    return json.loads((resources.files("gtp.data") / "ogbench_goals.json").read_text())


def read(path: Path, name: Name) -> Log:
    """The log of one file, with the rewards of the task in its name; without a task they are zero.

    A row is dropped where a trajectory ends. Success takes the future's value away (`terminals`), but the
    trajectory goes on: `ends` are elsewhere.
    """
    arrays = read_arrays(path, ("observations", "actions", "terminals", "qpos", "button_states"))
    state = {key: arrays.pop(key) for key in ("qpos", "button_states") if key in arrays}
    if "terminals" not in arrays:
        raise UserError(f"{path}: terminals: this array is missing.")
    own.check(path, arrays | {"rewards": np.zeros(len(arrays["terminals"]), np.float32)})
    ends = arrays["terminals"].reshape(-1).astype(bool)
    reward, success = np.zeros(len(ends), np.float32), np.zeros(len(ends), bool)
    if name.task is not None:
        done = successes(path, name, {key: value for key, value in state.items() if len(value) == len(ends)})
        if name.timing == "post":
            done = np.concatenate([done[1:], done[-1:]])
        reward = (done.sum(1) - done.shape[1]).astype(np.float32)
        success = np.all(done, axis=1)
    rows = own.to_rows(arrays | {"rewards": reward, "terminals": success, "timeouts": ends})
    ones = np.ones(rows.actions.shape[1], np.float32)
    notes = () if name.task is not None else ("No task is named, so all rewards are zero.",)
    metadata = read_metadata(path) | ({} if name.task is None else {"success_timing": name.timing})
    return Log(rows, qlearning, ends, -ones, ones, name.env, metadata, notes)


def successes(path: Path, name: Name, state: dict[str, np.ndarray]) -> np.ndarray:
    """For each row and each thing a task is about, whether it is as the task wants it: bools (rows, things).

    A cube is within 0.04 of its goal, drawer and window likewise, a button is in its state, the agent or
    the ball is within 0.5 of the goal (1.0 for the point).
    """
    domain = goals().get(name.domain)
    if domain is None:
        raise UserError(f"OGBench's {name.domain} has no tasks; known are {', '.join(goals())}.")
    number = name.task or domain["default"]
    if number > len(domain["goals"]):
        raise UserError(f"OGBench's {name.domain} has tasks 1 to {len(domain['goals'])}, not {number}.")
    goal = domain["goals"][number - 1]
    needed = {"buttons": "button_states"}
    for thing in goal:
        key = needed.get(thing, "qpos")
        if key not in state or state[key].ndim != 2:
            raise UserError(f"{path}: {key}: the rewards of a task cannot be found without this array.")
    qpos, buttons = state.get("qpos", np.zeros((0, 0))), state.get("button_states")
    cubes, presses = len(goal.get("cubes", [])), len(goal.get("buttons", []))
    slide = ARM + CUBE * cubes + presses
    found = []
    with own.wrong_shape(path, "qpos or button_states"):
        for index, target in enumerate(goal.get("cubes", [])):
            start = ARM + CUBE * index
            found.append(np.linalg.norm(qpos[:, start : start + 3] - target, axis=1) <= NEAR)
        if buttons is not None and presses:
            found += list((buttons == np.array(goal["buttons"])).T)
        if "drawer" in goal:
            found.append(np.abs(qpos[:, slide] - goal["drawer"]) <= NEAR)
            found.append(np.abs(qpos[:, slide + 1] - goal["window"]) <= NEAR)
        if "agent" in goal:
            reach = 1.0 if name.domain.startswith("pointmaze-") else 0.5
            found.append(np.linalg.norm(qpos[:, :2] - goal["agent"], axis=1) <= reach)
        if "ball" in goal:
            found.append(np.linalg.norm(qpos[:, 15:17] - goal["ball"], axis=1) <= 0.5)
        return np.stack(found, axis=1)
