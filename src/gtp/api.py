"""The two functions of `import gtp`: train on data, load what was trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gtp import agents, config
from gtp import run as runs
from gtp.errors import UserError
from gtp.plan import Settings
from gtp.policy import Policy, load

__all__ = ["load", "train"]


def train(
    agent: str, data: str, out: str | Path, *, agent_options: dict[str, Any] | None = None, **settings: Any
) -> Policy:
    """Train an agent and return its policy; the same as `gtp train AGENT --data DATA --out OUT`.

    Args:
        agent: name of the agent, as on the command line.
        data: SPEC of the data.
        out: the run directory to create.
        agent_options: fields of the agent's Config; a list for a number trains one member per value.
        **settings: fields of `gtp.plan.Settings`, such as steps and seeds.
    """
    module = agents.get(agent)
    options = dict(agent_options or {})
    numbers = config.sweepable(module.Config)
    sweep: dict[str, Sequence[float]] = {
        k: tuple(options.pop(k))
        for k in list(options)
        if k in numbers and isinstance(options[k], list | tuple)
    }
    try:
        agent_config, run_settings = module.Config(**options), Settings(data=data, **settings)
    except TypeError as error:
        raise UserError(str(error).replace("__init__()", "the configuration")) from None
    run = runs.start(Path(out), agent, agent_config, run_settings, sweep)
    for report in runs.go(run):
        if not report.alive.any():
            raise UserError(f"every member stopped: {'; '.join(report.stopped.values())}")
    return load(out)
