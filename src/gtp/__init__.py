"""Generative Trajectory Policies and their peers, in JAX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["__version__", "load", "train"]

if TYPE_CHECKING:
    from gtp.api import load, train


def __getattr__(name: str) -> Any:
    # JAX takes a second to import; `import gtp` alone, and `gtp --help`, need not wait for it.
    if name in ("load", "train"):
        from gtp import api

        return getattr(api, name)
    raise AttributeError(f"module 'gtp' has no attribute {name!r}")
