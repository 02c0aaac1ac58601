"""The squared errors that find supports for a y that is not Gaussian.

The likelihood is replaced by squared errors with its slope and curvature at one point, the
posterior's mode of a good support. The posterior of these is found first, since every flip of a
support has a closed form then. `laplace` then computes the evidence of each by the likelihood
itself.
"""

from typing import NamedTuple

import numpy as np

from bmjax._model.family import Family, Parabola
from bmjax._model.problem import Problem
from bmjax._posterior.given import Given, Squared, judged_by
from bmjax._posterior.laplace import Point, modes, worths
from bmjax._posterior.mode import Design
from bmjax._posterior.start import starting_support
from bmjax._posterior.sums import Sums, basis_of, centred_columns, sums_of

_ROUNDS = 8
_SHORT = 1e-2  # distance of predictors over which the curvature hardly changes
_LEAST_SHARE = 1e-3  # of ones, if all outcomes are the same


class Reference(NamedTuple):
    """The squared errors of a likelihood near one point.

    Attributes:
        squared: The squared errors.
        family: The distribution of y, with its parameters fixed.
        y: The target minus `level`.
        level: The mean subtracted from y.
        counts: How often each row counts.
        nuisance: (r, n) the level and a basis of the features always in.
        columns: (f, n) the features that may be in or out.
        metric: (f, n) columns whose products are the prior's inverse covariance, see `Design`.
        to_always: The matrix from the effects of the basis to those of the features always in.
        point: The mode of the best support, without the effects of its features.
        separated: Whether the predictor of the best support classifies every outcome correctly.
    """

    squared: Squared
    family: Family
    y: np.ndarray
    level: float
    counts: np.ndarray
    nuisance: np.ndarray
    columns: np.ndarray
    metric: np.ndarray
    to_always: np.ndarray
    point: Point
    separated: bool

    def design(self, features: np.ndarray) -> Design:
        """The likelihood with some features, as a `Design`."""
        empty = np.zeros((1, len(self.y)))
        return Design(
            family=self.family,
            y=self.y,
            counts=self.counts,
            nuisance=self.nuisance,
            columns=np.concatenate([self.columns[features], empty]),
            metric=np.concatenate([self.metric[features], empty]),
            evidence=self.squared.evidence,
            free_scale=self.family.has_units and self.squared.evidence.precision is None,
        )


def reference(family: Family, given: Given) -> Reference:
    """The squared errors at the best support that rounds of search and maximisation find.

    Args:
        family: The distribution of y.
        given: The dataset.
    """
    columns, center = centred_columns(given.X, given.counts, intercept=given.intercept)
    level = float(given.counts @ given.y / given.counts.sum())
    level = level if family.has_units and given.intercept else 0.0
    given = given._replace(X=columns, y=np.asarray(given.y, float) - level)
    plain = sums_of(columns, given.y, given.counts, intercept=given.intercept, always=given.always)
    near = _near(family, given, plain, _nowhere(family, given))
    support, _ = starting_support(*near.squared)
    point, at = _climbed(near, support, near.point)
    for _ in range(_ROUNDS):
        near = _near(family, given, plain, at)
        found, _ = starting_support(*near.squared)
        settled = bool((found == support).all())
        support = found
        point, at = _climbed(near, support, point)
        if settled:
            break
    sums = near.squared.sums
    sums = sums._replace(center=center + sums.center)
    return near._replace(
        squared=near.squared._replace(sums=sums),
        level=level,
        point=point,
        separated=_separated(near, given, support, point),
    )


class _Place(NamedTuple):
    """A predictor of each sample, and the logarithm of the scale of the noise."""

    predictor: np.ndarray
    log_scale: float


def _nowhere(family: Family, given: Given) -> _Place:
    """The predictor and scale of the model without features."""
    n, share = len(given.y), float(given.counts @ given.y**2 / given.counts.sum())
    if family.has_units:
        square = 1 / given.precision if given.precision else max(share, 1e-300)
        return _Place(np.zeros(n), 0.5 * float(np.log(square)))
    share = _inside(share)
    return _Place(np.full(n, given.intercept * float(np.log(share / (1 - share)))), 0.0)


def _inside(share: float) -> float:
    """A share of ones kept away from zero and one."""
    return float(np.clip(share, _LEAST_SHARE, 1 - _LEAST_SHARE))


def _near(family: Family, given: Given, plain: Sums, at: _Place) -> Reference:
    """The squared errors with the slope and curvature of the likelihood at a predictor.

    Args:
        family: The distribution of y.
        given: The dataset, with columns and y centred.
        plain: The sums of the dataset itself, which define the prior of the effects.
        at: The predictor and scale.
    """
    problem = Problem(given.X.T, given.y, None, np.zeros(()), given.counts)
    nowhere = _nowhere(family, given)
    still = np.zeros_like(at.predictor)
    noise = np.asarray(np.exp(-2 * at.log_scale))
    settled = family.settled_at(problem, at.predictor, still, noise)
    if family.has_units:
        parabola = settled.local(problem, at.predictor, still, noise)
    else:
        parabola = _through(settled, given.y, at.predictor, nowhere.predictor)
    counts = given.counts * parabola.weight
    sums = sums_of(given.X, parabola.target, counts, intercept=given.intercept, always=given.always)
    sums = sums._replace(freedom=plain.freedom)
    information = settled.information
    if not family.has_units:
        share = _inside(float(given.counts @ given.y / given.counts.sum()))
        information = share * (1 - share)
    basis, to_always = basis_of(given.X, counts, sums, given.always)
    level = np.ones((int(given.intercept), len(given.y)))
    nuisance = np.concatenate([level, basis])
    begin = np.zeros(len(nuisance))
    begin[: len(level)] = nowhere.predictor[0]
    return Reference(
        squared=judged_by(sums, given.precision if family.has_units else 1.0),
        family=settled,
        y=given.y,
        level=0.0,
        counts=given.counts,
        nuisance=nuisance,
        columns=sums.columns / np.sqrt(counts),
        metric=plain.columns * (np.sqrt(information) * plain.scale / sums.scale)[:, None],
        to_always=to_always,
        point=Point(at.log_scale, begin, float(np.log(plain.freedom))),
        separated=False,
    )


def _through(family: Family, y: np.ndarray, eta: np.ndarray, null: np.ndarray) -> Parabola:
    """Parabolas tangent to the log likelihood at a predictor that meet it at the null predictor.

    With the curvature at the predictor itself, a support without the features that act would seem
    to fit nearly as well, since the curvature is close to zero where outcomes are nearly certain.
    """
    one = np.ones(())
    slope, bend, _ = family.derivatives(y, eta)
    way = eta - null
    near = np.abs(way) < _SHORT
    fall = family.log_density(y, eta, one) - family.log_density(y, null, one) - slope * way
    weight = np.where(near, -bend, 2 * fall / np.where(near, 1, way) ** 2)
    return Parabola(weight, eta + slope / weight, None)


def _climbed(near: Reference, support: np.ndarray, begin: Point) -> tuple[Point, _Place]:
    """The mode of a support, without the effects of its features, and its predictor."""
    features, lead = np.flatnonzero(support), 1 + len(near.nuisance)
    found = worths(near.design(features), *_slots(len(features)), begin)
    mode = found.mode[0]
    at = _Place(np.exp(mode[0]) * _predictor(near, features, mode), float(mode[0]))
    return Point(float(mode[0]), mode[1:lead], float(found.log_width[0])), at


def _separated(near: Reference, given: Given, support: np.ndarray, begin: Point) -> bool:
    """Whether all outcomes are classified correctly under the widest prior of the effects."""
    features, widest = np.flatnonzero(support), float(near.squared.evidence.width[-1])
    begin = begin._replace(log_width=np.log(widest))
    mode = modes(near.design(features), *_slots(len(features)), begin)[0]
    problem = Problem(given.X.T, given.y, None, np.zeros(()), given.counts)
    return bool(near.family.separated(problem, _predictor(near, features, mode)))


def _slots(size: int) -> tuple[np.ndarray, np.ndarray]:
    """The slots of one support that has all features, and effects of zero to start from."""
    return np.arange(size)[None], np.zeros((1, size))


def _predictor(near: Reference, features: np.ndarray, mode: np.ndarray) -> np.ndarray:
    """The predictor at a mode, in units of the scale."""
    lead = 1 + len(near.nuisance)
    return mode[1:lead] @ near.nuisance + mode[lead:] @ near.columns[features]
