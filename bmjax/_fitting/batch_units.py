"""Subtract the means of a batch's datasets in float64, before they become float32.

In float32, years, prices and timestamps have no digits left for their variation. So their means are
subtracted on the host, where the values have more digits than the fit will use; the fit centres the
rest.
"""

from typing import Any

import jax
import numpy as np

from bmjax._results.result import Result


def taken(values: Any, rows: np.ndarray, dtype: Any) -> Any:
    """Some of the datasets, cast to the type of the fit, on the host or device that holds them."""
    if isinstance(values, jax.Array):
        return values[rows].astype(dtype)
    with np.errstate(over="ignore"):
        return values[rows].astype(dtype, copy=False)


def near_zero(
    values: Any, dtype: Any, rows: Any = None, counts: Any = None, *, movable: bool
) -> tuple[Any, np.ndarray | None]:
    """Values minus their mean over samples, and that mean; unchanged and None if no digit is lost.

    Args:
        values: X, (b, n, k) or (n, k) of all datasets, or y (b, n).
        dtype: The type that they are fitted in.
        rows: The numbers of the datasets to take; None if `values` is an X that all datasets share.
        counts: (b, n) how often each sample counts; a sample of count zero may hold any values.
        movable: Whether the fit does not depend on the means.
    """
    if isinstance(values, jax.Array) or not movable or values.dtype.itemsize <= dtype.itemsize:
        return (values if rows is None else taken(values, rows, dtype)), None
    with np.errstate(all="ignore"):
        chosen = np.array(values if rows is None else values[rows], np.float64)
        axis = 0 if rows is None else 1
        present = np.ones(chosen.shape[: axis + 1])
        if counts is not None and rows is not None:
            present = np.asarray(counts[rows] > 0, float)
        present = present.reshape(present.shape + (1,) * (chosen.ndim - present.ndim))
        total = np.where(present > 0, chosen, 0).sum(axis=axis)
        mean = total / np.maximum(present.sum(axis=axis), 1)
        # A dataset with values that are not finite is reported by its status.
        mean = np.where(np.isfinite(mean), mean, 0)
        return (chosen - np.expand_dims(mean, axis)).astype(dtype), mean


def put_back(result: Result, off_X: np.ndarray | None, off_y: np.ndarray | None) -> Result:
    """Results for the data as given, from the results for data minus their means, in NumPy arrays.

    Args:
        result: Fits of the data minus their means.
        off_X: (b, k) or (k,) the means subtracted from the columns, or None.
        off_y: (b,) the means subtracted from y, or None.
    """
    intercept, dtype = result.intercept.astype(np.float64), result.intercept.dtype
    if off_y is not None:
        intercept = intercept + off_y
    if off_X is not None:
        intercept = intercept - np.sum(off_X * result.coef, axis=-1)
        result = result._replace(center=(result.center + off_X).astype(dtype))
    return result._replace(intercept=intercept.astype(dtype))
