"""QGPO: a diffusion guided by the energy of its critic (contrastive energy prediction, arXiv 2304.12824).

A diffusion ε(obs, a_i, i) clones the data. M of its samples in a state, the support, stand for all actions
the data allow there. An energy f(obs, a_i, i) learns which of them the critic prefers, at every noise level,
and its gradient bends the diffusion towards them. One update:

    actor    ‖z − ε(a_i, i)‖²
    critic   Q(s, a)  →  r + γ·Σ_m softmax_m(β·Q⁻(s', a'_m))·Q⁻(s', a'_m),    Q⁻ = min_j Q⁻_j
    energy   −Σ_m softmax_m(β·Q⁻(s, a_m))·log softmax_m f(s, a_m at level i, i),   one i for all m
    targets  θ⁻, φ⁻ by moving averages; the support is drawn from θ⁻

Acting denoises with ε − guidance·√(1 − ᾱ_i)·∇f. guidance = 0 is behaviour cloning. The published rule of
acting is `single`, with a guidance chosen for each task at evaluation.

Differences from the published code:
 1. Cloning, critic and energy learn together and the support is drawn anew in every update; published, they
    follow each other and the support is drawn once.
 2. A discrete diffusion with ancestral steps; published, one in continuous time with an ODE solver.
 3. The actor is the MLP of all our generative policies; published, a U-shaped network.
 4. Observations may be standardised (`normalise_obs`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from gtp import diffusion, values
from gtp.config import Count, Fraction, NonNegative, Positive
from gtp.flow import column
from gtp.nn import Ensemble, FlowNetwork, Network, Normaliser
from gtp.optim import adam, descend, polyak
from gtp.types import RULES, Acting, Agent, Array, Metrics, State, Transition


@dataclass(frozen=True)
class Config:
    """QGPO's settings."""

    beta: NonNegative = 3.0
    """β (the code's α), how strongly backup and energy prefer better actions."""
    guidance: NonNegative = 1.0
    """Scale of the energy's gradient when acting; 0 is behaviour cloning."""
    support: Count = 16
    """M, samples of the cloned diffusion in a state."""
    sampling_steps: Count = 15
    """N, steps of the diffusion; acting takes the same."""
    discount: Fraction = 0.99
    """γ."""
    actor_lr: Positive = 1e-4
    """Adam's learning rate for the cloned diffusion."""
    critic_lr: Positive = 3e-4
    """Adam's learning rate for critic and energy."""
    actor_target_rate: Fraction = 0.005
    """Rate of the actor's moving average θ⁻."""
    critic_target_rate: Fraction = 0.005
    """Rate of the critic's moving average φ⁻."""
    hidden: tuple[int, ...] = (256, 256, 256)
    """Widths of the hidden layers, all networks."""
    normalise_obs: bool = True
    """Standardise observations with the data's mean and deviation."""


class Params(NamedTuple):
    """Actor and critic with their moving averages, the energy, and the observation normaliser."""

    normaliser: Normaliser
    actor: FlowNetwork
    energy: Network
    critic: Ensemble
    actor_target: FlowNetwork
    critic_target: Ensemble


class OptState(NamedTuple):
    """Adam's moments."""

    actor: Any
    energy: Any
    critic: Any


def make(config: Config, total_steps: int) -> Agent:
    """The agent; nothing of it depends on the length of the run."""
    del total_steps
    schedule = diffusion.vp_schedule(config.sampling_steps)
    optimisers = OptState(adam(config.actor_lr), adam(config.critic_lr), adam(config.critic_lr))

    def init(key: Array, data: Transition) -> State:
        keys = jax.random.split(key, 3)
        shape, size, hidden = data.obs.shape[1:], data.action.shape[-1], config.hidden
        energy = Network(keys[1], shape, size + 1, hidden, 1)
        # A constant guides nowhere: its gradient is nothing but rounding, which Adam would blow up.
        energy = eqx.tree_at(lambda net: net.mlp.layers[-1].bias, energy, None)
        actor, critic = FlowNetwork(keys[0], shape, size, hidden), Ensemble(keys[2], shape, size, hidden)
        nets = (actor, energy, critic)
        params = Params(Normaliser.fit(data.obs, config.normalise_obs), *nets, actor, critic)
        opt = OptState(*(optimiser.init(net) for optimiser, net in zip(optimisers, nets, strict=True)))
        return State(jnp.int32(0), params, opt)

    def bind(energy: Network, obs: Array) -> diffusion.NoiseNetwork:
        """f(a_i, i), one number for each action."""
        bound = energy.bind(obs)
        return lambda x, i: bound(x, column(i / config.sampling_steps))[..., 0]

    def guided(params: Params, actor: FlowNetwork, obs: Array) -> diffusion.NoiseNetwork:
        epsilon = diffusion.noise_network(actor, obs)
        f = bind(params.energy, obs)
        slope = jax.grad(lambda x, i: jnp.sum(f(x, i)))

        def network(x: Array, i: Array) -> Array:
            spread = jnp.sqrt(1 - schedule.alpha_bar[i - 1])
            return epsilon(x, i) - config.guidance * spread * slope(x, i)

        return network

    def update(state: State, batch: Transition, key: Array) -> tuple[State, Metrics]:
        params, opt = state.params, state.opt
        key_next, key_here, key_actor, key_level, key_z = jax.random.split(key, 5)
        batch = params.normaliser.batch(batch)

        def support(obs: Array, key: Array) -> tuple[Array, Array]:
            """M samples in each state, and their values."""
            actions = diffusion.policy(params.actor_target, obs, key, config.support, schedule)
            return actions, values.smallest(params.critic_target(obs, actions))

        _, next_q = support(batch.next_obs, key_next)
        next_value = jnp.sum(jax.nn.softmax(config.beta * next_q, axis=0) * next_q, axis=0)
        target = values.td_target(batch.reward, batch.bootstrap, next_value, config.discount)
        critic, critic_opt, metrics = values.fit_critic(
            params.critic, opt.critic, optimisers.critic, batch, target
        )

        actions, q = support(batch.obs, key_here)
        level = jax.random.randint(key_level, batch.reward.shape, 1, config.sampling_steps + 1)
        z = jax.random.normal(key_z, actions.shape)
        x = diffusion.noised(actions, z, level, schedule)
        preferred = jax.nn.softmax(config.beta * q, axis=0)

        def energy_loss(energy: Network) -> tuple[Array, Metrics]:
            found = jax.nn.log_softmax(bind(energy, batch.obs)(x, level), axis=0)
            loss = -jnp.mean(jnp.sum(preferred * found, axis=0))
            return loss, {"energy_loss": loss}

        def actor_loss(actor: FlowNetwork) -> tuple[Array, Metrics]:
            epsilon = diffusion.noise_network(actor, batch.obs)
            loss = jnp.mean(diffusion.denoising(epsilon, batch.action, key_actor, schedule))
            return loss, {"actor_loss": loss}

        energy, energy_opt, extra, _ = descend(energy_loss, params.energy, opt.energy, optimisers.energy)
        actor, actor_opt, more, norm = descend(actor_loss, params.actor, opt.actor, optimisers.actor)
        new_params = Params(
            params.normaliser,
            actor,
            energy,
            critic,
            polyak(params.actor_target, actor, config.actor_target_rate),
            polyak(params.critic_target, critic, config.critic_target_rate),
        )
        opt = OptState(actor_opt, energy_opt, critic_opt)
        return State(state.step + 1, new_params, opt), metrics | extra | more | {"actor_grad_norm": norm}

    def act(params: Params, obs: Array, key: Array, acting: Acting) -> Array:
        diffusion.check_steps(acting, config.sampling_steps)
        obs = params.normaliser(obs)
        actor = params.actor if acting.weights == "online" else params.actor_target
        epsilon, rows = guided(params, actor, obs), obs.shape[0]

        def draw(key: Array, samples: int) -> Array:
            return diffusion.sample(epsilon, key, (samples, rows, actor.action_size), schedule)

        return values.act(key, acting, draw, lambda actions: params.critic_target(obs, actions))

    return Agent(init, update, act, RULES, values.cautious_q)
