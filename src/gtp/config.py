"""Configurations: frozen dataclasses whose annotations say what values make sense.

A field annotated with one of the ranges below is checked before a run starts. Fields that hold a plain float
may be given several values: the run then trains one member for each, all in one compiled program.
"""

from __future__ import annotations

import dataclasses
import typing
from typing import Annotated, Any, NamedTuple

from gtp.errors import UserError


class Range(NamedTuple):
    """What a number may be."""

    low: float
    high: float
    open_low: bool
    words: str

    def holds(self, value: float) -> bool:
        """Whether `value` is inside; never true of NaN."""
        return (self.low < value if self.open_low else self.low <= value) and value <= self.high


class Before(NamedTuple):
    """What a field stood for in versions that did not have it yet; what they saved is read so."""

    value: Any


_INF = float("inf")
Positive = Annotated[float, Range(0, _INF, True, "greater than 0")]
NonNegative = Annotated[float, Range(0, _INF, False, "0 or more")]
Fraction = Annotated[float, Range(0, 1, False, "between 0 and 1")]
Count = Annotated[int, Range(1, _INF, False, "1 or more")]


def field_types(config: Any) -> dict[str, Any]:
    """Annotations of a config (class or instance), ranges included."""
    cls = config if isinstance(config, type) else type(config)
    return typing.get_type_hints(cls, include_extras=True)


def sweepable(config: Any) -> list[str]:
    """Names of the fields that may take several values at once: those that hold a plain float."""
    kinds = field_types(config)
    return [f.name for f in dataclasses.fields(config) if _bare(kinds[f.name]) is float]


def _bare(kind: Any) -> Any:
    return typing.get_args(kind)[0] if typing.get_origin(kind) is Annotated else kind


def check(config: Any) -> None:
    """Raise a UserError at the first field out of its range, or at what the config's own `check` finds."""
    for name, kind in field_types(config).items():
        value = getattr(config, name)
        for limit in (m for m in getattr(kind, "__metadata__", ()) if isinstance(m, Range)):
            if not limit.holds(value):
                raise UserError(f"{name} must be {limit.words}, not {value}")
        for item in value if isinstance(value, tuple) else ():
            if isinstance(item, int) and item < 1:
                raise UserError(f"{name} must hold numbers of 1 or more, not {item}")
        kind = _bare(kind)
        options = typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()
        if options and value not in options:
            raise UserError(f"{name} must be one of {', '.join(map(str, options))}, not {value!r}")
    if hasattr(config, "check"):
        config.check()


def from_dict(cls: Any, values: dict[str, Any]) -> Any:
    """Rebuild a config from JSON: lists become tuples, unknown fields are faults.

    So are missing ones, but for those that say what they were before.
    """
    earlier = {
        name: mark.value
        for name, kind in field_types(cls).items()
        for mark in getattr(kind, "__metadata__", ())
        if isinstance(mark, Before)
    }
    names, values = {f.name for f in dataclasses.fields(cls)}, earlier | values
    if names != set(values):
        wrong = ", ".join(sorted(names ^ set(values)))
        raise UserError(f"the saved configuration does not fit this version of gtp (fields: {wrong})")
    return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
