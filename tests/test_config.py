"""Configurations: what is refused, in which words, and what may be swept."""

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import Literal

import pytest

from gtp.agents import bc, gtp
from gtp.config import Count, Fraction, NonNegative, Positive, check, from_dict, sweepable
from gtp.errors import UserError


@dataclass(frozen=True)
class Sample:
    rate: Positive = 0.1
    clip: NonNegative = 0.0
    share: Fraction = 0.5
    count: Count = 3
    kind: Literal["one", "two"] = "one"
    hidden: tuple[int, ...] = (4, 4)
    plain: float = 1.0
    flag: bool = False


@pytest.mark.parametrize("config", [Sample(), gtp.Config(), bc.Config()])
def test_defaults_are_accepted(config):
    check(config)


@pytest.mark.parametrize(
    "good", [{"clip": 0.0}, {"share": 0.0}, {"share": 1.0}, {"count": 1}, {"rate": math.inf}, {"kind": "two"}]
)
def test_ends_of_ranges_are_inside(good):
    check(Sample(**good))


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("rate", 0.0, "greater than 0"),
        ("rate", -1.0, "greater than 0"),
        ("clip", -1e-9, "0 or more"),
        ("share", 1.001, "between 0 and 1"),
        ("share", -0.1, "between 0 and 1"),
        ("count", 0, "1 or more"),
        ("kind", "three", "one of one, two"),
        ("hidden", (4, 0), "1 or more"),
        *((name, math.nan, "must be") for name in ("rate", "clip", "share")),
    ],
)
def test_values_out_of_range_are_refused_by_name(field, value, words):
    with pytest.raises(UserError) as error:
        check(Sample(**{field: value}))
    assert str(error.value).startswith(field)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"levels_start": 20, "levels_end": 10}, "levels_start 20 must not exceed levels_end 10"),
        ({"t_min": 2.0, "t_max": 1.0}, "t_min"),
        ({"sampling_grid": "linspace", "t_max": 2.0}, "linspace"),
        ({"sampling_grid": "near", "sigma_data": 0.0002}, "near"),
        ({"eta": -1.0}, "eta"),
        ({"advantage_scale": "magic"}, "advantage_scale must be one of batch, state"),
        ({"advantage_scale": "state", "baseline_samples": 1}, "baseline_samples"),
        ({"advantage_scale": "state", "baseline": "expectile"}, "baseline policy"),
        ({"backup": "expectile", "backup_candidates": 10}, "no candidates"),
        ({"objective": "magic"}, "objective must be one of trajectory, shortcut, meanflow"),
    ],
)
def test_gtp_refuses_what_makes_no_sense(changes, words):
    with pytest.raises(UserError, match=words):
        check(gtp.Config(**changes))


def test_only_plain_floats_may_be_swept():
    assert sweepable(Sample) == ["rate", "clip", "share", "plain"]
    assert sweepable(Sample()) == sweepable(Sample)
    swept = sweepable(gtp.Config)
    assert {"eta", "actor_lr", "critic_lr", "discount", "flow_weight", "weight_clip", "t_max"} <= set(swept)
    assert not {"sampling_steps", "hidden", "objective", "normalise_q", "levels_end"} & set(swept)


@pytest.mark.parametrize("config", [gtp.Config(eta=3.0, hidden=(7,)), bc.Config(deterministic=True)])
def test_a_config_survives_json(config):
    saved = json.loads(json.dumps(dataclasses.asdict(config)))
    assert from_dict(type(config), saved) == config


def test_a_saved_config_with_other_fields_is_refused():
    saved = dataclasses.asdict(Sample())
    with pytest.raises(UserError, match="old"):
        from_dict(Sample, saved | {"old": 1})
    del saved["rate"]
    with pytest.raises(UserError, match="rate"):
        from_dict(Sample, saved)


def test_what_an_earlier_version_saved_means_what_it_meant():
    saved = dataclasses.asdict(gtp.Config(eta=3.0, critic_layer_norm=False))
    for later in ("critic_layer_norm", "advantage_scale", "final_lr", "backup"):
        del saved[later]
    assert from_dict(gtp.Config, saved) == gtp.Config(eta=3.0, critic_layer_norm=False)
    assert gtp.Config().critic_layer_norm  # The default is another: what was saved must not change with it.


@pytest.mark.parametrize("agent", [gtp, bc])
def test_every_field_has_a_docstring_for_the_manual(agent):
    import ast
    import inspect

    (cls,) = ast.parse(inspect.getsource(agent.Config)).body
    for field, after in zip(cls.body, [*cls.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign):
            assert isinstance(after, ast.Expr), ast.unparse(field)
            assert isinstance(after.value, ast.Constant), ast.unparse(field)
