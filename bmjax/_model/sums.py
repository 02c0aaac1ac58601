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
        variance: sum_n x_nk^2 Var[z_nk], what the masks' own variance adds to its diagonal.
        slope: (X o M)'residual.
        square: ||residual||^2.
        kept: Sum of each mask.
        left_out: Sum of one minus each mask, taken apart so that it is exact near one.
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
    target = sums.slope + sums.gram @ (before.weights - held) - sums.variance * held
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
