"""The average of many candidates as one network: what a policy does, written down for a student to learn.

The average of 50 candidates weighted by exp Q is often the best that a generative policy has to offer, and
every action of it costs 50 samples and a critic. But for the noise of 50 draws it is a function of the
observation alone, so a plain network can learn it, from states of the data that the teacher labels once.
Where equally good ways part the average is none of them, and neither is the student. It acts within the range
of its labels.

Several seeds can teach one student, by the mean of what they do: where they err each in its own way, it errs
less than any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import numpy as np

from gtp.data.dataset import Dataset, Log, Rows, transitions
from gtp.errors import UserError
from gtp.policy import Policy
from gtp.scoring import variant
from gtp.types import Acting

AT_ONCE = 1000
"""States labelled in one call, always, so that it is compiled once."""


def labelled(
    pi: Policy,
    dataset: Dataset,
    rows: int,
    acting: Acting,
    members: Sequence[int],
    progress: Callable[[int], None],
) -> Log:
    """What a policy's members do in states of its data, as data to clone.

    Of a policy that answers with several actions a row holds them all.

    Args:
        pi: the teacher, which `check` has passed.
        dataset: what it was trained on, episodes that it held out among them.
        rows: how many states, evenly spaced.
        acting: how the teacher acts in them.
        members: which of them teach, all by the mean of their actions.
        progress: told how many states are labelled.
    """
    obs = states(dataset, rows)
    actions = labels(together(pi, acting, members), obs, progress)
    # Nobody saw what these actions lead to: each row is an episode of its own, and earns nothing.
    ends, nothing = np.ones(len(obs), bool), np.zeros(len(obs), np.float32)
    log = Rows(obs, actions, nothing, ends, ~ends)
    made = {"made": origin(pi, len(obs), acting, members)}
    made |= {} if pi.chunk == 1 else {"chunk": str(pi.chunk)}
    return Log(log, transitions, ends, env=pi.about["env"], metadata=made)


def teachers(pi: Policy, named: Sequence[int]) -> list[int]:
    """The members to learn from: those named, or all that did not diverge."""
    members = list(dict.fromkeys(named)) or pi.living
    if not members:
        raise UserError("every member of this run diverged: there is nobody to learn from")
    for member in members:
        pi.check_member(member)
    return alike(pi, members)


def alike(pi: Policy, members: list[int]) -> list[int]:
    """These members, if their swept values are the same: a mean over different ones would be nobody's."""
    values = dict.fromkeys(variant(pi.about["members"][member]) for member in members)
    if len(values) > 1:
        raise UserError(f"these members differ ({', '.join(values)}) and cannot act as one")
    return members


def check(pi: Policy, dataset: Dataset) -> None:
    """That the policy sees one observation at a time, and that these are its data."""
    about = pi.about
    if about.get("frame_stack", 1) > 1:
        raise UserError("a policy that sees several pictures at once cannot be distilled")
    if dataset.fingerprint != about["fingerprint"]:
        raise UserError(
            f"{about['data']} is not what this policy was trained on: its fingerprint has changed"
        )


def together(pi: Policy, acting: Acting, members: Sequence[int]) -> Callable[..., np.ndarray]:
    """(observations, key) -> the mean of what these members do, each with noise of its own."""
    each = [pi.for_member(acting, member) for member in members]
    return lambda obs, key: np.mean([act(obs, key, time) for time, act in enumerate(each)], axis=0)


def states(dataset: Dataset, rows: int) -> np.ndarray:
    """That many observations of the data, evenly spaced; all of them where there are no more."""
    chosen = np.linspace(0, dataset.size - 1, min(rows, dataset.size)).round().astype(int)
    return dataset.transitions.obs[chosen]


def labels(act: Callable[..., np.ndarray], obs: np.ndarray, progress: Callable[[int], None]) -> np.ndarray:
    """What `act`, a function of observations and a key, does in each state."""
    key, found = jax.random.key(0), []
    for first in range(0, len(obs), AT_ONCE):
        part = obs[first : first + AT_ONCE]
        full = np.resize(part, (AT_ONCE, *part.shape[1:]))
        actions = np.asarray(act(full, jax.random.fold_in(key, first)), np.float32)
        found.append(actions.reshape(AT_ONCE, -1)[: len(part)])
        progress(first + len(part))
    return np.concatenate(found)


def origin(pi: Policy, rows: int, acting: Acting, members: Sequence[int]) -> str:
    """Where the labels come from, in a line that every score of the student carries."""
    about, label = pi.about, pi.about["members"][members[0]]
    seeds = " ".join(str(about["members"][member]["seed"]) for member in members)
    whose = f"seed {seeds}" if len(members) == 1 else f"the mean of seeds {seeds}"
    jumps = acting.sampling_steps or about["config"].get("sampling_steps")
    temperature = about["config"].get("choice_temperature", 1.0)
    who = (about["agent"], whose, variant(label), f"{about['step']} updates")
    how = f"by the {acting.rule} of {acting.candidates} candidates"
    how += f" of {jumps} jumps" if jumps else ""
    # A temperature that was swept is among the member's own values.
    how += (
        f" at temperature {temperature:g}" if temperature != 1 and "choice_temperature" not in label else ""
    )
    how += f", {pi.chunk} actions at once" if pi.chunk > 1 else ""
    labels_of = ", ".join(filter(None, (*who, how)))
    where = f"{rows} states of {about['data']}"
    return "; ".join(filter(None, (f"labels of {labels_of}", where, about.get("provenance"))))
