"""The mode and curvature of the posterior of a support's effects, given g.

It works on many supports side by side, in NumPy, with effects in units of the noise scale, as in
`laplace`.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bmjax._posterior.prior import Evidence

_STEPS, _SETTLED = 60, 1e-7  # largest number of steps, and a rise in nats that counts as none
_LENGTHS = (1.0, 0.5, 0.25, 0.0625)  # lengths of a step, tried in turn


class Design(NamedTuple):
    """The data of a likelihood and of the prior of its effects.

    Attributes:
        family: The distribution of y, with its parameters fixed.
        y: The target.
        counts: How often each row counts.
        nuisance: The level and a basis of the features always in.
        columns: The features that may be in or out, and a last row of zeros for empty slots.
        metric: The columns projected off those always in, scaled so that their products are the
            prior inverse covariance of the effects of a support at g = 1.
        evidence: The grid and prior of g, and the prior of sizes.
        free_scale: Whether the scale of the noise is unknown.
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
    """The posteriors of t supports, each for one g, in log scale and all effects (theta).

    Attributes:
        design: The dataset.
        predictors: (t, q - 1, n) the rows of `nuisance` and the features of each support.
        prior: (t, q, q) the inverse prior covariance.
    """

    design: Design
    predictors: np.ndarray
    prior: np.ndarray

    def of(self, some: np.ndarray) -> "SupportPosterior":
        """The posteriors of some of the supports."""
        return self._replace(predictors=self.predictors[some], prior=self.prior[some])

    def value(self, theta: np.ndarray) -> np.ndarray:
        """The log posterior at theta (t, q), up to a constant; NaN where it is out of range."""
        design, eta = self.design, self._predicted(theta)
        values = design.family.log_density(self._scaled(theta), eta, np.ones(()))
        # The level, held in scale units, has a flat prior in units of y, as has the log scale.
        flat = (len(design.nuisance) - design.counts.sum()) * theta[:, 0] * design.free_scale
        square = np.einsum("ti,tij,tj->t", theta, self.prior, theta)
        return values @ design.counts + flat - 0.5 * square

    def slopes(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The gradient (t, q), and minus the Hessian (t, q, q), of the log posterior."""
        design = self.design
        z, once, twice = self._derivatives(theta)
        gradient = np.concatenate([np.zeros((len(theta), 1)), self._by_effect(once)], axis=1)
        bend = self._whole(-twice)
        if design.free_scale:
            # log p(y / s | eta) - log s, where a step of y equals an opposite one of eta.
            gradient[:, 0] = np.sum(once * z, axis=1) - design.counts.sum() + len(design.nuisance)
            bend[:, 0, 1:] = bend[:, 1:, 0] = -self._by_effect(twice * z)
            bend[:, 0, 0] = np.sum(once * z - twice * z**2, axis=1)
        return gradient - np.einsum("tij,tj->ti", self.prior, theta), bend + self.prior

    def rounded(self, theta: np.ndarray) -> np.ndarray:
        """A positive definite curvature, for use where that of the likelihood is not."""
        z, once, twice = self._derivatives(theta)
        bend = self._whole(np.abs(twice))
        if self.design.free_scale:
            bend[:, 0, 0] = np.abs(np.sum(once * z - twice * z**2, axis=1))
        return bend + self.prior

    def shift(self, theta: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """The mean minus the mode, from the third derivatives at the mode."""
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
        """Scaled y, and first and second derivatives in the predictor times the row counts."""
        z, counts = self._scaled(theta), self.design.counts
        once, twice, _ = self.design.family.derivatives(z, self._predicted(theta))
        return z, counts * once, counts * twice

    def _scaled(self, theta: np.ndarray) -> np.ndarray:
        """The target y in units of the scale."""
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
        """(t, q, q) weighted sums of products of predictors, with 1 in the entry of the scale."""
        inner = (self.predictors * bend[:, None, :]) @ self.predictors.transpose(0, 2, 1)
        whole = np.pad(inner, ((0, 0), (1, 0), (1, 0)))
        whole[:, 0, 0] = 1
        return whole


def climbed(here: SupportPosterior, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Climb to the modes; return them and the log posterior there."""
    theta = np.array(theta)
    value = here.value(theta)
    left, at = np.arange(len(theta)), here
    for _ in range(_STEPS):
        gradient, bend = at.slopes(theta[left])
        step = _solved(bend, gradient)
        # At an outlier Student's log likelihood is convex, and there may be no maximum.
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
    """Solutions of several systems, which may be singular: certain outcomes have no curvature."""
    try:
        return np.linalg.solve(matrix, vector[:, :, None])[:, :, 0]
    except np.linalg.LinAlgError:
        return np.einsum("tij,tj->ti", np.linalg.pinv(matrix, hermitian=True), vector)


def curvature(here: SupportPosterior, theta: np.ndarray) -> np.ndarray:
    """The curvature at modes, or `rounded` where it is not positive definite, as at a ridge."""
    _, bend = here.slopes(theta)
    try:
        np.linalg.cholesky(bend)
    except np.linalg.LinAlgError:
        bad = np.linalg.eigvalsh(bend)[:, 0] <= 0
        bend[bad] = here.of(bad).rounded(theta[bad])
    return bend
