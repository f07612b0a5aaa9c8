"""The algorithms, one file each, by the name the command line uses."""

from __future__ import annotations

import importlib
from types import ModuleType

from gtp.errors import UserError

NAMES = (
    "gtp",
    "bc",
    "iql",
    "td3_bc",
    "diffusion_ql",
    "consistency_ac",
    "rebrac",
    "awac",
    "xql",
    "cql",
    "onestep",
    "fql",
    "flow_bc",
    "ifql",
    "idql",
    "shortcut",
    "meanflow",
    "qgpo",
)


def get(name: str) -> ModuleType:
    """The module of an agent: it has a `Config` and a `make`."""
    if name not in NAMES:
        raise UserError(f"there is no agent called {name!r}; there are {', '.join(NAMES)}")
    return importlib.import_module(f"gtp.agents.{name}")
