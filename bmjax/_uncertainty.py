"""How well the data determine the effects of the features that a fit has kept."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from bmjax._frame import centred
from bmjax._result import Uncertainty
from bmjax._steps import inverse_over, moments
from bmjax._types import Problem, State, Totals


def uncertainty(problem: Problem, state: State) -> Uncertainty:
    """Covariances of the effects, the support taken as known, and correlation of the columns.

    Given the masks: the bound is quadratic in the weights with second derivative -lambda Omega,
    and at its maximum the mixed derivative with the noise precision is zero, so the inverse of
    lambda Omega over the active features is the covariance of the weights, whether the noise is
    known or learned. An effect is a weight times its inclusion rate, which counts as known. Masks
    that are fitted to the noise are taken for real, so this is too sure of itself.

    With the masks summed out, the mean of y is linear in the effects and its variance is on average
    that of what they leave, so the covariance is that of least squares on the support, with the
    noise variance ||y - X coef||^2 / (n - p); where the noise is known, with its variance and the
    masks'.
    """
    coef = jnp.where(state.active, state.coef, 0)
    return uncertainty_of(
        problem,
        state,
        omega=moments(problem, state).omega,
        gram=problem.weighted(problem.X) @ problem.X.T,
        left=lambda: problem.total((problem.y - coef @ problem.X) ** 2),
        correlation=correlation(problem),
    )


def uncertainty_of(
    problem: Problem | Totals,
    state: State,
    omega: Float[Array, "k k"],
    gram: Float[Array, "k k"],
    left: Callable[[], Float[Array, ""]],
    correlation: Float[Array, "k k"],
) -> Uncertainty:
    """The same from sums over samples.

    Args:
        problem: The dataset.
        state: A fitted state.
        omega: Its second moments of the masked features.
        gram: X'X.
        left: ||y - X coef||^2, evaluated where the noise is not known.
        correlation: Of the columns.
    """
    # In this order, so that a feature hardly included does not divide by its rate.
    size = state.inclusion / jnp.sqrt(state.noise_precision)
    given_masks = inverse_over(omega, state.active) * size[:, None] * size[None, :]
    coef = jnp.where(state.active, state.coef, 0)
    if problem.noise_precision is None:
        freedom = problem.num_samples - jnp.sum(state.active, dtype=coef.dtype)
        variance = left() / jnp.maximum(freedom, 1)
    else:
        spread = coef * (state.weights - coef)  # weights^2 inclusion (1 - inclusion)
        variance = 1 / problem.noise_precision + spread @ problem.mean_squares
    return Uncertainty(
        covariance=variance * inverse_over(gram, state.active),
        covariance_given_masks=given_masks,
        correlation=correlation,
    )


def correlation(problem: Problem) -> Float[Array, "k k"]:
    """Correlation of the columns, 0 for a constant one."""
    columns, _ = centred(problem, problem.X)
    spread = jnp.sqrt(problem.mean(columns**2))
    columns = columns / jnp.where(spread > 0, spread, 1)[:, None]
    return jnp.clip(problem.weighted(columns) @ columns.T / problem.num_samples, -1, 1)
