"""Distributions of y other than the Gaussian, with the parabolas by which `family` fits them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from jax.typing import ArrayLike

from bmjax._model.family import Parabola
from bmjax._model.problem import Problem
from bmjax._runtime.backend import log_gamma, log_sigmoid, map_rows, namespace, sigmoid

# Lower limit of p (1 - p): a sample that is misclassified with certainty would otherwise outweigh
# all others in the search.
_LEAST_CURVATURE = 1e-3
# Degrees of freedom to choose from if they are learned: from Cauchy to nearly Gaussian.
_DEGREES = tuple(float(d) for d in np.geomspace(1, 100, 33))
_LOG_TWO, _LOG_ROOT_TAU = math.log(2), 0.5 * math.log(2 * math.pi)


class Logistic(NamedTuple):
    """Two outcomes, 0 and 1: P(y = 1) = 1 / (1 + exp(-eta)).

    Reference:
        Jaakkola and Jordan, "Bayesian Parameter Estimation via Variational Methods", Statistics
        and Computing 2000; the weight is the mean of the Polya-Gamma variable of Polson, Scott and
        Windle, JASA 2013.

    Example:
        >>> import bmjax
        >>> bmjax.Logistic().name
        'logistic'
    """

    name = "logistic"
    has_units = False

    def touching(self, problem: Problem, mean: Any, variance: Any, noise: Any) -> Parabola:
        """Parabolas at xi^2 = E[eta^2]: weight tanh(xi / 2) / (2 xi), target (y - 1/2) / weight."""
        del noise
        xp = namespace(mean)
        square = mean**2 + variance
        near = square < 1e-4  # where the weight's series is exact, and a root has no slope
        xi = xp.sqrt(xp.where(near, 1, square))
        weight = xp.where(near, 0.25 - square / 48 + square**2 / 480, 0.5 * xp.tanh(0.5 * xi) / xi)
        target = (problem.y - 0.5) / weight
        xi = xp.where(near, 0, xi)
        # log sigmoid(xi) - xi / 2 is -log(2 cosh(xi / 2)), even in xi: near zero by its series.
        even = xp.where(near, -_LOG_TWO - square / 8 + square**2 / 192, log_sigmoid(xi) - 0.5 * xi)
        base = even + 0.5 * weight * (square + target**2) + _LOG_ROOT_TAU
        return Parabola(weight, target, problem.total(base))

    def local(self, problem: Problem, mean: Any, variance: Any, noise: Any) -> Parabola:
        """The parabolas of Newton's method, of weight p (1 - p)."""
        del variance, noise
        p = sigmoid(mean)
        weight = namespace(p).maximum(p * sigmoid(-mean), _LEAST_CURVATURE)
        return Parabola(weight, mean + (problem.y - p) / weight, None)

    def log_likelihood(self, problem: Problem, mean: Any, noise: Any) -> Any:
        """The log likelihood, the sum of log P(y)."""
        return problem.total(self.log_density(problem.y, mean, noise))

    def log_density(self, y: Any, mean: Any, noise: Any) -> Any:
        """The log of P(y) for each sample."""
        del noise
        return log_sigmoid((2 * y - 1) * mean)

    def derivatives(self, y: Any, mean: Any) -> tuple[Any, Any, Any]:
        """The derivatives y - p, -p (1 - p), and -p (1 - p) (1 - 2 p)."""
        p = sigmoid(mean)
        bend = -p * sigmoid(-mean)
        return y - p, bend, bend * (1 - 2 * p)

    def separated(self, problem: Problem, mean: Any) -> Any:
        """Whether every sample is classified correctly; then larger weights always fit better."""
        xp = namespace(mean)
        right = (2 * problem.y - 1) * mean > 0
        if problem.sample_weights is not None:
            right |= problem.sample_weights <= 0
        return xp.all(right)

    def fits(self, problem: Problem) -> Any:
        """Whether every outcome is 0 or 1."""
        return namespace(problem.y).all((problem.y == 0) | (problem.y == 1))

    def settled_at(self, problem: Problem, mean: Any, variance: Any, noise: Any) -> Logistic:
        """The family unchanged, since it has no parameters to learn."""
        del problem, mean, variance, noise
        return self

    def unit_strength(self, target_square: Any) -> Any:
        """4 p (1 - p), p the share of ones: a sample's information relative to equal shares."""
        return 4 * target_square * (1 - target_square)

    @property
    def information(self) -> float:
        """The factor 1, since the curvature is the information."""
        return 1.0

    def mean(self, predictor: Any, variance: Any) -> Any:
        """P(y = 1) for a predictor with some variance, by MacKay's approximation (1992)."""
        xp = namespace(predictor)
        return sigmoid(predictor / xp.sqrt(1 + xp.pi * variance / 8))

    def explained(self, log_likelihood: Any, mean: Any, samples: Any) -> Any:
        """One minus the ratio of log likelihoods to that of a constant probability (McFadden)."""
        xp = namespace(mean)
        mixed = (mean > 0) & (mean < 1)
        p = xp.where(mixed, mean, 0.5)
        alone = samples * (p * xp.log(p) + (1 - p) * xp.log1p(-p))
        return xp.where(mixed, 1 - log_likelihood / alone, 0)


class Student(NamedTuple):
    """Noise with heavy tails: (y - eta) sqrt(noise precision) has Student's t distribution.

    A sample counts by (d + 1) / (d + noise precision (y - eta)^2), so that outliers count little in
    the selection of features.

    Attributes:
        degrees: Degrees of freedom d, above 0; None to learn them, among 33 values between 1 and
            100.

    Reference:
        Lange, Little and Taylor, "Robust Statistical Modeling Using the t Distribution", JASA
        1989.

    Example:
        >>> import bmjax
        >>> bmjax.Student().degrees, bmjax.Student(degrees=None).name
        (4.0, 'student')
    """

    degrees: ArrayLike | None = 4.0

    name = "student"
    has_units = True

    def touching(self, problem: Problem, mean: Any, variance: Any, noise: Any) -> Parabola:
        """Parabolas at E[(y - eta)^2], the scale mixture's expectation; the target is y itself."""
        square = noise * ((problem.y - mean) ** 2 + variance)
        degrees = self._degrees(problem, square)
        weight = (degrees + 1) / (degrees + square)
        base = _log_student(degrees, square) + 0.5 * weight * square + _LOG_ROOT_TAU
        return Parabola(weight, problem.y, problem.total(base))

    def local(self, problem: Problem, mean: Any, variance: Any, noise: Any) -> Parabola:
        """The parabolas of `touching`, since the likelihood is not concave at an outlier."""
        return self.touching(problem, mean, variance, noise)

    def log_likelihood(self, problem: Problem, mean: Any, noise: Any) -> Any:
        """The log likelihood, the sum of the log densities of y."""
        degrees = self._degrees(problem, noise * (problem.y - mean) ** 2)
        return problem.total(Student(degrees).log_density(problem.y, mean, noise))

    def log_density(self, y: Any, mean: Any, noise: Any) -> Any:
        """The log density of each y; the degrees of freedom must be given or already learned."""
        density = _log_student(self.degrees, noise * (y - mean) ** 2)
        return density + 0.5 * namespace(density).log(noise)

    def derivatives(self, y: Any, mean: Any) -> tuple[Any, Any, Any]:
        """The derivatives of -(d + 1) / 2 log(1 + r^2 / d), with r = y - mean."""
        degrees: Any = self.degrees
        left = y - mean
        square, below = left**2, degrees + left**2
        many = degrees + 1
        return (
            many * left / below,
            many * (square - degrees) / below**2,
            many * 2 * left * (square - 3 * degrees) / below**3,
        )

    def separated(self, problem: Problem, mean: Any) -> Any:
        """False, since only two outcomes can be separated."""
        del problem
        return namespace(mean).asarray(False)

    def fits(self, problem: Problem) -> Any:
        """True, since any y is possible."""
        return namespace(problem.y).asarray(True)

    def settled_at(self, problem: Problem, mean: Any, variance: Any, noise: Any) -> Student:
        """The family with the degrees of freedom of the highest bound, if they are learned."""
        square = noise * ((problem.y - mean) ** 2 + variance)
        return Student(self._degrees(problem, square))

    def unit_strength(self, target_square: Any) -> float:
        """One, as for a Gaussian y."""
        del target_square
        return 1.0

    @property
    def information(self) -> Any:
        """(d + 1) / (d + 3), the Fisher information of the location of a t distribution."""
        assert self.degrees is not None  # they have been learned by then
        return (self.degrees + 1) / (self.degrees + 3)

    @property
    def spread(self) -> Any:
        """The variance d / (d - 2) of y at noise precision 1; infinite up to d = 2."""
        degrees: Any = self.degrees
        xp = namespace(degrees)
        finite = degrees > 2
        return xp.where(finite, degrees / xp.where(finite, degrees - 2, 1), xp.inf)

    def explained(self, log_likelihood: Any, mean: Any, samples: Any) -> None:
        """None, since the share of the variance, with weighted rows, is used instead."""
        del log_likelihood, mean, samples

    def _degrees(self, problem: Problem, square: Any) -> Any:
        """The degrees of freedom: given, or the best choice at squared errors over the noise."""
        if self.degrees is not None:
            return self.degrees
        xp = namespace(square)
        choices = xp.asarray(_DEGREES, square.dtype)
        values = map_rows(lambda d: problem.total(_log_student(d, square)), choices)
        return choices[xp.argmax(values)]


FAMILIES: dict[str, Any] = {"logistic": Logistic(), "student": Student()}


def _log_student(degrees: Any, square: Any) -> Any:
    """The log density of Student's t at t^2 = square, with noise precision 1."""
    xp = namespace(square)
    level = log_gamma(0.5 * (degrees + 1)) - log_gamma(0.5 * degrees)
    level = level - 0.5 * xp.log(degrees * xp.pi)
    return level - 0.5 * (degrees + 1) * xp.log1p(square / degrees)
