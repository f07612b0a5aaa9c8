"""One contract over all agents: pure functions, the same under every transformation, every setting used."""

import ast
import dataclasses
import functools
import inspect
import typing

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtp import agents
from gtp.config import check, field_types, sweepable
from gtp.types import Acting, State, Transition

AGENTS = {name: agents.get(name) for name in agents.NAMES}
SMALL = {"hidden": (8, 8)}
TINY = {
    "gtp": {"sampling_steps": 2, "baseline_samples": 2, "levels_end": 40},
    "diffusion_ql": {"sampling_steps": 2, "actor_target_every": 1, "actor_target_start": 0},
    "consistency_ac": {"levels_period": 30, "actor_target_every": 1, "actor_target_start": 0},
    "cql": {"samples": 2, "critic_hidden": (8, 8)},
    "onestep": {"baseline_samples": 2},
    "fql": {"flow_steps": 2},
    "flow_bc": {"sampling_steps": 2},
    "ifql": {"sampling_steps": 2},
    "idql": {"sampling_steps": 2, "actor_hidden": (8, 8)},
    "shortcut": {"sampling_steps": 2, "baseline_samples": 2},
    "meanflow": {"baseline_samples": 2},
    "qgpo": {"sampling_steps": 2, "support": 3},
}
"""What keeps an agent quick, beside its width."""
ACTS_BY_ITS_MEAN = {"iql", "td3_bc", "rebrac", "awac", "xql", "cql", "onestep"}
"""Agents whose published way to act, our `single`, has no chance in it."""
ROWS, OBS, ACTION, STEPS = 24, 3, 2, 30


def one_process(name, *case):
    """A case of one agent; all of an agent's run in one process, which compiles it once."""
    return pytest.param(name, *case, marks=pytest.mark.xdist_group(name))


each_agent = pytest.mark.parametrize("name", [one_process(name) for name in AGENTS])


def batch(seed=0):
    rng = np.random.default_rng(seed)
    draw = lambda *shape: jnp.asarray(rng.uniform(-1, 1, shape), jnp.float32)  # noqa: E731
    ends = jnp.asarray(rng.random(ROWS) < 0.8, jnp.float32)
    return Transition(
        2 + draw(ROWS, OBS), draw(ROWS, ACTION), draw(ROWS), 2 + draw(ROWS, OBS), draw(ROWS, ACTION), ends
    )


def config(name, **changes):
    made = AGENTS[name].Config(**SMALL | TINY.get(name, {}) | changes)
    check(made)
    return made


def run(agent, key, state):
    """Two updates: final state and last metrics."""
    data = batch()

    def step(state, _):
        return agent.update(state, data, jax.random.fold_in(key, state.step))

    state, metrics = jax.lax.scan(step, state, None, 2)
    return state, {name: values[-1] for name, values in metrics.items()}


@functools.cache
def compiled(name):
    """The default agent's run, compiled once for all tests: key -> state, metrics."""
    agent = AGENTS[name].make(config(name), STEPS)
    updates = jax.jit(lambda key, state: run(agent, key, state))
    return lambda key: updates(key, init(name)(key, batch()))


@functools.cache
def init(name, **changes):
    """A compiled `init`: without jit its random numbers alone cost half a minute of tiny compilations."""
    return jax.jit(AGENTS[name].make(config(name, **changes), STEPS).init)


@functools.cache
def first_state(name, **changes):
    return init(name, **changes)(jax.random.key(0), batch())


@functools.cache
def without_jit(name, **changes):
    """Two updates with jit switched off, from the key 0."""
    shaping = {k: v for k, v in changes.items() if k in ("baseline", "normalise_obs", "critic_layer_norm")}
    state = first_state(name, **shaping)
    with jax.disable_jit():
        return run(AGENTS[name].make(config(name, **changes), STEPS), jax.random.key(0), state)


def assert_close(got, want, **tolerance):
    assert jax.tree.structure(got) == jax.tree.structure(want)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, **tolerance), got, want)


def distance(one, other):
    return max(
        float(jnp.max(jnp.abs(x - y)))
        for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    )


@each_agent
def test_an_update_moves_the_parameters_and_reports_finite_scalars(name):
    first = first_state(name)
    state, metrics = compiled(name)(jax.random.key(0))
    assert isinstance(state, State)
    assert int(first.step) == 0
    assert int(state.step) == 2
    assert jax.tree.structure(first) == jax.tree.structure(state)
    for old, new in zip(jax.tree.leaves(first), jax.tree.leaves(state), strict=True):
        assert (old.shape, old.dtype, old.weak_type) == (new.shape, new.dtype, new.weak_type)
        assert np.all(np.isfinite(new))
    assert metrics
    for key, value in metrics.items():
        assert value.shape == (), key
        assert np.isfinite(value), key
    assert distance(first.params.actor, state.params.actor) > 1e-5


@each_agent
def test_acting(name):
    agent = AGENTS[name].make(config(name), STEPS)
    state, _ = compiled(name)(jax.random.key(0))
    obs = batch().obs[:5]
    for rule in agent.rules:
        for weights in ("online", "ema") if hasattr(state.params, "actor_target") else ("online",):
            acting = Acting(rule, 1 if rule == "single" else 4, None, weights)
            actions = agent.act(state.params, obs, jax.random.key(1), acting)
            assert actions.shape == (5, ACTION)
            assert np.all(np.abs(actions) <= 1)  # Never true of NaN.
            again = agent.act(state.params, obs, jax.random.key(1), acting)
            np.testing.assert_array_equal(actions, again)
            other = agent.act(state.params, obs, jax.random.key(2), acting)
            if rule == "single" and name in ACTS_BY_ITS_MEAN:
                np.testing.assert_array_equal(actions, other)
            else:
                assert distance(actions, other) > 1e-4


@pytest.mark.xdist_group("gtp")
def test_the_choice_among_candidates_goes_from_the_best_to_no_choice():
    """By its temperature T: exp(Q/T) leaves the best alone as T falls, and forgets the critic as T grows."""
    (one, _), (two, _) = (compiled("gtp")(jax.random.key(seed)) for seed in (0, 1))
    other_critic = one.params._replace(critic_target=two.params.critic_target)

    def act(params, rule, temperature):
        agent = AGENTS["gtp"].make(config("gtp", choice_temperature=temperature), STEPS)
        return agent.act(params, batch().obs[:5], jax.random.key(1), Acting(rule, 8))

    best = act(one.params, "argmax", 1.0)
    for rule in ("softmax", "average"):
        np.testing.assert_allclose(act(one.params, rule, 1e-7), best, atol=1e-5)
        assert distance(act(one.params, rule, 1.0), best) > 1e-3
        np.testing.assert_allclose(act(one.params, rule, 1e7), act(other_critic, rule, 1e7), atol=1e-5)
    assert distance(act(one.params, "average", 1.0), act(other_critic, "average", 1.0)) > 1e-5


@each_agent
def test_a_critic_values_each_row_and_tells_actions_apart(name):
    agent = AGENTS[name].make(config(name), STEPS)
    if agent.q is None:
        pytest.skip("this agent shows no critic")
    state, _ = compiled(name)(jax.random.key(0))
    data = batch()
    q = agent.q(state.params, data.obs, data.action)
    assert q.shape == (ROWS,)
    assert np.all(np.isfinite(q))
    assert distance(q, agent.q(state.params, data.obs, -data.action)) > 1e-4
    # Several candidates for each observation stand on an axis in front.
    many = agent.q(state.params, data.obs, jnp.stack([data.action, -data.action]))
    np.testing.assert_allclose(many[0], q, rtol=1e-4, atol=1e-5)


@each_agent
def test_jit_equals_no_jit(name):
    assert_close(compiled(name)(jax.random.key(0)), without_jit(name), rtol=1e-3, atol=2e-5)


@each_agent
def test_same_seed_same_bits(name):
    one, two = (compiled(name)(jax.random.key(4)) for _ in range(2))
    jax.tree.map(np.testing.assert_array_equal, one, two)
    assert distance(one[0].params, compiled(name)(jax.random.key(5))[0].params) > 1e-3


@each_agent
def test_every_config_field_is_read(name):
    """`config.FIELD`, or `self.FIELD` in a method that is no check, appears for each field."""
    tree = ast.parse(inspect.getsource(AGENTS[name]))
    (cls,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Config")
    checks = {id(n) for f in cls.body if getattr(f, "name", "") == "check" for n in ast.walk(f)}
    read = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in ("config", "self")
        and id(node) not in checks
    }
    fields = {f.name for f in dataclasses.fields(AGENTS[name].Config)}
    assert fields <= read, fields - read


@each_agent
def test_seeds_and_swept_numbers_side_by_side_are_what_each_is_alone(name):
    """Three members in one program: two seeds, and the first again with every float of the config changed."""
    base = config(name)
    names = sweepable(base)
    changed = {n: (0.8 if getattr(base, n) == 0 else 0.8 * getattr(base, n)) for n in names}
    swept = {n: jnp.array([getattr(base, n)] * 2 + [changed[n]]) for n in names}
    keys = [jax.random.key(seed) for seed in (0, 3, 0)]
    make = lambda values: AGENTS[name].make(dataclasses.replace(base, **values), STEPS)  # noqa: E731

    def member(key, values):
        agent = make(values)
        return run(agent, key, agent.init(key, batch()))

    states, metrics = jax.jit(jax.vmap(member))(jnp.stack(keys), swept)
    together = [jax.tree.map(lambda x, i=i: x[i], states.params) for i in range(3)]
    for i in (0, 1):
        alone, alone_metrics = compiled(name)(keys[i])
        assert_close(together[i], alone.params, atol=1e-5)
        assert_close({k: v[i] for k, v in metrics.items()}, alone_metrics, rtol=1e-4, atol=1e-5)
    other = without_jit(name, **changed)[0]
    assert_close(together[2], other.params, rtol=1e-3, atol=2e-5)
    assert distance(together[0].actor, together[1].actor) > 1e-2
    assert distance(together[0], together[2]) > 1e-4


@pytest.mark.parametrize("name", [one_process(name) for name in ("gtp", "consistency_ac")])
def test_a_whole_run_is_one_compilation(name):
    """Chunks of a scan from the first step to the last, across every change of N(k)."""
    agent = AGENTS[name].make(config(name), STEPS)
    data = batch()

    @jax.jit
    def chunk(state):
        def step(state, _):
            return agent.update(state, data, jax.random.fold_in(jax.random.key(0), state.step))

        return jax.lax.scan(step, state, None, STEPS // 3)

    state, levels = first_state(name), []
    for _ in range(3):
        state, metrics = chunk(state)
        levels += np.asarray(metrics.get("levels", [])).tolist()
    assert chunk._cache_size() == 1
    assert int(state.step) == STEPS
    if name == "gtp":  # s₀ = 10, s₁ = 40: three stages of ten updates.
        assert levels == [11] * 10 + [21] * 10 + [41] * 10


# Switches --------------------------------------------------------------------------------------------------

# A switch that only matters beside another one, with that other one.
CONTEXT = {
    "solver": {"teacher": "solver"},
    "normalise_q_loss": {"improvement": "linear", "q_weight": 1.0},
    "normalise_weight": {"eta": 3.0},
    "levels_period": {"levels": "sawtooth"},
    "baseline": {"eta": 3.0},
    "critic_layer_norm": {"eta": 3.0},
}


def switches(name):
    """(field, option) for every option of every Literal and bool that is not the default."""
    default = config(name)
    for field, kind in field_types(default).items():
        options = (True, False) if kind is bool else ()
        if typing.get_origin(kind) is typing.Literal:
            options = typing.get_args(kind)
        yield from ((field, option) for option in options if option != getattr(default, field))


CASES = [(name, *case) for name in AGENTS for case in switches(name)]
SWITCHES = [one_process(*case) for case in CASES]


@pytest.mark.parametrize(("name", "field", "option"), SWITCHES)
def test_every_switch_runs_and_matters(name, field, option):
    known = field_types(AGENTS[name].Config)
    context = {k: v for k, v in CONTEXT.get(field, {}).items() if k in known}
    state, metrics = without_jit(name, **context, **{field: option})
    for key, value in metrics.items():
        assert np.isfinite(value), key
    if (field, option) == ("levels", "sawtooth"):
        return  # Within its first stage a tooth is the schedule itself; test_noise has the difference.
    plain, _ = without_jit(name, **context)
    pairs = zip(state.params[:4], plain.params[:4], strict=True)
    moved = [distance(a, b) for a, b in pairs if jax.tree.structure(a) == jax.tree.structure(b)]
    assert max(moved) > 1e-7, "the switch changed nothing"


def test_the_table_of_switches_is_complete():
    """The paper's ablations are all among the cases."""
    fields = {field for name, field, _ in CASES if name == "gtp"}
    assert fields >= {
        "objective", "teacher", "solver", "improvement", "levels", "u_rule", "baseline", "sampling_grid",
        "consistency_scaling", "normalise_weight", "normalise_q", "normalise_q_loss", "time_weight",
    }  # fmt: skip


@pytest.mark.xdist_group("gtp")
def test_eta_zero_weighs_every_sample_the_same():
    _, metrics = without_jit("gtp", eta=0.0)
    assert float(metrics["weight_ess"]) == pytest.approx(ROWS, rel=1e-5)
    _, metrics = without_jit("gtp", eta=3.0)
    assert float(metrics["weight_ess"]) < 0.95 * ROWS
