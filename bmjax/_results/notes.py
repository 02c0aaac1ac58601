"""Notes of a summary: warnings for the reader of the table."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

# Columns correlated by at least this are named together in a note.
_COLLINEAR = 0.9


# Without an intercept, a level of y more than this many standard errors from zero is noted.
_NEEDED = 4


# At this inclusion rate or more a feature is taken to act in every row.
_ALWAYS = 0.999


_LISTED = 12  # names in a note


def _several(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def zero_notes(names: Sequence[str], intervals: np.ndarray) -> tuple[str, ...]:
    """A sentence if 95 % intervals of kept features cover zero.

    Args:
        names: Names of the features.
        intervals: (k, 2) ends, NaN where pruned.
    """
    covering = (intervals[:, 0] < 0) & (intervals[:, 1] > 0)
    if not covering.any():
        return ()
    which = [names[i] for i in np.flatnonzero(covering).tolist()]
    its = "The 95 % interval of" if len(which) == 1 else "The 95 % intervals of"
    verb = "covers" if len(which) == 1 else "cover"
    return (
        f"{its} {_several(which)} {verb} zero: kept, but the data are nearly as well explained "
        "without.",
    )


def masked_rows_notes(
    names: Sequence[str],
    support: np.ndarray,
    coef: np.ndarray,
    refit: np.ndarray,
    errors: np.ndarray,
    inclusion: np.ndarray,
) -> tuple[str, ...]:
    """A sentence if features that always act differ from least squares on the support.

    Args:
        names: Names of the features.
        support: The features kept.
        coef: Effects.
        refit: Effects by least squares on the support.
        errors: Standard errors.
        inclusion: Inclusion rates.
    """
    always = support & (inclusion >= _ALWAYS)
    apart = always & (np.abs(coef - refit) > np.nan_to_num(errors))
    masked = support & ~always
    if not (apart.any() and masked.any()):
        return ()
    which, others = (
        _several([names[i] for i in np.flatnonzero(mask).tolist()]) for mask in (apart, masked)
    )
    return (
        f"{which} (inclusion 1) and least squares on the same features (refit) are more than a "
        f"standard error apart: the masks of {others} explain rows one by one, some of their noise "
        "too, and the rest is fitted to what they leave.",
    )


def level_notes(
    support: np.ndarray, features: np.ndarray, correlation: np.ndarray, moments: Iterable[Any]
) -> tuple[str, ...]:
    """A sentence if least squares on the kept features would need an intercept.

    This is judged by the t statistic of the intercept, not by the mean of the residual, since the
    features may stand in for the level of y. All is computed from moments of the data.

    Args:
        support: The features kept.
        features: The feature in each slot, k or more in an empty one.
        correlation: Correlation of the column in each slot with every column.
        moments: The fields of `bmjax.Moments`.
    """
    given = [np.asarray(field) for field in moments]
    dust = 100 * np.finfo(given[0].dtype).eps  # rounding error of a difference that is zero
    samples, mean, spread, y_mean, y_spread, y_correlation = (f.astype(float) for f in given)
    size = int(support.sum())
    freedom = float(samples) - size - 1
    kept, scale = support & (spread > 0), spread * np.sqrt(samples)
    if freedom < 1 or (support & ~kept & (mean != 0)).any():
        return ()  # a constant column is an intercept
    rows = np.argsort(np.where(features < len(kept), features, len(kept)), kind="stable")
    rows = rows[np.append(kept, False)[np.minimum(features[rows], len(kept))]]
    with np.errstate(all="ignore"):
        arrays = correlation[rows][:, kept], mean[kept] / scale[kept], y_correlation[kept]
        if not all(np.isfinite(array).all() for array in (*arrays, y_mean, y_spread)):
            return ()
        inverse = np.linalg.pinv(arrays[0], rcond=1e-6, hermitian=True)
        slopes = inverse @ arrays[2]
        parts = np.append(y_mean, -np.sqrt(samples) * y_spread * arrays[1] * slopes)
        level = float(parts.sum())
        left = max(float(1 - arrays[2] @ slopes), dust)
        variance = samples * y_spread**2 * left / freedom
        error = float(np.sqrt(variance * (1 / samples + arrays[1] @ inverse @ arrays[1])))
    if not abs(level) > _NEEDED * error + dust * np.abs(parts).sum():
        return ()
    return (
        f"no intercept was fitted, but y has a level: {level:.5g} +- {error:.2g} by least squares "
        f"on the kept features, where y has the mean {float(y_mean):.5g}. Effects and choice are "
        "those of a line through the origin: fit with an intercept (intercept=True).",
    )


def collinearity_notes(
    names: Sequence[str], support: np.ndarray, features: np.ndarray, correlation: np.ndarray
) -> tuple[str, ...]:
    """A sentence for each set of collinear features of which at least one is kept.

    A kept feature forms a set with all features whose correlation with it is 0.9 or more in
    absolute value; sets that share a feature are merged.

    Args:
        names: Names of the features.
        support: The features kept.
        features: The feature in each slot, k or more in an empty one.
        correlation: Correlation of the column in each slot with every column.
    """
    groups: list[set[int]] = []
    for feature, row in zip(features.tolist(), np.abs(correlation), strict=True):
        if feature >= len(names) or not support[feature]:
            continue
        group = {feature, *np.flatnonzero(row >= _COLLINEAR).tolist()}
        for other in [other for other in groups if other & group]:
            groups.remove(other)
            group |= other
        groups.append(group)
    notes = []
    for group in sorted(groups, key=min):
        members = sorted(group)
        if len(members) < 2:
            continue
        kept = [names[i] for i in members if support[i]]
        dropped = [names[i] for i in members if not support[i]]
        text = f"{', '.join(kept)} (kept)"
        if dropped:
            text += f" and {', '.join(dropped)} (pruned)"
        notes.append(
            f"{text} are correlated by {_COLLINEAR} or more: their masks and effects trade off, "
            "so the data hardly tell which of them acts."
        )
    return tuple(notes)
