"""What a support is worth where y is not Gaussian: Laplace's approximation of its evidence.

    y ~ p(y | (level + X_S b_S) / s),   b_S | s, g ~ N(0, g s2 / v (X_S'X_S)^-1),

as in `prior`, columns less the level and the features that are always in, with v the information of
a sample where nothing is explained: p (1 - p) at the share p of ones for a logistic y, (d + 1) /
(d + 3) for Student's t. With effects in units of the scale, b / s, the prior does not hold s, so
one expansion of the log likelihood around one point serves every g: with X_S'X_S v = L L', u = L'b
and the likelihood's curvature in u diagonal, the evidence is a product of normal integrals.

On the host, many supports side by side: there is little to compute for each, and so nothing to
compile.

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
_ANCHORS, _NEAR = 4, 0.5  # times that g is chosen anew, and a difference of log g that is none
_NUMBERS = 2**20  # in an array of supports side by side, so that it stays in the cache


class Point(NamedTuple):
    """Where the climb to the mode of a support begins.

    Attributes:
        log_scale: Logarithm of the scale of the noise.
        nuisance: Effects of what is always in, in units of the scale.
        log_width: Logarithm of the g that it is made for.
    """

    log_scale: float
    nuisance: Float[np.ndarray, " r"]
    log_width: float


class Worth(NamedTuple):
    """Supports judged by their likelihood, g summed out; effects in units of y.

    Attributes:
        log: Logarithm of evidence times prior, up to a constant of the dataset.
        mean: Of the effects of what is always in, then of the features in the slots.
        covariance: Of the same.
        noise: Mean of the square of the scale.
        mode: Log scale and effects in units of it where the posterior is highest.
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
    """Supports judged.

    Args:
        design: The dataset.
        slots: The features of each support, the last row of `columns` in empty slots.
        effects: Where to begin, in units of the scale, zero in empty slots.
        begin: Where to begin otherwise.
    """
    supports, m = slots.shape
    together = int(np.clip(_NUMBERS // (max(m, 1) * len(design.y)), 1, 256))
    # Those of one size together, so that few slots are empty.
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
    """With some empty slots behind, of which nothing is known."""
    return found._replace(
        mean=np.pad(found.mean, ((0, 0), (0, more))),
        covariance=np.pad(found.covariance, ((0, 0), (0, more), (0, more))),
        mode=np.pad(found.mode, ((0, 0), (0, more))),
    )


def modes(
    design: Design, slots: Int[np.ndarray, "t m"], effects: Float[np.ndarray, "t m"], begin: Point
) -> Float[np.ndarray, "t q"]:
    """Log scale and effects in units of it where the posterior given a g is highest.

    Args:
        design: The dataset.
        slots: As in `worths`.
        effects: As in `worths`.
        begin: Where to begin otherwise, and the g.
    """
    with np.errstate(all="ignore"):
        predictors, own, theta = _begun(design, slots, effects, begin)
        here = _of_width(design, predictors, own, np.full(len(slots), begin.log_width))
        return climbed(here, theta)[0]


def _begun(
    design: Design, slots: np.ndarray, effects: np.ndarray, begin: Point
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictors, inverse prior covariances of the effects where g is one, and where to begin."""
    supports, m = slots.shape
    own = design.metric[slots]
    own = own @ own.transpose(0, 2, 1)
    place = np.arange(m)
    # Columns that are all but a combination of others leave a factor regular.
    own[:, place, place] = own[:, place, place] * (1 + _RIDGE) + (slots == len(design.columns) - 1)
    always = np.broadcast_to(design.nuisance, (supports, *design.nuisance.shape))
    predictors = np.concatenate([always, design.columns[slots]], axis=1)
    lead = np.concatenate([[begin.log_scale], begin.nuisance])
    theta = np.concatenate([np.broadcast_to(lead, (supports, len(lead))), effects], axis=1)
    return predictors, own, theta


def _of_width(
    design: Design, predictors: np.ndarray, own: np.ndarray, log_width: np.ndarray
) -> SupportPosterior:
    """The posterior of each support for one g each."""
    lead, inner = 1 + len(design.nuisance), own / np.exp(log_width)[:, None, None]
    return SupportPosterior(design, predictors, np.pad(inner, ((0, 0), (lead, 0), (lead, 0))))


def _side_by_side(design: Design, slots: np.ndarray, effects: np.ndarray, begin: Point) -> Worth:
    predictors, own, theta = _begun(design, slots, effects, begin)
    width = np.full(len(slots), begin.log_width)
    found = _expanded(_of_width(design, predictors, own, width), own, theta, width)
    # An expansion made for one g overrates others that are far from it, so it is made for the g
    # that it says itself: much smaller a one where many features share what there is to explain.
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
    """Supports judged by an expansion around their modes for one g each."""
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
    """The evidence, over that of the mode, and the moments, g summed out.

    Args:
        design: The dataset.
        theta: (t, q) the modes for one g: log scale, what is always in, and the features.
        bend: (t, q, q) the curvatures there.
        own: (t, m, m) the inverse prior covariances of the features' effects where g is one.
        g: (t,) these g.
        shift: (t, q) the means less the modes.
    """
    lead = theta.shape[1] - own.shape[1]
    effects = theta[:, lead:]
    # What moves with the effects is integrated out; then the curvature is made diagonal.
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
    """Diagonal normal integrals summed over g: log evidence, moments of u, mean of log g."""

    log: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    log_width: np.ndarray


def _over_width(
    evidence: Evidence, sharp: np.ndarray, here: np.ndarray, g: np.ndarray
) -> _OverWidth:
    """The integrals over u, a priori normal of variance g, for every g.

    Args:
        evidence: Grid and prior of g.
        sharp: (t, m) curvature of the log likelihood in each u.
        here: (t, m) the mode for one g.
        g: (t,) that g.
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
    """Moments of effects in units of y, and the mean square of the scale, to second order.

    Args:
        mean: (t, q) of log scale and effects in units of the scale.
        covariance: (t, q, q) of the same.
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
