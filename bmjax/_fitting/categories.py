"""Encoding of the categorical columns of a pandas frame: a 0/1 column for each level but the first.

The 0/1 columns of a categorical column are a group. Scikit-learn checks the frame with each level
replaced by its number, so that features are counted and named as in X; only then are the numbers
expanded to columns.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Encoding(NamedTuple):
    """The mapping from the columns of a frame to those of a fit.

    Attributes:
        levels: The levels of each column of X in order, None for a column of numbers.
    """

    levels: tuple[Sequence[Any] | None, ...]

    @property
    def origin(self) -> NDArray[np.intp]:
        """The number of the column of X that each column of the fit comes from."""
        widths = [1 if own is None else len(own) - 1 for own in self.levels]
        return np.repeat(np.arange(len(widths)), widths)

    def coded(self, X: Any) -> Any:
        """The frame with each level replaced by its number, NaN where a value is missing.

        Raises:
            ValueError: If a column holds a value that is not one of its levels.
        """
        X = X.copy()
        for column, own in enumerate(self.levels):
            if own is None:
                continue
            values, name = X.iloc[:, column].astype(object), X.columns[column]
            codes = values.map({level: float(code) for code, level in enumerate(own)})
            strange = values[codes.isna() & values.notna()]
            if len(strange):
                raise ValueError(
                    f"column {name!r} of X holds {strange.iloc[0]!r}, which is none of its levels "
                    f"in the fit: {', '.join(map(repr, own[:6]))}{', ...' * (len(own) > 6)}."
                )
            X[name] = codes.astype(float)
        return X

    def expanded(self, X: NDArray[Any]) -> NDArray[Any]:
        """The columns of the fit, from checked columns that hold the numbers of the levels."""
        parts = [
            X[:, [j]] if own is None else (X[:, [j]] == np.arange(1, len(own))).astype(X.dtype)
            for j, own in enumerate(self.levels)
        ]
        return np.hstack(parts)

    def names(self, features: Sequence[str]) -> tuple[str, ...]:
        """The names of the columns of the fit."""
        named = []
        for name, own in zip(features, self.levels, strict=True):
            named += [name] if own is None else [dummy_name(name, level) for level in own[1:]]
        return tuple(named)

    def labels(self, features: Sequence[str], groups: Any) -> list[Any]:
        """The group label of each column of the fit, from those of the columns of X or None."""
        labels = list(groups) if groups is not None else [None] * len(features)
        if len(labels) != len(features):
            return labels  # for `fit` to refuse
        parted = [
            label if own is None or label is not None else name
            for label, own, name in zip(labels, self.levels, features, strict=True)
        ]
        return [parted[j] for j in self.origin]

    def by_feature(self, values: ArrayLike) -> Any:
        """Values by column of X, repeated by column of the fit; other values unchanged."""
        if np.shape(values)[-1:] != (len(self.levels),):
            return values
        return np.asarray(values)[..., self.origin]

    def chosen(self, features: Any) -> Any:
        """Chosen columns of X, as booleans or numbers, as booleans over the columns of the fit."""
        array, k = np.asarray(features), len(self.levels)
        if array.dtype != bool:
            if array.dtype.kind not in "iu" or not ((array >= -k) & (array < k)).all():
                return features  # for `fit` to refuse
            array = np.isin(np.arange(k), array % k)
        return self.by_feature(array)


def encoding_of(X: Any) -> Encoding | None:
    """The encoding of the categorical columns of a pandas frame; None if it has none.

    Raises:
        ValueError: If a categorical column has fewer than two levels.
    """
    if type(X).__module__.partition(".")[0] != "pandas" or not hasattr(X, "columns"):
        return None
    levels: list[tuple[Any, ...] | None] = []
    for place, dtype in enumerate(X.dtypes):
        own = tuple(dtype.categories) if str(dtype) == "category" else None
        if own is not None and len(own) < 2:
            raise ValueError(
                f"column {X.columns[place]!r} of X has one level only, or none; leave it out."
            )
        levels.append(own)
    return Encoding(tuple(levels)) if any(own is not None for own in levels) else None


def dummy_name(name: str, level: Any) -> str:
    """The name of the 0/1 column of a level."""
    return f"{name}={level}"
