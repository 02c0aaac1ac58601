"""A dataset as given, and the squared errors that judge its supports."""

from typing import Any, NamedTuple

import numpy as np

from bmjax._checks import inputs
from bmjax._fitting import ragged
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


class Dataset(NamedTuple):
    """A checked dataset.

    Attributes:
        X: (n, k) features.
        y: (n,) target.
        counts: (n,) how often each row counts, or None for once.
    """

    X: np.ndarray
    y: np.ndarray
    counts: np.ndarray | None


class Data(NamedTuple):
    """The checked data of a call.

    Attributes:
        datasets: The datasets, of as many features each.
        several: Whether the result has a leading axis of datasets.
        dtype: The floating-point type of the result.
    """

    datasets: list[Dataset]
    several: bool
    dtype: Any


def checked_data(X: Any, y: Any, sample_weights: Any) -> Data:
    """The data of a call, one dataset or several, of one length or each of its own."""
    if ragged.is_ragged(X):
        listed = ragged.datasets(X, y, sample_weights)
        for i, (_, target, _) in enumerate(listed):
            inputs.enough(len(target), f"X[{i}] has {{}} row(s)")
        parts = [_batch(*(values[None] for values in one)) for one in listed]
        dtype = np.result_type(*(part.dtype for part in parts))
        data = Data([part.datasets[0] for part in parts], True, dtype)
    elif np.ndim(X) == 3 or (np.ndim(y) == 2 and np.shape(y)[1] > 1):
        data = _batch(X, y, sample_weights)
    else:
        features, target, counts, dtype = inputs.on_host(X, y, sample_weights)
        return Data([Dataset(features, target, counts)], False, dtype)
    for i, one in enumerate(data.datasets):
        number = len(one.y) if one.counts is None else int(np.sum(one.counts > 0))
        inputs.enough(number, f"dataset {i} has {{}} row(s) that count")
    return data


def _batch(X: Any, y: Any, sample_weights: Any) -> Data:
    """Datasets of one length."""
    features, targets, counts, dtype = inputs.batch(X, y, sample_weights)
    features, targets = np.asarray(features), np.asarray(targets)
    b = len(targets)
    each_X = features if features.ndim == 3 else [features] * b
    each_counts = [None] * b if counts is None else np.asarray(counts)
    rows = zip(each_X, targets, each_counts, strict=True)
    return Data([Dataset(*one) for one in rows], True, dtype)


def given_of(
    dataset: Dataset, intercept: bool, always: np.ndarray, precision: float | None
) -> Given:
    """A dataset without rows of weight zero."""
    X, y, counts = dataset
    present = slice(None) if counts is None or np.all(counts > 0) else counts > 0
    X, y = X[present], y[present]
    counts = np.ones(len(y)) if counts is None else np.asarray(counts[present], float)
    finite = bool(np.isfinite(X).all() and np.isfinite(y).all())
    if not finite:  # one of several: its own result is NaN, the others are unaffected
        X, y = np.zeros_like(X, float), np.zeros_like(y, float)
    return Given(X, y, counts, always, intercept, precision, finite)


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
