"""A run and its directory: configuration, logs, checkpoints, evaluations, policy.

RUN/config.json          everything resolved, with versions, device and the data's fingerprint
RUN/metrics.csv          one row a log point and member
RUN/eval.csv             one row an episode
RUN/offline.csv          one row a score and member, taken from data alone
RUN/checkpoints/STEP/    all that going on bit for bit needs
RUN/policy/              all that acting needs
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import platform
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import gtp
from gtp import agents, checkpoint, config, evaluate, logs, policy, training
from gtp.envs import worlds
from gtp.errors import UserError
from gtp.plan import Run, Settings, load, resolve
from gtp.scoring import offline_scores, score
from gtp.types import State

KEPT_CHECKPOINTS = 2


def start(
    folder: Path, agent: str, agent_config: Any, settings: Settings, sweep: dict[str, Sequence[float]]
) -> Run:
    """Check everything, load the data, and lay out a new run directory."""
    config.check(agent_config)
    for name, values in sweep.items():
        for value in values:
            config.check(dataclasses.replace(agent_config, **{name: value}))
    settings = resolve(settings)
    config.check(settings)
    if folder.exists():
        raise UserError(f"{folder} exists already; name another --out, or go on with --resume {folder}")
    run = Run(folder, agent, agent_config, settings, sweep, load(settings))
    run.check_steps()
    obs_shape, action_size = run.obs_shape, run.about()["action_size"]
    if stage(run):
        try:
            worlds.check(str(run.env), obs_shape, action_size, settings.frame_stack)
        except UserError as error:
            raise UserError(f"{error}; --eval-episodes 0 trains without playing") from None
    content = describe(run)
    folder.mkdir(parents=True)
    checkpoint.write_json(folder / "config.json", content)
    return run


def describe(run: Run) -> dict[str, Any]:
    """The content of config.json."""
    return {
        "format": checkpoint.FORMAT,
        "agent": run.agent,
        "config": dataclasses.asdict(run.config),
        "sweep": {name: list(values) for name, values in run.sweep.items()},
        "settings": dataclasses.asdict(run.settings),
        "members": run.members.labels(),
        "data": {
            "name": run.dataset.name,
            "fingerprint": run.dataset.fingerprint,
            "transitions": run.dataset.size,
            "held_out_transitions": int(run.held_out.sum()),
            "env": run.env,
            "metadata": run.dataset.metadata,
        },
        "versions": {"gtp": gtp.__version__, "jax": jax.__version__, "python": platform.python_version()},
        "commit": commit(),
        "device": str(jax.devices()[0].device_kind),
    }


def commit() -> str | None:
    """The commit of the source tree gtp runs from, None for an installed package."""
    here = Path(__file__).parent
    try:
        command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def resume(folder: Path) -> tuple[Run, State | None, np.ndarray | None]:
    """A run as its directory describes it, with its newest checkpoint, if it has one."""
    try:
        content = json.loads((folder / "config.json").read_text())
        version = int(content["format"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{folder} is not a run: its config.json cannot be read ({error})") from None
    if version > checkpoint.FORMAT:
        raise UserError(
            f"{folder} was written by a newer gtp (format {version}); this one cannot go on with it"
        )
    module = agents.get(content["agent"])
    settings = config.from_dict(Settings, content["settings"])
    agent_config = config.from_dict(module.Config, content["config"])
    sweep: dict[str, Sequence[float]] = {k: tuple(v) for k, v in content["sweep"].items()}
    run = Run(folder, content["agent"], agent_config, settings, sweep, load(settings))
    if run.dataset.fingerprint != content["data"]["fingerprint"]:
        raise UserError(f"{settings.data} is not what this run was started on: its fingerprint has changed")
    saved = checkpoint.steps(folder / "checkpoints")
    if not saved:
        return run, None, None
    last = folder / "checkpoints" / f"{saved[-1]:09d}"
    agent = module.make(agent_config, settings.steps)
    state = checkpoint.load(last, policy.template(agent, run.about()))
    return run, jax.tree.map(jax.numpy.asarray, state), np.asarray(checkpoint.read_meta(last)["alive"], bool)


def go(
    run: Run,
    state: State | None = None,
    alive: np.ndarray | None = None,
    asked_to_stop: Callable[[], bool] = lambda: False,
) -> Iterator[training.Report]:
    """Train, write everything down, and pass each log point on; the one after a request to stop is the last.

    Rows of logs later than the checkpoint are cut first: they are written again, the same.
    """
    settings, checkpoints = run.settings, run.folder / "checkpoints"
    done = 0 if state is None else int(np.max(state.step))
    for name in ("metrics.csv", "eval.csv", "offline.csv"):
        logs.cut(run.folder / name, done)
    labels = run.members.labels()
    pi = policy.Policy(agents.get(run.agent).make, run.config, None, run.about())
    reports = training.train(
        agents.get(run.agent).make,
        run.config,
        run.trained_on,
        run.members,
        steps=settings.steps,
        batch_size=settings.batch_size,
        frame_stack=settings.frame_stack,
        log_every=settings.log_every,
        state=state,
        alive=alive,
    )
    with stage(run) or contextlib.nullcontext() as where:
        for report in reports:
            step = report.step
            logs.append(
                run.folder / "metrics.csv",
                (
                    {"step": step} | label | {name: repr(float(v[i])) for name, v in report.metrics.items()}
                    for i, label in enumerate(labels)
                    if report.alive[i]
                ),
            )
            last = step == settings.steps or not report.alive.any()
            if where and (last or (settings.eval_every and step % settings.eval_every == 0)):
                who = [int(i) for i in np.flatnonzero(report.alive)]
                now = pi.with_params(report.state.params, step)
                logs.append(run.folder / "eval.csv", score(now, where, who))
            if last and run.env is None:
                logs.append(run.folder / "offline.csv", offline_scores(run, report.state, report.alive))
            # The checkpoint comes last: a run that has its final one has everything else too.
            if last:
                about = run.about() | {"step": step, "alive": report.alive.tolist()}
                policy.save(run.folder / "policy", report.state.params, about)
            stop = asked_to_stop()
            if step % settings.save_every == 0 or report.stopped or last or stop:
                meta = {"step": step, "alive": report.alive.tolist()}
                checkpoint.save(checkpoints / f"{step:09d}", report.state, meta)
                checkpoint.prune(checkpoints, KEPT_CHECKPOINTS)
            yield report
            if stop:
                return


def stage(run: Run) -> evaluate.Stage | None:
    """Where the run's members are evaluated; None where there is no environment."""
    if run.env is None or run.settings.eval_episodes == 0:
        return None
    settings, members = run.settings, len(run.members.seeds)
    episodes, workers, stack = settings.eval_episodes, settings.eval_workers, settings.frame_stack
    return evaluate.Stage(run.env, members, episodes, workers, stack)
