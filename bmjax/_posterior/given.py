"""A dataset as given, and the squared errors that judge its supports."""

from typing import NamedTuple

import numpy as np

from bmjax._posterior.prior import Evidence, evidence_of, log_size_prior
from bmjax._posterior.sums import Sums, sums_of
from bmjax._selection.neighbours import most_features


class Given(NamedTuple):
    """A dataset as given, without rows of weight zero.

    Attributes:
        X: (n, k) features.
        y: (n,) target.
        counts: (n,) how often each row counts.
        always: (k,) whether each feature is always in.
        intercept: Whether the level is free.
        precision: The known noise precision, or None.
        finite: Whether all values are finite; if not, they are replaced by zeros.
    """

    X: np.ndarray
    y: np.ndarray
    counts: np.ndarray
    always: np.ndarray
    intercept: bool
    precision: float | None
    finite: bool


class Squared(NamedTuple):
    """The squared errors of a dataset and the evidence of its supports.

    Attributes:
        sums: The sums of the squared errors.
        evidence: The evidence that judges supports.
        most: Size of the largest support.
    """

    sums: Sums
    evidence: Evidence
    most: int


def squared(given: Given) -> Squared:
    """The squared errors of a dataset whose y is Gaussian."""
    sums = sums_of(given.X, given.y, given.counts, intercept=given.intercept, always=given.always)
    near = judged_by(sums, given.precision)
    return near if given.finite else near._replace(sums=sums._replace(y_scale=float("nan")))


def judged_by(sums: Sums, precision: float | None) -> Squared:
    """The sums of a dataset with the evidence of its supports.

    Args:
        sums: The sums of the dataset.
        precision: One over the noise variance if it is known, or None.
    """
    free = len(sums.columns)
    most = int(most_features(max(sums.rows, 0), free))
    known = None if precision is None else np.asarray(precision * sums.y_scale**2)
    log_size = log_size_prior(free, most, free + 1)
    return Squared(sums, evidence_of(np.asarray(sums.freedom), log_size, known), most)
