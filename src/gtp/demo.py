"""`gtp demo`: the paper's multi-goal experiment from nothing to a picture, in a few minutes on two cores.

A demonstrator walks to one of four equally good goals. GTP and GTP-BC, its behaviour-cloning form, learn to
walk to all four; a Gaussian policy, which can only aim between them, walks off the bridges.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from gtp import demo_plot, flow, training
from gtp.agents import bc, gtp
from gtp.checkpoint import write_json
from gtp.data import toy
from gtp.envs import multigoal
from gtp.errors import UserError
from gtp.noise import sampling_grid
from gtp.progress import bar
from gtp.types import Acting, Agent, Array, Transition

JUMPS = (1, 2, 5)
"""The K at which policies are shown."""
GTP = gtp.Config(
    eta=1.0,
    sampling_steps=2,
    # One V(s) for all: the few policy samples a demo can afford would make the advantages noise.
    baseline="expectile",
    expectile=0.5,
    # All steps here are about equally good; uncapped, a few would make up for half of a batch.
    weight_clip=4.0,
    # Actions spread by 0.65. Levels far above or below choose nothing here, and cost as much as the others.
    t_min=0.02,
    t_max=2.5,
    sigma_data=0.65,
    actor_lr=1e-3,
    critic_lr=1e-3,
    critic_layer_norm=False,
    hidden=(64, 64, 64),
)
GTP_STEPS, GTP_BATCH = 25_000, 128
BC = bc.Config()
BC_STEPS, BC_BATCH = 4_000, 256
LOG_EVERY = 200


class Rollout(NamedTuple):
    """Episodes side by side."""

    positions: np.ndarray
    """(time, episodes, 2); a point stays where its episode ended."""
    goal: np.ndarray
    """Index of the goal each episode reached, -1 for none."""
    success: np.ndarray
    """Whether each episode reached a goal."""

    def figures(self) -> dict[str, Any]:
        """The share of successful episodes, and of episodes that reached each goal."""
        shares = [float(np.mean(self.goal == i)) for i in range(len(multigoal.GOALS))]
        return {"success": float(self.success.mean()), "goals": shares}


class Plan(NamedTuple):
    """What to train, and how long."""

    title: str
    make: training.Make
    config: Any
    steps: int
    batch_size: int
    sweep: dict[str, Sequence[float]]

    def train(self, data: Transition, seed: int, console: Console) -> list[Any]:
        """The parameters of each member of the sweep after training."""
        who = training.members([seed], self.sweep)
        reports = training.train(
            self.make,
            self.config,
            data,
            who,
            steps=self.steps,
            batch_size=self.batch_size,
            log_every=LOG_EVERY,
        )
        console.print(f"[bold]{self.title}[/]")
        with bar(console, "compiling", self.steps) as move:
            for report in reports:
                move(report.step, report.metrics, report.alive)
                for why in report.stopped.values():
                    raise UserError(
                        f"the demo's training of {self.title} failed at update {report.step}: {why}"
                    )
        return [training.take(report.state.params, i) for i in range(len(who.seeds))]


def rollout(act: Callable[[Array, Array], Array], episodes: int = 1000, seed: int = 0) -> Rollout:
    """Let a policy `act(obs, key)` walk, many points at once."""
    env = multigoal.MultiGoalVectorEnv(episodes)
    obs, _ = env.reset(seed=seed)
    key = jax.random.key(seed)
    positions, goal = [obs], np.full(episodes, -1)
    for step in range(multigoal.LIMIT):
        action = np.asarray(act(obs, jax.random.fold_in(key, step)))
        obs, _, _, _, info = env.step(action)
        positions.append(obs)
        goal = info["goal"]
    return Rollout(np.stack(positions), goal, goal >= 0)


def policy(agent: Agent, acting: Acting) -> Callable[[Any, Array, Array], Array]:
    """The compiled act(params, obs, key)."""
    return jax.jit(lambda params, obs, key: agent.act(params, obs, key, acting))


def generative_trajectories(
    params: gtp.Params, config: gtp.Config, steps: int = 5, samples: int = 300, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Actions at the origin on their way from noise: ((levels, samples, 2), the levels)."""
    noise = config.noise()
    grid = sampling_grid(steps, noise, config.sampling_grid)
    obs = params.normaliser(jnp.zeros((samples, 2)))
    phi = flow.endpoint(params.actor.bind(obs), noise)
    z = jax.random.normal(jax.random.key(seed), (samples, 2))
    return np.asarray(flow.trajectory(phi, grid[0] * z, grid)), np.asarray(grid)


def paths(data: Transition) -> np.ndarray:
    """A log's positions as (time, episodes, 2), each episode's last repeated to the end."""
    starts = np.flatnonzero(np.r_[True, (data.obs[1:] != data.next_obs[:-1]).any(-1)])
    episodes = [
        np.concatenate([obs, after[-1:]])
        for obs, after in zip(
            np.split(data.obs, starts[1:]), np.split(data.next_obs, starts[1:]), strict=True
        )
    ]
    longest = max(map(len, episodes))
    return np.stack([np.pad(e, ((0, longest - len(e)), (0, 0)), mode="edge") for e in episodes], axis=1)


def run(out: Path, console: Console, seed: int = 0) -> dict[str, Any]:
    """Train, roll out, write demo.png and figures.json into `out`, and return the figures."""
    started = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    data = toy.load("multigoal").transitions

    # GTP and GTP-BC differ in one number, so they train as one program.
    plan = Plan("GTP and GTP-BC", gtp.make, GTP, GTP_STEPS, GTP_BATCH, {"eta": [GTP.eta, 0.0]})
    walkers = plan.train(data, seed, console)
    plan = Plan("Gaussian BC", bc.make, BC, BC_STEPS, BC_BATCH, {})
    (gaussian,) = plan.train(data, seed, console)

    figures: dict[str, Any] = {"gtp": {}, "gtp_bc": {}}
    shown: dict[str, Rollout] = {}
    agent = gtp.make(GTP, GTP_STEPS)
    for k in JUMPS:
        act = policy(agent, Acting(sampling_steps=k))
        ours, cloned = (rollout(partial(act, params)) for params in walkers)
        figures["gtp"][f"K={k}"], figures["gtp_bc"][f"K={k}"] = ours.figures(), cloned.figures()
        shown[f"GTP, K = {k}"] = ours
        if k == JUMPS[-1]:
            shown[f"GTP-BC, K = {k}"] = cloned
    shown["Gaussian BC"] = rollout(partial(policy(bc.make(BC, BC_STEPS), Acting()), gaussian))
    figures["bc"] = shown["Gaussian BC"].figures()

    generative, levels = generative_trajectories(walkers[0], GTP, JUMPS[-1])
    demo_plot.draw(
        out / "demo.png",
        paths(data),
        {name: walk.positions for name, walk in shown.items()},
        generative,
        {name: walk.figures() for name, walk in shown.items()},
        levels,
    )
    figures["seconds"] = round(time.monotonic() - started, 1)
    write_json(out / "figures.json", figures)
    return figures


def table(figures: dict[str, Any]) -> Table:
    """The figures as they are printed."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("policy")
    for name in ("K", "success", "right", "up", "left", "down"):
        table.add_column(name, justify="right")
    rows = [
        (title, key.removeprefix("K="), values)
        for title, name in (("GTP", "gtp"), ("GTP-BC", "gtp_bc"))
        for key, values in figures[name].items()
    ]
    for title, jumps, values in [*rows, ("Gaussian BC", "", figures["bc"])]:
        numbers = (values["success"], *values["goals"])
        table.add_row(title, jumps, *(f"{number:.3f}" for number in numbers))
    return table
