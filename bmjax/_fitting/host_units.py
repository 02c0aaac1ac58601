"""`enter` for arrays with known values: in float64 on the host, padded to a rung of the ladder."""

import warnings
from typing import Any, NamedTuple

import jax
import numpy as np

from bmjax._fitting.units import Units
from bmjax._model.groups import padded
from bmjax._model.options import Frame, Options
from bmjax._model.problem import DUST, Problem
from bmjax._results.parts import Moments


class Shape(NamedTuple):
    """The shape that a dataset is padded to, so that few shapes are ever compiled.

    Attributes:
        rows: Number of rows; the padding rows have weight zero.
        features: Number of features, including the feature of ones; the padding features are zero.
    """

    rows: int
    features: int


def enter_on_host(
    frame: Frame,
    options: Options,
    X: np.ndarray,
    y: np.ndarray,
    sample_weights: np.ndarray | None,
    shape: Shape,
) -> tuple[Problem, Options, Units]:
    """`enter` in NumPy for arrays with known values, padded to a shape.

    Columns are centred and scaled in float64 before they are cast to the type of the fit, so that
    years and prices keep their variation; a few at a time, so that the only copy of X is the one
    fitted.

    Args:
        frame: Whether to add an intercept and whether to scale.
        options: Options in the user's units.
        X: Features, samples in rows, of any real type.
        y: Target.
        sample_weights: How often each row counts. A row of weight zero may hold any values.
        shape: The shape to pad to.

    Returns:
        The problem (with sample weights if rows were added), the options and the units, all of
        NumPy arrays.

    Warns:
        UserWarning: If columns or y came in float32 and vary by no more than its rounding.
    """
    options = jax.tree.map(np.asarray, options)
    (n, k), dtype = X.shape, np.dtype(options.tolerance.dtype)
    present = slice(None) if sample_weights is None else sample_weights > 0
    counts = None if sample_weights is None else np.asarray(sample_weights, np.float64)[present]
    columns = _aligned((shape.features, shape.rows), dtype)
    center, scale, dusty = np.zeros(k), np.ones(k), []
    few = max(2**17 // n, 1)
    for first in range(0, k, few):
        some = slice(first, min(first + few, k))
        block = X[present, some].T
        if not frame.plain:
            given = block
            block, center[some], scale[some] = _framed(frame, block, counts)
            dusty += [first + row for row in _dusty(given, block)]
        columns[some, :n][:, present] = block
    target, y_center, y_scale = np.asarray(y[present])[None], np.zeros(1), np.ones(1)
    if not frame.plain and options.has_units:
        given = target
        target, y_center, y_scale = _framed(frame, target, counts)
        _warn_of_dust("y", _dusty(given, target), y.dtype)
    _warn_of_dust("X", dusty, X.dtype)
    whole = np.zeros(shape.rows, dtype)
    whole[:n][present] = target[0]
    weights = None
    if sample_weights is not None or shape.rows > n:
        weights = np.zeros(shape.rows, dtype)
        weights[:n] = 1 if sample_weights is None else sample_weights
    if frame.intercept:
        columns[k, :n] = 1
    total = float(n) if counts is None else float(counts.sum())
    moments = None
    if not frame.intercept and options.family is None:
        moments = _moments_on_host(X[present], y[present], counts)
    units = Units(center, scale, y_center[0], y_scale[0], np.float64(total), moments)
    spare = shape.features - k

    def filled(values: Any, fill: Any) -> np.ndarray:
        values = np.asarray(values)
        return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, spare)], constant_values=fill)

    unmasked, start = options.unmasked, options.initial_weights
    if frame.intercept or (unmasked is not None and spare):
        unmasked = np.zeros(k, bool) if unmasked is None else np.asarray(unmasked)
        unmasked = filled(unmasked, False)
        unmasked[k : k + int(frame.intercept)] = True
    precision = options.noise_precision
    if precision is not None:
        precision = np.asarray(float(precision) * units.y_scale**2, dtype)
    if start is not None:
        start = filled(np.asarray(start, np.float64) * scale / units.y_scale, 0).astype(dtype)
    options = options._replace(
        noise_precision=precision,
        initial_weights=start,
        rates=filled(options.rates, 1),
        unmasked=unmasked,
    )
    of_features = None
    if shape.features > k + int(frame.intercept):
        of_features = np.int32(k + int(frame.intercept))
    problem = Problem(
        columns,
        whole,
        precision,
        options.prune_threshold,
        weights,  # type: ignore[arg-type]
        unmasked,  # type: ignore[arg-type]
        of_features,  # type: ignore[arg-type]
        options.family,
        groups=padded(options.groups, spare - int(frame.intercept)),
    )
    return problem, options, units


def _framed(
    frame: Frame, values: np.ndarray, counts: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns (rows of `values`) centred and scaled in float64, with their means and divisors."""
    # What remains of a constant column is rounding, in the type that the numbers came in.
    given = values.dtype if np.issubdtype(values.dtype, np.floating) else np.dtype(np.float64)
    dust = DUST * float(np.finfo(given).eps)
    # Copied to one layout, so that sums do not depend on the caller's layout in memory.
    values = np.array(values, np.float64, order="C")
    center, scale = np.zeros(len(values)), np.ones(len(values))
    if frame.intercept:
        for _ in range(2):  # the second round removes the rounding of the first
            mean = np.average(values, axis=1, weights=counts)
            values -= mean[:, None]
            center += mean
        widest = np.max(np.abs(values), axis=1, initial=0)
        values[widest <= dust * np.abs(center)] = 0
    if frame.standardize:
        largest = np.max(np.abs(values), axis=1, initial=0)
        largest[largest == 0] = 1
        square = np.average((values / largest[:, None]) ** 2, axis=1, weights=counts)
        scale = np.where(square > 0, largest * np.sqrt(square), 1)
        values /= scale[:, None]
    return values, center, scale


def _dusty(given: np.ndarray, framed: np.ndarray) -> list[int]:
    """The numbers of the rows that became all zero by the centring although their values vary."""
    gone = np.flatnonzero(~framed.any(axis=1))
    return [row for row in gone.tolist() if np.ptp(given[row]) > 0]


def _warn_of_dust(name: str, rows: list[int], given: np.dtype) -> None:
    """Warn that the variation of some columns, or of y, has been taken for rounding.

    There is no warning for float64, where such variation is rounding, as in shares that add up to
    one. Years or prices that came in float32 may have lost their variation before they came here.
    """
    if not rows or given.itemsize >= 8:
        return
    few = ", ".join(map(str, rows[:12])) + (" ..." if len(rows) > 12 else "")
    what = name if name == "y" else f"{name}[:, [{few}]]"
    warnings.warn(
        f"{what} varies by no more than the rounding of {given} numbers of its size, so it is "
        "taken as constant. If this is no rounding, give it as float64 or take a constant off.",
        stacklevel=6,  # the caller of `fit`, beyond its decorators
    )


def _aligned(shape: tuple[int, int], dtype: np.dtype) -> np.ndarray:
    """An array of zeros, aligned so that JAX on a CPU takes it without a copy."""
    size = shape[0] * shape[1] * dtype.itemsize
    bytes_ = np.zeros(size + 64, np.uint8)
    offset = -bytes_.ctypes.data % 64
    return bytes_[offset : offset + size].view(dtype).reshape(shape)


def _moments_on_host(X: np.ndarray, y: np.ndarray, counts: np.ndarray | None) -> Moments:
    """The moments of the data in NumPy, computed a few columns at a time."""
    k, total = X.shape[1], float(len(y) if counts is None else counts.sum())
    share = np.full(len(y), 1 / total) if counts is None else counts / total
    y_mean = share @ y
    away = y - y_mean
    y_spread = np.sqrt(share @ away**2)
    mean, spread, product = np.zeros(k), np.zeros(k), np.zeros(k)
    few = max(2**17 // len(y), 1)
    for first in range(0, k, few):
        some = slice(first, min(first + few, k))
        block = X[:, some].astype(np.float64)
        mean[some] = share @ block
        block -= mean[some]
        widest = np.abs(block).max(axis=0)
        block[:, widest <= DUST * np.finfo(np.float64).eps * np.abs(mean[some])] = 0
        spread[some] = np.sqrt(share @ block**2)
        product[some] = (share * away) @ block
    unit = np.where(spread > 0, spread, 1) * (y_spread if y_spread > 0 else 1)
    return Moments(np.float64(total), mean, spread, y_mean, y_spread, product / unit)
