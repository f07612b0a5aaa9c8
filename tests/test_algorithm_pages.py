"""Every algorithm has a page, and what it logs is explained there."""

import fnmatch
import re
from pathlib import Path

import jax
import numpy as np
import pytest

from gtp import agents, cli
from gtp.types import Transition

PAGES = Path(__file__).parents[1] / "docs" / "algorithms"


@pytest.mark.parametrize("name", agents.NAMES)
def test_the_page_explains_every_metric_and_its_commands_exist(name):
    page = (PAGES / f"{name}.md").read_text()
    module = agents.get(name)
    agent = module.make(module.Config(), 100)
    rows, column = np.zeros((4, 2), np.float32), np.zeros(4, np.float32)
    batch = Transition(rows, rows, column, rows, rows, column)
    key = jax.random.key(0)
    _, metrics = jax.eval_shape(lambda: agent.update(agent.init(key, batch), batch, key))
    explained = re.findall(r"`([a-z0-9_*]+)`", page)
    for metric in metrics:
        assert any(fnmatch.fnmatch(metric, pattern) for pattern in explained), metric
    commands = re.findall(r"^gtp (\w+) (\S+)", page, re.M)
    assert commands
    for verb, what in commands:
        assert verb in cli.VERBS
        assert what in (name, "RUN")
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", page):
        assert (PAGES / target).exists(), target
