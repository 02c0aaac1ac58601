"""The posterior as a mixture of supports, given each of which the effects are Student's t."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from bmjax._posterior.prior import Evidence, judged
from bmjax._posterior.sweep import augmented, swept_to
from bmjax._runtime.backend import Array


class Mixture(NamedTuple):
    """The posterior as a mixture of listed supports, over the u features that are in any of them.

    Attributes:
        features: Numbers of these features; k for an empty place.
        probability: Probability of each support, the most probable first. If there are more
            supports than are listed, the others are missing from the sum after enumeration, and are
            represented by the last ones after chains. Zero, with no features, for an empty place.
        inside: Whether each feature is in each support.
        mean: Mean of the effects given each support, zero where a feature is out.
        deviation: Standard deviation of the effects given each support.
        covariance: Covariance of the effects over all supports, the choice of support included.
        correlation: Correlation of the columns projected off the level and features always in.
        freedom: Degrees of freedom of the effects given a support; infinite if the noise is known.

    Example:
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> posterior = bmjax.posterior(X, y, intercept=True)
        >>> type(posterior.mixture).__name__
        'Mixture'
    """

    features: Int[Array, "*b u"]
    probability: Float[Array, "*b t"]
    inside: Bool[Array, "*b t u"]
    mean: Float[Array, "*b t u"]
    deviation: Float[Array, "*b t u"]
    covariance: Float[Array, "*b u u"]
    correlation: Float[Array, "*b u u"]
    freedom: Float[Array, "*b"]


class Parts(NamedTuple):
    """The parts of the mixture: t supports among w features, for columns and y of unit length.

    Attributes:
        mean: Mean of the effects given each support, zero where a feature is out.
        deviation: Standard deviation of the effects given each support, zero where out.
        second: E[b b'] of the effects b over the mixture.
        noise: Mean of the noise variance over the mixture.
        share: Share of y'y that least squares on each support leaves.
        log: Logarithm of the posterior of each support, up to a constant.
    """

    mean: Float[Array, "t w"]
    deviation: Float[Array, "t w"]
    second: Float[Array, "w w"]
    noise: Float[Array, ""]
    share: Float[Array, " t"]
    log: Float[Array, " t"]


def parts_of(
    gram: Float[Array, "w w"],
    slope: Float[Array, " w"],
    evidence: Evidence,
    slots: Int[Array, "t m"],
    weight: Float[Array, " t"],
) -> Parts:
    """The moments of the effects given each of some supports, and over their mixture.

    Args:
        gram: X'X of unit columns.
        slope: X'y.
        evidence: The evidence of the dataset.
        slots: The features of each support, w in empty slots.
        weight: Probability of each support.
    """
    w = len(gram)
    used = slots < w
    at = jnp.minimum(slots, w - 1)
    between = jnp.where(
        used[:, :, None] & used[:, None, :], gram[at[:, :, None], at[:, None, :]], 0
    )
    matrices = jax.vmap(augmented)(between, jnp.where(used, slope[at], 0))
    matrix, inside = jax.vmap(swept_to)(matrices, used)
    found = judged(evidence, matrix[:, -1, -1], jnp.sum(inside, axis=1, dtype=jnp.int32))
    effect = jnp.where(inside, matrix[:, -1, :-1], 0)
    both = inside[:, :, None] & inside[:, None, :]
    square = found.shrink_square[:, None, None] * effect[:, :, None] * effect[:, None, :]
    square -= found.spread[:, None, None] * jnp.where(both, matrix[:, :-1, :-1], 0)
    mean = found.shrink[:, None] * effect
    variance = jnp.diagonal(square, axis1=1, axis2=2) - mean**2
    deviation = jnp.sqrt(jnp.maximum(variance, 0))
    row = jnp.arange(len(slots))[:, None]
    blank = jnp.zeros((len(slots), w), gram.dtype)
    second = jnp.zeros((w, w), gram.dtype)
    second = second.at[slots[:, :, None], slots[:, None, :]].add(
        weight[:, None, None] * square, mode="drop"
    )
    return Parts(
        mean=blank.at[row, slots].set(mean, mode="drop"),
        deviation=blank.at[row, slots].set(deviation, mode="drop"),
        second=second,
        noise=weight @ found.noise,
        share=matrix[:, -1, -1],
        log=found.log,
    )
