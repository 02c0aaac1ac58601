"""Intervals of 95 % for effects, and how often they contain the truth."""

import itertools
from typing import NamedTuple

import jax
import numpy as np
from scipy import stats

import bmjax
from benchmarks.optimum.designs import Batch

LEVEL = 0.95
_NORMAL = 1.96
# Upper limits of the groups of effects by size.
_SIZES = (0.0, 0.3, 0.5, 0.8, 1.0)


class Intervals(NamedTuple):
    """Ends of the intervals, (b, k), and which features were kept; a pruned one may be [0, 0]."""

    lower: np.ndarray
    upper: np.ndarray
    kept: np.ndarray


def masking(batch: Batch) -> Intervals:
    """Intervals of the default fit: coef +- 1.96 standard errors."""
    r = bmjax.fit_batch(batch.X, batch.y, intercept=True, uncertainty=True)
    return _around(np.asarray(r.coef), _NORMAL * np.asarray(r.standard_errors), r.support)


def bootstrap(batch: Batch, kept: np.ndarray, resamples: int, key: jax.Array) -> Intervals:
    """Percentile intervals of the default fit over resamples, one dataset after another.

    Args:
        batch: Datasets.
        kept: The features kept by the fits to the datasets themselves, (b, k).
        resamples: Resamples of each dataset.
        key: A JAX random key.
    """
    lower, upper = np.empty(batch.coef.shape), np.empty(batch.coef.shape)
    for i, (X, y) in enumerate(zip(batch.X, batch.y, strict=True)):
        r = bmjax.bootstrap(
            X, y, jax.random.fold_in(key, i), resamples=resamples, level=LEVEL, intercept=True
        )
        lower[i], upper[i] = r.lower, r.upper
    return Intervals(lower, upper, kept)


def least_squares(batch: Batch, support: np.ndarray) -> Intervals:
    """Intervals of least squares with an intercept on given features (b, k), by Student's t."""
    X, y = batch.X - batch.X.mean(axis=1, keepdims=True), batch.y - batch.y.mean(1, keepdims=True)
    X = X * support[:, None, :]
    inverse = np.linalg.inv(X.mT @ X + np.eye(X.shape[2]) * ~support[:, None, :])
    coef = (inverse @ (X.mT @ y[:, :, None]))[:, :, 0]
    freedom = X.shape[1] - 1 - support.sum(axis=1)
    variance = np.sum((y - (X @ coef[:, :, None])[:, :, 0]) ** 2, axis=1) / freedom
    errors = np.sqrt(variance[:, None] * np.diagonal(inverse, axis1=1, axis2=2))
    return _around(coef, stats.t.ppf((1 + LEVEL) / 2, freedom)[:, None] * errors, support)


def groups(coef: np.ndarray, kept: np.ndarray) -> dict[str, np.ndarray]:
    """The features (b, k) to report on together.

    Args:
        coef: True effects, (b, k).
        kept: The features kept by the fits, (b, k).

    Returns:
        All real features, those at positions that every fit kept, and those of each size.
    """
    real, size = coef != 0, np.abs(coef)
    found = {"real": real, "kept in every dataset": real & kept.all(axis=0), "0": ~real}
    for low, high in itertools.pairwise(_SIZES):
        found[f"({low:g}, {high:g}]"] = (size > low) & (size <= high)
    return found


def score(intervals: Intervals, coef: np.ndarray, of: np.ndarray) -> dict[str, float]:
    """Coverage over some features; a pruned one has the interval [0, 0] if that is given.

    Args:
        intervals: The intervals to score.
        coef: True effects, (b, k).
        of: The features to score it on, (b, k).

    Returns:
        The number of features, the share kept, coverage among these and its Monte Carlo error,
        coverage among all, and the mean length of the intervals of kept features.
    """
    covered = (intervals.lower <= coef) & (coef <= intervals.upper)
    kept = intervals.kept & of
    if_kept = _mean(covered, kept)
    return {
        "features": int(of.sum()),
        "kept": _mean(intervals.kept, of),
        "coverage if kept": if_kept,
        "its error": np.sqrt(if_kept * (1 - if_kept) / max(1, kept.sum())),
        "coverage": _mean(covered, of),
        "length if kept": _mean(intervals.upper - intervals.lower, kept),
    }


def _around(coef: np.ndarray, half: np.ndarray, support: object) -> Intervals:
    kept = np.asarray(support, dtype=bool)
    return Intervals(np.where(kept, coef - half, 0), np.where(kept, coef + half, 0), kept)


def _mean(values: np.ndarray, where: np.ndarray) -> float:
    return float(values[where].mean()) if where.any() else np.nan
