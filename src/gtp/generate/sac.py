"""Soft actor-critic as D4RL's data were made with: 2 x 256 networks, automatic entropy, one compiled scan."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gtp.generate.policy import Policy
from gtp.types import Array

Layers = Any
"""(weight, bias) of each layer, in a list."""
WIDTH, BATCH, RATE, DISCOUNT, TARGET_RATE = 256, 256, 3e-4, 0.99, 0.005
OPTIMISER = optax.adam(RATE)


class Buffer(NamedTuple):
    """Rows seen so far, at their full capacity from the start so that nothing is compiled twice."""

    obs: Array
    action: Array
    reward: Array
    next_obs: Array
    terminal: Array


class Learner(NamedTuple):
    """Everything that training changes."""

    actor: Layers
    """The output layer gives means and log standard deviations."""
    critics: tuple[Layers, Layers]
    targets: tuple[Layers, Layers]
    log_alpha: Array
    moments: Any


@partial(jax.jit, static_argnums=(1, 2))
def init(key: Array, features: int, actions: int) -> Learner:
    """An untrained learner."""
    keys = jax.random.split(key, 3)
    actor = _network(keys[0], features, 2 * actions)
    critics = (_network(keys[1], features + actions, 1), _network(keys[2], features + actions, 1))
    log_alpha = jnp.zeros(())
    moments = OPTIMISER.init((actor, critics, log_alpha))
    return Learner(actor, critics, critics, log_alpha, moments)


def empty_buffer(capacity: int, features: int, actions: int) -> Buffer:
    """A buffer of zeros."""
    shapes = ((features,), (actions,), (), (features,), ())
    return Buffer(*(jnp.zeros((capacity, *shape), jnp.float32) for shape in shapes))


@partial(jax.jit, donate_argnums=0)
def store(buffer: Buffer, rows: Buffer, start: Array) -> Buffer:
    """Write rows into the buffer."""
    return jax.tree.map(
        lambda all_rows, new: jax.lax.dynamic_update_slice_in_dim(all_rows, new, start, 0), buffer, rows
    )


@partial(jax.jit, static_argnames="updates", donate_argnums=0)
def train(learner: Learner, buffer: Buffer, size: Array, key: Array, updates: int) -> Learner:
    """That many gradient steps on batches drawn from the buffer's first `size` rows."""

    def step(learner: Learner, key: Array) -> tuple[Learner, None]:
        draw, noise = jax.random.split(key)
        index = jax.random.randint(draw, (BATCH,), 0, size)
        return update(learner, jax.tree.map(lambda rows: rows[index], buffer), noise), None

    return jax.lax.scan(step, learner, jax.random.split(key, updates))[0]


def update(learner: Learner, batch: Buffer, key: Array) -> Learner:
    """One step of actor, critics, temperature and targets, all from the same state of the networks."""
    key_now, key_next = jax.random.split(key)
    alpha = jnp.exp(learner.log_alpha)
    next_action, next_log_prob = _act(learner.actor, batch.next_obs, key_next)
    next_value = _lower(learner.targets, batch.next_obs, next_action) - alpha * next_log_prob
    goal = batch.reward + DISCOUNT * (1 - batch.terminal) * next_value

    def loss(trained: tuple[Layers, tuple[Layers, Layers], Array]) -> Array:
        actor, critics, log_alpha = trained
        action, log_prob = _act(actor, batch.obs, key_now)
        errors = [jnp.mean((_value(c, batch.obs, batch.action) - goal) ** 2) for c in critics]
        actor_loss = jnp.mean(alpha * log_prob - _lower(learner.critics, batch.obs, action))
        entropy_gap = jax.lax.stop_gradient(log_prob - batch.action.shape[1])
        return errors[0] + errors[1] + actor_loss - jnp.mean(log_alpha * entropy_gap)

    trained = (learner.actor, learner.critics, learner.log_alpha)
    steps, moments = OPTIMISER.update(jax.grad(loss)(trained), learner.moments)
    new: Any = optax.apply_updates(trained, steps)
    actor, critics, log_alpha = new
    targets: Any = optax.incremental_update(critics, learner.targets, TARGET_RATE)
    return Learner(actor, critics, targets, log_alpha, moments)


def as_policy(learner: Learner) -> Policy:
    """The actor as a behaviour policy for numpy."""
    *hidden, (weight, bias) = [(np.asarray(w).T, np.asarray(b)) for w, b in learner.actor]
    half = len(bias) // 2
    features = hidden[0][0].shape[1]
    return Policy(
        hidden=tuple(hidden),
        mean=(weight[:half], bias[:half]),
        log_std=(weight[half:], bias[half:]),
        shift=np.zeros(features, np.float32),
        scale=np.ones(features, np.float32),
        squashed=True,
    )


def _network(key: Array, inputs: int, outputs: int) -> Layers:
    """Hidden layers uniform in ±1/√inputs; a nearly silent output layer."""
    layers = []
    for size, width, reach in ((inputs, WIDTH, None), (WIDTH, WIDTH, None), (WIDTH, outputs, 3e-3)):
        key, draw = jax.random.split(key)
        limit = size**-0.5 if reach is None else reach
        layers.append(
            (jax.random.uniform(draw, (size, width), minval=-limit, maxval=limit), jnp.zeros(width))
        )
    return layers


def _apply(layers: Layers, x: Array) -> Array:
    for weight, bias in layers[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    return x @ layers[-1][0] + layers[-1][1]


def _act(actor: Layers, obs: Array, key: Array) -> tuple[Array, Array]:
    """A squashed sample and its log-probability."""
    mean, log_std = jnp.split(_apply(actor, obs), 2, axis=-1)
    log_std = jnp.clip(log_std, -20, 2)
    noise = jax.random.normal(key, mean.shape)
    action = jnp.tanh(mean + jnp.exp(log_std) * noise)
    normal = -0.5 * noise**2 - log_std - 0.5 * jnp.log(2 * jnp.pi)
    return action, jnp.sum(normal - jnp.log(1 - action**2 + 1e-6), axis=-1)


def _value(critic: Layers, obs: Array, action: Array) -> Array:
    return _apply(critic, jnp.concatenate([obs, action], axis=-1))[:, 0]


def _lower(critics: tuple[Layers, Layers], obs: Array, action: Array) -> Array:
    return jnp.minimum(_value(critics[0], obs, action), _value(critics[1], obs, action))
