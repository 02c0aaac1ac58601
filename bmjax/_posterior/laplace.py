"""The evidence of a support for a y that is not Gaussian, by Laplace's approximation.

    y ~ p(y | (level + X_S b_S) / s),   b_S | s, g ~ N(0, g s2 / v (X_S'X_S)^-1),

as in `prior`, with columns projected off the level and the features that are always in, and v the
information of a sample in the model without features: p (1 - p) at the share p of ones for a
logistic y, (d + 1) / (d + 3) for Student's t. For effects in units of the scale, b / s, the prior
does not depend on s, so one expansion of the log likelihood around one point serves every g: with
X_S'X_S v = L L', u = L'b and the likelihood's curvature in u made diagonal, the evidence is a
product of normal integrals.

It runs on the host, for many supports side by side: each needs little work, so nothing is compiled.

Reference:
    Tierney and Kadane, "Accurate approximations for posterior moments and marginal densities",
    JASA 1986; the prior is that of Sabanés Bové and Held, "Hyper-g priors for generalized linear
    models", Bayesian Analysis 2011.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bmjax._posterior.mode import Design, SupportPosterior, climbed, curvature
from bmjax._posterior.prior import Evidence
from bmjax._runtime.threads import cores

_RIDGE = 1e-12
_ANCHORS, _NEAR = 4, 0.5  # largest number of new choices of g, and a negligible difference of log g
_NUMBERS = 2**20  # numbers in an array of supports side by side, so that it stays in the cache


class Point(NamedTuple):
    """The starting point of the climb to the mode of a support.

    Attributes:
        log_scale: Logarithm of the scale of the noise.
        nuisance: Effects of the level and the basis always in, in units of the scale.
        log_width: Logarithm of the g of this point.
    """

    log_scale: float
    nuisance: Float[np.ndarray, " r"]
    log_width: float


class Worth(NamedTuple):
    """The evidence and moments of t supports by the likelihood, with g summed out.

    Attributes:
        log: Logarithm of evidence times prior, up to a constant of the dataset.
        mean: Mean of the effects in units of y: those always in, then the features in the slots.
        covariance: Covariance of the same effects.
        noise: Mean of the squared scale.
        mode: Mode of log scale and effects in units of the scale.
        log_width: Mean of log g.
    """

    log: Float[np.ndarray, " t"]
    mean: Float[np.ndarray, "t p"]
    covariance: Float[np.ndarray, "t p p"]
    noise: Float[np.ndarray, " t"]
    mode: Float[np.ndarray, "t q"]
    log_width: Float[np.ndarray, " t"]


def worths(
    design: Design, slots: Int[np.ndarray, "t m"], effects: Float[np.ndarray, "t m"], begin: Point
) -> Worth:
    """The evidence and moments of some supports.

    Args:
        design: The dataset.
        slots: The features of each support, the last row of `columns` in empty slots.
        effects: Effects to start from, in units of the scale, zero in empty slots.
        begin: The starting point of the other parameters.
    """
    supports, m = slots.shape
    together = int(np.clip(_NUMBERS // (max(m, 1) * len(design.y)), 1, 256))
    # Supports of one size are computed together, so that few slots are empty.
    sizes = np.sum(slots < len(design.columns) - 1, axis=1)
    order = np.argsort(sizes, kind="stable")

    def chunk(first: int) -> Worth:
        at = order[first : first + together]
        own = int(sizes[at].max(initial=0))
        with np.errstate(all="ignore"):
            found = _side_by_side(design, slots[at, :own], effects[at, :own], begin)
        return _widened(found, m - own)

    with ThreadPoolExecutor(cores()) as pool:
        chunks = list(pool.map(chunk, range(0, supports, together)))
    back = np.argsort(order)
    return Worth(*(np.concatenate(leaves)[back] for leaves in zip(*chunks, strict=True)))


def _widened(found: Worth, more: int) -> Worth:
    """The evidence and moments with some empty slots appended, as zeros."""
    return found._replace(
        mean=np.pad(found.mean, ((0, 0), (0, more))),
        covariance=np.pad(found.covariance, ((0, 0), (0, more), (0, more))),
        mode=np.pad(found.mode, ((0, 0), (0, more))),
    )


def modes(
    design: Design, slots: Int[np.ndarray, "t m"], effects: Float[np.ndarray, "t m"], begin: Point
) -> Float[np.ndarray, "t q"]:
    """The modes of log scale and effects in units of the scale, given g.

    Args:
        design: The dataset.
        slots: As in `worths`.
        effects: As in `worths`.
        begin: The starting point of the other parameters, and g.
    """
    with np.errstate(all="ignore"):
        predictors, own, theta = _begun(design, slots, effects, begin)
        here = _of_width(design, predictors, own, np.full(len(slots), begin.log_width))
        return climbed(here, theta)[0]


def _begun(
    design: Design, slots: np.ndarray, effects: np.ndarray, begin: Point
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictors, prior inverse covariances of the effects at g = 1, and the starting points."""
    supports, m = slots.shape
    own = design.metric[slots]
    own = own @ own.transpose(0, 2, 1)
    place = np.arange(m)
    # So the matrix has a Cholesky factor even if columns are nearly combinations of others.
    own[:, place, place] = own[:, place, place] * (1 + _RIDGE) + (slots == len(design.columns) - 1)
    always = np.broadcast_to(design.nuisance, (supports, *design.nuisance.shape))
    predictors = np.concatenate([always, design.columns[slots]], axis=1)
    lead = np.concatenate([[begin.log_scale], begin.nuisance])
    theta = np.concatenate([np.broadcast_to(lead, (supports, len(lead))), effects], axis=1)
    return predictors, own, theta


def _of_width(
    design: Design, predictors: np.ndarray, own: np.ndarray, log_width: np.ndarray
) -> SupportPosterior:
    """The posterior of each support for its own g."""
    lead, inner = 1 + len(design.nuisance), own / np.exp(log_width)[:, None, None]
    return SupportPosterior(design, predictors, np.pad(inner, ((0, 0), (lead, 0), (lead, 0))))


def _side_by_side(design: Design, slots: np.ndarray, effects: np.ndarray, begin: Point) -> Worth:
    predictors, own, theta = _begun(design, slots, effects, begin)
    width = np.full(len(slots), begin.log_width)
    found = _expanded(_of_width(design, predictors, own, width), own, theta, width)
    # An expansion at one g overrates values of g far from it, so it is repeated at the g that it
    # gives itself, which is much smaller if many features share the variance explained.
    for _ in range(_ANCHORS):
        far = np.flatnonzero(np.abs(found.log_width - width) > _NEAR)
        if not len(far):
            break
        width[far] = found.log_width[far]
        here = _of_width(design, predictors[far], own[far], width[far])
        anew = _expanded(here, own[far], found.mode[far], width[far])
        for whole, part in zip(found, anew, strict=True):
            whole[far] = part
    sizes = np.sum(slots < len(design.columns) - 1, axis=1)
    return found._replace(log=found.log + design.evidence.log_size[sizes])


def _expanded(
    here: SupportPosterior, own: np.ndarray, theta: np.ndarray, log_width: np.ndarray
) -> Worth:
    """The evidence and moments of supports by expansions around their modes, each for its own g."""
    theta, value = climbed(here, theta)
    bend = curvature(here, theta)
    shift = here.shift(theta, np.linalg.inv(bend))
    found = _summed(here.design, theta, bend, own, np.exp(log_width), shift)
    return found._replace(log=found.log + value)


def _summed(
    design: Design,
    theta: np.ndarray,
    bend: np.ndarray,
    own: np.ndarray,
    g: np.ndarray,
    shift: np.ndarray,
) -> Worth:
    """The log evidence relative to the mode, and the moments, with g summed out.

    Args:
        design: The dataset.
        theta: (t, q) the modes for one g: log scale, effects always in, effects of features.
        bend: (t, q, q) the curvatures at the modes.
        own: (t, m, m) the prior inverse covariances of the features' effects at g = 1.
        g: (t,) the g of each mode.
        shift: (t, q) the means minus the modes.
    """
    lead = theta.shape[1] - own.shape[1]
    effects = theta[:, lead:]
    # The other parameters are integrated out; then the curvature is made diagonal.
    ahead, cross = bend[:, :lead, :lead], bend[:, :lead, lead:]
    reach = np.linalg.solve(ahead, cross)
    back = np.linalg.inv(np.linalg.cholesky(own)).transpose(0, 2, 1)
    inner = bend[:, lead:, lead:] - own / g[:, None, None] - cross.transpose(0, 2, 1) @ reach
    sharp, turn = np.linalg.eigh(back.transpose(0, 2, 1) @ inner @ back)
    back = back @ turn  # from u to effects; back'own back is one
    here = np.einsum("tji,tjk,tk->ti", back, own, effects)
    over = _over_width(design.evidence, np.maximum(sharp, 0), here, g)
    moved = np.einsum("tij,tj->ti", back, over.mean) - effects
    inner = back @ over.covariance @ back.transpose(0, 2, 1)
    edge = -reach @ inner
    corner = np.linalg.inv(ahead) - edge @ reach.transpose(0, 2, 1)
    _, log_det = np.linalg.slogdet(ahead)
    means = theta + shift
    means += np.concatenate([-np.einsum("tij,tj->ti", reach, moved), moved], axis=1)
    mean, covariance, noise = _in_units(
        means, np.block([[corner, edge], [edge.transpose(0, 2, 1), inner]]), design.free_scale
    )
    return Worth(over.log - 0.5 * log_det, mean, covariance, noise, theta, over.log_width)


class _OverWidth(NamedTuple):
    """Log evidence, moments of u and mean of log g, from normal integrals summed over g."""

    log: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    log_width: np.ndarray


def _over_width(
    evidence: Evidence, sharp: np.ndarray, here: np.ndarray, g: np.ndarray
) -> _OverWidth:
    """The integrals over u, whose prior is normal with variance g, summed over the grid of g.

    Args:
        evidence: Grid and prior of g.
        sharp: (t, m) curvature of the log likelihood in each u.
        here: (t, m) the mode for one g.
        g: (t,) the g of each mode.
    """
    widths = np.asarray(evidence.width)[:, None]
    sharp, here = sharp[:, None, :], here[:, None, :]
    slope = (sharp + 1 / g[:, None, None]) * here
    variance = 1 / (sharp + 1 / widths)
    mean = slope * variance
    log = 0.5 * np.sum(slope * (mean - here) - np.log1p(widths * sharp), axis=2)
    log = log + evidence.log_width
    top = log.max(axis=1, keepdims=True)
    share = np.exp(log - top)
    total = share.sum(axis=1, keepdims=True)
    share /= total
    average = np.einsum("tg,tgi->ti", share, mean)
    away = mean - average[:, None, :]
    covariance = np.einsum("tg,tgi,tgj->tij", share, away, away)
    place = np.arange(covariance.shape[1])
    covariance[:, place, place] += np.einsum("tg,tgi->ti", share, variance)
    return _OverWidth(
        (top + np.log(total))[:, 0], average, covariance, share @ np.log(widths[:, 0])
    )


def _in_units(
    mean: np.ndarray, covariance: np.ndarray, free_scale: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Moments of effects in units of y, and the mean squared scale, to second order.

    Args:
        mean: (t, q) means of log scale and effects in units of the scale.
        covariance: (t, q, q) covariances of the same.
        free_scale: Whether the scale is uncertain.
    """
    scale, effects, own = np.exp(mean[:, 0]), mean[:, 1:], covariance[:, 1:, 1:]
    noise, centers = scale**2, effects
    if free_scale:
        variance, with_scale = covariance[:, 0, 0], covariance[:, 0, 1:]
        noise = noise * np.exp(2 * variance)
        centers = effects * (1 + 0.5 * variance[:, None]) + with_scale
        mixed = effects[:, :, None] * with_scale[:, None, :]
        square = effects[:, :, None] * effects[:, None, :]
        own = own + mixed + mixed.transpose(0, 2, 1) + variance[:, None, None] * square
    return scale[:, None] * centers, scale[:, None, None] ** 2 * own, noise
