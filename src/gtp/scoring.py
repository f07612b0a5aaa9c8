"""Scores of a run's members: by playing, and from data alone; a row each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtp import agents, evaluate, offline, pictures, policy
from gtp.data.dataset import episode_numbers, look_ahead
from gtp.plan import Run, provenance, rows_of
from gtp.types import Acting, State, Transition

EVAL_SEED = 10_000
"""Worlds are seeded from here on; training never sees these seeds."""


def ways_to_act(rules: tuple[str, ...]) -> list[Acting]:
    """The ways evaluated by default: one sample, and where there is a critic two uses of 50 candidates.

    `softmax` is the peers'; `average` is often better, and worse where equally good ways part.
    """
    return [Acting(), Acting("softmax", 50), Acting("average", 50)] if "softmax" in rules else [Acting()]


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


def ahead(t: Transition, steps: int, config: Any) -> Transition:
    """The transitions, looking that many steps ahead."""
    return t if steps == 1 else look_ahead(t, steps, offline.discount(config))


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
    logged = pictures.stacked(run.dataset.transitions, run.settings.frame_stack)
    begins = np.unique(episode_numbers(logged), return_index=True)[1]
    # What follows several actions comes after all of them.
    t = ahead(logged, run.settings.chunk, run.config)
    who = offline.Subject(make, run.config, run.settings.steps, run.members, state)
    held = bool(run.held_out.any())
    data, learned_from = (rows_of(t, run.held_out), rows_of(t, ~run.held_out)) if held else (t, t)
    earned = logged.reward[~run.held_out]
    rewards = float(earned.min()), float(earned.max())
    source, found = "training data", []
    if held:  # What an agent loses on the data it trains on is in metrics.csv.
        source = "held-out episodes"
        kept = rows_of(ahead(logged, run.settings.n_step, run.config), run.held_out)
        found = [(source, Acting(), offline.losses(who, kept, run.settings.batch_size))]
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
