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
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np

import gtp
from gtp import agents, checkpoint, config, evaluate, logs, offline, pictures, policy, training
from gtp.config import Before, Count, Fraction
from gtp.data import load as load_data
from gtp.data.dataset import Dataset, episode_numbers, hold_out, join_actions, look_ahead
from gtp.envs import worlds
from gtp.errors import UserError
from gtp.types import Acting, State, Transition

KEPT_CHECKPOINTS = 2
EVAL_SEED = 10_000
"""Worlds are seeded from here on; training never sees these seeds."""


@dataclass(frozen=True)
class Settings:
    """What a run is, apart from its agent."""

    data: str
    """SPEC of the data: toy:multigoal, d4rl:NAME, minari:NAME, ogbench:NAME, or a path to .npz or .hdf5."""
    reward: str = "none"
    """Reward transform: none, minus_one, cql_antmaze, corl_cql_antmaze, rebrac_antmaze, iql_locomotion,
    standardise."""
    n_step: Annotated[Count, Before(1)] = 1
    """n, steps whose rewards a TD target adds up before the value of what follows; for vectors only."""
    chunk: Annotated[Count, Before(1)] = 1
    """Actions that are learned as one, and played out before the next are chosen; with a critic n_step must
    reach as far; for vectors only."""
    steps: Count = 100_000
    """Updates in all."""
    batch_size: Count = 256
    """Transitions in a batch."""
    frame_stack: Count = 1
    """Last pictures that make one observation, joined on their channels; for pictures only."""
    holdout: Fraction = 0.0
    """Share of the episodes that is not trained on but kept for offline scores; every run on the same data
    keeps the same ones."""
    seeds: Count = 1
    """Seeds to train side by side, in one program."""
    seed: int = 0
    """The first of them."""
    log_every: Count = 1000
    """Updates between two rows of metrics.csv."""
    save_every: Count = 50_000
    """Updates between two checkpoints; there is always one at the end."""
    eval_every: int = 0
    """Updates between two evaluations; 0 evaluates at the end only, where there is an environment."""
    eval_episodes: int = 10
    """Episodes of an evaluation, per member and acting rule; 0 for none."""
    eval_workers: int = 0
    """Processes that step environments; 0 takes one a core. Episodes are the same whatever their number."""
    env: str = ""
    """Environment to evaluate in; empty takes the data's own."""

    def check(self) -> None:
        """Faults that take two fields to see."""
        for name in ("steps", "save_every", "eval_every"):
            if getattr(self, name) % self.log_every:
                raise UserError(
                    f"{name} ({getattr(self, name)}) must be a multiple of log_every ({self.log_every})"
                )
        for name in ("eval_every", "eval_episodes", "eval_workers", "seed"):
            if getattr(self, name) < 0:
                raise UserError(f"{name} must be 0 or more, not {getattr(self, name)}")


@dataclass(frozen=True)
class Run:
    """A run that is about to start, or to go on."""

    folder: Path
    agent: str
    config: Any
    settings: Settings
    sweep: dict[str, Sequence[float]]
    dataset: Dataset

    @property
    def members(self) -> training.Members:
        """Who trains side by side."""
        seeds = range(self.settings.seed, self.settings.seed + self.settings.seeds)
        return training.members(seeds, self.sweep)

    @property
    def env(self) -> str | None:
        """Where to evaluate, if anywhere."""
        return self.settings.env or self.dataset.env

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """Shape of what a policy sees."""
        return pictures.stacked_shape(self.dataset.transitions.obs.shape[1:], self.settings.frame_stack)

    @property
    def chunk(self) -> int:
        """Actions in each of the policy's answers; rows of a student's labels may hold several already."""
        said, width = self.dataset.metadata.get("chunk", "1"), self.dataset.action_low.size
        if not (said.isdecimal() and int(said) > 0) or width % (self.settings.chunk * int(said)):
            raise UserError(f"{self.dataset.name} says that a row holds {said!r} actions, which cannot be")
        return self.settings.chunk * int(said)

    @cached_property
    def held_out(self) -> np.ndarray:
        """True in the transitions that are not trained on."""
        return hold_out(self.dataset.transitions, self.settings.holdout)

    @cached_property
    def trained_on(self) -> Transition:
        """The transitions that are, looking n steps ahead."""
        t, n = self.dataset.transitions, self.settings.n_step
        t = rows_of(t, ~self.held_out) if self.settings.holdout else t
        return t if n == 1 else look_ahead(t, n, self.config.discount)

    def check_steps(self) -> None:
        """What n-step returns, which are made once for all members, cannot do, and what chunks need."""
        n, chunk = self.settings.n_step, self.settings.chunk
        if n < chunk and hasattr(self.config, "discount"):
            raise UserError(
                f"{chunk} actions in one need a TD target that sees them all: "
                f"n_step must be {chunk} or more, not {n}"
            )
        if n == 1:
            return
        if not hasattr(self.config, "discount"):
            raise UserError(f"n_step is for agents with a discount, which {self.agent} has not")
        if "discount" in self.sweep:
            raise UserError("n_step takes one discount for all members: do not sweep it")
        if pictures.are_pictures(self.dataset.transitions.obs.shape[1:]):
            raise UserError("n_step is for observations that are vectors, not pictures")

    def about(self) -> dict[str, Any]:
        """What a saved policy must know besides its parameters."""
        t = self.dataset.transitions
        return {
            "agent": self.agent,
            "config": dataclasses.asdict(self.config),
            "steps": self.settings.steps,
            "members": self.members.labels(),
            "obs_shape": list(self.obs_shape),
            "frame_stack": self.settings.frame_stack,
            "action_size": t.action.shape[-1] // self.chunk,
            "chunk": self.chunk,
            "action_low": self.dataset.action_low.tolist(),
            "action_high": self.dataset.action_high.tolist(),
            "data": self.dataset.name,
            "fingerprint": self.dataset.fingerprint,
            "env": self.env,
            "provenance": provenance(self.dataset.metadata),
        }


def load(settings: Settings) -> Dataset:
    """The data of a run, its actions joined where it learns several as one."""
    dataset, chunk = load_data(settings.data, settings.reward), settings.chunk
    if chunk == 1:
        return dataset
    if pictures.are_pictures(dataset.transitions.obs.shape[1:]):
        raise UserError("chunk is for observations that are vectors, not pictures")
    return dataclasses.replace(
        dataset,
        transitions=join_actions(dataset.transitions, chunk),
        action_low=np.tile(dataset.action_low, chunk),
        action_high=np.tile(dataset.action_high, chunk),
    )


def rows_of(transitions: Transition, chosen: np.ndarray) -> Transition:
    """Some of the transitions."""
    return jax.tree.map(lambda x: x[chosen], transitions)


def provenance(metadata: dict[str, str]) -> str:
    """Where the data came from, in a line that every score taken on them carries."""
    if metadata.get("regenerated") == "yes":
        made = [metadata[k] for k in ("policy", "protocol", "physics") if metadata.get(k)]
        return "; ".join([f"regenerated by gtp {metadata.get('gtp_version', '')}", *made])
    return metadata.get("made", "")


def resolve(settings: Settings) -> Settings:
    """Settings as a run keeps them: a short run logs and saves at its end."""
    log_every, save_every = (min(n, settings.steps) for n in (settings.log_every, settings.save_every))
    return dataclasses.replace(settings, log_every=log_every, save_every=save_every)


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


def ways_to_act(rules: tuple[str, ...]) -> list[Acting]:
    """The ways evaluated by default: one sample, and where there is a critic two uses of 50 candidates.

    `softmax` is the peers'; `average` is often better, and worse where equally good ways part.
    """
    return [Acting(), Acting("softmax", 50), Acting("average", 50)] if "softmax" in rules else [Acting()]


def stage(run: Run) -> evaluate.Stage | None:
    """Where the run's members are evaluated; None where there is no environment."""
    if run.env is None or run.settings.eval_episodes == 0:
        return None
    settings, members = run.settings, len(run.members.seeds)
    episodes, workers, stack = settings.eval_episodes, settings.eval_workers, settings.frame_stack
    return evaluate.Stage(run.env, members, episodes, workers, stack)


def variant(label: dict[str, float]) -> str:
    """A member's swept values, as rows say them."""
    return " ".join(f"{name}={value:g}" for name, value in label.items() if name != "seed")


def name_of(label: dict[str, float]) -> str:
    """A member, as people are told of it: `seed 0`, `seed 0 with eta=2`."""
    return " with ".join(filter(None, (f"seed {label['seed']}", variant(label))))


def score(
    pi: policy.Policy,
    where: evaluate.Stage,
    who: list[int],
    ways: list[Acting] | None = None,
    together: bool = False,
) -> list[dict[str, Any]]:
    """Let the members `who` play, in each of the ways to act; one row an episode.

    If they play `together`, on a stage for one, they are one player that acts by their mean; its rows have
    the first one's seed and say how many they are.
    """
    about, found = pi.about, []
    players, named = ([0], who[:1]) if together else (who, who)
    for acting in ways or ways_to_act(pi.rules):
        steps = acting.sampling_steps or about["config"].get("sampling_steps")
        acting_as = acting._replace(sampling_steps=steps)
        act = pi.player(acting, where.episodes, EVAL_SEED)
        act = evaluate.as_one(act, len(about["members"]), who) if together else act
        act = evaluate.one_by_one(act, pi.chunk)
        for member, episodes in zip(named, where.play(act, EVAL_SEED, players), strict=True):
            label = about["members"][member] | ({"together": len(who)} if together else {})
            names = about | {"seed": label["seed"], "variant": variant(label)}
            found += evaluate.rows(episodes, where.env_id, acting_as, names)
    return found


def offline_scores(
    run: Run,
    state: State,
    alive: np.ndarray,
    fqe_steps: int = 0,
    ways: list[Acting] | None = None,
    progress: Callable[[int], None] = lambda step: None,
) -> list[dict[str, Any]]:
    """Scores of the living members that take no environment; one row a score.

    They are taken on the episodes held out, or on those trained on where there are none. Fitted Q evaluation,
    if it is asked for, learns from the latter and looks at the first states of all.
    """
    make = agents.get(run.agent).make
    t = pictures.stacked(run.dataset.transitions, run.settings.frame_stack)
    begins = np.unique(episode_numbers(t), return_index=True)[1]
    rewards = float(t.reward.min()), float(t.reward.max())
    if run.settings.chunk > 1:  # What follows several actions comes after all of them.
        t = look_ahead(t, run.settings.chunk, offline.discount(run.config))
    who = offline.Subject(make, run.config, run.settings.steps, run.members, state)
    held = bool(run.held_out.any())
    data, learned_from = (rows_of(t, run.held_out), rows_of(t, ~run.held_out)) if held else (t, t)
    source = "held-out episodes" if held else "training data"
    # What an agent loses on the data it trains on is in metrics.csv.
    found = [(source, Acting(), offline.losses(who, data, run.settings.batch_size))] if held else []
    for acting in ways or ways_to_act(make(run.config, run.settings.steps).rules):
        found.append((source, acting, offline.behaviour(who, data, acting)))
        if fqe_steps:
            scores = offline.fitted_q(
                who, learned_from, t.obs[begins], acting, steps=fqe_steps, rewards=rewards, progress=progress
            )
            found.append(("first states", acting, scores))
    step = int(np.max(state.step))
    return [
        {
            "agent": run.agent,
            "data": run.dataset.name,
            "on": on,
            "seed": label["seed"],
            "step": step,
            "weights": acting.weights,
            "act": acting.rule,
            "candidates": acting.candidates,
            "sampling_steps": acting.sampling_steps or getattr(run.config, "sampling_steps", ""),
            "score": name,
            "value": repr(float(values[member])),
            "variant": variant(label),
            "fingerprint": run.dataset.fingerprint,
            "provenance": provenance(run.dataset.metadata),
        }
        for on, acting, scores in found
        for member, label in enumerate(run.members.labels())
        if alive[member]
        for name, values in scores.items()
    ]
