"""The steps of the paper's algorithms, each a pure function of a problem and a state.

Every step can be used alone and under `jit`, `vmap` and `grad`. The E step maximises the bound in
one mask mean after another, the M step in all parameters at once, and the G step moves the weights
and the inclusion rates along a preconditioned gradient; pruning clears entries of `active`.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Bool, Float

from bmjax._model import blocks
from bmjax._model.family import touching
from bmjax._model.gradient_rule import Parameters
from bmjax._model.problem import Problem, State, Totals
from bmjax._model.sums import (
    Leftover,
    MaskedSums,
    log_odds_of,
    masked_sums,
    precision_of,
    variance_along,
    weights_and_rates,
)
from bmjax._model.sweep import over_features, residual
from bmjax._runtime.backend import Array, namespace
from bmjax._runtime.precision import full_precision


@full_precision
def e_step(problem: Problem, state: State, sweeps: int = 1) -> State:
    """Coordinate sweeps over the features, each an exact maximum of the bound in its mask means.

    Equation (11) of the paper (`FAB_Estep`), with the residual carried from one feature to the
    next: a mask mean is sigmoid(c + logit(pi) - 1 / (2 n pi)).

    Args:
        problem: The dataset.
        state: The state to start from. Only `mask_mean` changes; pruned features get zero.
        sweeps: Number of sweeps over all features.

    Returns:
        The state with new mask means.

    Example:
        >>> import jax.numpy as jnp
        >>> import bmjax
        >>> X, y, _ = bmjax.datasets.load_diabetes()
        >>> X, y = (jnp.asarray(a - a.mean(axis=0)) / a.std(axis=0) for a in (X, y))
        >>> problem = bmjax.Problem(X.T, y, None, prune_threshold=jnp.asarray(1e-6, y.dtype))
        >>> state = bmjax.initialise(problem, jnp.full(10, 0.5, y.dtype))
        >>> bmjax.e_step(problem, state).mask_mean.shape
        (10, 442)
    """
    problem = touching(problem, state)
    return over_features(problem, state, residual(problem, state), sweeps)


def prune(problem: Problem, state: State) -> State:
    """Drop the features whose mean mask is below the threshold (section 4.2, "Pruning step").

    A pruned feature has mask mean, weight and inclusion exactly zero and never comes back.

    Example:
        >>> import jax.numpy as jnp
        >>> import bmjax
        >>> X, y, _ = bmjax.datasets.load_diabetes()
        >>> X, y = (jnp.asarray(a - a.mean(axis=0)) / a.std(axis=0) for a in (X, y))
        >>> problem = bmjax.Problem(X.T, y, None, prune_threshold=jnp.asarray(1e-6, y.dtype))
        >>> state = bmjax.initialise(problem, jnp.full(10, 0.5, y.dtype))
        >>> int(bmjax.prune(problem, state).active.sum())
        10
    """
    mean_mask = problem.mean(state.mask_mean)
    if problem.groups is not None:
        mean_mask = problem.groups.tied(mean_mask)
    return restrict(state, survivors(problem, state, mean_mask))


def survivors(
    problem: Problem | Totals, state: State, mean_mask: Float[Array, " k"]
) -> Bool[Array, " k"]:
    """Whether each feature is active and kept by pruning."""
    return state.active & ((mean_mask >= problem.prune_threshold) | ~problem.maskable)


def restrict(state: State, active: Array) -> State:
    """The state with only the given features active, and all values of the others set to zero."""
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
    with Omega, then the noise precision, and each inclusion rate as the mean of its masks.

    Args:
        problem: The dataset. A known noise precision stays unchanged.
        state: Only `mask_mean` and `active` are read.

    Returns:
        The state with new weights, log-odds and noise precision.

    Example:
        >>> import jax.numpy as jnp
        >>> import bmjax
        >>> X, y, _ = bmjax.datasets.load_diabetes()
        >>> X, y = (jnp.asarray(a - a.mean(axis=0)) / a.std(axis=0) for a in (X, y))
        >>> problem = bmjax.Problem(X.T, y, None, prune_threshold=jnp.asarray(1e-6, y.dtype))
        >>> state = bmjax.initialise(problem, jnp.full(10, 0.5, y.dtype))
        >>> bmjax.m_step(problem, bmjax.e_step(problem, state)).weights.shape
        (10,)
    """
    return maximise(touching(problem, state), state, state.active)[0]


@full_precision
def g_step(
    problem: Problem,
    state: State,
    optimizer: optax.GradientTransformation,
    optimizer_state: "optax.OptState",
) -> "tuple[State, optax.OptState]":
    """A gradient step in (weights, inclusion) in place of the M step.

    This is equation (20) of the paper (`FAB_Gstep`) if the optimizer is `paper_optimizer`. The
    optimizer is given the gradient of minus the bound, as optax expects, in the coordinates
    (weights, inclusion). Inclusion is clipped to [0, 1] afterwards; the noise precision keeps its
    closed form, equation (13) (the paper prints (14), an erratum).

    Args:
        problem: The dataset.
        state: The state at which the gradient is taken.
        optimizer: Any optax transformation of a `Parameters` tree.
        optimizer_state: The state of the optimizer, from `optimizer.init(Parameters(weights,
            inclusion))`.

    Returns:
        The new state and the new optimizer state.

    Example:
        >>> import optax
        >>> import jax.numpy as jnp
        >>> import bmjax
        >>> X, y, _ = bmjax.datasets.load_diabetes()
        >>> X, y = (jnp.asarray(a - a.mean(axis=0)) / a.std(axis=0) for a in (X, y))
        >>> problem = bmjax.Problem(X.T, y, None, prune_threshold=jnp.asarray(1e-6, y.dtype))
        >>> state = bmjax.initialise(problem, jnp.full(10, 0.5, y.dtype))
        >>> optimizer = optax.sgd(1e-3)
        >>> begun = optimizer.init((state.weights, state.log_odds))
        >>> after, _ = bmjax.g_step(problem, bmjax.e_step(problem, state), optimizer, begun)
        >>> after.weights.shape
        (10,)
    """
    problem = touching(problem, state)
    left = residual(problem, state)
    return ascend(problem, state, left, optimizer, optimizer_state)


def maximise(
    problem: Problem, state: State, active: Bool[Array, " k"] | None = None
) -> tuple[State, Leftover]:
    """The M step at the masks of a state, and the part of y that it leaves unexplained.

    It uses sums around zero weights, so that the new weights depend on the masks only and are at
    rest when these are; from the residual of a sweep they would keep moving by its rounding.

    Args:
        problem: The dataset.
        state: Only `mask_mean` and `active` are read.
        active: Whether to keep each feature. Default: those that pruning keeps.
    """
    blank = state._replace(weights=namespace(state).zeros_like(state.weights))
    sums, masked = masked_sums(problem, blank, problem.y)
    return _maximised(problem, blank, sums, active, lambda at: _left_over(problem, at, masked))


def _maximised(
    problem: Problem,
    blank: State,
    sums: MaskedSums,
    active: Bool[Array, " k"] | None,
    left_over: Callable[[State], tuple[Float[Array, " n"], Float[Array, ""]]],
) -> tuple[State, Leftover]:
    """The M step from the sums around zero weights, see `maximise`.

    Args:
        problem: The dataset.
        blank: The state with zero weights.
        sums: The sums over samples at that state.
        active: Whether to keep each feature. Default: those that pruning keeps.
        left_over: A function for y - (X o M) weights at a state, and its sum of squares.
    """
    if active is None:
        active = survivors(problem, blank, sums.kept / problem.num_samples)
    state = weights_and_rates(problem, blank, sums, active)
    return _with_noise_precision(problem, state, left_over(state), sums.variance)


def em_iteration(
    problem: Problem,
    state: State,
    residual: Float[Array, " n"],
    sweeps: int,
    residual_weights: Float[Array, " k"] | None = None,
) -> tuple[State, Leftover]:
    """E step, pruning and M step, with the residual passed from one iteration to the next.

    The masks of pruned features are not cleared, which would take a pass over all of them: call
    `restrict` once at the end. `residual_weights` is as for `sweep.over_features`.
    """
    if problem.blocks is None:
        state = over_features(problem, state, residual, sweeps, True, residual_weights)
        return maximise(problem, state)
    blank, sums = blocks.swept_sums(problem, state, residual, sweeps, residual_weights)
    return _maximised(problem, blank, sums, None, lambda at: blocks.left_over(problem, at))


def ascend(
    problem: Problem,
    state: State,
    residual: Float[Array, " n"],
    optimizer: optax.GradientTransformation,
    optimizer_state: optax.OptState,
) -> tuple[State, optax.OptState]:
    """The G step, equation (20), from a residual that is already known.

    Raises:
        ValueError: If groups of columns share their masks: the paper's preconditioner is for one
            weight and one rate.
    """
    if problem.groups is not None:
        raise ValueError("there is no G step with groups of columns; give bmjax.EM() as solver.")
    n = problem.num_samples
    sums, masked = masked_sums(problem, state, residual)
    pi = jnp.where(state.active, state.inclusion, 0)
    weights = jnp.where(state.active, state.weights, 0)
    slope_weights = state.noise_precision * (sums.slope - sums.variance * weights)
    # dG/dpi = (mean mask - pi) (n / (pi (1 - pi)) + 1 / (2 pi^2)); zero where pi is 0 or 1.
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
    left = _left_over(problem, state, masked)
    return _with_noise_precision(problem, state, left, sums.variance)[0], optimizer_state


def exact_fit(problem: Problem | Totals, state: State) -> Bool[Array, ""]:
    """Whether the noise precision, if it is learned, has reached its cap."""
    xp = namespace(state)
    if problem.noise_precision is not None:
        return xp.asarray(False)
    at_floor = state.noise_precision * problem.noise_floor > 0.99  # 1, except for rounding
    return at_floor & xp.any(state.active)


def _with_noise_precision(
    problem: Problem,
    state: State,
    left: tuple[Float[Array, " n"], Float[Array, ""]],
    variance: Array,
) -> tuple[State, Leftover]:
    """The noise precision, equation (13), by residuals instead of the paper's expansion.

    The expansion cancels: at a noise variance of eps times that of y only rounding is left.

    Args:
        problem: The dataset.
        state: The state.
        left: y - (X o M) weights and its sum of squares.
        variance: The part of the products of masked columns that is due to the variance of the
            masks.
    """
    residual, square = left
    sum_squares = square + variance_along(state.weights, variance)
    precision = precision_of(problem, sum_squares / problem.num_samples)
    return state._replace(noise_precision=precision), Leftover(residual, sum_squares)


def _left_over(
    problem: Problem, state: State, masked: Float[Array, "k n"]
) -> tuple[Float[Array, " n"], Float[Array, ""]]:
    """The residual y - (X o M) weights and its sum of squares, given X o M."""
    residual = problem.y - state.weights @ masked
    return residual, problem.total(residual**2)
