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
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bmjax._posterior.prior import Evidence
from bmjax._runtime.threads import cores

_STEPS, _SETTLED = 60, 1e-7  # of the climb: most steps, and a rise in nats that is none
_LENGTHS = (1.0, 0.5, 0.25, 0.0625)  # of a step, tried in turn
_ANCHORS, _NEAR = 4, 0.5  # times that g is chosen anew, and a difference of log g that is none
_NUMBERS = 2**20  # in an array of supports side by side, so that it stays in the cache


class Design(NamedTuple):
    """A dataset as its likelihood sees it.

    Attributes:
        family: The distribution of y, all that it learns settled.
        y: The target.
        counts: How often each row counts.
        nuisance: The level and what else is always in, a row each.
        columns: The features that may be in or not, and a row of zeros for empty slots.
        metric: The same less what is always in, so that their products are the inverse covariance
            of the effects of a support where g is one.
        evidence: Grid and prior of g, and the prior of sizes.
        free_scale: Whether the scale of the noise is to be found.
    """

    family: Any
    y: Float[np.ndarray, " n"]
    counts: Float[np.ndarray, " n"]
    nuisance: Float[np.ndarray, "r n"]
    columns: Float[np.ndarray, "u1 n"]
    metric: Float[np.ndarray, "u1 n"]
    evidence: Evidence
    free_scale: bool


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
        return _climbed(here, theta)[0]


def _begun(
    design: Design, slots: np.ndarray, effects: np.ndarray, begin: Point
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictors, inverse prior covariances of the effects where g is one, and where to begin."""
    supports, m = slots.shape
    own = design.metric[slots]
    own = own @ own.transpose(0, 2, 1)
    own[:, np.arange(m), np.arange(m)] += slots == len(design.columns) - 1
    always = np.broadcast_to(design.nuisance, (supports, *design.nuisance.shape))
    predictors = np.concatenate([always, design.columns[slots]], axis=1)
    lead = np.concatenate([[begin.log_scale], begin.nuisance])
    theta = np.concatenate([np.broadcast_to(lead, (supports, len(lead))), effects], axis=1)
    return predictors, own, theta


def _of_width(
    design: Design, predictors: np.ndarray, own: np.ndarray, log_width: np.ndarray
) -> "_Posterior":
    """The posterior of each support for one g each."""
    lead, inner = 1 + len(design.nuisance), own / np.exp(log_width)[:, None, None]
    return _Posterior(design, predictors, np.pad(inner, ((0, 0), (lead, 0), (lead, 0))))


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
    here: "_Posterior", own: np.ndarray, theta: np.ndarray, log_width: np.ndarray
) -> Worth:
    """Supports judged by an expansion around their modes for one g each."""
    theta, value = _climbed(here, theta)
    bend = _curvature(here, theta)
    shift = here.shift(theta, np.linalg.inv(bend))
    found = _summed(here.design, theta, bend, own, np.exp(log_width), shift)
    return found._replace(log=found.log + value)


class _Posterior(NamedTuple):
    """The posterior of supports for one g: of log scale, what is always in, and the features.

    Attributes:
        design: The dataset.
        predictors: (t, q - 1, n) all that has an effect, a row each.
        prior: (t, q, q) the inverse prior covariance.
    """

    design: Design
    predictors: np.ndarray
    prior: np.ndarray

    def of(self, some: np.ndarray) -> "_Posterior":
        """That of some of the supports."""
        return self._replace(predictors=self.predictors[some], prior=self.prior[some])

    def value(self, theta: np.ndarray) -> np.ndarray:
        """Its logarithm, up to a constant; not a number where it is out of range."""
        design, eta = self.design, self._predicted(theta)
        values = design.family.log_density(self._scaled(theta), eta, np.ones(()))
        # Level and scale are flat in units of y and in log scale; the level is counted in units of
        # the scale.
        flat = (len(design.nuisance) - design.counts.sum()) * theta[:, 0] * design.free_scale
        square = np.einsum("ti,tij,tj->t", theta, self.prior, theta)
        return values @ design.counts + flat - 0.5 * square

    def slopes(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The gradient, and the curvature."""
        design, z = self.design, self._scaled(theta)
        once, twice, _ = design.family.derivatives(z, self._predicted(theta))
        once, twice = design.counts * once, design.counts * twice
        gradient = np.concatenate([np.zeros((len(theta), 1)), self._by_effect(once)], axis=1)
        bend = self._whole(-twice)
        if design.free_scale:
            # log p(y / s | eta) - log s, where a step of y is one of eta the other way.
            gradient[:, 0] = np.sum(once * z, axis=1) - design.counts.sum() + len(design.nuisance)
            bend[:, 0, 1:] = bend[:, 1:, 0] = -self._by_effect(twice * z)
            bend[:, 0, 0] = np.sum(once * z - twice * z**2, axis=1)
        return gradient - np.einsum("tij,tj->ti", self.prior, theta), bend + self.prior

    def rounded(self, theta: np.ndarray) -> np.ndarray:
        """A curvature that is sure to be positive, for where the likelihood's own is not."""
        design, z = self.design, self._scaled(theta)
        once, twice, _ = design.family.derivatives(z, self._predicted(theta))
        once, twice = design.counts * once, design.counts * twice
        bend = self._whole(np.abs(twice))
        if design.free_scale:
            bend[:, 0, 0] = np.abs(np.sum(once * z - twice * z**2, axis=1))
        return bend + self.prior

    def shift(self, theta: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """The mean less the mode, from the third derivatives there."""
        design, z = self.design, self._scaled(theta)
        once, twice, thrice = design.family.derivatives(z, self._predicted(theta))
        spread = covariance[:, 1:, 1:] @ self.predictors
        variance = np.sum(self.predictors * spread, axis=1)
        by_eta, by_scale = thrice * variance, np.zeros(len(theta))
        if design.free_scale:
            cross = self._along(covariance[:, 0, 1:])
            own = covariance[:, 0, 0, None]
            bent = thrice * z**2 - twice * z
            by_eta = by_eta + 2 * thrice * z * cross + bent * own
            last = thrice * z**3 - 3 * twice * z**2 + once * z
            by_scale = (thrice * z * variance + 2 * bent * cross + last * own) @ design.counts
        slope = np.concatenate([by_scale[:, None], self._by_effect(design.counts * by_eta)], axis=1)
        return 0.5 * np.einsum("tij,tj->ti", covariance, slope)

    def _scaled(self, theta: np.ndarray) -> np.ndarray:
        """Y in units of the scale."""
        if not self.design.family.has_units:
            return self.design.y
        return self.design.y * np.exp(-theta[:, :1])

    def _predicted(self, theta: np.ndarray) -> np.ndarray:
        return self._along(theta[:, 1:])

    def _along(self, effects: np.ndarray) -> np.ndarray:
        return (effects[:, None, :] @ self.predictors)[:, 0]

    def _by_effect(self, values: np.ndarray) -> np.ndarray:
        return (self.predictors @ values[:, :, None])[:, :, 0]

    def _whole(self, bend: np.ndarray) -> np.ndarray:
        """(t, q, q) sums of products of predictors, one in the place of the scale."""
        inner = (self.predictors * bend[:, None, :]) @ self.predictors.transpose(0, 2, 1)
        whole = np.pad(inner, ((0, 0), (1, 0), (1, 0)))
        whole[:, 0, 0] = 1
        return whole


def _climbed(here: _Posterior, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The modes, and the values there."""
    theta = np.array(theta)
    value = here.value(theta)
    left, at = np.arange(len(theta)), here
    for _ in range(_STEPS):
        gradient, bend = at.slopes(theta[left])
        step = np.linalg.solve(bend, gradient[:, :, None])[:, :, 0]
        # At an outlier Student's log likelihood bends the other way, and there may be no maximum.
        up = np.sum(step * gradient, axis=1) > 0
        if not up.all():
            safe = at.of(~up).rounded(theta[left[~up]])
            step[~up] = np.linalg.solve(safe, gradient[~up, :, None])[:, :, 0]
        before = value[left].copy()
        short = np.arange(len(left))
        for length in _LENGTHS:
            tried = theta[left[short]] + length * step[short]
            those = at if len(short) == len(left) else at.of(short)
            reached = those.value(tried)
            rose = reached > before[short]
            theta[left[short[rose]]], value[left[short[rose]]] = tried[rose], reached[rose]
            short = short[~rose]
            if not len(short):
                break
        going = value[left] > before + _SETTLED
        if not going.any():
            break
        if not going.all():
            left, at = left[going], at.of(going)
    return theta, value


def _curvature(here: _Posterior, theta: np.ndarray) -> np.ndarray:
    """The curvature at modes; where it is not positive, as at a ridge, one that is."""
    _, bend = here.slopes(theta)
    try:
        np.linalg.cholesky(bend)
    except np.linalg.LinAlgError:
        bad = np.linalg.eigvalsh(bend)[:, 0] <= 0
        bend[bad] = here.of(bad).rounded(theta[bad])
    return bend


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
    here = np.einsum("tji,tjk,tk->ti", back, own, effects)[:, None, :]
    sharp = np.maximum(sharp, 0)[:, None, :]
    widths = np.asarray(design.evidence.width)[:, None]
    slope = (sharp + 1 / g[:, None, None]) * here
    variance = 1 / (sharp + 1 / widths)
    mean = slope * variance
    log = 0.5 * np.sum(slope * (mean - here) - np.log1p(widths * sharp), axis=2)
    log = log + design.evidence.log_width
    top = log.max(axis=1, keepdims=True)
    share = np.exp(log - top)
    total = share.sum(axis=1, keepdims=True)
    share /= total
    average = np.einsum("tg,tgi->ti", share, mean)
    away = mean - average[:, None, :]
    spread = np.einsum("tg,tgi,tgj->tij", share, away, away)
    place = np.arange(own.shape[1])
    spread[:, place, place] += np.einsum("tg,tgi->ti", share, variance)
    moved = np.einsum("tij,tj->ti", back, average)
    inner = back @ spread @ back.transpose(0, 2, 1)
    first = theta[:, :lead] - np.einsum("tij,tj->ti", reach, moved - effects) + shift[:, :lead]
    moved = moved + shift[:, lead:]
    edge = -reach @ inner
    corner = np.linalg.inv(ahead) - edge @ reach.transpose(0, 2, 1)
    joint = np.block([[corner, edge], [edge.transpose(0, 2, 1), inner]])
    _, log_det = np.linalg.slogdet(ahead)
    # From effects in units of the scale to those of y, to second order around the means.
    scale = np.exp(first[:, 0])
    means = np.concatenate([first[:, 1:], moved], axis=1)
    covariance, centers = joint[:, 1:, 1:], means
    if design.free_scale:
        with_scale = means[:, :, None] * joint[:, None, 0, 1:]
        centers = means * (1 + 0.5 * joint[:, :1, 0]) + joint[:, 0, 1:]
        covariance = covariance + with_scale + with_scale.transpose(0, 2, 1)
        square = means[:, :, None] * means[:, None, :]
        covariance += joint[:, 0, 0, None, None] * square
    return Worth(
        log=top[:, 0] + np.log(total[:, 0]) - 0.5 * log_det,
        mean=scale[:, None] * centers,
        covariance=scale[:, None, None] ** 2 * covariance,
        noise=scale**2 * np.exp(2 * joint[:, 0, 0] * design.free_scale),
        mode=theta,
        log_width=share @ np.log(widths[:, 0]),
    )
