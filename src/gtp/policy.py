"""A trained policy, ready to act: `gtp.load(run).act(obs)`.

A batch of observations goes through one program for all members, on the default device. A single observation,
what a robot has, is a matter of microseconds: its program runs on one CPU thread and holds the member's
parameters, everything that depends on them alone computed beforehand, so that only the observation and three
numbers for the random draw go in.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gtp import agents, checkpoint, evaluate, graph
from gtp.config import check, from_dict, sweepable
from gtp.errors import UserError
from gtp.training import Make, take
from gtp.types import Acting, Agent, Transition

SINGLE = Acting()

ONE_THREAD: dict[str, Any] = {"xla_cpu_multi_thread_eigen": False, "xla_cpu_prefer_vector_width": 512}
"""Compiler options for one observation: handing a small matrix to another thread costs more than using it."""


def check_acting(acting: Acting, rules: tuple[str, ...]) -> Acting:
    """The acting rule, if this agent can follow it."""
    if acting.rule not in rules:
        raise UserError(f"this agent acts by {' or '.join(rules)}, not by {acting.rule}")
    if acting.candidates < 1 or (acting.rule == "single" and acting.candidates != 1):
        raise UserError(f"acting by {acting.rule} cannot take {acting.candidates} candidates")
    if acting.sampling_steps is not None and acting.sampling_steps < 1:
        raise UserError(f"sampling steps must be 1 or more, not {acting.sampling_steps}")
    return acting


class Policy:
    """The policies of a run, one for each member, with all that acting takes."""

    def __init__(self, make: Make, config: Any, params: Any, about: dict[str, Any]):
        """`about` is what `Run.about` tells: steps, members, action bounds, shapes."""
        self.params, self.about, self.obs_shape = params, about, tuple(about["obs_shape"])
        self._config = config
        self._members: dict[int, Any] = {}
        self._make = lambda swept: make(dataclasses.replace(config, **swept), about["steps"])
        self._swept = [{k: v for k, v in label.items() if k != "seed"} for label in about["members"]]
        self.chunk = about.get("chunk", 1)
        self.low, self.high = (
            np.asarray(about[k], np.float32).reshape(self.action_shape) for k in ("action_low", "action_high")
        )
        self.rules = self._make({}).rules
        self._compiled: dict[Acting, Callable[..., Any]] = {}
        self._compiled_episodes: dict[Acting, Callable[..., Any]] = {}
        self._single: dict[tuple[Acting, int], Callable[..., Any]] = {}
        # Words of the key and the time: what a call without a key draws from.
        self._draw = np.append(jax.random.key_data(jax.random.key(0)), np.uint32(0))

    def with_params(self, params: Any, step: int) -> Policy:
        """The same policy after more training; what is compiled stays compiled."""
        later = copy.copy(self)
        later.params, later.about = params, self.about | {"step": step}
        later._members, later._single, later._draw = {}, {}, self._draw.copy()
        return later

    def with_value(self, name: str, value: float) -> Policy:
        """The same policy with another value of a number that acting reads; rows name it as a swept one."""
        if name not in sweepable(self._config):
            raise UserError(f"{self.about['agent']} has no {name}")
        if name in self._swept[0]:
            raise UserError(f"members of this run have values of {name} of their own")
        check(dataclasses.replace(self._config, **{name: value}))
        other = copy.copy(self)
        other.about = self.about | {"members": [label | {name: value} for label in self.about["members"]]}
        other._swept = [swept | {name: value} for swept in self._swept]
        other._single, other._draw = {}, self._draw.copy()
        return other

    @property
    def action_shape(self) -> tuple[int, ...]:
        """Shape of what it answers to one observation: an action, or the `chunk` actions to play next."""
        size = self.about["action_size"]
        return (size,) if self.chunk == 1 else (self.chunk, size)

    @property
    def living(self) -> list[int]:
        """Members that trained to the end; the others diverged, and are what they were before that."""
        alive = self.about.get("alive", [True] * len(self.about["members"]))
        return [member for member, lives in enumerate(alive) if lives]

    @property
    def first(self) -> int:
        """The first member that trained to the end."""
        if not self.living:
            about = self.about
            raise UserError(f"every member of this run of {about['agent']} on {about['data']} diverged")
        return self.living[0]

    def check_member(self, member: int) -> None:
        """That there is such a member, and that it did not diverge."""
        members, living = self.about["members"], self.living
        if not 0 <= member < len(members):
            raise UserError(f"there is no member {member}; there are {len(members)}")
        if member not in living:
            others = f"; {' '.join(map(str, living))} did not" if living else ""
            raise UserError(f"member {member}, seed {members[member]['seed']}, diverged in training{others}")

    def _member(self, member: int) -> Any:
        """Parameters of one member, cut out of the stack once."""
        if member not in self._members:
            self._members[member] = take(self.params, member)
        return self._members[member]

    def _run(self, acting: Acting) -> Callable[..., Any]:
        """(a member's params and swept values, observations, key, time) -> actions in the data's units."""
        check_acting(acting, self.rules)

        def run(params: Any, swept: dict[str, Any], obs: Any, key: Any, time: Any) -> Any:
            key = jax.random.fold_in(key, time)
            action = self._make(swept).act(params, obs, key, acting)
            if self.chunk > 1:
                action = action.reshape(*action.shape[:-1], *self.action_shape)
            return self.low + (action + 1) / 2 * (self.high - self.low)

        return run

    def function(self, acting: Acting) -> Callable[..., Any]:
        """`_run`, compiled once."""
        if acting not in self._compiled:
            self._compiled[acting] = jax.jit(self._run(acting))
        return self._compiled[acting]

    def for_member(self, acting: Acting, member: int) -> Callable[..., Any]:
        """(observations, key, time) -> actions in the data's units, with one member's parameters."""
        self.check_member(member)
        run, params, swept = self.function(acting), self._member(member), self._swept[member]
        return lambda obs, key, time=0: run(params, swept, obs, key, time)

    def _compile_single(self, acting: Acting, member: int) -> Callable[..., Any]:
        """(one observation, then the bits of key and time) -> action; one argument costs less than two."""
        run, size = self.for_member(acting, member), math.prod(self.obs_shape)

        def act(given: Any) -> Any:
            obs, draw = (
                given[:size].reshape(1, *self.obs_shape),
                jax.lax.bitcast_convert_type(given[size:], "uint32"),
            )
            return run(obs, jax.random.wrap_key_data(draw[:-1]), draw[-1])[0]

        example = np.zeros(size + len(self._draw), np.float32)
        folded = graph.trace(act, example)
        place = jax.sharding.SingleDeviceSharding(jax.local_devices(backend="cpu")[0])
        program = jax.jit(lambda given: folded(given)[0], in_shardings=place, out_shardings=place)
        return program.lower(example).compile(compiler_options=ONE_THREAD)

    def episodes_function(self, acting: Acting) -> Callable[..., Any]:
        """The same for all members and a block of episodes at once, each episode with a key of its own.

        A draw for a batch would depend on the batch; so an episode's noise is its own whoever stands beside.
        """
        if acting not in self._compiled_episodes:
            run = self._run(acting)

            def one(params: Any, swept: dict[str, Any], obs: Any, key: Any, time: Any) -> Any:
                return run(params, swept, obs[None], key, time)[0]

            member = jax.vmap(one, in_axes=(None, None, 0, 0, None))
            self._compiled_episodes[acting] = jax.jit(jax.vmap(member, in_axes=(0, 0, 0, 0, None)))
        return self._compiled_episodes[acting]

    def player(self, acting: Acting, episodes: int, seed: int) -> evaluate.Act:
        """How all members act in `episodes` each; noise depends on the two seeds, episode and time alone."""
        run, shape, block = self.episodes_function(acting), self.obs_shape, evaluate.BLOCK
        seeds = jnp.asarray([label["seed"] for label in self.about["members"]])
        numbers = jnp.arange(-(-episodes // block) * block).reshape(-1, block)
        fold_in = jax.random.fold_in
        each = jax.vmap(jax.vmap(fold_in, in_axes=(None, 0)), in_axes=(0, None))
        mine = jax.vmap(partial(fold_in, jax.random.key(seed)))(seeds)
        keys = [each(mine, block_numbers) for block_numbers in numbers]
        params = jax.device_put(self.params)
        names = self._swept[0]
        swept = {name: jnp.asarray([values[name] for values in self._swept]) for name in names}

        def act(obs: np.ndarray, active: np.ndarray, first: int, time: int) -> np.ndarray:
            if obs.shape[2:] != shape:
                raise UserError(f"observations of shape {obs.shape[2:]} do not fit this policy's {shape}")
            members, count = active.shape
            wide = np.zeros((members, -(-count // block) * block, *shape), np.float32)
            wide[:, :count] = obs
            starts = [i for i in range(0, count, block) if active[:, i : i + block].any()]
            # All blocks are on their way before the first is waited for.
            answers = [
                run(params, swept, wide[:, i : i + block], keys[(first + i) // block], time) for i in starts
            ]
            actions = np.zeros((*wide.shape[:2], *self.action_shape), np.float32)
            for i, answer in zip(starts, answers, strict=True):
                actions[:, i : i + block] = answer
            return actions[:, :count]

        return act

    def act(
        self, obs: np.ndarray, acting: Acting = SINGLE, member: int = 0, key: Any = None, time: int = 0
    ) -> np.ndarray:
        """Actions for one observation or a batch of them, in the units of the data.

        A policy trained with `chunk` answers with that many actions for each, in the order to play them.
        The draw depends on `key` and `time`; without a key, calls follow one fixed sequence.
        """
        obs = np.asarray(obs, np.float32)
        if key is None:
            draw = self._draw.copy()
            self._draw[-1] += 1
        else:
            draw = np.append(jax.random.key_data(key), np.uint32(time))
        if obs.shape == self.obs_shape:
            program = self._single.get((acting, member))
            if program is None:
                program = self._single[acting, member] = self._compile_single(acting, member)
            return np.asarray(program(np.concatenate((obs.reshape(-1), draw.view(np.float32)))))
        if obs.shape[1:] != self.obs_shape:
            raise UserError(f"observations of shape {obs.shape} do not fit this policy's {self.obs_shape}")
        run, words = self.for_member(acting, member), jnp.asarray(draw[:-1])
        return np.asarray(run(obs, jax.random.wrap_key_data(words), draw[-1]))


def save(folder: Path, params: Any, about: dict[str, Any]) -> None:
    """Write stacked parameters with what `load` needs: agent, config, steps, bounds, shapes, members."""
    checkpoint.save(folder, params, about)


def example(about: dict[str, Any]) -> Transition:
    """Transitions of the right shapes, holding nothing; enough to lay out an agent's parameters."""
    obs = np.zeros((1, *about["obs_shape"]), np.float32)
    action = np.zeros((1, about["action_size"] * about.get("chunk", 1)), np.float32)
    one = np.ones(1, np.float32)
    return Transition(obs, action, one, obs, action, one)


def template(agent: Agent, about: dict[str, Any]) -> Any:
    """Shapes of a stacked state."""
    keys = jax.vmap(jax.random.key)(jnp.arange(len(about["members"])))
    return jax.eval_shape(jax.vmap(agent.init, in_axes=(0, None)), keys, example(about))


def stay_in_this_thread() -> None:
    """Ask JAX to run a CPU program where it is called, not on a thread of its own that one must wait for.

    It is asked before it has started, or it does not listen; who has chosen by the environment keeps that.
    """
    if "JAX_CPU_ENABLE_ASYNC_DISPATCH" not in os.environ:
        jax.config.update("jax_cpu_enable_async_dispatch", False)


def load(run: str | Path) -> Policy:
    """The policy of a run directory (or of its `policy` folder alone)."""
    stay_in_this_thread()
    run = Path(run)
    folder = run / "policy" if (run / "policy").is_dir() else run
    if not folder.is_dir():
        raise UserError(f"there is no run at {run}")
    about = checkpoint.read_meta(folder)
    try:
        module = agents.get(about["agent"])
        config = from_dict(module.Config, about["config"])
        agent = module.make(config, about["steps"])
        return Policy(module.make, config, checkpoint.load(folder, template(agent, about).params), about)
    except (KeyError, TypeError) as error:
        raise UserError(f"{folder} does not describe a policy ({error!r})") from None


def arbitrary(agent: str, obs_shape: tuple[int, ...], action_size: int, **options: Any) -> Policy:
    """A policy of random parameters, for measuring and testing: right in shape, good for nothing."""
    stay_in_this_thread()
    module = agents.get(agent)
    config = module.Config(**options)
    about = {
        "agent": agent,
        "config": dataclasses.asdict(config),
        "steps": 1,
        "step": 0,
        "members": [{"seed": 0}],
        "obs_shape": list(obs_shape),
        "action_size": action_size,
        "action_low": [-1.0] * action_size,
        "action_high": [1.0] * action_size,
    }
    rng = np.random.default_rng(0)

    def fill(path: Any, leaf: Any) -> np.ndarray:
        """Weights keep the size of what passes, biases are small, and deviations positive."""
        if leaf.ndim > 2:
            return (rng.normal(size=leaf.shape) / leaf.shape[-1] ** 0.5).astype(leaf.dtype)
        if "bias" in jax.tree_util.keystr(path):
            return (0.1 * rng.normal(size=leaf.shape)).astype(leaf.dtype)
        return rng.uniform(0.5, 1.5, leaf.shape).astype(leaf.dtype)

    params = jax.tree_util.tree_map_with_path(fill, template(module.make(config, 1), about).params)
    return Policy(module.make, config, params, about)
