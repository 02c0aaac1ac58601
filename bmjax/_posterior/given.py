"""A dataset as it came, and as squared errors by which its supports are judged."""

from typing import NamedTuple

import numpy as np

from bmjax._posterior.prior import Evidence, evidence_of, log_size_prior
from bmjax._posterior.sums import Sums, sums_of
from bmjax._selection.neighbours import most_features


class Given(NamedTuple):
    """A dataset as it came, rows that count zero times left out.

    Attributes:
        X: (n, k) features.
        y: (n,) target.
        counts: (n,) how often each row counts.
        always: (k,) the features that are always in.
        intercept: Whether the level is free.
        precision: The noise precision where it is known, or None.
        finite: Whether all values are; if not, zeros are in their place.
    """

    X: np.ndarray
    y: np.ndarray
    counts: np.ndarray
    always: np.ndarray
    intercept: bool
    precision: float | None
    finite: bool


class Squared(NamedTuple):
    """The squared errors of a dataset.

    Attributes:
        sums: Their sums.
        evidence: How supports are judged by them.
        most: Largest support.
    """

    sums: Sums
    evidence: Evidence
    most: int


def squared(given: Given) -> Squared:
    """The squared errors of a dataset where y is Gaussian."""
    sums = sums_of(given.X, given.y, given.counts, intercept=given.intercept, always=given.always)
    near = judged_by(sums, given.precision)
    return near if given.finite else near._replace(sums=sums._replace(y_scale=float("nan")))


def judged_by(sums: Sums, precision: float | None) -> Squared:
    """The sums of a dataset with the evidence of its supports.

    Args:
        sums: Of the dataset.
        precision: One over the noise variance where it is known, or None.
    """
    free = len(sums.columns)
    most = int(most_features(max(sums.rows, 0), free))
    known = None if precision is None else np.asarray(precision * sums.y_scale**2)
    log_size = log_size_prior(free, most, free + 1)
    return Squared(sums, evidence_of(np.asarray(sums.freedom), log_size, known), most)
