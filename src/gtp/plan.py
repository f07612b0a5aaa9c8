"""What a run is, before anything is trained: its settings, its members, its data as it learns from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np

from gtp import pictures, training
from gtp.config import Before, Count, Fraction
from gtp.data import load as load_data
from gtp.data.dataset import Dataset, hold_out, join_actions, look_ahead
from gtp.errors import UserError
from gtp.types import Transition


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
            raise UserError(
                f"{self.dataset.name} says that a row holds {said!r} actions, which cannot be: "
                f"with chunk {self.settings.chunk} they are {width} numbers"
            )
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
