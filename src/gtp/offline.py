"""Offline scores: what a log alone can say of a policy, for those who cannot try it out.

    losses         the agent's own (denoising, TD, …), on episodes it was not trained on
    sample_error   ‖X − a‖², X ~ π(s): how far samples are from what the data did, per action dimension
    energy_score   ‖X − a‖ − ½‖X − X'‖: smallest on average where π is the data's own distribution
    q_data         the critic on the data's actions
    q_policy       the critic on the policy's actions; q_better is how often it prefers these
    td_error       root mean square of Q(s, a) − (r + γ·Q(s', π(s')))
    fqe            fitted Q evaluation: the discounted return of π from the first states of episodes

The losses tell over-fitting, the energy score which of several clones is the best copy. A critic flatters its
own policy: q_policy ranks nothing by itself. Fitted Q evaluation trains a critic anew for a policy that stays
as it is; it knows nothing of how the policy was found, and ranks policies best of what is here. Where several
actions are learned as one, energy score and TD error are of all of them, and grow with their number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gtp import training, values
from gtp.nn import Ensemble, Normaliser
from gtp.optim import adam, descend, polyak
from gtp.training import Make, Members
from gtp.types import Acting, Agent, Array, Metrics, State, Transition

ROWS = 2000
"""Transitions that scores are averaged over; drawn with a fixed seed, the same for all members."""
BATCH = 500
DISCOUNT = 0.99
"""γ where an agent has none of its own."""

LEARNING_RATE, TARGET_RATE, HIDDEN = 3e-4, 0.005, (256, 256)
"""Of fitted Q evaluation."""
START_ROWS, START_SAMPLES = 1000, 10
"""First states that its answer is averaged over at most, and the policy's actions in each."""

Scores = dict[str, np.ndarray]
"""Name of a score -> its value for each member."""


class Subject(NamedTuple):
    """Whom to judge: the members of a run after some training."""

    make: Make
    config: Any
    total_steps: int
    members: Members
    state: State
    """Stacked over members."""

    def agent(self, swept: dict[str, Array]) -> Agent:
        """One member's agent."""
        return self.make(dataclasses.replace(self.config, **swept), self.total_steps)

    def each(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function(state, swept, …)` over all members, the rest shared; compiled."""
        state = jax.tree.map(jnp.asarray, self.state)
        swept = {name: jnp.asarray(v) for name, v in self.members.swept.items()}

        def run(state: State, swept: dict[str, Array], *shared: Any) -> Any:
            return jax.vmap(lambda state, swept: function(state, swept, *shared))(state, swept)

        return partial(jax.jit(run), state, swept)


def batches(data: Transition, size: int, seed: int = 0) -> Iterator[tuple[Transition, Array]]:
    """Batches of one size, up to ROWS transitions in all and each at most once, with a key each."""
    count = len(data.reward)
    size = min(size, count)
    order = np.random.default_rng(seed).permutation(count)
    for i in range(max(1, min(ROWS, count) // size)):
        index = order[i * size : (i + 1) * size]
        yield jax.tree.map(lambda x, index=index: x[index], data), jax.random.fold_in(jax.random.key(seed), i)


def average(found: list[dict[str, Array]]) -> Scores:
    """Means over batches."""
    return {name: np.mean([np.asarray(one[name], np.float64) for one in found], axis=0) for name in found[0]}


def losses(who: Subject, data: Transition, batch_size: int) -> Scores:
    """Every loss that the agent's update reports, on data that it does not learn from.

    The update is made and thrown away. So each loss is the one that metrics.csv shows during training.
    """

    def one(state: State, swept: dict[str, Array], batch: Transition, key: Array) -> Metrics:
        _, metrics = who.agent(swept).update(state, batch, key)
        return {name: value for name, value in metrics.items() if name.endswith(("_loss", "_error"))}

    run = who.each(one)
    return average([run(batch, key) for batch, key in batches(data, batch_size)])


def behaviour(who: Subject, data: Transition, acting: Acting) -> Scores:
    """How near the policy is to the data's actions, and what its own critic, if any, says of both."""

    def one(state: State, swept: dict[str, Array], batch: Transition, key: Array) -> Metrics:
        agent, params = who.agent(swept), state.params
        # Two samples here and one ahead, in one pass.
        seen = jnp.concatenate([batch.obs, batch.obs, batch.next_obs])
        first, second, ahead = jnp.split(agent.act(params, seen, key, acting), 3)
        spread = jnp.linalg.norm(first - second, axis=-1)
        miss = jnp.linalg.norm(jnp.stack([first, second]) - batch.action, axis=-1)
        found = {
            "sample_error": jnp.mean((first - batch.action) ** 2),
            "energy_score": jnp.mean(jnp.mean(miss, axis=0) - spread / 2),
        }
        if agent.q is None:
            return found
        q_data, q_policy = agent.q(params, batch.obs, batch.action), agent.q(params, batch.obs, first)
        next_q = agent.q(params, batch.next_obs, ahead)
        target = values.td_target(batch.reward, batch.bootstrap, next_q, discount(who.config, swept))
        return found | {
            "q_data": jnp.mean(q_data),
            "q_policy": jnp.mean(q_policy),
            "q_better": jnp.mean(q_policy > q_data),
            "td_error": jnp.mean((q_data - target) ** 2),
        }

    run = who.each(one)
    found = average([run(batch, key) for batch, key in batches(data, BATCH)])
    if "td_error" in found:
        found["td_error"] = np.sqrt(found["td_error"])
    return found


def discount(config: Any, swept: dict[str, Array] | None = None) -> Any:
    """The γ that an agent was trained with."""
    return (swept or {}).get("discount", getattr(config, "discount", DISCOUNT))


class FqeParams(NamedTuple):
    """The policy under judgement, which stays as it is, and the critic that learns its value."""

    policy: Any
    normaliser: Normaliser
    critic: Ensemble
    target: Ensemble


def fqe_agent(make: Make, acting: Acting, low: float, high: float) -> Make:
    """Fitted Q evaluation as an agent whose actor never learns, so that the ordinary loop trains it.

        Q(s, a)  →  r + γ·Q⁻(s', π(s'))

    Targets are kept between the smallest and the largest return that the data's rewards allow.
    """
    optimiser = adam(LEARNING_RATE)

    def make_fqe(config: Any, total_steps: int) -> Agent:
        agent, gamma = make(config, total_steps), discount(config)
        horizon = 1 / jnp.maximum(1 - gamma, 1e-4)

        def init(key: Array, data: Transition) -> State:
            critic = Ensemble(key, data.obs.shape[1:], data.action.shape[-1], HIDDEN, 1)
            params = FqeParams(None, Normaliser.fit(data.obs, True), critic, critic)
            return State(jnp.int32(0), params, optimiser.init(critic))

        def update(state: State, batch: Transition, key: Array) -> tuple[State, Metrics]:
            params: FqeParams = state.params
            action = agent.act(params.policy, batch.next_obs, key, acting)
            next_q = params.target(params.normaliser(batch.next_obs), action)[0]
            target = values.td_target(batch.reward, batch.bootstrap, next_q, gamma)
            target = jnp.clip(target, min(low, 0.0) * horizon, max(high, 0.0) * horizon)

            def loss(critic: Ensemble) -> tuple[Array, Metrics]:
                q = critic(params.normaliser(batch.obs), batch.action)
                value = jnp.mean(values.td_loss(q, target))
                return value, {"critic_loss": value, training.Q_METRIC: jnp.mean(q)}

            critic, opt, metrics, _ = descend(loss, params.critic, state.opt, optimiser)
            after = params._replace(critic=critic, target=polyak(params.target, critic, TARGET_RATE))
            return State(state.step + 1, after, opt), metrics

        def act(params: FqeParams, obs: Array, key: Array, acting: Acting) -> Array:
            return agent.act(params.policy, obs, key, acting)

        def q(params: FqeParams, obs: Array, action: Array) -> Array:
            return params.critic(params.normaliser(obs), action)[0]

        return Agent(init, update, act, agent.rules, q)

    return make_fqe


def fit_q(
    who: Subject,
    data: Transition,
    acting: Acting,
    *,
    steps: int,
    batch_size: int = 256,
    rewards: tuple[float, float] | None = None,
    progress: Callable[[int], None] = lambda step: None,
) -> tuple[Subject, np.ndarray]:
    """Critics of the members' policies, as agents with a `q`, and which of them did not diverge.

    `data` are what the critics learn from; they need not be the policy's doing, but must cover what it does.
    `rewards` are the least and the largest of one step, where those of `data` are of several.
    """
    low, high = rewards or (float(np.min(data.reward)), float(np.max(data.reward)))
    make = fqe_agent(who.make, acting, low, high)
    keys = jax.vmap(jax.random.key)(jnp.asarray(who.members.seeds))
    init = jax.jit(jax.vmap(make(who.config, who.total_steps).init, in_axes=(0, None)))
    # Statistics need all observations, unless they are pictures, which have none.
    seen = data if data.obs.ndim == 2 else jax.tree.map(lambda x: x[:1], data)
    state = init(keys, jax.tree.map(jnp.asarray, seen))
    policy = jax.tree.map(jnp.asarray, who.state.params)
    state = state._replace(params=state.params._replace(policy=policy))
    reports = training.train(
        make,
        who.config,
        data,
        who.members,
        steps=steps,
        batch_size=batch_size,
        log_every=max(n for n in range(1, min(steps, 1000) + 1) if steps % n == 0),
        state=state,
    )
    alive = np.ones(len(who.members.seeds), bool)
    for report in reports:
        state, alive = report.state, report.alive
        progress(report.step)
    return who._replace(make=make, state=state), alive


def value_of(judged: Subject, starts: np.ndarray, acting: Acting) -> np.ndarray:
    """Mean of Q(s, π(s)) over the states `starts`, or over START_ROWS of them, for each member."""
    starts = starts[np.random.default_rng(0).permutation(len(starts))[:START_ROWS]]

    def value(state: State, swept: dict[str, Array], starts: Array, key: Array) -> Array:
        agent = judged.agent(swept)
        keys = jax.random.split(key, START_SAMPLES)
        actions = jax.vmap(lambda k: agent.act(state.params, starts, k, acting))(keys)
        assert agent.q is not None
        return jnp.mean(agent.q(state.params, starts, actions))

    return np.asarray(judged.each(value)(jnp.asarray(starts), jax.random.key(0)), np.float64)


def fitted_q(
    who: Subject, data: Transition, starts: np.ndarray, acting: Acting, **training_options: Any
) -> Scores:
    """Fitted Q evaluation: the value of each member's policy in `starts`, NaN where its critic diverged."""
    judged, alive = fit_q(who, data, acting, **training_options)
    return {"fqe": np.where(alive, value_of(judged, starts, acting), np.nan)}
