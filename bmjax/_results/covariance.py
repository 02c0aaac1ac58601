"""The covariance of the effects of the features that a fit has kept."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bmjax._model.linalg import inverse_over
from bmjax._model.problem import DUST, Problem, State, Totals
from bmjax._model.sums import masked_sums
from bmjax._model.working_set import gathered, summed
from bmjax._results.parts import Uncertainty
from bmjax._runtime.backend import Array, namespace


class Products(NamedTuple):
    """The sums over samples that the covariance of the effects needs, by slot.

    Attributes:
        omega: Second moments of the masked features, Omega of equation (12) of the paper.
        gram: X'X.
        slope: X'(y - X coef).
        square: ||y - X coef||^2.
        correlation: Correlation of the columns in the slots with all columns.
    """

    omega: Float[Array, "m m"]
    gram: Float[Array, "m m"]
    slope: Float[Array, " m"]
    square: Float[Array, ""]
    correlation: Float[Array, "m k"]


def uncertainty(
    problem: Problem, state: State, features: Int[Array, " m"], columns: Problem
) -> Uncertainty:
    """Covariances of the effects, with the support taken as known, and correlations of the columns.

    Given the masks, the bound is quadratic in the weights with second derivative -lambda Omega, and
    at its maximum the mixed derivative with the noise precision is zero, so the inverse of lambda
    Omega over the active features is the covariance of the weights, whether the noise is known or
    learned. An effect is a weight times its inclusion rate, which counts as known. Masks that are
    fitted to the noise count as real, so these covariances are too small.

    With the masks summed out, the mean of y is linear in the effects and its variance is on average
    that of the residual, so the covariance is that of least squares on the support, with the noise
    variance ||y - X coef||^2 / (n - p); where the noise is known, with the sum of its variance and
    that of the masks.

    Reference: for the first, Davison, "Statistical Models", 2003, chapter 4 (observed
    information); for the second, chapter 8 (least squares).

    Args:
        problem: The dataset.
        state: A fitted state.
        features: The features of the state, by slot.
        columns: The dataset whose columns are correlated, before a family weights its rows.
    """
    xp = namespace(problem)
    part = gathered(problem, features)
    coef = xp.where(state.active, state.coef, 0)

    def of_samples(_: Problem, part: Problem, state: State) -> tuple[Array, Array, Array, Array]:
        omega = masked_sums(part, state, part.y)[0].omega
        counted, left = part.weighted(part.X), part.y - coef @ part.X
        return omega, counted @ part.X.T, counted @ left, part.total(left**2)

    sums = summed(of_samples, problem, part, state)
    return uncertainty_of(
        part,
        state,
        features,
        Products(*sums, correlation(columns, gathered(columns, features), state)),
    )


def uncertainty_of(
    problem: Problem | Totals,
    state: State,
    features: Int[Array, " m"],
    products: "Products",
) -> Uncertainty:
    """The covariance of the effects from sums over samples, by slot.

    Args:
        problem: The dataset.
        state: A fitted state.
        features: The features of the state, by slot.
        products: The sums over samples.
    """
    xp = namespace(state)
    # In this order, so that nothing is divided by the rate of a feature that is hardly included.
    size = state.inclusion / xp.sqrt(state.noise_precision)
    given_masks = inverse_over(products.omega, state.active) * size[:, None] * size[None, :]
    coef = xp.where(state.active, state.coef, 0)
    inverse, square = inverse_over(products.gram, state.active), products.square
    freedom = xp.zeros_like(square)
    if problem.noise_precision is None:
        left = problem.num_samples - xp.sum(state.active, dtype=coef.dtype)
        freedom = xp.maximum(left, 1).astype(square.dtype)
        variance = square / freedom
    else:
        variance = 1 / problem.noise_precision + _of_masks(problem, state, products.gram)
    # With an intercept the columns and y are centred, and these are variances.
    of_y = problem.target_square
    varies = xp.where(of_y > 0, of_y, 1)
    sizes = xp.sqrt(xp.diagonal(products.gram) / (problem.num_samples * varies))
    explained = 1 - square / (problem.num_samples * varies)
    return Uncertainty(
        features=features,
        by_slot=variance * inverse,
        by_slot_given_masks=given_masks,
        correlation=products.correlation,
        # One round of refinement from the effects of the fit, which are close.
        least_squares_by_slot=coef + inverse @ products.slope,
        relative_size=xp.where(of_y > 0, sizes, 0),
        r_squared=xp.where(of_y > 0, explained, 0),
        freedom=freedom,
    )


def _of_masks(
    problem: Problem | Totals, state: State, gram: Float[Array, "m m"]
) -> Float[Array, ""]:
    """The variance of the predictor due to the masks, averaged over samples."""
    xp = namespace(state)
    coef = xp.where(state.active, state.coef, 0)
    if problem.groups is None:
        spread = coef * (state.weights - coef)  # weights^2 inclusion (1 - inclusion)
        return spread @ problem.mean_squares
    size = coef * xp.exp(-0.5 * xp.where(state.active, state.log_odds, 0))
    return size @ xp.where(problem.groups.same, gram, 0) @ size / problem.num_samples


def correlation(problem: Problem, part: Problem, state: State) -> Float[Array, "m k"]:
    """Correlation of the columns in the slots with all columns, 0 for a constant column."""
    xp, n = namespace(problem), problem.num_samples
    own, size = (_one_over_spread(data) for data in (part, problem))
    of_part, of_all = _means(part), _means(problem)

    def of_samples(problem: Problem, part: Problem, _: State) -> tuple[Array, Array]:
        away = part.weighted(part.X - of_part[:, None])  # only one side is centred
        return away @ problem.X.T, away.sum(axis=1)

    product, left = summed(of_samples, problem, part, state)
    # This removes the rounding error of the mean.
    product = (product - left[:, None] * of_all[None, :]) / n
    return xp.clip(product * own[:, None] * size[None, :], -1, 1)


def _means(data: Problem) -> Float[Array, " k"]:
    """The mean of each column, on the host without an array of the size of X."""
    if not isinstance(data.X, np.ndarray):
        return data.mean(data.X)
    counts = np.ones_like(data.y) if data.sample_weights is None else data.sample_weights
    return data.X @ counts / data.num_samples


def _one_over_spread(data: Problem) -> Float[Array, " k"]:
    """One over the standard deviation of each column, 0 for a constant one."""
    mean = _means(data)
    if not isinstance(data.X, np.ndarray):
        return _around(data, mean)
    # On the host without a copy of X, except for columns whose squares would cancel.
    variance = data.squares / data.num_samples - mean**2
    size = np.where(variance > 0, 1 / np.sqrt(np.where(variance > 0, variance, 1)), 0)
    cancels = mean**2 > 0.1 * variance
    size[cancels] = _around(data._replace(X=data.X[cancels]), mean[cancels])
    return size


def _around(data: Problem, mean: Float[Array, " k"]) -> Float[Array, " k"]:
    """One over the standard deviation of each column, from its deviations from a mean."""
    xp = namespace(data)
    away = data.X - mean[:, None]
    variance = data.mean(away**2)
    if data.sample_weights is not None:
        away = xp.where(xp.broadcast_to(data.sample_weights > 0, away.shape), away, 0)
    varies = xp.max(xp.abs(away), axis=1) > DUST * xp.finfo(data.dtype).eps * xp.abs(mean)
    return xp.where(varies, 1 / xp.sqrt(xp.where(varies, variance, 1)), 0)
