"""`gtp distill RUN`: the average of many candidates as one small network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from gtp.errors import UserError
from gtp.types import Acting


@dataclass(frozen=True)
class Distill:
    """Train a student that does at once what a policy does by the average of many candidates.

    Of a run of several seeds it learns what they do in the mean.

    The student is a run of `bc` like any other: evaluate it, go on with it, export it.
    """

    out: Path
    """Run directory of the student to create; the labels it learns from go to OUT.npz."""
    rows: int = 100_000
    """States of the run's own data that the teacher labels, evenly spaced. More are better where a small
    mistake is a fall, or a hand must meet a thing: 400000, with 60000 --steps."""
    candidates: int = 50
    """Samples of the teacher behind one label, averaged with the weights exp Q."""
    sampling_steps: int | None = None
    """The teacher's K; by default its own."""
    choice_temperature: float | None = None
    """Average by softmax(Q over this), where the teacher has it; by default its own."""
    members: tuple[int, ...] = ()
    """Who teaches, counting from 0 in the order `gtp eval` prints; several by the mean of what they do, by
    default all that did not diverge."""
    steps: int = 30_000
    """Updates of the student; beyond a thousand a multiple of that."""
    hidden: tuple[int, ...] = (256, 256, 256)
    """Widths of the student's hidden layers."""
    eval_episodes: int = 10
    """Episodes the student plays at its end, where its teacher's data name an environment."""


def main(argv: list[str]) -> int:
    """`gtp distill RUN …`."""
    if not argv or argv[0].startswith("-"):
        tyro.cli(Distill, prog="gtp distill RUN", args=["--help"])
    options = tyro.cli(Distill, prog="gtp distill RUN", args=argv[1:])
    import numpy as np
    from rich.console import Console

    from gtp import config, data, distill, plan, policy
    from gtp import run as runs
    from gtp.agents import bc
    from gtp.cli_train import follow
    from gtp.data.write import write
    from gtp.envs import worlds
    from gtp.progress import bar

    labels = Path(f"{options.out}.npz")
    for path in (options.out, labels):
        if path.exists():
            raise UserError(f"{path} exists already; name another --out")
    if options.rows < 2:
        raise UserError(f"--rows must be 2 or more, not {options.rows}")
    if options.steps > 1000 and options.steps % 1000:
        raise UserError(f"--steps must be a multiple of 1000, not {options.steps}")
    pi = policy.load(argv[0])
    if options.choice_temperature is not None:
        pi = pi.with_value("choice_temperature", options.choice_temperature)
    acting = policy.check_acting(Acting("average", options.candidates, options.sampling_steps), pi.rules)
    members = distill.teachers(pi, options.members)
    dataset = data.load(pi.about["data"])
    distill.check(pi, dataset)
    # A student bears its first teacher's seed, so that students of five seeds are five.
    seed = pi.about["members"][members[0]]["seed"]
    settings = plan.Settings(str(labels), steps=options.steps, seed=seed, eval_episodes=options.eval_episodes)
    student = bc.Config(deterministic=True, hidden=options.hidden)
    # Labels take minutes: what is wrong with the student is said before.
    config.check(plan.resolve(settings))
    config.check(student)
    if pi.about["env"] and options.eval_episodes:
        worlds.check(pi.about["env"], tuple(pi.about["obs_shape"]), pi.about["action_size"], 1)
    with bar(Console(stderr=True), "labelling", min(options.rows, dataset.size)) as move:
        log = distill.labelled(
            pi, dataset, options.rows, acting, members, lambda done: move(done, {}, np.ones(1, bool))
        )
    write(log, labels)
    return follow(runs.start(options.out, "bc", student, settings, {}))
