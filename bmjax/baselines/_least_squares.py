"""Least squares: no sparsity, no shrinkage."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bmjax._checks import inputs
from bmjax._model.linalg import solve_normal_equations
from bmjax._runtime.precision import full_precision
from bmjax._selection.gram import smallest_square, unbiased_precision
from bmjax.baselines._estimate import Estimate, verdict


def least_squares(X: ArrayLike, y: ArrayLike) -> Estimate:
    """Minimise ||y - X coef||^2, equation (2) of the paper, by the normal equations.

    If n <= k, the result is the smallest of the exact solutions. Every nonzero feature is in the
    support.

    Args:
        X: (n, k) features, samples in rows.
        y: (n,) target.

    Returns:
        The estimate; `objective` is ||y - X coef||^2, and `num_steps` 0. The status is `EXACT_FIT`
        if the residual is only rounding.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a shape does not fit or a value is not finite.

    Example:
        >>> from bmjax import baselines
        >>> from bmjax.datasets import load_diabetes
        >>> X, y, names = load_diabetes()
        >>> X, y = X - X.mean(axis=0), y - y.mean()
        >>> round(float(baselines.least_squares(X, y).coef[2]), 1)
        5.6
    """
    return _least_squares(*inputs.data(X, y))


@jax.jit
@full_precision
def _least_squares(X: Float[Array, "n k"], y: Float[Array, " n"]) -> Estimate:
    n, k = X.shape
    if n > k:
        coef = solve_normal_equations(X.T @ X, X.T @ y, jnp.ones(k, bool))
    else:
        gram, every = X @ X.T, jnp.ones(n, bool)
        coef = X.T @ solve_normal_equations(gram, y, every)
        # Corrects the rounding of the product, so that an exact fit is recognised.
        coef += X.T @ solve_normal_equations(gram, y - X @ coef, every)
    support = jnp.any(X != 0, axis=0)
    square = jnp.sum((y - X @ coef) ** 2)
    return Estimate(
        coef=coef,
        support=support,
        noise_precision=unbiased_precision(square, n, jnp.sum(support, dtype=jnp.int32), y),
        objective=square,
        num_steps=jnp.zeros((), jnp.int32),
        status=verdict(coef, square, jnp.asarray(True), square <= smallest_square(y)),
    )
