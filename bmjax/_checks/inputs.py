"""Checks of the datasets that a user passes in: X, y and weights of the samples."""

from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bmjax._checks.arrays import floating_array
from bmjax._checks.validate import cast, finite, known
from bmjax._runtime import threads


def data(X: ArrayLike, y: ArrayLike) -> tuple[jax.Array, jax.Array]:
    """X as (n, k) and y as (n,), of one floating-point type: that of the input, as JAX sees it.

    Raises:
        TypeError: If an argument is not an array of real numbers.
        ValueError: If a shape does not fit or a value is not finite.
    """
    return weighted_data(X, y, None)[:2]


def weighted_data(
    X: ArrayLike, y: ArrayLike, sample_weights: ArrayLike | None
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """X, y and the weights of the samples, (n,); the values in rows of weight zero are ignored.

    Raises:
        TypeError: If an argument is not an array of real numbers.
        ValueError: If a shape does not fit or a value is not finite.
    """
    threads.enter()
    features, target, dtype = _pair(X, y)
    n = len(target)
    enough(n, "X has {} row(s)")
    if sample_weights is None:
        return finite("X", features, dtype, X), finite("y", target, dtype, y), None
    weights = weights_of_samples(sample_weights, n, dtype)
    if all(map(known, (features, target, weights))):
        counts = np.asarray(weights) > 0
        enough(np.sum(counts), "sample_weights has {} entries above zero")
        if not counts.all():
            features = np.where(counts[:, None], np.asarray(features), 0)
            target = np.where(counts, np.asarray(target), 0)
    return finite("X", features, dtype, X), finite("y", target, dtype, y), weights


def enough(number: Any, found: str) -> None:
    """Refuse fewer than two samples; the message begins with what was found."""
    if number < 2:
        raise ValueError(f"{found.format(number)}; at least 2 samples are needed to see any noise.")


def _pair(X: ArrayLike, y: ArrayLike) -> tuple[Any, Any, Any]:
    """X as (n, k) and y as (n,), on the host or device that holds them, and their common type."""
    features, target = floating_array("X", X), floating_array("y", y)
    if features.ndim != 2:
        raise ValueError(
            f"X has shape {features.shape}, wanted (n samples, k features). For one feature use "
            "X[:, None]; for a batch of datasets use jax.vmap."
        )
    n, k = features.shape
    if target.shape == (n, 1):
        target = target[:, 0]
    if target.ndim != 1:
        raise ValueError(
            f"y has shape {target.shape}, wanted ({n},): one target for each row of X."
        )
    if len(target) != n:
        raise ValueError(
            f"y has {len(target)} entries but X has {n} rows; one target for each row."
        )
    if k < 1:
        raise ValueError(f"X has shape {features.shape}: no column, so there is no feature to fit.")
    dtype = np.promote_types(np.promote_types(features.dtype, target.dtype), np.float32)
    return features, target, dtype


def rows(
    X: ArrayLike, y: ArrayLike, sample_weights: ArrayLike | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y and weights for some rows of a dataset, as NumPy arrays of float64.

    Rows of weight zero are set to zero; without weights each row counts once.

    Raises:
        TypeError: If an argument is not an array of real numbers.
        ValueError: If a shape does not fit or a value is not finite.
    """
    features, target, _ = _pair(X, y)
    features, target = np.asarray(features), np.asarray(target)
    counts = np.ones(len(target))
    if sample_weights is not None:
        counts = np.asarray(weights_of_samples(sample_weights, len(target), float), float)
        if not counts.all():
            features = np.where(counts[:, None] > 0, features, 0)
            target = np.where(counts > 0, target, 0)
    arrays = []
    for name, array, given in (("X", features, X), ("y", target, y)):
        if not np.isfinite(array).all():
            finite(name, array, array.dtype, given)  # raises with the place
        arrays.append(array.astype(float, copy=False))
    return arrays[0], arrays[1], counts


def at_hand(*values: Any) -> bool:
    """Whether the values of all arrays are known, and held entirely by this process."""
    return all(
        known(leaf) and (not isinstance(leaf, jax.Array) or leaf.is_fully_addressable)
        for value in values
        for leaf in (jax.tree.leaves(value) if isinstance(value, list | tuple) else [value])
    )


def on_host(
    X: ArrayLike, y: ArrayLike, sample_weights: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.dtype]:
    """X (n, k), y (n,) and weights as NumPy arrays of their own types, and the type of the fit.

    The values in rows of weight zero are ignored.

    Raises:
        TypeError: If an argument is not an array of real numbers.
        ValueError: If a shape does not fit, a value is not finite, or fewer than two rows count.
    """
    threads.enter()
    features, target, dtype = _pair(X, y)
    n, dtype = len(target), jax.dtypes.canonicalize_dtype(dtype)
    enough(n, "X has {} row(s)")
    features, target = np.asarray(features), np.asarray(target)
    counts, looked_at = None, (features, target)
    if sample_weights is not None:
        weights_of_samples(sample_weights, n, dtype)
        counts = np.asarray(floating_array("sample_weights", sample_weights))
        present = counts > 0
        enough(np.sum(present), "sample_weights has {} entries above zero")
        if not present.all():
            looked_at = features[present], target[present]
    for name, array, given in zip(("X", "y"), looked_at, (X, y), strict=True):
        # The extremes are NaN if an entry is, and take no array of the size of X.
        ends = np.asarray([array.min(), array.max()])
        with np.errstate(over="ignore", invalid="ignore"):
            fits = np.isfinite(ends.astype(dtype)).all()
        if not fits:
            finite(name, array, dtype, given)  # raises with the place
    return features, target, counts, dtype


def host_data(
    X: ArrayLike, y: ArrayLike, sample_weights: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y and weights (default: ones) as NumPy arrays of float64, with zeros in absent rows.

    Raises:
        TypeError: If an argument is not an array of real numbers.
        ValueError: If a shape does not fit, a value is not finite, or fewer than two rows count.
    """
    features, target, weights = rows(X, y, sample_weights)
    enough(np.sum(weights > 0), "X has {} row(s) that count")
    return features, target, weights


def outcomes(family: Any, y: Any, counts: Any = None, *, batch: bool = False) -> None:
    """Refuse a target that has probability zero in a family.

    Args:
        family: The family, None for the Gaussian.
        y: (..., n) the target, with known values.
        counts: (..., n) how often each row counts; the values in rows of weight zero are ignored.
        batch: Whether there are several datasets: one whose values are not finite, or all the same,
            is then reported by its status.

    Raises:
        ValueError: If y of a logistic fit holds other values than 0 and 1, or only one of them.
    """
    if family is None or family.has_units:
        return
    values = np.asarray(y)
    if counts is not None:
        values = values[np.broadcast_to(np.asarray(counts) > 0, values.shape)]
    if batch:
        values = values[np.isfinite(values)]
    found = np.unique(values)
    if not np.isin(found, (0, 1)).all():
        shown = ", ".join(f"{value:g}" for value in found[:4].tolist())
        raise ValueError(
            f"y holds {shown}{', ...' if len(found) > 4 else ''}; family={family.name!r} is for "
            "outcomes 0 and 1: give y == (the outcome to be explained), or take "
            "BayesianMaskingClassifier, which knows any two labels."
        )
    if len(found) < 2 and not batch:
        raise ValueError(
            f"y is {found[0]:g} in every row; family={family.name!r} needs both outcomes."
        )


def samples(X: ArrayLike, k: int, dtype: Any, *, values: bool = True) -> jax.Array:
    """New samples in rows, over the k features of a fit, as (..., m, k).

    Args:
        X: The samples.
        k: Number of features.
        dtype: Floating-point type of the fit.
        values: Whether to refuse values that are not finite.

    Raises:
        TypeError: If X is not an array of real numbers.
        ValueError: If there are not k columns or a value is not finite.
    """
    threads.enter()
    array = floating_array("X", X)
    if array.ndim < 2 or array.shape[-1] != k:
        raise ValueError(
            f"X has shape {array.shape}; predict needs samples in rows and the {k} features of the "
            "fit in columns."
        )
    if values:
        return finite("X", array, dtype, X)
    return jnp.asarray(cast(array, jax.dtypes.canonicalize_dtype(dtype)))


def weights_of_samples(value: ArrayLike, n: int, dtype: Any) -> jax.Array:
    """Weights of n samples, (n,), which must not be negative.

    Raises:
        TypeError: If they are not real numbers.
        ValueError: If the shape does not fit or one is negative or not finite.
    """
    array = floating_array("sample_weights", value)
    if array.shape != (n,):
        raise ValueError(
            f"sample_weights has shape {array.shape}, wanted ({n},): one for each row of X."
        )
    weights = finite("sample_weights", array, dtype)
    if known(weights) and bool(np.any(np.asarray(weights) < 0)):
        raise ValueError(
            f"sample_weights holds negative numbers, the least is {np.min(np.asarray(weights))}; "
            "a sample counts zero times or more."
        )
    return weights


def batch(
    X: ArrayLike, y: ArrayLike, sample_weights: ArrayLike | None = None
) -> tuple[Any, Any, Any, Any]:
    """X as (b, n, k) or (n, k), y and weights as (b, n), where they lie, and the type of the fit.

    With weights of (b, n), y may be (n,), shared by all datasets. Weights may be (n,) too.

    Values are not checked: a dataset with NaN is reported by its status.

    Raises:
        TypeError: If an argument is not an array of real numbers.
        ValueError: If a shape does not fit.
    """
    threads.enter()
    features, targets, weights = floating_array("X", X), floating_array("y", y), None
    if sample_weights is not None:
        weights = floating_array("sample_weights", sample_weights)
        if weights.ndim not in (1, 2):
            raise ValueError(
                f"sample_weights has shape {weights.shape}, wanted (b datasets, n samples), or "
                "(n,) for all datasets."
            )
        if targets.ndim == 1 and weights.ndim == 2 and weights.shape[1] == len(targets):
            targets = np.broadcast_to(np.asarray(targets), weights.shape)
    if targets.ndim != 2:
        raise ValueError(f"y has shape {targets.shape}, wanted (b datasets, n samples).")
    b, n = targets.shape
    if features.ndim not in (2, 3):
        raise ValueError(
            f"X has shape {features.shape}, wanted (b, n, k), or (n, k) for all datasets."
        )
    if features.shape[-2] != n or (features.ndim == 3 and len(features) != b):
        raise ValueError(
            f"X has shape {features.shape} but y has shape {targets.shape}; X must be "
            f"({b}, {n}, k), or ({n}, k) for all datasets."
        )
    if b < 1 or n < 2 or features.shape[-1] < 1:
        raise ValueError(
            f"X has shape {features.shape} and y {targets.shape}; at least one dataset, two "
            "samples and one feature are needed."
        )
    if weights is not None:
        if weights.shape not in ((b, n), (n,)):
            raise ValueError(
                f"sample_weights has shape {weights.shape} but y has shape {targets.shape}; wanted "
                f"({b}, {n}), or ({n},) for all datasets."
            )
        host = np.asarray(weights)
        if not (host >= 0).all() or not np.isfinite(host).all():
            raise ValueError("sample_weights holds numbers that are negative or not finite.")
        if weights.ndim == 1:
            weights = np.broadcast_to(host, targets.shape)
    dtype = np.promote_types(np.promote_types(features.dtype, targets.dtype), np.float32)
    return features, targets, weights, jax.dtypes.canonicalize_dtype(dtype)
