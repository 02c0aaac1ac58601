"""The steps of the paper's algorithms, each a pure function of a problem and a state.

Every step is usable alone and under `jit`, `vmap` and `grad`. The E step maximises the bound in
one mask mean after another, the M step in all parameters at once, the G step moves the weights
and the inclusion rates along a preconditioned gradient; pruning clears entries of `active`.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Bool, Float

from bmjax._model.gradient_rule import Parameters
from bmjax._model.linalg import solve_normal_equations
from bmjax._model.problem import Problem, State, Totals
from bmjax._runtime.backend import Array, namespace
from bmjax._runtime.precision import full_precision


@full_precision
def e_step(problem: Problem, state: State, sweeps: int = 1) -> State:
    """Coordinate sweeps over the features, each an exact maximum of the bound in its mask means.

    Equation (11) of the paper (`FAB_Estep`), with the residual carried from one feature to the
    next: a mask mean is sigmoid(c + logit(pi) - 1 / (2 n pi)).

    Args:
        problem: The dataset.
        state: Where to start. Only `mask_mean` changes; pruned features get zero.
        sweeps: How many times to visit all features.

    Returns:
        The state with new mask means.
    """
    return sweep(problem, state, residual(problem, state), sweeps)


def sweep(
    problem: Problem,
    state: State,
    residual: Float[Array, " n"],
    sweeps: int,
    skip_pruned: bool = False,
    residual_weights: Float[Array, " k"] | None = None,
) -> State:
    """The E step from a residual already at hand.

    With `skip_pruned` pruned features cost nothing: the active ones come first and the loop ends
    after them, and the masks of pruned ones are left as they are, without effect since their
    weights are zero. Such a loop has no reverse-mode derivative, so the steps alone do without.
    `residual_weights` are those that the residual was left with, if not those of the state.
    """
    offset = mask_offset(state, problem.num_samples)
    carry = state.mask_mean, residual
    mask_mean, _ = visit(problem.X, state, offset, carry, sweeps, skip_pruned, residual_weights)
    return state._replace(mask_mean=mask_mean)


def mask_offset(state: State, n: int | Float[Array, ""]) -> Float[Array, " k"]:
    """What every sample adds to the log-odds of a mask: logit(pi) - 1 / (2 n pi).

    -inf for a pruned feature or inclusion 0, inf for inclusion 1: the sigmoid is then exact.
    """
    live = state.active & (state.log_odds > -jnp.inf)
    log_odds = jnp.where(live, state.log_odds, 0)
    return jnp.where(live, log_odds - 0.5 / (n * jax.nn.sigmoid(log_odds)), -jnp.inf)


def visit(
    X: Float[Array, "k n"],
    state: State,
    offset: Float[Array, " k"],
    carry: tuple[Float[Array, "k n"], Float[Array, " n"]],
    sweeps: int,
    skip_pruned: bool,
    residual_weights: Float[Array, " k"] | None = None,
) -> tuple[Float[Array, "k n"], Float[Array, " n"]]:
    """Masks and residual after all features have been visited so many times.

    Args:
        X: Features.
        state: Weights, noise precision and what is active; its masks are not looked at.
        offset: What every sample adds to the log-odds of a mask.
        carry: Masks and residual before.
        sweeps: How many times.
        skip_pruned: See `sweep`.
        residual_weights: See `sweep`.
    """
    k = len(X)
    weights = jnp.where(state.active, state.weights, 0)
    features, count = jnp.arange(k, dtype=jnp.int32), k
    if skip_pruned:
        needed = _in_any_lane(state.active)
        features = jnp.argsort(~needed, stable=True).astype(jnp.int32)
        count = jnp.sum(needed, dtype=jnp.int32)

    def visit_one(weights_before, position, carry):
        mask_mean, residual = carry
        feature = features[position]
        # Reading and writing one row by dynamic slices keeps the update in place: other forms
        # make XLA on CPU copy the whole array for every feature.
        x = lax.dynamic_index_in_dim(X, feature, keepdims=False)
        old = lax.dynamic_index_in_dim(mask_mean, feature, keepdims=False)
        without = residual + old * (x * weights_before[feature])
        effect = x * weights[feature]
        new = jax.nn.sigmoid(
            state.noise_precision * effect * (without - 0.5 * effect) + offset[feature]
        )
        mask_mean = lax.dynamic_update_index_in_dim(mask_mean, new, feature, 0)
        return mask_mean, without - new * effect

    before = weights if residual_weights is None else residual_weights
    carry = lax.fori_loop(0, count, partial(visit_one, before), carry)
    again = partial(visit_one, weights)  # one function, so that JAX compiles it once
    for _ in range(sweeps - 1):
        carry = lax.fori_loop(0, count, again, carry)
    return carry


def _shared_by_lanes(combine: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A value as it is; under `vmap` one for all lanes, combined from theirs along axis 0."""

    @jax.custom_batching.custom_vmap
    def shared(value):
        return value

    @shared.def_vmap
    def _(axis_size, in_batched, value):
        del axis_size
        return (shared(combine(value) if in_batched[0] else value), False)

    return shared


# The features to visit: one list for all lanes, so that the loop stays a loop.
_in_any_lane = _shared_by_lanes(partial(jnp.any, axis=0))


def prune(problem: Problem, state: State) -> State:
    """Drop the features whose mean mask is below the threshold (section 4.2, "Pruning step").

    A pruned feature has mask mean, weight and inclusion exactly zero and never comes back.
    """
    return restrict(state, survivors(problem, state, problem.mean(state.mask_mean)))


def survivors(
    problem: Problem | Totals, state: State, mean_mask: Float[Array, " k"]
) -> Bool[Array, " k"]:
    """The active features that pruning leaves."""
    return state.active & ((mean_mask >= problem.prune_threshold) | ~problem.maskable)


def restrict(state: State, active: Array) -> State:
    """The state with only the given features active and all else of the others set to zero."""
    xp = namespace(state)
    return state._replace(
        active=active,
        mask_mean=xp.where(active[:, None], state.mask_mean, 0),
        weights=xp.where(active, state.weights, 0),
        log_odds=xp.where(active, state.log_odds, -xp.inf),
    )


@full_precision
def m_step(problem: Problem, state: State) -> State:
    """The parameters that maximise the bound at the state's mask means.

    Equations (12)-(14) of the paper (`FAB_Mstep1` to `FAB_Mstep3`): weights by a Cholesky solve
    with Omega, then the noise precision, and each inclusion the mean of its masks.

    Args:
        problem: The dataset. A known noise precision stays as it is.
        state: Only `mask_mean` and `active` are read.

    Returns:
        The state with new weights, log-odds and noise precision.
    """
    return maximise(problem, state, state.active)[0]


@full_precision
def g_step(
    problem: Problem,
    state: State,
    optimizer: optax.GradientTransformation,
    optimizer_state: optax.OptState,
) -> tuple[State, optax.OptState]:
    """A gradient step in (weights, inclusion) in the place of the M step.

    Equation (20) of the paper (`FAB_Gstep`) when the optimizer is
    `paper_optimizer`. The gradient handed over is that of minus the bound, as optax
    expects, in the coordinates (weights, inclusion). Inclusion is clipped to [0, 1] afterwards;
    the noise precision keeps its closed form, equation (13) (the paper prints (14), an erratum).

    Args:
        problem: The dataset.
        state: The gradient is taken here.
        optimizer: Any optax transformation of a `Parameters` tree.
        optimizer_state: Its state, from `optimizer.init(Parameters(weights, inclusion))`.

    Returns:
        The new state and the new optimizer state.
    """
    left = residual(problem, state)
    return ascend(problem, state, left, optimizer, optimizer_state)


class MaskedSums(NamedTuple):
    """Sums over samples at the masks of a state and the residual of its weights.

    All that an M step or a G step needs, never a (n, k, k) table. Every sum is weighted by sample,
    and around the weights, which are close: no square cancels.

    Attributes:
        gram: (X o M)'(X o M).
        variance: sum_n x_nk^2 Var[z_nk], what the masks' own variance adds to its diagonal.
        slope: (X o M)'residual.
        square: ||residual||^2.
        kept: Sum of each mask.
        left_out: The same of one minus it, summed apart to be exact near one.
    """

    gram: Float[Array, "k k"]
    variance: Float[Array, " k"]
    slope: Float[Array, " k"]
    square: Float[Array, ""]
    kept: Float[Array, " k"]
    left_out: Float[Array, " k"]

    @property
    def omega(self) -> Float[Array, "k k"]:
        """sum_n (x_n x_n') o E[z_n z_n'], equation (12) of the paper."""
        return self.gram + namespace(self.gram).diag(self.variance)


def masked_sums(
    problem: Problem, state: State, residual: Float[Array, " n"]
) -> tuple[MaskedSums, Float[Array, "k n"]]:
    """The sums at the masks of a state, whose weights leave a residual; and X o M."""
    masked = problem.X * state.mask_mean
    counted, left = problem.weighted(masked), problem.weighted(residual)
    sums = MaskedSums(
        gram=counted @ masked.T,
        variance=problem.total(problem.X**2 * (state.mask_mean - state.mask_mean**2)),
        slope=masked @ left,
        square=residual @ left,
        kept=problem.total(state.mask_mean),
        left_out=problem.total(1 - state.mask_mean),
    )
    return sums, masked


class Leftover(NamedTuple):
    """What a state leaves of y.

    Attributes:
        residual: y - (X o M) weights.
        sum_squares: E||y - (X o Z) weights||^2, the residual's and the masks' own variance.
    """

    residual: Float[Array, " n"]
    sum_squares: Float[Array, ""]


def weights_and_rates(
    problem: Problem | Totals, before: State, sums: MaskedSums, active: Bool[Array, " k"]
) -> State:
    """The M step but for the noise precision: equations (12) and (14) over some features.

    Args:
        problem: The dataset.
        before: The state whose masks and weights the sums are of.
        sums: The sums.
        active: The features to keep.

    Returns:
        The state with new weights and log-odds, with the features active.
    """
    xp, n = namespace(sums), problem.num_samples
    held = xp.where(active, before.weights, 0)
    target = sums.slope + sums.gram @ (before.weights - held) - sums.variance * held
    change = solve_normal_equations(sums.omega, target, active)
    log_odds = log_odds_of(sums.kept / n, sums.left_out / n)
    return before._replace(
        weights=xp.where(active, held + change, 0),
        log_odds=xp.where(active, log_odds, -xp.inf),
        active=active,
    )


def maximise(
    problem: Problem, state: State, active: Bool[Array, " k"] | None = None
) -> tuple[State, Leftover]:
    """The M step at the masks of a state, and what it leaves of y.

    From sums around zero weights, so that the new ones are a function of the masks alone and come
    to rest with them; from the residual that a sweep leaves they would go on moving by its
    rounding.

    Args:
        problem: The dataset.
        state: Only masks, and what is active, are read.
        active: The features to keep. Default: those that pruning leaves.
    """
    blank = state._replace(weights=namespace(state).zeros_like(state.weights))
    sums, masked = masked_sums(problem, blank, problem.y)
    if active is None:
        active = survivors(problem, state, sums.kept / problem.num_samples)
    state = weights_and_rates(problem, blank, sums, active)
    return _with_noise_precision(problem, state, masked, sums.variance)


def em_iteration(
    problem: Problem,
    state: State,
    residual: Float[Array, " n"],
    sweeps: int,
    residual_weights: Float[Array, " k"] | None = None,
) -> tuple[State, Leftover]:
    """E step, pruning and M step, the residual handed on from one iteration to the next.

    The masks of pruned features are not cleared, which would be a pass over all of them: call
    `restrict` once at the end. `residual_weights` as for `sweep`.
    """
    state = sweep(problem, state, residual, sweeps, True, residual_weights)
    return maximise(problem, state)


def ascend(
    problem: Problem,
    state: State,
    residual: Float[Array, " n"],
    optimizer: optax.GradientTransformation,
    optimizer_state: optax.OptState,
) -> tuple[State, optax.OptState]:
    """The G step from a residual already at hand."""
    n = problem.num_samples
    sums, masked = masked_sums(problem, state, residual)
    pi = jnp.where(state.active, state.inclusion, 0)
    weights = jnp.where(state.active, state.weights, 0)
    slope_weights = state.noise_precision * (sums.slope - sums.variance * weights)
    # dG/dpi = (mean mask - pi) (n / (pi (1 - pi)) + 1 / (2 pi^2)); none where pi is 0 or 1.
    moves = state.active & (pi > 0) & (pi < 1)
    p, q = jnp.where(moves, pi, 0.5), jax.nn.sigmoid(-jnp.where(moves, state.log_odds, 0))
    slope_inclusion = (sums.kept * q - sums.left_out * p) / n * (n / (p * q) + 0.5 / p**2)
    slope = Parameters(
        weights=jnp.where(state.active, slope_weights, 0),
        inclusion=jnp.where(moves, slope_inclusion, 0),
    )
    here = Parameters(weights=weights, inclusion=pi)
    updates, optimizer_state = optimizer.update(
        jax.tree.map(jnp.negative, slope), optimizer_state, here
    )
    assert isinstance(updates, Parameters)
    moved = moves & (updates.inclusion != 0)
    pi = jnp.clip(pi + updates.inclusion, 0, 1)
    log_odds = jnp.where(moved, log_odds_of(pi, 1 - pi), state.log_odds)
    weights = jnp.where(state.active, weights + updates.weights, 0)
    state = state._replace(weights=weights, log_odds=log_odds)
    return _with_noise_precision(problem, state, masked, sums.variance)[0], optimizer_state


def exact_fit(problem: Problem | Totals, state: State) -> Bool[Array, ""]:
    """Whether the noise precision, if it is learned, has come to its cap."""
    xp = namespace(state)
    if problem.noise_precision is not None:
        return xp.asarray(False)
    at_floor = state.noise_precision * problem.noise_floor > 0.99  # one, but for rounding
    return at_floor & xp.any(state.active)


def log_odds_of(rate: Float[Array, " k"], complement: Float[Array, " k"]) -> Float[Array, " k"]:
    """log(rate / complement), infinite at the ends without infinite derivatives there."""
    xp = namespace(rate, complement)
    inside = (rate > 0) & (complement > 0)
    ends = xp.where(rate > 0, xp.full_like(rate, xp.inf), -xp.inf)
    ratio = xp.log(xp.where(inside, rate, 1)) - xp.log(xp.where(inside, complement, 1))
    return xp.where(inside, ratio, ends)


def _with_noise_precision(
    problem: Problem, state: State, masked: Float[Array, "k n"], variance: Float[Array, " k"]
) -> tuple[State, Leftover]:
    """Equation (13) at the state's masks and weights, by residuals and not by their expansion.

    The paper's expanded form cancels: at a noise variance of eps times that of y nothing of it
    is left.

    Args:
        problem: The dataset.
        state: The state.
        masked: X o M.
        variance: What the masks' own variance adds to the squares of its columns.
    """
    left = problem.y - state.weights @ masked
    sum_squares = problem.total(left**2) + state.weights**2 @ variance
    precision = precision_of(problem, sum_squares / problem.num_samples)
    return state._replace(noise_precision=precision), Leftover(left, sum_squares)


def precision_of(problem: Problem | Totals, noise_variance: Float[Array, ""]) -> Float[Array, ""]:
    """One over the noise variance, capped where that is rounding; or what is known."""
    if problem.noise_precision is not None:
        return problem.noise_precision
    return 1 / namespace(noise_variance).maximum(noise_variance, problem.noise_floor)


def residual(problem: Problem, state: State) -> Float[Array, " n"]:
    """What the expected masks leave of y, y - (X o M) weights."""
    # A product, since XLA on CPU takes seconds for a sum over the rows of (50, 1e6) numbers.
    return problem.y - state.weights @ (problem.X * state.mask_mean)
