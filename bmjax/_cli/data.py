"""Checks of the data that the command fits: the outcomes, the weights, the sizes of the numbers."""

import argparse
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmjax._cli.errors import UsageError

# The square of an effect, which is a ratio of two columns, must be a finite number too.
_SMALLEST, _LARGEST = 1e-70, 1e70

_Array = NDArray[np.float64]


class Data(NamedTuple):
    """Features (n, k), the target (n,), names of the features, and weights of the rows (n,)."""

    X: _Array
    y: _Array
    names: list[str]
    weights: _Array | None = None


def outcomes(args: argparse.Namespace, data: Data, target: str) -> tuple[str, Data, list[str]]:
    """The family, the data (with a target of 0 and 1 if it is logistic), and sentences to note."""
    family, values = args.family, np.unique(data.y)
    notes = []
    if family is None:
        family = "logistic" if len(values) == 2 else "gaussian"
    if family == "logistic":
        if len(values) != 2:
            raise UsageError(
                f"--family logistic: column {target!r} has {len(values)} different values, and an "
                "outcome is one of two. Use gaussian or student for a number."
            )
        notes.append(
            f"{target} is {values[0]:g} or {values[1]:g}: effects are on the log-odds of "
            f"{values[1]:g} (--family gaussian: on its mean)."
        )
        data = data._replace(y=(data.y == values[1]).astype(float))
    return family, data, notes


def rows_that_count(data: Data, weights_name: str | None) -> Data:
    """The data without rows of weight zero, which do not affect a fit."""
    if data.weights is None:
        return data
    counts = data.weights > 0
    if np.sum(counts) < 2:
        raise UsageError(
            f"--weights: column {weights_name!r} is above zero in {np.sum(counts)} rows: a fit "
            "needs at least 2."
        )
    return data._replace(X=data.X[counts], y=data.y[counts], weights=data.weights[counts])


def check_sizes(data: Data, target: str, args: argparse.Namespace) -> None:
    """Raise if the squares of a column's values would overflow or underflow."""
    columns = [*zip(data.names, data.X.T, strict=True), (target, data.y)]
    if data.weights is not None:
        columns.append((args.weights, data.weights))
    for name, values in columns:
        largest = size = np.abs(values).max()
        if not args.no_intercept and name != args.weights and largest < _LARGEST:
            size = np.ptp(values)
        if largest >= _LARGEST or 0 < size <= _SMALLEST:
            raise UsageError(
                f"column {name!r}: its values are too large or too small to compute with. "
                "Change its unit."
            )
