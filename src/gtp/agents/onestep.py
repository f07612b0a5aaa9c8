"""Onestep RL: offline RL without off-policy evaluation (Brandfonbrener et al. 2021, arXiv 2106.08909).

The behaviour's own Q, learned on the data's next actions, and one step of improvement on it. One update:

    critic     Q(s, a)  →  r + γ·min_j Q⁻_j(s', a'),         a' of the data (SARSA)
    behaviour  −ln β(a|s),                                   β a Gaussian
    policy     reverse_kl:  −Q(s, ã) + α·KL(π(s) ‖ β(s)),     ã ~ π(s)
               weighted:    −w·ln π(a|s),   w = min(exp(T·A), 100),   A = Q(s, a) − mean Q(s, samples of β)
    target     φ⁻ by a moving average

It acts with the mean of π, as published; `softmax`, `argmax` and `average` act by what the critic makes of
several draws of π, and `argmax` for `weighted` at T = 0 is the paper's third way, the best of several samples
of the behaviour.

Differences from the published code:
 1. Critic, behaviour and policy learn side by side; the authors train them one after the other, for 2 M,
    500 k and 100 k updates. π sees an unfinished critic early on and the finished one at the end.
 2. The Kullback-Leibler divergence is the closed form of two Gaussians, not a mean over 10 draws.
 3. Gaussians are clipped to the action range, the authors' are truncated; deviations reach e², theirs 1.
 4. Where the data end without saying what came next (time-outs), a' is the row's own action.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from gtp import values
from gtp.config import Count, Fraction, NonNegative, Positive
from gtp.gaussian import Gaussian, GaussianNetwork
from gtp.nn import Ensemble, Normaliser
from gtp.optim import adam, descend, polyak
from gtp.types import RULES, Acting, Agent, Array, Metrics, State, Transition


@dataclass(frozen=True)
class Config:
    """Onestep RL's settings; α and T are the published code's, in units of the reward."""

    improvement: Literal["reverse_kl", "weighted"] = "reverse_kl"
    """How π improves on the behaviour: by gradients of Q under a divergence penalty, or by weights."""
    alpha: NonNegative = 1.0
    """α, weight of the divergence."""
    temperature: NonNegative = 0.01
    """T, inverse temperature of the advantage weight."""
    weight_clip: Positive = 100.0
    """Upper clip of w."""
    baseline_samples: Count = 10
    """Samples of β behind the advantage."""
    discount: Fraction = 0.99
    """γ."""
    actor_lr: Positive = 3e-4
    """Adam's learning rate for π and β."""
    critic_lr: Positive = 3e-4
    """Adam's learning rate for the critic."""
    critic_target_rate: Fraction = 0.005
    """Rate of the critic's moving average φ⁻."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers."""
    normalise_obs: bool = True
    """Standardise observations with the data's mean and deviation."""


class Params(NamedTuple):
    """Networks, the critic's moving average, and the observation normaliser."""

    normaliser: Normaliser
    actor: GaussianNetwork
    behaviour: GaussianNetwork
    critic: Ensemble
    critic_target: Ensemble


class OptState(NamedTuple):
    """Adam's moments."""

    actor: Any
    behaviour: Any
    critic: Any


def divergence(pi: Gaussian, beta: Gaussian) -> Array:
    """KL(π ‖ β) of two diagonal Gaussians, one number per sample."""
    ratio = pi.log_std - beta.log_std
    gap = (pi.mean - beta.mean) * jnp.exp(-beta.log_std)
    return 0.5 * jnp.sum(jnp.exp(2 * ratio) + gap**2 - 1 - 2 * ratio, axis=-1)


def make(config: Config, total_steps: int) -> Agent:
    """The agent; nothing of it depends on the length of the run."""
    del total_steps
    actor_optimiser, critic_optimiser = adam(config.actor_lr), adam(config.critic_lr)

    def init(key: Array, data: Transition) -> State:
        key_actor, key_behaviour, key_critic = jax.random.split(key, 3)
        shape, size = data.obs.shape[1:], data.action.shape[-1]
        actor = GaussianNetwork(key_actor, shape, size, config.hidden, std_of_obs=True)
        behaviour = GaussianNetwork(key_behaviour, shape, size, config.hidden, std_of_obs=True)
        critic = Ensemble(key_critic, shape, size, config.hidden, 2, jax.nn.relu)
        normaliser = Normaliser.fit(data.obs, config.normalise_obs)
        moments = OptState(
            actor_optimiser.init(actor), actor_optimiser.init(behaviour), critic_optimiser.init(critic)
        )
        return State(jnp.int32(0), Params(normaliser, actor, behaviour, critic, critic), moments)

    def update(state: State, batch: Transition, key: Array) -> tuple[State, Metrics]:
        params, opt = state.params, state.opt
        batch = params.normaliser.batch(batch)

        # Q of the behaviour: the data say what it did next.
        next_value = values.smallest(params.critic_target(batch.next_obs, batch.next_action))
        target = values.td_target(batch.reward, batch.bootstrap, next_value, config.discount)
        critic, critic_opt, metrics = values.fit_critic(
            params.critic, opt.critic, critic_optimiser, batch, target
        )

        # β: behaviour cloning.
        behaviour, behaviour_opt, cloning = values.fit_weighted(
            params.behaviour, opt.behaviour, actor_optimiser, batch, jnp.ones_like(batch.reward)
        )
        metrics["behaviour_loss"] = cloning["actor_loss"]
        beta = behaviour(batch.obs)

        # π: one step of improvement.
        if config.improvement == "weighted":
            advantage = values.advantage(critic, batch, beta.sample(key, (config.baseline_samples,)))
            weight = values.exponential_weight(advantage, config.temperature, config.weight_clip)
            actor, actor_opt, extra = values.fit_weighted(
                params.actor, opt.actor, actor_optimiser, batch, weight
            )
            extra |= values.weight_metrics(advantage, weight)
        else:

            def actor_loss(actor: GaussianNetwork) -> tuple[Array, Metrics]:
                pi = actor(batch.obs)
                q = values.smallest(critic(batch.obs, pi.sample(key)))
                kl = jnp.mean(divergence(pi, beta))
                loss = config.alpha * kl - jnp.mean(q)
                return loss, {"actor_loss": loss, "kl": kl, "q_policy": jnp.mean(q)}

            actor, actor_opt, extra, norm = descend(actor_loss, params.actor, opt.actor, actor_optimiser)
            extra["actor_grad_norm"] = norm

        critic_target = polyak(params.critic_target, critic, config.critic_target_rate)
        new_params = Params(params.normaliser, actor, behaviour, critic, critic_target)
        return State(
            state.step + 1, new_params, OptState(actor_opt, behaviour_opt, critic_opt)
        ), metrics | extra

    def act(params: Params, obs: Array, key: Array, acting: Acting) -> Array:
        obs = params.normaliser(obs)
        return values.act_gaussian(key, acting, params.actor(obs), lambda a: params.critic_target(obs, a))

    return Agent(init, update, act, RULES, values.cautious_q)
