"""Where a fit starts. The paper says nothing of initial values; these choices are ours."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from bmjax._criterion import Criterion
from bmjax._precision import full_precision
from bmjax._squares import Squares, anchored
from bmjax._steps import restrict, solve_normal_equations
from bmjax._subset import (
    Charges,
    likelihood_rise,
    most_features,
    search,
    starts_of_search,
    unit_columns,
)
from bmjax._types import Problem, State, Totals


class Point(NamedTuple):
    """The parameters that a fit starts from.

    Attributes:
        inclusion: Inclusion rates; a feature at zero starts out pruned.
        weights: Weights.
        noise_precision: Noise precision.
    """

    inclusion: Float[Array, "*s k"]
    weights: Float[Array, "*s k"]
    noise_precision: Float[Array, "*s"]


@full_precision
def initialise(
    problem: Problem,
    inclusion: Float[Array, " k"],
    weights: Float[Array, " k"] | None = None,
) -> State:
    """The state before the first step.

    Masks and inclusion rates start at the given rates, the weights at least squares, the noise
    precision at n / ||y - X weights||^2 unless it is known. Where n <= k least squares leaves no
    residual, so weights and noise come from the ridge regression of highest evidence instead.
    A feature that is zero in every row, or any feature if y is zero in every row, can explain
    nothing and starts out pruned, as does one whose rate is zero.

    Args:
        problem: The dataset.
        inclusion: Initial inclusion rates, in [0, 1].
        weights: Initial weights in place of the least-squares ones.

    Returns:
        The initial state.
    """
    return state_at(problem, dense_point(problem, inclusion, weights))


def state_at(problem: Problem, point: Point) -> State:
    """The state before the first step from a point, all masks at their rates."""
    can_explain = jnp.any(problem.X != 0, axis=1) & jnp.any(problem.y != 0)
    return state_of(point, can_explain, problem.maskable, problem.X.shape[1])


def state_of(
    point: Point, can_explain: Bool[Array, " k"], maskable: Bool[Array, " k"], rows: int
) -> State:
    """The same from what the features can do, with masks for so many rows."""
    k, inclusion = len(maskable), point.inclusion
    state = State(
        mask_mean=jnp.broadcast_to(inclusion[:, None], (k, rows)),
        weights=point.weights,
        log_odds=jnp.log(inclusion) - jnp.log1p(-inclusion),
        noise_precision=point.noise_precision,
        active=jnp.ones(k, bool),
    )
    return restrict(state, (can_explain & (inclusion > 0)) | ~maskable)


def dense_point(
    problem: Problem, inclusion: Float[Array, " k"], weights: Float[Array, " k"] | None
) -> Point:
    """Rates as given, the weights of those above zero by least squares; see `initialise`."""
    k, n = problem.X.shape
    inclusion = jnp.where(problem.maskable, inclusion, 1)
    kept = inclusion > 0

    def by_least_squares() -> tuple[Array, Array]:
        counted = problem.weighted(problem.X)
        weights = solve_normal_equations(counted @ problem.X.T, counted @ problem.y, kept)
        return weights, _mean_square(problem, weights)

    def by_ridge() -> tuple[Array, Array]:
        return _evidence_ridge(problem, kept)

    if weights is not None:
        start = jnp.where(kept, weights, 0)
        noise_variance = _mean_square(problem, start)
    elif problem.sample_weights is not None:
        enough = problem.num_rows > k
        start, noise_variance = lax.cond(enough, by_least_squares, by_ridge)
    else:
        start, noise_variance = by_least_squares() if n > k else by_ridge()
    return Point(inclusion, start, precision_of(problem, noise_variance))


def sparse_points(problem: Problem, rule: Criterion, rates: Float[Array, " s"]) -> Point:
    """The best subset of features that are never masked, at each of some rates.

    The subset is that of the highest score under the rule, inclusion 1 for the features in it and
    0 for the others, as far as a search by single moves from both ends finds it. It needs no
    unique least squares: where n <= k it starts from nothing and holds at most n / 2 features, so
    that the noise precision stays finite.

    Args:
        problem: The dataset.
        rule: What a feature is charged.
        rates: Inclusion rates of the features in the subset.

    Returns:
        A point for each rate.
    """
    m = anchored(problem.X.T, problem.y, problem.sample_weights)
    two_ended = problem.X.shape[1] > len(problem.X)
    support, weights = best_subset(problem, rule, m, two_ended)
    return points_on(problem, rates, support, weights, _mean_square(problem, weights))


def best_subset(
    problem: Problem | Totals, rule: Criterion, sums: Squares, two_ended: bool
) -> tuple[Bool[Array, " k"], Float[Array, " k"]]:
    """The subset of the highest score that a search by single moves finds, and its weights.

    Args:
        problem: The dataset.
        rule: What a feature is charged.
        sums: Its sums over samples.
        two_ended: Whether to begin from all features as well as from none, for n > k.

    Returns:
        The features in it, and least squares on them.
    """
    n, k = problem.num_samples, len(sums.anchor)
    floor = n * problem.noise_floor
    m, scale = unit_columns(sums)

    def charges(support, at):
        precision = problem.noise_precision
        if precision is None:
            precision = n / jnp.maximum(at.square, floor)
        each = rule.charge(rule.width(at.coef**2 * precision / n, support))
        return Charges(rule.per_feature(each), each, rule.by_size)

    rise = likelihood_rise(n, problem.noise_precision, floor)
    most = most_features(problem.num_rows, k)

    def from_one(start):
        return search(m, start, charges, rise, n, most, 10 * k)

    starts = starts_of_search(m, most) | ~problem.maskable[None]
    ends = lax.map(from_one, starts if two_ended else starts[:1])
    best = jnp.argmax(ends.score)
    support, coef = ends.support[best], ends.refit.coef[best]
    return support, jnp.where(support, coef * scale, 0)


def points_on(
    problem: Problem | Totals,
    rates: Float[Array, " s"],
    support: Bool[Array, " k"],
    weights: Float[Array, " k"],
    noise_variance: Float[Array, ""],
) -> Point:
    """Some features at each of some rates, all others out."""
    k = len(support)
    kept_at = jnp.where(problem.maskable[None], rates[:, None], 1)
    return Point(
        inclusion=jnp.where(support[None], kept_at, 0),
        weights=jnp.broadcast_to(weights, (len(rates), k)),
        noise_precision=jnp.broadcast_to(precision_of(problem, noise_variance), rates.shape),
    )


def precision_of(problem: Problem | Totals, noise_variance: Float[Array, ""]) -> Float[Array, ""]:
    if problem.noise_precision is not None:
        return problem.noise_precision
    return 1 / jnp.maximum(noise_variance, problem.noise_floor)


def _mean_square(problem: Problem, weights: Float[Array, " k"]) -> Float[Array, ""]:
    return problem.mean((problem.y - weights @ problem.X) ** 2)


def _evidence_ridge(
    problem: Problem, kept: Bool[Array, " k"]
) -> tuple[Float[Array, " k"], Float[Array, ""]]:
    """Weights and noise variance of the ridge regression that maximises the marginal likelihood.

    y ~ N(0, s (I + t Z'Z)) with Z the columns of X scaled to unit length, s in closed form and t
    the best of a logarithmic grid. Finite for any rank, and equivariant to the scale of a column.
    """
    n, X, y = problem.num_samples, problem.X, problem.y
    if problem.sample_weights is not None:
        root = jnp.sqrt(problem.sample_weights)
        X, y = X * root[None], y * root
    X = jnp.where(kept[:, None], X, 0)
    norms = jnp.sqrt(jnp.sum(X**2, axis=1))
    scale = jnp.where(norms > 0, 1 / jnp.where(norms > 0, norms, 1), 0)
    Z = X * scale[:, None]
    # By the smaller of Z'Z and Z Z'. What y has outside the columns' span the ratio does not touch.
    if len(y) <= len(Z):
        eigenvalues, vectors = jnp.linalg.eigh(Z.T @ Z)
        directions = Z @ vectors
        along = vectors.T @ y
        squares = along**2
    else:
        eigenvalues, directions = jnp.linalg.eigh(Z @ Z.T)
        along = directions.T @ (Z @ y)
        real = eigenvalues > len(Z) * jnp.finfo(Z.dtype).eps * jnp.max(eigenvalues)
        squares = jnp.where(real, along**2 / jnp.where(real, eigenvalues, 1), 0)
    eigenvalues = jnp.maximum(eigenvalues, 0)
    rest = jnp.maximum(jnp.sum(y**2) - jnp.sum(squares), 0)
    ratios = jnp.logspace(-3, 3, 61, dtype=X.dtype)
    spread = 1 + ratios[:, None] * eigenvalues[None, :]
    variances = (jnp.sum(squares[None] / spread, axis=1) + rest) / n
    variances = jnp.maximum(variances, problem.noise_floor)
    evidence = -n * jnp.log(variances) - jnp.sum(jnp.log(spread), axis=1)
    best = jnp.argmax(evidence)
    weights = ratios[best] * scale * (directions @ (along / spread[best]))
    return weights, variances[best]
