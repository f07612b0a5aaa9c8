"""`gtp eval RUN …`: episodes of a trained policy, or what its data say of it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, Literal

from gtp.errors import UserError
from gtp.types import Acting, Rule


@dataclasses.dataclass(frozen=True)
class Eval:
    """Play episodes with a trained policy, or score it on its data, and print what comes out."""

    episodes: int = 10
    """Episodes per member."""
    act: Rule | None = None
    """How to act; by default one sample and, where there is a critic, softmax and average of 50."""
    candidates: int | None = None
    """Samples the critic sees; 50 by default, 1 for single."""
    sampling_steps: int | None = None
    """K; by default the agent's own."""
    choice_temperature: float | None = None
    """Draw or average candidates by softmax(Q over this), where an agent has it; by default its own."""
    together: bool = False
    """All members as one player, which acts by the mean of what they do; with --act average that is what
    `gtp distill` would teach."""
    weights: Literal["online", "ema"] = "online"
    """Act with the trained actor or with its moving average."""
    env: str = ""
    """Environment; by default the one of the data."""
    workers: int = 0
    """Processes that step environments; 0 takes one a core. Episodes are the same whatever their number."""
    offline: bool = False
    """Take scores from the run's data instead of an environment, of its newest checkpoint."""
    fqe: int = 0
    """With --offline: updates of fitted Q evaluation, 0 for none; 20000 is a fair number."""
    save: bool = False
    """Add the rows to RUN/eval.csv, or to RUN/offline.csv."""
    json: bool = False
    """Print the rows as json."""


def main(argv: list[str]) -> int:
    """`gtp eval RUN …`."""
    import tyro

    if not argv or argv[0].startswith("-"):
        tyro.cli(Eval, prog="gtp eval RUN", args=["--help"])
    from rich.console import Console

    from gtp import logs, policy, scoring
    from gtp.tables import evaluation_table, offline_table

    folder = Path(argv[0])
    options = tyro.cli(Eval, prog="gtp eval RUN", args=argv[1:])
    if options.episodes < 1 or options.workers < 0:
        raise UserError("--episodes must be 1 or more, --workers 0 or more")
    if options.fqe and not options.offline:
        raise UserError("--fqe goes with --offline")
    if options.together and options.offline:
        raise UserError("--together is for episodes, not for scores taken --offline")
    if options.choice_temperature is not None and (options.offline or options.act in ("single", "argmax")):
        raise UserError("--choice-temperature is for episodes by softmax or average")
    pi = policy.load(folder)
    ways = scoring.ways_to_act(pi.rules)
    if options.choice_temperature is not None:
        pi = pi.with_value("choice_temperature", options.choice_temperature)
        ways = [way for way in ways if way.rule != "single"]
    if options.act is not None or options.candidates is not None:
        rule = options.act or ("softmax" if "softmax" in pi.rules else "single")
        ways = [Acting(rule, options.candidates or (1 if rule == "single" else 50))]
    ways = [
        policy.check_acting(
            w._replace(sampling_steps=options.sampling_steps, weights=options.weights), pi.rules
        )
        for w in ways
    ]
    rows = _offline(folder, options.fqe, ways) if options.offline else _episodes(folder, pi, options, ways)
    if options.save:
        logs.append(folder / ("offline.csv" if options.offline else "eval.csv"), rows)
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        Console().print(offline_table(rows) if options.offline else evaluation_table(rows))
    return 0


def _offline(folder: Path, fqe_steps: int, ways: list[Any]) -> list[dict[str, Any]]:
    """Offline scores of a run's newest checkpoint."""
    from rich.console import Console

    from gtp import run as runs
    from gtp import scoring
    from gtp.progress import bar

    if fqe_steps < 0:
        raise UserError(f"--fqe must be 0 or more, not {fqe_steps}")
    run, state, alive = runs.resume(folder)
    if state is None or alive is None:
        raise UserError(f"{folder} has no checkpoint yet")
    if not fqe_steps:
        return scoring.offline_scores(run, state, alive, ways=ways)
    with bar(Console(stderr=True), "fitted Q evaluation", fqe_steps) as move:
        return scoring.offline_scores(run, state, alive, fqe_steps, ways, lambda step: move(step, {}, alive))


def _episodes(folder: Path, pi: Any, options: Eval, ways: list[Any]) -> list[dict[str, Any]]:
    """Episodes of a run's policies, those that did not diverge."""
    from rich.console import Console

    from gtp import distill, scoring
    from gtp.evaluate import Stage

    env = options.env or pi.about["env"]
    if not env:
        raise UserError(
            f"{folder} was trained on data without an environment; name one with --env, or score it --offline"
        )
    members, stack = pi.about["members"], pi.about.get("frame_stack", 1)
    if not pi.living:
        raise UserError(f"every member of {folder} diverged in training: there is nobody to play")
    for member in sorted(set(range(len(members))) - set(pi.living)):
        Console(stderr=True).print(
            f"{scoring.name_of(members[member])} diverged in training and does not play"
        )
    who = distill.alike(pi, pi.living) if options.together else pi.living
    with Stage(
        env, 1 if options.together else len(members), options.episodes, options.workers, stack
    ) as where:
        return scoring.score(pi, where, who, ways, options.together)
