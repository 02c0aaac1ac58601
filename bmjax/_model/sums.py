"""The sums of a pass over the samples, and the M step, which depends only on them."""

from typing import NamedTuple

from jaxtyping import Bool, Float

from bmjax._model.linalg import solve_normal_equations
from bmjax._model.problem import Problem, State, Totals
from bmjax._runtime.backend import Array, namespace


class MaskedSums(NamedTuple):
    """Sums over samples at the masks of a state and the residual of its weights.

    They are all that an M step or a G step needs, without a (n, k, k) table. Every sum is weighted
    by sample. With weights close to the new ones, no square cancels.

    Attributes:
        gram: (X o M)'(X o M).
        variance: sum_n x_nk^2 Var[z_nk], which the variance of the masks adds to the diagonal of
            `gram`; with groups a matrix, for the products of columns that share their masks.
        slope: (X o M)'residual.
        square: ||residual||^2.
        kept: Sum of the mask means of each feature.
        left_out: Sum of one minus each mask mean, computed separately to be exact near one.
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
    """The sums at the masks of a state, given the residual of its weights, and X o M."""
    masked = problem.X * state.mask_mean
    counted, left = problem.weighted(masked), problem.weighted(residual)
    sums = MaskedSums(
        gram=counted @ masked.T,
        variance=mask_variance(problem, state.mask_mean, masked),
        slope=masked @ left,
        square=residual @ left,
        kept=problem.total(state.mask_mean),
        left_out=problem.total(1 - state.mask_mean),
    )
    if problem.groups is not None:  # equal to the bit, whatever the order of the additions
        tied = problem.groups.tied
        sums = sums._replace(kept=tied(sums.kept), left_out=tied(sums.left_out))
    return sums, masked


def mask_variance(
    problem: Problem, mask: Float[Array, "k n"], masked: Float[Array, "k n"]
) -> Float[Array, " k"] | Float[Array, "k k"]:
    """The part of the products of the masked columns that is due to the variance of the masks.

    It is a diagonal if every column has its own masks, else a matrix over the pairs of a group.

    Args:
        problem: The dataset.
        mask: The masks, M.
        masked: X o M. X^2 is not used, since XLA would store it beside X.
    """
    if problem.groups is None:
        return problem.total(masked * (problem.X - masked))
    products = problem.weighted(problem.X * (mask - mask**2)) @ problem.X.T
    return namespace(products).where(problem.groups.same, products, 0)


def variance_along(
    weights: Float[Array, " k"], variance: Float[Array, " k"] | Float[Array, "k k"]
) -> Float[Array, ""]:
    """The variance, due to the masks, of the sum of the masked columns times their weights."""
    if variance.ndim == 1:
        return weights**2 @ variance
    return weights @ variance @ weights


def of_columns(variance: Float[Array, " k"] | Float[Array, "k k"]) -> Float[Array, "k k"]:
    """The part of the products of columns that is due to the masks, as a matrix."""
    return namespace(variance).diag(variance) if variance.ndim == 1 else variance


class Leftover(NamedTuple):
    """The part of y that a state leaves unexplained.

    Attributes:
        residual: y - (X o M) weights.
        sum_squares: E||y - (X o Z) weights||^2, from the residual and the variance of the masks.
    """

    residual: Float[Array, " n"]
    sum_squares: Float[Array, ""]


def weights_and_rates(
    problem: Problem | Totals, before: State, sums: MaskedSums, active: Bool[Array, " k"]
) -> State:
    """The M step without the noise precision: equations (12) and (14) over some features.

    Args:
        problem: The dataset.
        before: The state whose masks and weights the sums use.
        sums: The sums at that state.
        active: Whether to keep each feature.

    Returns:
        The state with new weights and log-odds, and with these features active.
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
    """log(rate / complement), infinite at the ends, but with finite derivatives there."""
    xp = namespace(rate, complement)
    inside = (rate > 0) & (complement > 0)
    ends = xp.where(rate > 0, xp.full_like(rate, xp.inf), -xp.inf)
    ratio = xp.log(xp.where(inside, rate, 1)) - xp.log(xp.where(inside, complement, 1))
    return xp.where(inside, ratio, ends)


def precision_of(problem: Problem | Totals, noise_variance: Float[Array, ""]) -> Float[Array, ""]:
    """The noise precision: one over the variance, capped if that is rounding, or the known one."""
    if problem.noise_precision is not None:
        return problem.noise_precision
    return 1 / namespace(noise_variance).maximum(noise_variance, problem.noise_floor)
