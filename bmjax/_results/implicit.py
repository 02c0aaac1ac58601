"""Derivatives of a fit in its data, by the implicit function theorem at the maximum of the bound.

A fit ends where the slope of the bound in every mask mean and in theta = (weights, log-odds, log
noise precision) is zero. While the support and the optimum stay, that equation determines how its
solution moves with the data d = (X, y, sample weights), with no need to differentiate the
iterations that led there:

    -d(slope)/d(theta) dtheta = d(slope)/d(d) dd,    where the masks of each sample follow both.

The masks are eliminated first. Those of one sample solve a system whose matrix is diagonal plus a
product of two vectors, so nothing larger than (k, n) is formed; 2 k + 1 unknowns are left. The
derivative of the bound is that at a fixed solution, since its slope in the solution is zero.

Reference:
    Krantz and Parks, "The Implicit Function Theorem", 2002; for fitted models Blondel et al.,
    "Efficient and Modular Implicit Differentiation", NeurIPS 2022.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from bmjax._model.bound import lower_bound
from bmjax._model.problem import Problem, State
from bmjax._model.steps import exact_fit
from bmjax._runtime.precision import full_precision

# A rate whose log-odds would still move by more than this drifts to 0 or 1 and is not at rest.
_AT_REST = 1.0


class Optimum(NamedTuple):
    """The numbers of a fit that have a derivative; zero where a feature is pruned.

    Attributes:
        coef: The effects.
        weights: The weights.
        inclusion: The inclusion rates.
        noise_precision: The noise precision.
        bound: The lower bound.
    """

    coef: Float[Array, " k"]
    weights: Float[Array, " k"]
    inclusion: Float[Array, " k"]
    noise_precision: Float[Array, ""]
    bound: Float[Array, ""]


@jax.custom_jvp
def optimum(problem: Problem, state: State, bound: Float[Array, ""]) -> Optimum:
    """A finished fit, differentiable in X, y, sample weights and a known noise precision.

    Forward and reverse mode cost as much as a few E steps for each feature, and nothing if no
    derivative is taken. The derivative is that of the maximum next to the state, and the nearer the
    state the more exact. The state itself counts as constant. These are held fixed: a feature that
    was pruned, an unmasked one's rate, a rate of exactly 1, a noise precision that is known or at
    its cap, and a rate that is not at rest (a Newton step would move its log-odds by more than 1),
    because it drifts to 0 or 1, or the fit was cut short.

    Args:
        problem: The dataset.
        state: The state at the end of the fit.
        bound: The lower bound at the state.

    Returns:
        The numbers of the fit.

    Raises:
        NotImplementedError: If it is differentiated a second time.
    """
    coef = jnp.where(state.active, state.coef, 0)
    return Optimum(coef, state.weights, state.inclusion, state.noise_precision, bound)


@optimum.defjvp
def _(
    primals: tuple[Problem, State, Array], tangents: tuple[Problem, State, Array]
) -> tuple[Optimum, Optimum]:
    problem, state = _once(primals[:2])
    if problem.family is not None:
        raise NotImplementedError(
            f"a fit has derivatives for family='gaussian' only, not for {problem.family.name!r}."
        )
    if problem.groups is not None:
        raise NotImplementedError("a fit with groups of columns has no derivatives yet.")
    move = tangents[0]
    log_precision = jnp.zeros_like(state.noise_precision)
    if move.noise_precision is not None:
        log_precision = move.noise_precision / state.noise_precision
    data, moved = _Data.of(problem), _Data.of(move)
    _, bound = jax.jvp(lambda data: lower_bound(data.within(problem), state), (data,), (moved,))
    if move.noise_precision is not None:
        # The state's precision follows the known one; the slope in its log is n / 2 less half of
        # lambda E||residual||^2.
        sum_squares = _slope(problem, *_held(problem, state)[:2]).log_precision
        bound += sum_squares * log_precision
    return optimum(*primals), _differential(problem, state, moved, log_precision)._replace(
        bound=bound
    )


class _Data(NamedTuple):
    """The data of a problem that the derivatives are taken in."""

    X: Float[Array, "k n"]
    y: Float[Array, " n"]
    sample_weights: Float[Array, " n"] | None

    @classmethod
    def of(cls, problem: Problem) -> "_Data":
        return cls(problem.X, problem.y, problem.sample_weights)

    def within(self, problem: Problem) -> Problem:
        return problem._replace(X=self.X, y=self.y, sample_weights=self.sample_weights)


@jax.custom_jvp
def _once(values: tuple[Problem, State]) -> tuple[Problem, State]:
    """Values that must not be differentiated: a second derivative would miss the state's part."""
    return values


@_once.defjvp
def _(primals, tangents):
    raise NotImplementedError(
        "a fit has first derivatives only; its derivative cannot be differentiated again."
    )


class _Theta(NamedTuple):
    """The unknowns, all finite: log-odds are set to 0 where a rate is 0 or 1."""

    weights: Float[Array, " k"]
    log_odds: Float[Array, " k"]
    log_precision: Float[Array, ""]

    def flat(self) -> Float[Array, " d"]:
        return jnp.concatenate([self.weights, self.log_odds, self.log_precision[None]])


def _theta(flat: Float[Array, " d"]) -> _Theta:
    k = len(flat) // 2
    return _Theta(flat[:k], flat[k:-1], flat[-1])


def _held(
    problem: Problem, state: State
) -> tuple["_Theta", Float[Array, "k n"], Bool[Array, " k"]]:
    """The solution as `_Theta`, its mask means, and the features whose rate is inside (0, 1)."""
    interior = state.active & jnp.isfinite(state.log_odds) & problem.maskable
    theta = _Theta(
        weights=jnp.where(state.active, state.weights, 0),
        log_odds=jnp.where(interior, state.log_odds, 0),
        log_precision=jnp.log(state.noise_precision),
    )
    return theta, jnp.where(state.active[:, None], state.mask_mean, 0), interior


@full_precision
def _differential(
    problem: Problem, state: State, moved: _Data, moved_precision: Float[Array, ""]
) -> Optimum:
    """The derivative of a fit along moves of its data and of the log of a known noise precision."""
    active, data = state.active, _Data.of(problem)
    theta, mask, interior = _held(problem, state)
    spread = jnp.where(interior[:, None], mask * (1 - mask), 0)
    settle = _settler(spread, problem.X * theta.weights[:, None], state.noise_precision)
    logits, logits_move = jax.linearize(
        lambda theta, data: _logits(data.within(problem), mask, theta), theta, data
    )
    slope, slope_move = jax.linearize(
        lambda theta, mask, data: _slope(data.within(problem), theta, mask), theta, mask, data
    )
    still = jax.tree.map(jnp.zeros_like, moved)

    def slope_with_masks(theta: _Theta, data: _Data) -> Float[Array, " d"]:
        return slope_move(theta, settle(spread * logits_move(theta, data)), data).flat()

    # One direction at a time: all at once would be (2 k + 1) arrays of (k, n).
    basis = jnp.eye(2 * len(active) + 1, dtype=mask.dtype)
    curvature = -jax.lax.map(lambda e: slope_with_masks(_theta(e), still), basis)
    learned = jnp.asarray(problem.noise_precision is None) & ~exact_fit(problem, state)

    # A rate is at rest if a Newton step, with the masks moved to their maxima, changes it little.
    # First each unknown is judged alone: the step of a rate that drifts to 1 may be so long that it
    # would carry all others along.
    to_go = jnp.where(interior[:, None], jax.nn.sigmoid(logits) - mask, 0)
    zero = _theta(jnp.zeros_like(basis[0]))
    left = slope.flat() + slope_move(zero, settle(to_go), still).flat()
    rates = jnp.concatenate([jnp.zeros_like(active), interior, jnp.zeros(1, bool)])
    free = jnp.concatenate([active, interior, learned[None]])
    free &= ~rates | (jnp.abs(left) <= _AT_REST * jnp.diagonal(curvature))
    free &= ~rates | (jnp.abs(_solver(curvature, free)(left)) <= _AT_REST)

    given = zero._replace(log_precision=moved_precision)
    move = _theta(_solver(curvature, free)(slope_with_masks(given, moved)))
    inclusion, left_out = state.inclusion, jax.nn.sigmoid(-state.log_odds)
    by_rate = inclusion * left_out * move.log_odds
    log_precision = move.log_precision + moved_precision
    return Optimum(
        coef=jnp.where(active, inclusion * move.weights + theta.weights * by_rate, 0),
        weights=jnp.where(active, move.weights, 0),
        inclusion=jnp.where(active, by_rate, 0),
        noise_precision=state.noise_precision * log_precision,
        bound=jnp.zeros_like(log_precision),
    )


def _logits(problem: Problem, mask: Float[Array, "k n"], theta: _Theta) -> Float[Array, "k n"]:
    """The log-odds of every mask mean at its maximum given the others, equation (11)."""
    effects = problem.X * theta.weights[:, None]
    residual = problem.y - theta.weights @ (mask * problem.X)
    gain = jnp.exp(theta.log_precision) * effects * (residual[None] + (mask - 0.5) * effects)
    offset = theta.log_odds - 0.5 / (problem.num_samples * jax.nn.sigmoid(theta.log_odds))
    return gain + offset[:, None]


def _slope(problem: Problem, theta: _Theta, mask: Float[Array, "k n"]) -> _Theta:
    """The slope of the bound in theta at given masks; zero after an M step.

    It uses sums over samples only, so that a direction costs one pass over the (k, n) arrays.
    """
    n = problem.num_samples
    precision = jnp.exp(theta.log_precision)
    masked = problem.X * mask
    left = problem.y - theta.weights @ masked
    variance = problem.total(problem.X**2 * (mask - mask**2))
    sum_squares = problem.total(left**2) + theta.weights**2 @ variance
    p, q = jax.nn.sigmoid(theta.log_odds), jax.nn.sigmoid(-theta.log_odds)
    excess = problem.mean(mask) * q - problem.mean(1 - mask) * p  # mean of the mask minus the rate
    return _Theta(
        weights=precision * (masked @ problem.weighted(left) - variance * theta.weights),
        log_odds=excess * (n + 0.5 * q / p),
        log_precision=0.5 * (n - precision * sum_squares),
    )


def _settler(
    spread: Float[Array, "k n"], effects: Float[Array, "k n"], precision: Float[Array, ""]
) -> Callable[[Float[Array, "k n"]], Float[Array, "k n"]]:
    """A solver for the joint move of the masks from the move that each would make alone.

    Per sample, with a the effects and D the spread mask (1 - mask), the solution of

        (I - lambda D diag(a^2) + lambda D a a') move = alone.

    The matrix is diagonal plus a product, so one unknown, a'move, is enough. At a maximum of the
    bound at most one entry of the diagonal can come near or below zero, so that its own unknown is
    kept beside a'move and nothing is divided by it.
    """
    pull = precision * spread * effects
    diagonal = 1 - pull * effects
    nearest = jnp.argmin(jnp.abs(diagonal), axis=0)
    pivot = jnp.arange(len(effects), dtype=nearest.dtype)[:, None] == nearest[None]
    inverse = jnp.where(pivot, 0, 1 / jnp.where(pivot, 1, diagonal))

    def at_pivot(values: Float[Array, "k n"]) -> Float[Array, " n"]:
        return jnp.sum(jnp.where(pivot, values, 0), axis=0)

    rest = 1 + jnp.sum(effects * pull * inverse, axis=0)
    pivot_diagonal, pivot_effect, pivot_pull = map(at_pivot, (diagonal, effects, pull))
    determinant = rest * pivot_diagonal + pivot_effect * pivot_pull

    def settle(alone: Float[Array, "k n"]) -> Float[Array, "k n"]:
        others, own = jnp.sum(effects * inverse * alone, axis=0), at_pivot(alone)
        total = (pivot_diagonal * others + pivot_effect * own) / determinant
        at = (rest * own - pivot_pull * others) / determinant
        return jnp.where(pivot, at[None], inverse * (alone - pull * total[None]))

    return settle


def _solver(
    matrix: Float[Array, "d d"], free: Bool[Array, " d"]
) -> Callable[[Float[Array, " d"]], Float[Array, " d"]]:
    """A solver of a linear system over the free unknowns, zero for the others.

    The matrix is scaled to a unit diagonal, so that units do not matter. As in the M step, a ridge
    of a few roundings and a round of refinement share an effect between equal columns. Cholesky is
    not used: before a fit has reached its maximum, the matrix need not be positive definite.
    """
    d = len(matrix)
    diagonal = jnp.diagonal(matrix)
    free = free & (diagonal > 0)
    scale = jnp.where(free, jax.lax.rsqrt(jnp.where(free, diagonal, 1)), 0)
    scaled = jnp.where(jnp.eye(d, dtype=bool), 1, matrix * scale[:, None] * scale[None, :])
    ridge = 2 * d * jnp.finfo(matrix.dtype).eps * jnp.eye(d, dtype=matrix.dtype)

    def solve(target: Float[Array, " d"]) -> Float[Array, " d"]:
        target = target * scale
        solution = jnp.linalg.solve(scaled + ridge, target)
        solution += jnp.linalg.solve(scaled + ridge, target - scaled @ solution)
        return solution * scale

    return solve
