"""GTP: Generative Trajectory Policies (arXiv 2510.11499).

The policy is a flow map Φ(obs, a_t, t, s) of a generative ODE. Acting starts from noise a_T ~ N(0, T²) and
jumps K times down a grid of levels. One update:

    critic   Q(s, a)  →  r + γ·min_j Q⁻_j(s', π⁻(s')),                π⁻ the moving average of the policy
             (backup = expectile: r + γ·V(s'), V an expectile of the data's own Q⁻, as in IQL)
    weight   w = exp(η·max(0, A)/std A),  A = Q(s, a) − V(s),         η = 0 is behaviour cloning (GTP-BC)
    levels   t > u ≥ s on a Karras grid of N(k) levels;  a_t = a + t·z,  ã_u = a + u·z
    actor    w·‖Φ(a_t, t, s) − Φ⁻(ã_u, u, s)‖²  +  λ_Flow·w·‖a − φ(a_t, t, t)‖²
    targets  θ⁻, φ⁻ by moving averages

What the paper leaves open or we do otherwise (each a field of the Config but the last):
 1. u is the level next below t. The paper's Theorem 4.1 needs no such thing, but it does not hold as stated:
    with u far from t the map shrinks towards the mean however fine the grid.
 2. The consistency term is divided by 1 − u/t. Its residual fades like 1 − u/t as the grid refines, and with
    it the gradient.
 3. w is clipped at 100 and divided by its batch mean. Unclipped at η = 5 a batch of 256 is worth 3 samples.
 4. V(s) is the mean of min_j Q_j over a few samples of π⁻.
 5. Losses are means over action dimensions; t, u, s are uniform in index; observations are standardised.
 6. Both losses carry EDM's weight 1/c_out² of their level, without which small levels are hardly learned.
 7. θ⁻ follows θ ten times as fast as the critic's average: levels are learned one through the other.
 8. λ_Flow = 1.
 9. The critic's hidden layers are standardised (layer norm), and η = 5 for all tasks.
10. A in the weight is by the critic as it was before its step, not after: one update older, and the two
    networks' work can be done side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from gtp import flow, objectives, values
from gtp.config import Before, Count, Fraction, NonNegative, Positive
from gtp.errors import UserError
from gtp.nn import Ensemble, FlowNetwork, Normaliser
from gtp.noise import (
    LevelRule,
    Noise,
    SamplingGrid,
    Times,
    URule,
    draw_times,
    edm_weight,
    num_levels,
    sampling_grid,
)
from gtp.optim import adam, cosine, descend, polyak
from gtp.types import RULES, Acting, Agent, Array, Metrics, State, Transition


@dataclass(frozen=True)
class Config:
    """GTP's settings. The defaults are ours (`results/` shows why); `--preset paper` is the paper's table."""

    eta: NonNegative = 5.0
    """η, temperature of the advantage weight; 0 is behaviour cloning."""
    sampling_steps: Count = 5
    """K, jumps of the flow map from noise to action."""
    objective: Literal["trajectory", "shortcut", "meanflow"] = "trajectory"
    """How jumps are learned: with a teacher (the paper), by self-consistency, or the mean-flow identity."""
    teacher: Literal["surrogate", "solver"] = "surrogate"
    """Where ã_u comes from: the closed form a + u·z, or an ODE solver on the EMA denoiser (ablation)."""
    solver: Literal["euler", "heun"] = "euler"
    """Method of the solver teacher."""
    solver_steps: Count = 3
    """Steps of the solver teacher from t to u."""
    flow_weight: NonNegative = 1.0
    """λ_Flow, weight of the instantaneous-flow loss."""
    consistency_scaling: bool = True
    """Divide the trajectory loss by 1 − u/t, so that it does not fade as the grid refines."""
    time_weight: Literal["edm", "none"] = "edm"
    """Weight both losses by EDM's 1/c_out², or not at all (the paper)."""

    improvement: Literal["weighted", "linear"] = "weighted"
    """Policy improvement by advantage weights (the paper), or by adding λ·(−Q(s, π(s))) (ablation)."""
    q_weight: NonNegative = 0.01
    """λ of the linear Q term."""
    normalise_q_loss: bool = False
    """Divide the linear Q term by the batch mean of |Q|."""
    weight_clip: Positive = 100.0
    """Upper clip of w; `inf` for none."""
    normalise_weight: bool = True
    """Divide w by its batch mean."""
    baseline: Literal["policy", "batch", "expectile"] = "policy"
    """V in A = Q − V: mean Q of policy samples, mean Q of the batch, or an expectile network."""
    baseline_samples: Count = 4
    """M, policy samples behind V."""
    advantage_scale: Annotated[Literal["batch", "state"], Before("batch")] = "batch"
    """What A is divided by: its deviation over the batch (the paper), or in each state that of Q over the
    samples behind V and the data's action."""
    expectile: Fraction = 0.7
    """τ of the expectile network."""

    levels: LevelRule = "scheduled"
    """N(k) over the whole run, restarted every levels_period (sawtooth, as the peers' code), or fixed."""
    levels_start: Count = 10
    """s₀, levels at the start."""
    levels_end: Count = 1280
    """s₁, levels at the end (or throughout, if fixed)."""
    levels_period: Count = 50_000
    """Length of one tooth of the sawtooth schedule."""
    u_rule: URule = "adjacent"
    """How far u may lie below t: the next level, the next u_gap levels, or anywhere above s."""
    u_gap: Count = 3
    """Levels that u_rule = gap reaches."""
    t_min: Positive = 0.002
    """ε, smallest noise level."""
    t_max: Positive = 80.0
    """T, largest noise level."""
    rho: Positive = 7.0
    """ρ of the Karras grid."""
    sigma_data: Positive = 0.5
    """σ_data of the preconditioning."""
    sampling_grid: SamplingGrid = "karras"
    """Levels an action passes, in acting, TD target and V: Karras' from T; from T at once to those below
    10·σ_data (near); or Consistency-AC's (linspace)."""
    choice_temperature: Annotated[Positive, Before(1.0)] = 1.0
    """The critic's choice among candidates, drawn or averaged, is by softmax(Q over this)."""

    discount: Fraction = 0.99
    """γ."""
    backup: Annotated[Literal["policy", "expectile"], Before("policy")] = "policy"
    """V(s') in the TD target: Q of the policy's actions (the paper), or the expectile network, then of Q⁻,
    which asks for no action outside the data (IQL)."""
    backup_candidates: Count = 1
    """With backup = policy, next actions to take the best of in the TD target; 10 is the "max Q backup"."""
    normalise_q: bool = False
    """Divide the TD target by its batch standard deviation ("Q norm")."""
    actor_lr: Positive = 3e-4
    """Adam's learning rate for the actor."""
    critic_lr: Positive = 3e-4
    """Adam's learning rate for the critic (and the expectile network)."""
    actor_grad_clip: NonNegative = 5.0
    """Largest gradient norm of the actor ("gradient norm"); 0 is off."""
    critic_grad_clip: NonNegative = 5.0
    """Largest gradient norm of the critic; 0 is off."""
    final_lr: Annotated[Fraction, Before(1.0)] = 1.0
    """Share of both learning rates that is left at the end of the run, falling along half a cosine; 1 keeps
    them as they are."""
    critic_layer_norm: Annotated[bool, Before(False)] = True
    """Standardise the critic's hidden layers, as ReBRAC and FQL do."""
    critic_target_rate: Fraction = 0.005
    """Rate of the critic's moving average φ⁻."""
    actor_target_rate: Fraction = 0.05
    """Rate of θ⁻, the actor's moving average and teacher (the paper: 0.005). Levels are learned one through
    the other by way of it, so a slow one needs more updates than a run has."""
    actor_target_every: Count = 1
    """Updates between two steps of θ⁻ (the peers: 5)."""
    hidden: tuple[int, ...] = (256, 256, 256)
    """Widths of the hidden layers, actor and critic."""
    normalise_obs: bool = True
    """Standardise observations with the data's mean and deviation."""

    def check(self) -> None:
        """Faults that take two fields to see."""
        if self.levels_start > self.levels_end:
            raise UserError(f"levels_start {self.levels_start} must not exceed levels_end {self.levels_end}")
        if self.t_min >= self.t_max:
            raise UserError(f"t_min {self.t_min} must be below t_max {self.t_max}")
        if self.advantage_scale == "state" and (self.baseline != "policy" or self.baseline_samples < 2):
            raise UserError("advantage_scale state needs baseline policy with 2 or more baseline_samples")
        if self.backup == "expectile" and self.backup_candidates > 1:
            raise UserError("backup expectile has no candidates: set backup_candidates 1, or backup policy")
        if self.sampling_grid == "near" and 10 * self.sigma_data <= self.t_min:
            raise UserError(
                f"sampling_grid near starts below 10 sigma_data, so t_min {self.t_min} must be less than that"
            )
        if self.sampling_grid == "linspace" and self.t_max <= 2:
            raise UserError(
                f"sampling_grid linspace steps down to level 2, so t_max {self.t_max} must exceed 2"
            )

    def implicit(self) -> bool:
        """Whether there is an expectile network."""
        return "expectile" in (self.baseline, self.backup)

    def noise(self) -> Noise:
        """The noise levels' range and scale."""
        return Noise(self.t_min, self.t_max, self.rho, self.sigma_data)


class Params(NamedTuple):
    """Networks with their moving averages, and the observation normaliser."""

    normaliser: Normaliser
    actor: FlowNetwork
    actor_target: FlowNetwork
    critic: Ensemble
    critic_target: Ensemble
    value: Ensemble | None
    """V(s), only with baseline or backup = expectile."""


class OptState(NamedTuple):
    """Adam's moments."""

    actor: Any
    critic: Any
    value: Any


def make(config: Config, total_steps: int) -> Agent:
    """The agent for a run of `total_steps` updates, which N(k) is stretched over."""
    noise = config.noise()
    actor_optimiser, critic_optimiser = (
        adam(cosine(lr, total_steps, config.final_lr), grad_clip)
        for lr, grad_clip in (
            (config.actor_lr, config.actor_grad_clip),
            (config.critic_lr, config.critic_grad_clip),
        )
    )

    def init(key: Array, data: Transition) -> State:
        key_actor, key_critic, key_value = jax.random.split(key, 3)
        obs_shape, action_size = data.obs.shape[1:], data.action.shape[-1]
        actor = FlowNetwork(key_actor, obs_shape, action_size, config.hidden)
        critic = Ensemble(
            key_critic, obs_shape, action_size, config.hidden, layer_norm=config.critic_layer_norm
        )
        value = Ensemble(key_value, obs_shape, 0, config.hidden, 1) if config.implicit() else None
        normaliser = Normaliser.fit(data.obs, config.normalise_obs)
        opt = OptState(
            actor_optimiser.init(actor), critic_optimiser.init(critic), critic_optimiser.init(value)
        )
        params = Params(normaliser, actor, actor, critic, critic, value)
        return State(jnp.int32(0), params, opt)

    def phi(actor: FlowNetwork, obs: Array) -> flow.NetworkEndpoint:
        return flow.endpoint(actor.bind(obs), noise)

    def grid(steps: int) -> Array:
        return sampling_grid(steps, noise, config.sampling_grid)

    def generative_loss(
        actor: FlowNetwork, teacher: FlowNetwork, batch: Transition, key: Array, levels: Array
    ):
        """The two actor losses, one value per sample each."""
        key_z, key_times = jax.random.split(key)
        a, z = batch.action, jax.random.normal(key_z, batch.action.shape)
        times = draw_times(key_times, a.shape[:-1], levels, noise, config.u_rule, config.u_gap)
        t, u, s = times
        a_t = objectives.noised(a, z, t)
        student, target = phi(actor, batch.obs), phi(teacher, batch.obs)
        denoiser = student
        if config.objective != "meanflow":  # Which differentiates φ and needs more than its value.
            student, denoiser = flow.ask(student, a_t, t, s, t)
        weight = edm_weight(t, noise) if config.time_weight == "edm" else 1.0
        jump = jump_loss(student, target, a, a_t, objectives.noised(a, z, u), times)
        return weight * jump, weight * objectives.denoising(denoiser, a, z, t)

    def jump_loss(student, target, a: Array, a_t: Array, a_u: Array, times: Times) -> Array:
        t, u, s = times
        by_solver = config.teacher == "solver"
        if config.objective == "shortcut":
            return objectives.shortcut(student, target, a_t, t, s, noise)
        if config.objective == "meanflow":
            clean = jax.lax.stop_gradient(flow.denoise(target, a_t, t)) if by_solver else a
            return objectives.mean_flow(student, clean, a_t, t, s)
        if by_solver:
            field = lambda x, level: flow.velocity(target, x, level)  # noqa: E731
            a_u = flow.integrate(field, a_t, t, u, config.solver_steps, config.solver)
        loss = objectives.trajectory_consistency(student, target, a_t, a_u, times)
        return loss / (1 - u / t) if config.consistency_scaling else loss

    def update(state: State, batch: Transition, key: Array) -> tuple[State, Metrics]:
        params, opt = state.params, state.opt
        key_policy, key_actor, key_linear = jax.random.split(key, 3)
        batch = batch._replace(obs=params.normaliser(batch.obs), next_obs=params.normaliser(batch.next_obs))
        levels = num_levels(
            state.step,
            total_steps,
            config.levels,
            config.levels_start,
            config.levels_end,
            config.levels_period,
        )

        # The EMA policy acts in s' for the TD target and in s for V, all in one pass.
        weighted = config.improvement == "weighted"
        ahead = config.backup_candidates if config.backup == "policy" else 0
        here = config.baseline_samples if weighted and config.baseline == "policy" else 0
        if ahead + here:
            obs = jnp.stack([batch.next_obs] * ahead + [batch.obs] * here)
            z = jax.random.normal(key_policy, (*obs.shape[:2], batch.action.shape[-1]))
            actions = flow.draw(phi(params.actor_target, obs), z, grid(config.sampling_steps))
            next_actions, policy_actions = actions[:ahead], actions[ahead:]

        def fit_value(q: Array) -> tuple[Ensemble, Any, Metrics]:
            return values.fit_expectile(
                params.value, opt.value, critic_optimiser, batch.obs, q, config.expectile
            )

        # Critic: TD error against the cautious target critic (the paper's critic loss), or against V.
        value, value_opt, metrics = params.value, opt.value, {}
        if config.backup == "policy":
            next_value = values.backup_value(params.critic_target(batch.next_obs, next_actions))
        else:
            q = values.smallest(params.critic_target(batch.obs, batch.action))
            value, value_opt, metrics = fit_value(q)
            next_value = value(batch.next_obs)[0]
        target = values.td_target(batch.reward, batch.bootstrap, next_value, config.discount)
        if config.normalise_q:
            target = target / (jnp.std(target) + 1e-6)

        def critic_loss(critic: Ensemble) -> tuple[Array, tuple[Array, Metrics]]:
            q = critic(batch.obs, batch.action)
            loss = jnp.mean(values.td_loss(q, target))
            return loss, (q, {"critic_loss": loss, "q_mean": jnp.mean(q), "q_max": jnp.max(q)})

        critic, critic_opt, (q, extra), norm = descend(
            critic_loss, params.critic, opt.critic, critic_optimiser
        )
        metrics |= extra | {"critic_grad_norm": norm}

        # Weight of each sample, from the critic before its step: actor and critic learn side by side.
        weight = jnp.ones_like(batch.reward)
        if weighted:
            q, scale = values.smallest(q), None
            if config.baseline == "policy":
                policy_q = values.smallest(params.critic(batch.obs, policy_actions))
                v = jnp.mean(policy_q, axis=0)
                if config.advantage_scale == "state":
                    scale = values.state_scale(q, policy_q)
            elif config.baseline == "batch":
                v = jnp.mean(q)
            else:
                if config.backup == "policy":
                    value, value_opt, extra = fit_value(q)
                    metrics |= extra
                v = value(batch.obs)[0]
            advantage = q - v
            weight = values.advantage_weight(
                advantage, config.eta, config.weight_clip, config.normalise_weight, scale
            )
            metrics |= {"advantage_mean": jnp.mean(advantage), "advantage_std": jnp.std(advantage)}
        weight = jax.lax.stop_gradient(weight)

        # Actor: weighted trajectory consistency plus weighted instantaneous flow.
        def actor_loss(actor: FlowNetwork) -> tuple[Array, Metrics]:
            jump, local = generative_loss(actor, params.actor_target, batch, key_actor, levels)
            jump, local = jnp.mean(weight * jump), jnp.mean(weight * local)
            loss = jump + config.flow_weight * local
            extra = {"consistency_loss": jump, "flow_loss": local}
            if not weighted:
                z = jax.random.normal(key_linear, batch.action.shape)
                actions = flow.sample(phi(actor, batch.obs), z, grid(config.sampling_steps))
                q = values.smallest(critic(batch.obs, actions))
                scale = jnp.mean(jnp.abs(jax.lax.stop_gradient(q))) + 1e-6 if config.normalise_q_loss else 1.0
                loss = loss - config.q_weight * jnp.mean(q) / scale
                extra["q_policy"] = jnp.mean(q)
            return loss, extra | {"actor_loss": loss}

        actor, actor_opt, extra, norm = descend(actor_loss, params.actor, opt.actor, actor_optimiser)
        metrics |= extra | {
            "actor_grad_norm": norm,
            "weight_ess": values.effective_sample_size(weight),
            "weight_max": jnp.max(weight),
            "levels": levels,
        }

        due = (state.step + 1) % config.actor_target_every == 0
        new_params = Params(
            normaliser=params.normaliser,
            actor=actor,
            actor_target=polyak(params.actor_target, actor, jnp.where(due, config.actor_target_rate, 0.0)),
            critic=critic,
            critic_target=polyak(params.critic_target, critic, config.critic_target_rate),
            value=value,
        )
        return State(state.step + 1, new_params, OptState(actor_opt, critic_opt, value_opt)), metrics

    def act(params: Params, obs: Array, key: Array, acting: Acting) -> Array:
        key_noise, key_choice = jax.random.split(key)
        obs = params.normaliser(obs)
        actor = params.actor if acting.weights == "online" else params.actor_target
        z = jax.random.normal(key_noise, (acting.candidates, obs.shape[0], actor.action_size))
        actions = flow.sample(phi(actor, obs), z, grid(acting.sampling_steps or config.sampling_steps))
        if acting.rule == "single":
            return actions[0]
        q = values.smallest(params.critic_target(obs, actions))
        return values.choose(key_choice, actions, q / config.choice_temperature, acting.rule)

    return Agent(init, update, act, RULES, values.cautious_q)
