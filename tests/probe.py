"""Small problems with known answers, for every agent that has values or a distribution to learn.

**The chain.** Three steps k = 0, 1, 2. In each an observation (x, k − 1) with a fresh x ~ U(−1, 1), and one
best action g(x, k) on a circle of radius 0.6. An action survives its step with probability

    p(a) = exp(−‖a − g‖²/(2·0.5²)),

and the only reward is R = 10 for surviving the last. So nothing but bootstrapping tells good from bad in the
first two steps, and everything is known in closed form:

    Q*(x, k, a) = R·γ^(2−k)·p(a),     return of a policy = R·p₀·p₁·p₂  with  p_k = E_x p(π(x, k)),     best R.

A quarter of the data's actions are g with noise of 0.05, the rest are uniform: their mean is g/4, which
survives a step with probability .67 and the chain with .30. Uniform actions are bad, but they tell a critic
what lies where; without them the answer to "what is best" would not be in the data.

**Four modes.** One observation, actions around the four corners (±.6, ±.6), all worth the same.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from gtp.types import Acting, Transition

STEPS, RADIUS, WIDTH, REWARD = 3, 0.6, 0.5, 10.0
GOOD, NOISE = 0.25, 0.05
LOOP = {"xla_backend_optimization_level": 1, "xla_llvm_disable_expensive_passes": False}
"""Compiler options for thousands of updates or actions; other programs are not worth it (`conftest`)."""
CORNERS = 0.6 * np.array([(-1, -1), (-1, 1), (1, -1), (1, 1)], np.float32)


def observe(x, k):
    return np.stack([x, np.broadcast_to(k - 1.0, x.shape)], axis=-1).astype(np.float32)


def best(obs):
    """g: the best action of each observation."""
    angle = jnp.pi * (obs[..., 0] / 2 + 2 * (obs[..., 1] + 1) / 3)
    return RADIUS * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=-1)


def survival(obs, action):
    """p: the probability that an action survives its step."""
    return np.exp(-np.sum((np.asarray(action) - best(obs)) ** 2, axis=-1) / (2 * WIDTH**2))


def optimal_q(obs, action, discount):
    return REWARD * discount ** (1 - obs[..., 1]) * survival(obs, action)


@functools.cache
def chain(episodes=10_000, seed=0):
    """What the mixed behaviour left behind, about 17,000 transitions."""
    rng = np.random.default_rng(seed)
    obs = np.stack([observe(rng.uniform(-1, 1, episodes), k) for k in range(STEPS)])
    good = best(obs) + NOISE * rng.normal(size=(STEPS, episodes, 2))
    action = np.where(rng.random((STEPS, episodes, 1)) < GOOD, good, rng.uniform(-1, 1, good.shape))
    survived = rng.random((STEPS, episodes)) < survival(obs, action)
    alive = np.concatenate([np.ones((1, episodes), bool), np.cumprod(survived, axis=0)[:-1].astype(bool)])
    last = np.arange(STEPS)[:, None] == STEPS - 1
    reward = np.where(survived & last, REWARD, 0.0)
    goes_on = survived & ~last
    ahead = np.minimum(np.arange(STEPS) + 1, STEPS - 1)
    next_action = np.where(goes_on[..., None], action[ahead], action)
    columns = (obs, action, reward, obs[ahead], next_action, goes_on)
    return Transition(*(jnp.asarray(column[alive], jnp.float32) for column in columns))


@functools.cache
def four_modes(rows=4000, seed=0):
    rng = np.random.default_rng(seed)
    obs, flat = np.zeros((rows, 1)), np.zeros(rows)
    action = CORNERS[rng.integers(4, size=rows)] + 0.05 * rng.normal(size=(rows, 2))
    return Transition(*(jnp.asarray(c, jnp.float32) for c in (obs, action, flat, obs, action, flat)))


def train(agent, data, updates, seed=0, batch=256):
    """The parameters after so many updates, in one compiled scan."""

    @functools.partial(jax.jit, compiler_options=LOOP)
    def run(state, key):
        def step(state, _):
            key_rows, key_update = jax.random.split(jax.random.fold_in(key, state.step + 1))
            rows = jax.random.randint(key_rows, (batch,), 0, data.reward.shape[0])
            return agent.update(state, jax.tree.map(lambda x: x[rows], data), key_update)[0], None

        return jax.lax.scan(step, state, None, updates)[0].params

    key = jax.random.key(seed)
    return run(jax.jit(agent.init)(jax.random.fold_in(key, 0), data), key)


def share_of_optimal_return(agent, params, acting=None):
    """The policy's expected return in the chain over the best there is."""
    acting, x = acting or Acting(), np.linspace(-0.995, 0.995, 400)
    act = jax.jit(lambda obs, key: agent.act(params, obs, key, acting), compiler_options=LOOP)
    steps = [(obs, act(obs, jax.random.key(k))) for k, obs in ((k, observe(x, k)) for k in range(STEPS))]
    return float(np.prod([np.mean(survival(obs, action)) for obs, action in steps]))


def near_each_mode(agent, params, acting=None, samples=2000, radius=0.2):
    """The share of the policy's actions that lie at each of the four corners; about (¼, ¼, ¼, ¼) is right."""
    acting = acting or Acting()
    act = jax.jit(lambda obs, key: agent.act(params, obs, key, acting), compiler_options=LOOP)
    actions = np.asarray(act(jnp.zeros((samples, 1)), jax.random.key(9)))
    gap = np.linalg.norm(actions[:, None] - CORNERS, axis=-1)
    return np.mean(gap < radius, axis=0)
