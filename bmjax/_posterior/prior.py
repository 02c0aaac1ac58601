"""The evidence of a support in closed form, with the prior width and the rate summed out.

    y ~ N(level + X_S b_S, s2 I),   b_S | s2, g ~ N(0, g s2 (X_S'X_S)^-1),   p(s2) = 1/s2,
    each feature in S with rate r,

with flat priors on the level and on features that are always in, which are projected out
beforehand. Given g, the evidence of S depends only on the share of y'y that least squares on S
leaves and on the size of S (Zellner, 1986; Liang et al., 2008), so one factorisation of a support
serves every g. Both g and r are shared by all features and all supports and are summed out, so they
are learned.

g: p(g) = (1 + g/10)^(-3/2) / 20, the hyper-g prior of Liang et al. (2008) with its scale between
their 1 and n.
r: uniform in (0, 1/2], and with probability .03 in (1/2, 1). A rate above 1/2 favours features in
the support: with a small g idle features are then cheap, and a rate uniform in (0, 1) keeps too
many of them if half of the features act (F1 of pruning .82 instead of .88 on the paper's design).
The .03 is for data in which nearly all features act, which then outweigh this prior.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Float, Int

from bmjax._runtime.backend import Array

_WIDTHS = 32
_LOG_WIDEST = 9.0  # log of the largest g over n, which charges a feature log(n)/2 + 4.5 nats
_NARROWEST = 0.25  # the least g
_SCALE = 10.0  # scale of the prior of g
_DENSE = 0.03  # probability of a rate above 1/2
# If least squares leaves less than this share of y'y, it is rounding, and the fit counts as exact.
LEAST_SHARE = 1e-13


class Evidence(NamedTuple):
    """The priors and the data that judge a support of a dataset whose y'y is one.

    Attributes:
        freedom: Number of samples minus the number of directions projected out.
        width: The grid of g.
        log_width: Logarithm of the prior probability of each g.
        log_size: Logarithm of the prior probability of one support of 0, 1, ... features; -inf
            for a size that is not allowed.
        precision: Known noise precision times y'y, or None.
    """

    freedom: Float[Array, ""]
    width: Float[Array, " g"]
    log_width: Float[Array, " g"]
    log_size: Float[Array, " sizes"]
    precision: Float[Array, ""] | None


class Judged(NamedTuple):
    """The evidence of supports, and moments of their effects, with g summed out.

    Attributes:
        log: Logarithm of evidence times prior, up to a constant of the dataset.
        shrink: E[g / (1 + g)], the ratio of the mean of the effects to least squares.
        shrink_square: E[(g / (1 + g))^2].
        spread: E[s2 g / (1 + g)], the factor of (X_S'X_S)^-1 in the effects' covariance given g.
        noise: E[s2].
    """

    log: Float[Array, "*s"]
    shrink: Float[Array, "*s"]
    shrink_square: Float[Array, "*s"]
    spread: Float[Array, "*s"]
    noise: Float[Array, "*s"]


def log_size_prior(k: int, most: int, sizes: int | None = None) -> np.ndarray:
    """Logarithm of the prior probability of one support of each size.

    Args:
        k: Number of features that may be in or out.
        most: Largest size allowed.
        sizes: Number of sizes to list, with -inf beyond `most`. Default: most + 1.
    """
    count = most + 1 if sizes is None else sizes
    s = np.arange(count, dtype=float)
    within = s <= most
    s = np.minimum(s, k)
    # The integrals of r^s (1 - r)^(k - s) over (0, 1/2) and (1/2, 1), divided by their lengths.
    a, b = s + 1, k - s + 1
    low = _log_beta_half(a, b) + np.log(2 * (1 - _DENSE))
    high = _log_beta_half(b, a) + np.log(2 * _DENSE)
    log = np.logaddexp(low, high)
    return np.where(within, log, -np.inf)


def _log_beta_half(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Logarithm of the incomplete beta integral up to 1/2."""
    share = scipy.special.betainc(a, b, 0.5)
    with np.errstate(divide="ignore"):
        log = np.log(share) + scipy.special.betaln(a, b)
    # Where the share underflows, the integrand falls from 1/2 on like exp(-2 (a - b) x).
    edge = -(a + b - 2) * np.log(2) - np.log(np.maximum(2 * (a - b), 1))
    return np.where(share > 1e-300, log, edge)


def evidence_of(
    freedom: Float[np.ndarray, "*b"],
    log_size: Float[np.ndarray, "*c sizes"],
    precision: Float[np.ndarray, "*b"] | None,
) -> Evidence:
    """The `Evidence` of datasets with given degrees of freedom, in NumPy arrays.

    Args:
        freedom: Number of samples minus the number of directions projected out.
        log_size: Log prior of the sizes, from `log_size_prior`.
        precision: Known noise precision times y'y, or None.
    """
    freedom = np.asarray(freedom, float)
    low, high = np.log(_NARROWEST), np.log(np.maximum(freedom, 1)) + _LOG_WIDEST
    log_g = low + (high - low)[..., None] * np.linspace(0, 1, _WIDTHS)
    log_width = log_g - 1.5 * np.log1p(np.exp(log_g) / _SCALE)  # a density of log g
    log_width -= scipy.special.logsumexp(log_width, axis=-1, keepdims=True)
    log_size = np.broadcast_to(log_size, (*freedom.shape, log_size.shape[-1]))
    return Evidence(freedom, np.exp(log_g), log_width, log_size, precision)


def judged(evidence: Evidence, share: Float[Array, "*s"], size: Int[Array, "*s"]) -> Judged:
    """The evidence and moments of supports from their residual shares and sizes.

    Args:
        evidence: The evidence of the dataset.
        share: ||residual||^2 of least squares over y'y.
        size: Number of features.
    """
    freedom = evidence.freedom
    share = jnp.clip(share, LEAST_SHARE, 1)[..., None]
    count = size.astype(share.dtype)[..., None]
    along = (*([1] * (share.ndim - 1)), len(evidence.width))
    g, log_width = evidence.width.reshape(along), evidence.log_width.reshape(along)
    shrink = g / (1 + g)
    # (y'y minus the part explained by the shrunken effects) / y'y
    left = (1 + g * share) / (1 + g)
    if evidence.precision is None:
        log = 0.5 * ((freedom - count) * jnp.log1p(g) - freedom * jnp.log1p(g * share))
        noise = left / jnp.maximum(freedom - 2, 1)
    else:
        log = 0.5 * evidence.precision * shrink * (1 - share) - 0.5 * count * jnp.log1p(g)
        noise = jnp.broadcast_to(1 / evidence.precision, left.shape)
    log = log + log_width
    top = jnp.max(log, axis=-1, keepdims=True)
    weight = jnp.exp(log - top)
    total = jnp.sum(weight, axis=-1)

    def mean(values: Array) -> Array:
        return jnp.sum(weight * values, axis=-1) / total

    sizes = len(evidence.log_size)
    prior = evidence.log_size[jnp.clip(size, 0, sizes - 1)]
    prior = jnp.where(size < sizes, prior, -jnp.inf)
    return Judged(
        log=top[..., 0] + jnp.log(total) + prior,
        shrink=mean(shrink),
        shrink_square=mean(shrink**2),
        spread=mean(noise * shrink),
        noise=mean(noise),
    )
