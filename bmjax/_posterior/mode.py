"""Given g, where the posterior of the effects of a support is highest, and how it bends there.

Many supports side by side, in NumPy: effects in units of the scale of the noise, as in `laplace`.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bmjax._posterior.prior import Evidence

_STEPS, _SETTLED = 60, 1e-7  # of the climb: most steps, and a rise in nats that is none
_LENGTHS = (1.0, 0.5, 0.25, 0.0625)  # of a step, tried in turn


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


class SupportPosterior(NamedTuple):
    """The posterior of supports for one g: of log scale, what is always in, and the features.

    Attributes:
        design: The dataset.
        predictors: (t, q - 1, n) all that has an effect, a row each.
        prior: (t, q, q) the inverse prior covariance.
    """

    design: Design
    predictors: np.ndarray
    prior: np.ndarray

    def of(self, some: np.ndarray) -> "SupportPosterior":
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
        design = self.design
        z, once, twice = self._derivatives(theta)
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
        z, once, twice = self._derivatives(theta)
        bend = self._whole(np.abs(twice))
        if self.design.free_scale:
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

    def _derivatives(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Y in units of the scale, first and second derivatives in the predictor, rows counted."""
        z, counts = self._scaled(theta), self.design.counts
        once, twice, _ = self.design.family.derivatives(z, self._predicted(theta))
        return z, counts * once, counts * twice

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


def climbed(here: SupportPosterior, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The modes, and the values there."""
    theta = np.array(theta)
    value = here.value(theta)
    left, at = np.arange(len(theta)), here
    for _ in range(_STEPS):
        gradient, bend = at.slopes(theta[left])
        step = _solved(bend, gradient)
        # At an outlier Student's log likelihood bends the other way, and there may be no maximum.
        up = np.sum(step * gradient, axis=1) > 0
        if not up.all():
            safe = at.of(~up).rounded(theta[left[~up]])
            step[~up] = _solved(safe, gradient[~up])
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


def _solved(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Solutions of several systems; where outcomes are certain a level may have no curvature."""
    try:
        return np.linalg.solve(matrix, vector[:, :, None])[:, :, 0]
    except np.linalg.LinAlgError:
        return np.einsum("tij,tj->ti", np.linalg.pinv(matrix, hermitian=True), vector)


def curvature(here: SupportPosterior, theta: np.ndarray) -> np.ndarray:
    """The curvature at modes; where it is not positive, as at a ridge, one that is."""
    _, bend = here.slopes(theta)
    try:
        np.linalg.cholesky(bend)
    except np.linalg.LinAlgError:
        bad = np.linalg.eigvalsh(bend)[:, 0] <= 0
        bend[bad] = here.of(bad).rounded(theta[bad])
    return bend
