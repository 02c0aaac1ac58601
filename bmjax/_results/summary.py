"""A fit as a table that a person reads."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# Columns correlated by at least this are named together in a note.
_COLLINEAR = 0.9
# Where no intercept is fitted, a mean of y beyond this many standard errors from zero is named.
_NEEDED = 4


@dataclass(frozen=True)
class Summary:
    """What to read of a fit. `print` it, or take `to_pandas()`.

    Attributes:
        names: Names of the features.
        coef: Effect of each feature on the mean of y.
        standard_errors: Of `coef`, NaN where pruned; or None.
        inclusion: Inclusion rates.
        support: The features kept.
        facts: What there is to say of the fit as a whole, by name.
        notes: Sentences to beware of.
    """

    names: tuple[str, ...]
    coef: np.ndarray
    standard_errors: np.ndarray | None
    inclusion: np.ndarray
    support: np.ndarray
    facts: dict[str, str]
    notes: tuple[str, ...]

    def to_pandas(self) -> Any:
        """The features as a `pandas.DataFrame`, names in its index.

        Raises:
            ModuleNotFoundError: If pandas is not installed.
        """
        import pandas as pd

        columns = {"coef": self.coef}
        if self.standard_errors is not None:
            columns["standard_error"] = self.standard_errors
        columns |= {"inclusion": self.inclusion, "kept": self.support}
        return pd.DataFrame(columns, index=pd.Index(self.names, name="feature"))

    def __str__(self) -> str:
        """The table, kept features first as they come, then the facts and notes."""
        # By hand, so that a fit can be read where nothing but bmjax is installed.
        rows = [("feature", "coef", "std. error", "inclusion", "kept")]
        for i in np.argsort(~self.support, kind="stable"):
            if self.support[i]:
                error = "" if self.standard_errors is None else f"{self.standard_errors[i]:.4g}"
                rows.append(
                    (self.names[i], f"{self.coef[i]:.5g}", error, f"{self.inclusion[i]:.3f}", "yes")
                )
            else:
                rows.append((self.names[i], "0", "", "0", "no"))
        widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.ljust(width) if j == 0 else cell.rjust(width)
                for j, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
        lines = [lines[0], rule, *lines[1:], rule]
        width = max(map(len, self.facts))
        lines += [f"{name.ljust(width)}  {value}" for name, value in self.facts.items()]
        return "\n".join([*lines, *(f"Note: {note}" for note in self.notes)])


def feature_names(names: Iterable[str] | None, k: int) -> tuple[str, ...]:
    """Names of k features, x0, x1, ... if none are given.

    Raises:
        ValueError: If there are not k.
    """
    if names is None:
        return tuple(f"x{i}" for i in range(k))
    if isinstance(names, str):
        raise ValueError(f"names is the string {names!r}; give a list of {k} names.")
    try:
        names = tuple(map(str, names))
    except TypeError:
        raise TypeError(f"names is {names!r}; give a list of {k} names.") from None
    if len(names) != k:
        raise ValueError(f"names has {len(names)} entries but the fit has {k} features.")
    return names


def level_notes(
    support: np.ndarray, features: np.ndarray, correlation: np.ndarray, moments: Iterable[Any]
) -> tuple[str, ...]:
    """A sentence if least squares on the kept features, given an intercept, needs it.

    By its t statistic, for the features may stand in for the level of y: the mean of what they
    leave says little. All from sums over samples, those of the columns around their means.

    Args:
        support: The features kept.
        features: The feature in each slot, k or more in an empty one.
        correlation: Of the column in each slot with every column.
        moments: The fields of `bmjax.Moments`.
    """
    given = [np.asarray(field) for field in moments]
    dust = 100 * np.finfo(given[0].dtype).eps  # what is left of nothing by rounding
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
    """A sentence for each group of features that stand in for others, at least one of them kept.

    A kept feature makes a group with all that are correlated with it by 0.9 or more in absolute
    value; groups that share a feature are one.

    Args:
        names: Names of the features.
        support: The features kept.
        features: The feature in each slot, k or more in an empty one.
        correlation: Of the column in each slot with every column.
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
