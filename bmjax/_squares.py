"""A dataset as the sums that squared error depends on, so that a step costs k^2 and not n k.

||y - X b||^2 from X'X, X'y and y'y alone cancels: where the residual is a thousandth of y, a
float32 has nothing left of it. The sums here are taken around an anchor close to the answer (least
squares), so that every quantity is as small as it is meant to be.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg
from jax import lax
from jaxtyping import Array, Float

from bmjax._steps import solve_normal_equations

_COLUMNS = 8


class Squares(NamedTuple):
    """Weighted sums over samples, for squared errors around an anchor.

    Attributes:
        gram: X'X.
        anchor: The coefficients that the others are sums around.
        slope: X'(y - X anchor).
        square: ||y - X anchor||^2.
        samples: Number of samples.
    """

    gram: Float[Array, "k k"]
    anchor: Float[Array, " k"]
    slope: Float[Array, " k"]
    square: Float[Array, ""]
    samples: Float[Array, ""]


def squares(
    X: Float[Array, "n k"],
    y: Float[Array, " n"],
    anchor: Float[Array, " k"],
    sample_weights: Float[Array, " n"] | None = None,
) -> Squares:
    """The sums of a dataset, each row as often as its weight says."""
    weights = jnp.ones_like(y) if sample_weights is None else sample_weights
    residual = y - X @ anchor
    weighted = X if sample_weights is None else X * weights[:, None]
    return Squares(
        gram=weighted.T @ X,
        anchor=anchor,
        slope=weighted.T @ residual,
        square=jnp.sum(weights * residual**2),
        samples=jnp.sum(weights),
    )


def anchored(
    X: Float[Array, "n k"], y: Float[Array, " n"], sample_weights: Float[Array, " n"] | None = None
) -> Squares:
    """The sums of a dataset around least squares, or around zero where n <= k.

    With n <= k least squares is far from any sparse answer, so it would be no help.
    """
    n, k = X.shape
    zero = jnp.zeros(k, X.dtype)
    if n <= k:
        return squares(X, y, zero, sample_weights)
    weighted = X if sample_weights is None else X * sample_weights[:, None]
    anchor = solve_normal_equations(weighted.T @ X, weighted.T @ y, jnp.ones(k, bool))
    return squares(X, y, anchor, sample_weights)


def residual_slope(m: Squares, coef: Float[Array, " k"]) -> Float[Array, " k"]:
    """X'(y - X coef)."""
    return m.slope - m.gram @ (coef - m.anchor)


def residual_square(m: Squares, coef: Float[Array, " k"]) -> Float[Array, ""]:
    """||y - X coef||^2."""
    away = coef - m.anchor
    return jnp.maximum(m.square - 2 * (away @ m.slope) + away @ (m.gram @ away), 0)


def with_variance(m: Squares, variance: Float[Array, " k"]) -> Squares:
    """The sums in the mean over features that vary on top, by so much each in all samples."""
    return m._replace(
        gram=m.gram + jnp.diag(variance),
        slope=m.slope - variance * m.anchor,
        square=m.square + m.anchor**2 @ variance,
    )


def inverse_factor(matrix: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """The inverse W of the lower Cholesky factor, so that the inverse of the matrix is W'W.

    By a few columns at a time: with all of them on the right-hand side, XLA's BLAS on a CPU starts
    its threads, and on a busy machine these cost 8 ms at k = 30 in the place of 0.04.
    """
    k = len(matrix)
    factor = jnp.linalg.cholesky(matrix)
    columns = jnp.eye(k, -(-k // _COLUMNS) * _COLUMNS, dtype=matrix.dtype)
    chunks = jnp.moveaxis(columns.reshape(k, -1, _COLUMNS), 1, 0)
    solved = lax.map(lambda rhs: jax.scipy.linalg.solve_triangular(factor, rhs, lower=True), chunks)
    return jnp.moveaxis(solved, 0, 1).reshape(k, -1)[:, :k]


def smallest_square(y: Float[Array, " n"]) -> Float[Array, ""]:
    """Below this a sum of squared residuals of y is rounding, and the fit counts as exact."""
    info = jnp.finfo(y.dtype)
    return jnp.maximum((8 * info.eps) ** 2 * jnp.sum(y**2), 1e4 * len(y) * info.tiny)


def unbiased_precision(
    square: Float[Array, ""], count: int, selected: Array, y: Float[Array, " n"]
) -> Float[Array, ""]:
    """(n - selected) / ||residual||^2, capped where the residual is rounding."""
    freedom = jnp.maximum(count - selected, 1).astype(square.dtype)
    return freedom / jnp.maximum(square, smallest_square(y))
