"""Enumeration of all supports of a few features, with and without one feature after another.

Least squares on all 2^k supports costs some six operations for each. The products of all columns
and y form a matrix; a feature that is out is deleted from it, one that is in is eliminated from it.
After the last feature, the remaining entry of each support's matrix is its sum of squared
residuals. The supports lie along the last axis, so each step is one wide operation.

Averages over supports are derivatives. With c = X'y, G = X'X and V_S the inverse of G over S,

    d RSS_S / d c = -2 b_S,   d RSS_S / d G = b_S b_S',   d log det G_SS / d G = V_S,

so one pass back through the recursion gives the mean of the effects over the whole posterior, and
another their covariance, without forming any b_S.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from bmjax._posterior.prior import Evidence, judged
from bmjax._runtime.backend import Array

# A unit column of which less than this is left is a combination of others, and not added.
RANK = 1e-9


class Everything(NamedTuple):
    """The posterior over all supports, for columns of unit length and y'y of one.

    Attributes:
        probability: Probability of each feature.
        coef: Mean of the effects.
        covariance: Covariance of the effects, including the uncertainty of the support.
        noise: Mean of the noise variance.
        size: Probability of 0, 1, ..., k features.
        support: Probability of each support; bit j of its number says whether feature j is in.
    """

    probability: Float[Array, " k"]
    coef: Float[Array, " k"]
    covariance: Float[Array, "k k"]
    noise: Float[Array, ""]
    size: Float[Array, " sizes"]
    support: Float[Array, " supports"]


def all_squares(
    gram: Float[Array, "k k"], slope: Float[Array, " k"]
) -> tuple[Float[Array, " supports"], Float[Array, " supports"], Bool[Array, " supports"]]:
    """The residual share of y'y = 1, log det X'X, and whether the rank is full, of each support.

    Args:
        gram: X'X of unit columns.
        slope: X'y.
    """
    k = len(gram)
    one = jnp.ones((1, 1), gram.dtype)
    whole = jnp.block([[gram, slope[:, None]], [slope[None, :], one]])[:, :, None]
    log_det, full = jnp.zeros(1, gram.dtype), jnp.ones(1, bool)
    for _ in range(k):
        pivot, row, rest = whole[0, 0], whole[0, 1:], whole[1:, 1:]
        good = pivot > RANK
        pivot = jnp.where(good, pivot, 1)
        row = jnp.where(good[None, :], row, 0)
        inside = rest - row[:, None] * (row / pivot[None, :])[None]
        whole = jnp.concatenate([rest, inside], axis=-1)
        log_det = jnp.concatenate([log_det, log_det + jnp.log(pivot)])
        full = jnp.concatenate([full, full & good])
    return whole[0, 0], log_det, full


def sizes_of_all(k: int) -> np.ndarray:
    """The number of features of each of the 2^k supports."""
    sizes = np.zeros(1, np.int32)
    for _ in range(k):
        sizes = np.concatenate([sizes, sizes + 1])
    return sizes


def enumerated(
    gram: Float[Array, "k k"], slope: Float[Array, " k"], evidence: Evidence
) -> Everything:
    """The posterior over all supports.

    Args:
        gram: X'X of unit columns.
        slope: X'y.
        evidence: The evidence of the dataset, whose y'y is one.
    """
    k = len(gram)
    sizes = jnp.asarray(sizes_of_all(k))

    def both(gram: Array, slope: Array) -> tuple[tuple[Array, Array], Array]:
        square, log_det, full = all_squares(gram, slope)
        return (square, log_det), full

    (square, _), backwards, full = jax.vjp(both, gram, slope, has_aux=True)
    found = judged(evidence, square, sizes)
    log = jnp.where(full, found.log, -jnp.inf)
    weight = jnp.exp(log - jnp.max(log))
    weight = weight / jnp.sum(weight)
    nothing = jnp.zeros_like(weight)
    coef = -0.5 * backwards((weight * found.shrink, nothing))[1]
    second = backwards((weight * found.shrink_square, weight * found.spread))[0]
    covariance = 0.5 * (second + second.T) - coef[:, None] * coef[None, :]
    by_size = jnp.zeros(k + 1, gram.dtype).at[sizes].add(weight)
    marginal = [jnp.sum(weight.reshape(-1, 2, 2**j)[:, 1]) for j in range(k)]
    return Everything(
        probability=jnp.stack(marginal),
        coef=coef,
        covariance=covariance,
        noise=jnp.sum(weight * found.noise),
        size=by_size,
        support=weight,
    )
