"""The starts of a fit. The paper does not specify initial values; these choices are ours."""

from typing import NamedTuple

from jaxtyping import Bool, Float

from bmjax._model.linalg import solve_normal_equations
from bmjax._model.problem import Problem, State, Totals
from bmjax._model.steps import restrict
from bmjax._model.sums import log_odds_of, precision_of
from bmjax._runtime.backend import Array, cond, namespace
from bmjax._runtime.precision import full_precision
from bmjax._selection.best_subset import best_subset, few_of_many
from bmjax._selection.criterion import Criterion
from bmjax._selection.gram import anchored
from bmjax._selection.group_subset import best_groups
from bmjax._selection.rounds import by_rounds, undecided

# With this many samples a feature or more, the search from the empty subset needs no stages.
_AMPLE = 2.0


class Room(NamedTuple):
    """The number of slots for features, a static argument.

    Attributes:
        tall: Whether there are more samples than features, so that X'X is used in place of X.
        in_stages: Whether the search for the best subset from the empty one goes in stages, with
            slots for some of the features.
        search: Slots of the search; all k unless it goes in stages.
        fit: Slots of the fits and moves.
    """

    tall: bool
    in_stages: bool
    search: int
    fit: int

    @property
    def most(self) -> int:
        """The largest number of features that the search may end with."""
        return self.fit if self.tall else self.search


def room_for(n: int, k: int, search: int, fit: int, *, groups: bool = False) -> Room:
    """The room for n samples of k features; `search` holds if the search goes in stages.

    Args:
        n: Number of samples.
        k: Number of features, with the intercept.
        search: Slots of a search in stages.
        fit: Slots of the fits and moves, and of a search that does not go in stages.
        groups: Whether features are searched by group.
    """
    tall = n > k
    in_stages = not tall or (n < _AMPLE * k and not groups)
    return Room(tall, in_stages, search if in_stages else fit, fit)


class Point(NamedTuple):
    """The parameters that a fit starts from.

    Attributes:
        inclusion: Inclusion rates; a feature of rate zero starts out pruned.
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

    Mask means and inclusion rates start at the given rates, the weights at least squares, the noise
    precision at n / ||y - X weights||^2 unless it is known. If n <= k, least squares leaves no
    residual, so weights and noise come from the ridge regression of highest evidence instead. A
    feature that is zero in every row, or any feature if y is zero in every row, can explain nothing
    and starts out pruned, as does one whose rate is zero.

    Args:
        problem: The dataset.
        inclusion: Initial inclusion rates, in [0, 1].
        weights: Initial weights in place of the least-squares ones.

    Returns:
        The initial state.

    Example:
        >>> import jax.numpy as jnp
        >>> import bmjax
        >>> X, y, _ = bmjax.datasets.load_diabetes()
        >>> X, y = (jnp.asarray(a - a.mean(axis=0)) / a.std(axis=0) for a in (X, y))
        >>> problem = bmjax.Problem(X.T, y, None, prune_threshold=jnp.asarray(1e-6, y.dtype))
        >>> state = bmjax.initialise(problem, jnp.full(10, 0.5, y.dtype))
        >>> state.mask_mean.shape, int(state.active.sum())
        ((10, 442), 10)
    """
    tall = problem.X.shape[1] > len(problem.X)
    return state_at(problem, dense_point(undecided(problem), inclusion, weights, tall))


def state_at(problem: Problem, point: Point) -> State:
    """The state before the first step from a point, with all mask means at the inclusion rates."""
    xp = namespace(problem)
    can_explain = xp.any(problem.X != 0, axis=1)
    if problem.groups is not None:
        together = problem.groups.summed(can_explain.astype(problem.dtype)) > 0
        can_explain = problem.groups.tied(together)
    can_explain = can_explain & xp.any(problem.y != 0)
    return state_of(point, can_explain, problem.maskable, problem.X.shape[1])


def state_of(
    point: Point, can_explain: Bool[Array, " k"], maskable: Bool[Array, " k"], rows: int
) -> State:
    """The state before the first step, given whether each feature can explain anything."""
    xp = namespace(point)
    k, inclusion = len(maskable), point.inclusion
    state = State(
        mask_mean=xp.broadcast_to(inclusion[:, None], (k, rows)),
        weights=point.weights,
        log_odds=log_odds_of(inclusion, 1 - inclusion),
        noise_precision=point.noise_precision,
        active=xp.ones(k, bool),
    )
    return restrict(state, (can_explain & (inclusion > 0)) | ~maskable)


def dense_point(
    problem: Problem, inclusion: Float[Array, " k"], weights: Float[Array, " k"] | None, tall: bool
) -> Point:
    """The point at given inclusion rates, with least squares on those above zero; see `initialise`.

    `tall` says whether there are more rows than features; used without sample weights.
    """
    xp = namespace(problem, inclusion)
    inclusion = xp.where(problem.maskable, inclusion, 1)
    kept = inclusion > 0

    def by_least_squares() -> tuple[Array, Array]:
        counted = problem.weighted(problem.X)
        weights = solve_normal_equations(counted @ problem.X.T, counted @ problem.y, kept)
        return weights, _mean_square(problem, weights)

    def by_ridge() -> tuple[Array, Array]:
        return _evidence_ridge(problem, kept)

    if weights is not None:
        start = xp.where(kept, weights, 0)
        noise_variance = _mean_square(problem, start)
    elif problem.sample_weights is not None:
        enough = problem.num_rows > problem.num_features
        start, noise_variance = cond(enough, by_least_squares, by_ridge)
    else:
        start, noise_variance = by_least_squares() if tall else by_ridge()
    return Point(inclusion, start, precision_of(problem, noise_variance))


def sparse_points(
    problem: Problem, rule: Criterion, rates: Float[Array, " s"], room: Room
) -> tuple[Point, Bool[Array, ""]]:
    """Starts at each of some rates from the best subset of features, found as if never masked.

    The subset has the highest score under the rule, with inclusion 1 for its features and 0 for the
    others, that a search by single moves finds: from the empty subset, and if n > k from all
    features as well. If n <= k it holds at most n / 2 features, so that the noise precision stays
    finite.

    Args:
        problem: The dataset.
        rule: The charge of each feature.
        rates: Inclusion rates of the features in the subset.
        room: The numbers of slots.

    Returns:
        A point for each rate, and whether the search has run out of slots.
    """
    if problem.family is not None:
        best, full = by_rounds(
            problem, rule, room.most, lambda near: _searched(near, rule, room)[::2]
        )
        variance = 1 / best.noise_precision
        return points_on(problem, rates, best.support, best.weights, variance), full
    support, weights, full = _searched(problem, rule, room)
    variance = _mean_square(problem, weights)
    return points_on(problem, rates, support, weights, variance), full


def _searched(
    problem: Problem, rule: Criterion, room: Room
) -> tuple[Bool[Array, " k"], Float[Array, " k"], Bool[Array, ""]]:
    """The best subset, least squares on it, and whether the search has run out of slots."""
    if problem.groups is not None:
        return best_groups(problem, rule, room.tall, room.search)
    if not room.tall:
        return few_of_many(problem, rule, room.search)
    sums = anchored(problem.X, problem.y, problem.sample_weights, tall=True)
    return best_subset(problem, rule, sums, room.search, in_stages=room.in_stages)


def points_on(
    problem: Problem | Totals,
    rates: Float[Array, " s"],
    support: Bool[Array, " k"],
    weights: Float[Array, " k"],
    noise_variance: Float[Array, ""],
) -> Point:
    """Points with some features at each of some rates, all others pruned."""
    xp = namespace(support, rates)
    k = len(support)
    kept_at = xp.where(problem.maskable[None], rates[:, None], 1)
    return Point(
        inclusion=xp.where(support[None], kept_at, 0),
        weights=xp.broadcast_to(weights, (len(rates), k)),
        noise_precision=xp.broadcast_to(precision_of(problem, noise_variance), rates.shape),
    )


def _mean_square(problem: Problem, weights: Float[Array, " k"]) -> Float[Array, ""]:
    return problem.mean((problem.y - weights @ problem.X) ** 2)


def _evidence_ridge(
    problem: Problem, kept: Bool[Array, " k"]
) -> tuple[Float[Array, " k"], Float[Array, ""]]:
    """Weights and noise variance of the ridge regression that maximises the marginal likelihood.

    y ~ N(0, s (I + t Z'Z)) with Z the columns of X scaled to unit length, s in closed form and t
    the best of a logarithmic grid: the evidence approximation of MacKay ("Bayesian interpolation",
    1992). It is finite for any rank, and equivariant to the scale of a column.
    """
    xp = namespace(problem)
    n, X, y = problem.num_samples, problem.X, problem.y
    if problem.sample_weights is not None:
        root = xp.sqrt(problem.sample_weights)
        X, y = X * root[None], y * root
    X = xp.where(kept[:, None], X, 0)
    norms = xp.sqrt(xp.sum(X**2, axis=1))
    scale = xp.where(norms > 0, 1 / xp.where(norms > 0, norms, 1), 0)
    Z = X * scale[:, None]
    # By the smaller of Z'Z and Z Z'. The part of y outside the columns' span does not depend on t.
    if len(y) <= len(Z):
        eigenvalues, vectors = xp.linalg.eigh(Z.T @ Z)
        directions = Z @ vectors
        along = vectors.T @ y
        squares = along**2
    else:
        eigenvalues, directions = xp.linalg.eigh(Z @ Z.T)
        along = directions.T @ (Z @ y)
        real = eigenvalues > len(Z) * xp.finfo(Z.dtype).eps * xp.max(eigenvalues)
        squares = xp.where(real, along**2 / xp.where(real, eigenvalues, 1), 0)
    eigenvalues = xp.maximum(eigenvalues, 0)
    rest = xp.maximum(xp.sum(y**2) - xp.sum(squares), 0)
    ratios = xp.logspace(-3, 3, 61, dtype=X.dtype)
    spread = 1 + ratios[:, None] * eigenvalues[None, :]
    variances = (xp.sum(squares[None] / spread, axis=1) + rest) / n
    variances = xp.maximum(variances, problem.noise_floor)
    evidence = -n * xp.log(variances) - xp.sum(xp.log(spread), axis=1)
    best = xp.argmax(evidence)
    weights = ratios[best] * scale * (directions @ (along / spread[best]))
    return weights, variances[best]
