"""The sums of a pass over the samples, and the M step that follows from them alone."""

from typing import NamedTuple

from jaxtyping import Bool, Float

from bmjax._model.linalg import solve_normal_equations
from bmjax._model.problem import Problem, State, Totals
from bmjax._runtime.backend import Array, namespace


class MaskedSums(NamedTuple):
    """Sums over samples at the masks of a state and the residual of its weights.

    All that an M step or a G step needs, never a (n, k, k) table. Every sum is weighted by sample,
    and around the weights, which are close: no square cancels.

    Attributes:
        gram: (X o M)'(X o M).
        variance: sum_n x_nk^2 Var[z_nk], what the masks' own variance adds to its diagonal; with
            groups a matrix, of the products of columns that share their masks.
        slope: (X o M)'residual.
        square: ||residual||^2.
        kept: Sum of each mask.
        left_out: Sum of one minus each mask, taken apart so that it is exact near one.
    """

    gram: Float[Array, "k k"]
    variance: Float[Array, " k"] | Float[Array, "k k"]
    slope: Float[Array, " k"]
    square: Float[Array, ""]
    kept: Float[Array, " k"]
    left_out: Float[Array, " k"]

    @property
    def omega(self) -> Float[Array, "k k"]:
        """sum_n (x_n x_n') o E[z_n z_n'], equation (12) of the paper."""
        return self.gram + of_columns(self.variance)


def masked_sums(
    problem: Problem, state: State, residual: Float[Array, " n"]
) -> tuple[MaskedSums, Float[Array, "k n"]]:
    """The sums at the masks of a state, whose weights leave a residual; and X o M."""
    masked = problem.X * state.mask_mean
    counted, left = problem.weighted(masked), problem.weighted(residual)
    sums = MaskedSums(
        gram=counted @ masked.T,
        variance=mask_variance(problem, state.mask_mean),
        slope=masked @ left,
        square=residual @ left,
        kept=problem.total(state.mask_mean),
        left_out=problem.total(1 - state.mask_mean),
    )
    if problem.groups is not None:  # to the bit, in whatever order they were added up
        tied = problem.groups.tied
        sums = sums._replace(kept=tied(sums.kept), left_out=tied(sums.left_out))
    return sums, masked


def mask_variance(
    problem: Problem, mask: Float[Array, "k n"]
) -> Float[Array, " k"] | Float[Array, "k k"]:
    """What the variance of the masks adds to the products of the masked columns.

    The diagonal where every column has masks of its own, else a matrix: columns of one group come
    and go together.
    """
    spread = mask - mask**2
    if problem.groups is None:
        return problem.total(problem.X**2 * spread)
    products = problem.weighted(problem.X * spread) @ problem.X.T
    return namespace(products).where(problem.groups.same, products, 0)


def variance_along(
    weights: Float[Array, " k"], variance: Float[Array, " k"] | Float[Array, "k k"]
) -> Float[Array, ""]:
    """The variance that the masks give to the sum of the masked columns, each times its weight."""
    if variance.ndim == 1:
        return weights**2 @ variance
    return weights @ variance @ weights


def of_columns(variance: Float[Array, " k"] | Float[Array, "k k"]) -> Float[Array, "k k"]:
    """The variance that the masks give to the products of columns, as a matrix."""
    return namespace(variance).diag(variance) if variance.ndim == 1 else variance


class Leftover(NamedTuple):
    """The part of y that a state leaves unexplained.

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
    spread = sums.variance
    spread = spread * held if spread.ndim == 1 else spread @ held
    target = sums.slope + sums.gram @ (before.weights - held) - spread
    change = solve_normal_equations(sums.omega, target, active)
    log_odds = log_odds_of(sums.kept / n, sums.left_out / n)
    return before._replace(
        weights=xp.where(active, held + change, 0),
        log_odds=xp.where(active, log_odds, -xp.inf),
        active=active,
    )


def log_odds_of(rate: Float[Array, " k"], complement: Float[Array, " k"]) -> Float[Array, " k"]:
    """log(rate / complement), infinite at the ends without infinite derivatives there."""
    xp = namespace(rate, complement)
    inside = (rate > 0) & (complement > 0)
    ends = xp.where(rate > 0, xp.full_like(rate, xp.inf), -xp.inf)
    ratio = xp.log(xp.where(inside, rate, 1)) - xp.log(xp.where(inside, complement, 1))
    return xp.where(inside, ratio, ends)


def precision_of(problem: Problem | Totals, noise_variance: Float[Array, ""]) -> Float[Array, ""]:
    """One over the noise variance, capped where that is rounding; or what is known."""
    if problem.noise_precision is not None:
        return problem.noise_precision
    return 1 / namespace(noise_variance).maximum(noise_variance, problem.noise_floor)
