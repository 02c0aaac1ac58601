"""Least squares and inverses over the active features."""

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import scipy.linalg
from jax import lax
from jaxtyping import Bool, Float

from bmjax._runtime.backend import Array, cholesky, namespace, solve_factored


def solve_normal_equations(
    omega: Float[Array, "k k"], cross: Float[Array, " k"], active: Array
) -> Float[Array, " k"]:
    """Solve omega @ weights = cross over the active features, zero elsewhere.

    The system is scaled to a unit diagonal, so the solution is equivariant to the scale of each
    column. Duplicate columns or n < k make omega singular: a ridge of a few roundings keeps the
    factor regular, and a round of refinement removes its bias in every direction that the data
    determine (the rest is of the order of (ridge / eigenvalue)^2).
    """
    scaled, scale, factor = unit_diagonal_factor(omega, active)
    target = cross * scale
    solution = solve_factored(factor, target)
    solution += solve_factored(factor, target - scaled @ solution)
    return solution * scale


def inverse_over(matrix: Float[Array, "k k"], active: Bool[Array, " k"]) -> Float[Array, "k k"]:
    """The inverse over the active features, zero elsewhere; large if it does not exist."""
    _, scale, factor = unit_diagonal_factor(matrix, active)
    inverse = solve_factored(factor, namespace(matrix).eye(len(scale), dtype=matrix.dtype))
    return inverse * scale[:, None] * scale[None, :]


def unit_diagonal_factor(
    matrix: Float[Array, "k k"], active: Bool[Array, " k"]
) -> tuple[Float[Array, "k k"], Float[Array, " k"], Float[Array, "k k"]]:
    """The matrix scaled to a unit diagonal over the active features, the scale, and a factor.

    The rows of other features are those of the identity, and their scale is zero. The factor is the
    lower Cholesky factor of the scaled matrix plus a ridge of a few roundings.
    """
    xp = namespace(matrix, active)
    k = len(matrix)
    diagonal = xp.diagonal(matrix)
    active = active & (diagonal > 0)
    scale = xp.where(active, 1 / xp.sqrt(xp.where(active, diagonal, 1)), 0)
    scaled = matrix * scale[:, None] * scale[None, :]
    scaled = xp.where(xp.eye(k, dtype=bool), 1, scaled)
    ridge = 2 * k * float(xp.finfo(matrix.dtype).eps)
    return scaled, scale, cholesky(scaled + ridge * xp.eye(k, dtype=matrix.dtype))


_COLUMNS = 8


def inverse_factor(matrix: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """The inverse W of the lower Cholesky factor; the inverse of the matrix is W'W.

    A compiled program solves for a few columns at a time: with all of them on the right-hand side,
    XLA's BLAS on a CPU starts its threads, which costs 8 ms at k = 30 on a busy machine, not 0.04.
    """
    k, factor = len(matrix), cholesky(matrix)
    if isinstance(factor, np.ndarray):
        return scipy.linalg.solve_triangular(
            factor, np.eye(k, dtype=matrix.dtype), lower=True, check_finite=False
        )
    columns = jnp.eye(k, -(-k // _COLUMNS) * _COLUMNS, dtype=matrix.dtype)
    chunks = jnp.moveaxis(columns.reshape(k, -1, _COLUMNS), 1, 0)
    solved = lax.map(lambda rhs: jax.scipy.linalg.solve_triangular(factor, rhs, lower=True), chunks)
    return jnp.moveaxis(solved, 0, 1).reshape(k, -1)[:, :k]
