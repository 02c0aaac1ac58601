"""The sums of a dataset for its posterior: columns projected and scaled, in float64 on the host.

The level of y and the features that are always in have flat priors, so they are projected out of y
and of all other columns. The rest is scaled to unit length, so that one threshold of rank serves
all and units do not matter.
"""

from typing import NamedTuple

import numpy as np

from bmjax._model.problem import DUST

# A column counts as explained by those always in if they leave this share of its length or less.
_EXPLAINED = 1e-7
# The share of the length of y below which the rest of it is rounding.
_ROUNDING = 1e-13


class Sums(NamedTuple):
    """The projected and scaled columns and target of one dataset.

    Attributes:
        columns: (f, n) the features that may be in or out, with unit length; zero for a column that
            is constant or a combination of those always in.
        target: (n,) y, with unit length; zero if those always in explain it.
        free: (f,) numbers of these features.
        always: (p,) numbers of the features that are always in.
        scale: (f,) length of each projected column, 1 where it is zero.
        y_scale: Length of the projected y; 0 if the projection leaves nothing of it.
        center: (k,) the mean subtracted from each column.
        y_center: The mean subtracted from y.
        samples: Sum of the weights of the rows.
        freedom: Sum of the weights minus the number of directions projected out.
        rows: Number of rows of weight above zero minus the number of directions projected out.
        along: (p, f) coefficients of the columns on those always in, in the user's units.
        y_along: (p,) coefficients of y on those always in, in the user's units.
        own: (p, p) inverse of the products of the columns always in.
    """

    columns: np.ndarray
    target: np.ndarray
    free: np.ndarray
    always: np.ndarray
    scale: np.ndarray
    y_scale: float
    center: np.ndarray
    y_center: float
    samples: float
    freedom: float
    rows: int
    along: np.ndarray
    y_along: np.ndarray
    own: np.ndarray


def sums_of(
    X: np.ndarray,
    y: np.ndarray,
    sample_weights: np.ndarray | None,
    *,
    intercept: bool,
    always: np.ndarray,
) -> Sums:
    """The sums of a dataset.

    Args:
        X: (n, k) features.
        y: (n,) target.
        sample_weights: (n,) how often each row counts; a row of weight zero may hold anything.
        intercept: Whether the level of y is free.
        always: (k,) whether each feature is always in.
    """
    counts = np.ones(len(y)) if sample_weights is None else np.asarray(sample_weights, float)
    present = counts > 0
    # What remains of a constant column is rounding, in the type that the numbers came in.
    of_X, of_y = _dust(X), _dust(y)
    counts = counts[present]
    whole = slice(None) if present.all() else present
    columns = np.array(X[whole].T, float, order="C")
    target = np.array(y[whole], float)[None]
    center, y_center = np.zeros(len(columns)), np.zeros(1)
    if intercept:
        columns, center = _centred(columns, counts, of_X)
        target, y_center = _centred(target, counts, of_y)
    root = np.sqrt(counts)
    columns *= root
    target *= root
    kept, rest = columns[always], columns[~always]
    basis, inverse, own = _basis(kept)
    along, y_along = rest @ basis @ inverse.T, target @ basis @ inverse.T
    length, y_whole = _lengths(rest), float(_lengths(target)[0])
    for _ in range(2 if len(kept) else 0):
        rest -= (rest @ basis) @ basis.T
        target -= (target @ basis) @ basis.T
    left = _lengths(rest)
    gone = left <= _EXPLAINED * length
    scale = np.where(gone, 1, left)
    rest[gone] = 0
    rest /= scale[:, None]
    before = np.sqrt(counts.sum()) * np.max(np.abs(y_center), initial=0)
    y_length = float(_lengths(target)[0])
    flat = not y_length > max(of_y * before, _ROUNDING * y_whole)
    out = int(intercept) + basis.shape[1]
    return Sums(
        columns=rest,
        target=np.zeros(len(counts)) if flat else target[0] / y_length,
        free=np.flatnonzero(~always),
        always=np.flatnonzero(always),
        scale=scale,
        y_scale=0.0 if flat else y_length,
        center=center,
        y_center=float(y_center[0]),
        samples=float(counts.sum()),
        freedom=float(counts.sum()) - out,
        rows=int(present.sum()) - out,
        along=along.T,
        y_along=y_along[0],
        own=own,
    )


def basis_of(
    X: np.ndarray, counts: np.ndarray, sums: Sums, always: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A basis of the features always in, and the matrix from effects of the basis to theirs.

    Args:
        X: (n, k) features.
        counts: (n,) how often each row counts, above zero.
        sums: The sums of the dataset.
        always: (k,) whether each feature is always in.
    """
    root = np.sqrt(counts)
    kept = (X[:, always] - sums.center[always]).T * root
    basis, inverse, _ = _basis(kept)
    return basis.T / root, inverse


def centred_columns(
    X: np.ndarray, counts: np.ndarray, *, intercept: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, k) in float64, minus their means if the level is free, and the means.

    Constant columns are exactly zero, also if they are constant but for rounding.

    Args:
        X: (n, k) features.
        counts: (n,) how often each row counts.
        intercept: Whether the level is free.
    """
    columns = np.array(X.T, float, order="C")
    if not intercept:
        return columns.T, np.zeros(len(columns))
    columns, center = _centred(columns, counts, _dust(X))
    return columns.T, center


def _dust(values: np.ndarray) -> float:
    kind = values.dtype.type if np.issubdtype(values.dtype, np.floating) else np.float64
    return DUST * float(np.finfo(kind).eps)


def _centred(values: np.ndarray, counts: np.ndarray, dust: float) -> tuple[np.ndarray, np.ndarray]:
    """Values minus the mean of each row, and the means; rows that are constant become zero."""
    center = np.zeros(len(values))
    for _ in range(2):  # the second round removes the rounding error of the first
        mean = values @ (counts / counts.sum())
        values = values - mean[:, None]
        center += mean
    widest = np.max(np.abs(values), axis=1, initial=0)
    values[widest <= dust * np.abs(center)] = 0
    return values, center


def _lengths(values: np.ndarray) -> np.ndarray:
    """The lengths of rows, without overflow or underflow of squares."""
    largest = np.max(np.abs(values), axis=1, initial=0)
    safe = np.where(largest > 0, largest, 1)
    return safe * np.sqrt(np.sum((values / safe[:, None]) ** 2, axis=1))


def _basis(kept: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An orthonormal basis of some rows, the matrix A from it to their coefficients, and A A'."""
    if not len(kept):
        return np.zeros((kept.shape[1], 0)), np.zeros((0, 0)), np.zeros((0, 0))
    length = _lengths(kept)
    length[length == 0] = 1
    left, size, right = np.linalg.svd(kept / length[:, None], full_matrices=False)
    good = size > 1e-10 * np.max(size, initial=0)
    inverse = (left[:, good] / size[good]) / length[:, None]
    return right[good].T, inverse, inverse @ inverse.T
