"""Input checks, made once, in Python, before anything is traced.

Shapes and types are checked always; values only where they are at hand, which inside the
caller's `jit` or `vmap` they are not.
"""

import numbers
import sys
from collections.abc import Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bmjax._checks.arrays import column_labels, floating_array, real_array
from bmjax._runtime import threads

# What JAX counts in: more steps than it holds would take years, and so are as good as no limit.
MOST_STEPS = 2**31 - 1


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
    """X, y and the weights of the samples, (n,); rows of weight zero are not looked at.

    Raises:
        TypeError: If an argument is not an array of real numbers.
        ValueError: If a shape does not fit or a value is not finite.
    """
    threads.enter()
    features, target, dtype = _pair(X, y)
    n = len(target)
    if n < 2:
        raise ValueError(f"X has {n} row(s); at least 2 samples are needed to see any noise.")
    if sample_weights is None:
        return _finite("X", features, dtype, X), _finite("y", target, dtype, y), None
    weights = weights_of_samples(sample_weights, n, dtype)
    if all(map(_known, (features, target, weights))):
        counts = np.asarray(weights) > 0
        if np.sum(counts) < 2:
            raise ValueError(
                f"sample_weights has {np.sum(counts)} entries above zero; at least 2 samples are "
                "needed to see any noise."
            )
        if not counts.all():
            features = np.where(counts[:, None], np.asarray(features), 0)
            target = np.where(counts, np.asarray(target), 0)
    return _finite("X", features, dtype, X), _finite("y", target, dtype, y), weights


def _pair(X: ArrayLike, y: ArrayLike) -> tuple[Any, Any, Any]:
    """X as (n, k), y as (n,), where they lie, and their common type."""
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
    """Some rows of a dataset as NumPy arrays of float64.

    Rows of weight zero are cleared; without weights each row counts once.

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
            _finite(name, array, array.dtype, given)  # says what is wrong
        arrays.append(array.astype(float, copy=False))
    return arrays[0], arrays[1], counts


def at_hand(*values: Any) -> bool:
    """Whether the values of arrays can be looked at, and all of them in this process."""
    return all(
        _known(leaf) and (not isinstance(leaf, jax.Array) or leaf.is_fully_addressable)
        for value in values
        for leaf in (jax.tree.leaves(value) if isinstance(value, list | tuple) else [value])
    )


def on_host(
    X: ArrayLike, y: ArrayLike, sample_weights: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.dtype]:
    """X (n, k), y (n,) and weights as NumPy arrays as they came, and their type in JAX.

    Rows of weight zero are not looked at.

    Raises:
        TypeError: If an argument is not an array of real numbers.
        ValueError: If a shape does not fit, a value is not finite, or fewer than two rows count.
    """
    threads.enter()
    features, target, dtype = _pair(X, y)
    n, dtype = len(target), jax.dtypes.canonicalize_dtype(dtype)
    if n < 2:
        raise ValueError(f"X has {n} row(s); at least 2 samples are needed to see any noise.")
    features, target = np.asarray(features), np.asarray(target)
    counts, looked_at = None, (features, target)
    if sample_weights is not None:
        weights_of_samples(sample_weights, n, dtype)
        counts = np.asarray(floating_array("sample_weights", sample_weights))
        present = counts > 0
        if np.sum(present) < 2:
            raise ValueError(
                f"sample_weights has {np.sum(present)} entries above zero; at least 2 samples are "
                "needed to see any noise."
            )
        if not present.all():
            looked_at = features[present], target[present]
    for name, array, given in zip(("X", "y"), looked_at, (X, y), strict=True):
        # The ends are NaN if an entry is, and no array of the size of X is made.
        ends = np.asarray([array.min(), array.max()])
        with np.errstate(over="ignore", invalid="ignore"):
            fits = np.isfinite(ends.astype(dtype)).all()
        if not fits:
            _finite(name, array, dtype, given)  # says what is wrong
    return features, target, counts, dtype


def host_data(
    X: ArrayLike, y: ArrayLike, sample_weights: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y and weights (ones if none are given) as NumPy arrays of float64, absent rows cleared.

    Raises:
        TypeError: If an argument is not an array of real numbers.
        ValueError: If a shape does not fit, a value is not finite, or fewer than two rows count.
    """
    features, target, weights = rows(X, y, sample_weights)
    if np.sum(weights > 0) < 2:
        raise ValueError(
            f"X has {np.sum(weights > 0)} row(s) that count; at least 2 samples are needed to see "
            "any noise."
        )
    return features, target, weights


def samples(X: ArrayLike, k: int, dtype: Any, *, values: bool = True) -> jax.Array:
    """New samples in rows, for the k features of a fit, as (..., m, k).

    Args:
        X: The samples.
        k: Number of features.
        dtype: Floating-point type of the fit.
        values: Whether to refuse values that are not finite.

    Raises:
        TypeError: If it is not an array of real numbers.
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
        return _finite("X", array, dtype, X)
    return jnp.asarray(_cast(array, jax.dtypes.canonicalize_dtype(dtype)))


def weights_of_samples(value: ArrayLike, n: int, dtype: Any) -> jax.Array:
    """Weights of n samples, (n,), not negative.

    Raises:
        TypeError: If they are not real.
        ValueError: If the shape does not fit or one is negative or not finite.
    """
    array = floating_array("sample_weights", value)
    if array.shape != (n,):
        raise ValueError(
            f"sample_weights has shape {array.shape}, wanted ({n},): one for each row of X."
        )
    weights = _finite("sample_weights", array, dtype)
    if _known(weights) and bool(np.any(np.asarray(weights) < 0)):
        raise ValueError(
            f"sample_weights holds negative numbers, the least is {np.min(np.asarray(weights))}; "
            "a sample counts zero times or more."
        )
    return weights


def chosen_features(name: str, value: Any, k: int) -> jax.Array:
    """Some of k features, given as k booleans or by their numbers, as k booleans.

    Raises:
        TypeError: If it is neither.
        ValueError: If there are not k booleans, or a number is not one of a feature.
    """
    array = real_array(name, value)
    if array.size == 0:
        return jnp.zeros(k, bool)
    if array.dtype == bool:
        if array.shape != (k,):
            raise ValueError(f"{name} has shape {array.shape}, wanted ({k},) booleans.")
        return jnp.asarray(array)
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise TypeError(
            f"{name} has dtype {array.dtype}; give booleans, one a feature, or the numbers of "
            "features."
        )
    if not _known(array):
        raise TypeError(f"{name} is traced; inside jit give booleans, one a feature.")
    numbers = np.asarray(array)
    if numbers.ndim != 1 or numbers.min() < -k or numbers.max() >= k:
        raise ValueError(f"{name} is {value}; wanted numbers of features, 0 to {k - 1}.")
    mask = np.zeros(k, bool)
    mask[numbers] = True
    return jnp.asarray(mask)


def key_words(key: jax.Array) -> list[int]:
    """The numbers that a JAX random key is, of the new style or the old.

    Raises:
        TypeError: If it is not a key.
    """
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.key_data(key)
    if not isinstance(key, jax.Array | np.ndarray) or key.dtype != np.uint32:
        raise TypeError(f"key is {key!r}; give one JAX random key: jax.random.key(0).")
    return np.asarray(key).ravel().tolist()


def flag(name: str, value: Any) -> bool:
    """True or False.

    Raises:
        TypeError: If it is neither.
    """
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is {value!r}; it must be True or False.")
    return bool(value)


def batch(
    X: ArrayLike, y: ArrayLike, sample_weights: ArrayLike | None = None
) -> tuple[Any, Any, Any, Any]:
    """X as (b, n, k) or (n, k), y as (b, n), where they lie, weights, and the type to fit them in.

    With weights of (b, n) y may be (n,), the same for all; with (n,) they are.

    Values are not checked: a dataset with NaN is reported by its status, among the others.

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


def per_feature(name: str, value: ArrayLike, k: int, dtype: Any) -> jax.Array:
    """A number or k of them, as k of them.

    Raises:
        TypeError: If it is not real.
        ValueError: If it is neither a number nor k of them, or not finite.
    """
    array = floating_array(name, value)
    if array.shape not in ((), (k,)):
        raise ValueError(f"{name} has shape {array.shape}, wanted a number or ({k},).")
    return _broadcast(_finite(name, array, dtype), (k,))


def rates(name: str, value: ArrayLike, k: int, dtype: Any) -> jax.Array:
    """Inclusion rates: a number or k of them, in (0, 1].

    Raises:
        TypeError: If it is not real.
        ValueError: If the shape does not fit or a rate is outside (0, 1].
    """
    array = per_feature(name, value, k, dtype)
    if _known(array) and not np.all((np.asarray(array) > 0) & (np.asarray(array) <= 1)):
        raise ValueError(f"{name} is {value}; an inclusion rate lies above 0 and not above 1.")
    return array


def rate_rows(name: str, value: ArrayLike, k: int, dtype: Any) -> jax.Array:
    """Inclusion rates of several starts, (s,) for all features or (s, k), as (s, k).

    Raises:
        TypeError: If they are not real.
        ValueError: If the shape does not fit or a rate is outside [0, 1].
    """
    array = floating_array(name, value)
    shape = array.shape
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] not in (1, k) or len(array) < 1:
        raise ValueError(
            f"{name} has shape {shape}, wanted a number of starts, (s,) rates or "
            f"(s, {k}) rates, a row a start."
        )
    array = _finite(name, array, dtype)
    if _known(array) and not np.all((np.asarray(array) >= 0) & (np.asarray(array) <= 1)):
        raise ValueError(f"{name} is {value}; an inclusion rate lies between 0 and 1.")
    return _broadcast(array, (len(array), k))


def number(
    name: str,
    value: ArrayLike,
    dtype: Any,
    *,
    low: float,
    high: float = float("inf"),
    open_low: bool,
) -> jax.Array:
    """A real number within its range.

    Raises:
        TypeError: If it is not a real number.
        ValueError: If it is an array or out of range.
    """
    array = floating_array(name, value)
    if array.shape != ():
        raise ValueError(f"{name} has shape {array.shape}, wanted one number.")
    array = _finite(name, array, dtype)
    if _known(array):
        at = np.asarray(array)
        inside = low < at <= high if open_low else low <= at <= high
        if not inside:
            above = "above" if open_low else "at least"
            top = "" if high == float("inf") else f" and at most {high:g}"
            raise ValueError(f"{name} is {value}; it must be {above} {low:g}{top}.")
    return array


def option(name: str, value: Any) -> None:
    """Refuse a solver's option that is not a positive Python number (None is the caller's).

    Raises:
        TypeError: If it is not a real number.
        ValueError: If it is not above zero and finite.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is {value!r}; it must be a number.")
    size: Any = value  # not as a float, which a long int does not fit into
    if not 0 < size <= sys.float_info.max:
        raise ValueError(f"{name} is {value}; it must be above 0 and finite.")


def count(name: str, value: Any, *, low: int, high: int = MOST_STEPS) -> int:
    """A whole number from `low` to `high`.

    Raises:
        TypeError: If it is not a whole number.
        ValueError: If it is too small or too large.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} is {value!r}; it must be a whole number.")
    number = int(value)
    if number < low:
        raise ValueError(f"{name} is {number}; it must be at least {low}.")
    if number > high:
        raise ValueError(f"{name} is {number}; it must be at most {high}.")
    return number


def steps(name: str, value: Any) -> int:
    """A limit of steps, 0 or more; one beyond what JAX counts in is as good as none.

    Raises:
        TypeError: If it is not a whole number.
        ValueError: If it is below 0.
    """
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        value = min(int(value), MOST_STEPS)
    return count(name, value, low=0)


def choice(name: str, value: Any, among: Sequence[str]) -> str:
    """One of some words.

    Raises:
        TypeError: If it is not a word.
        ValueError: If it is another.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}; it must be one of {', '.join(among)}.")
    if value not in among:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(among)}.")
    return value


def _known(array: Any) -> bool:
    return not isinstance(array, jax.core.Tracer)


def _cast(array: Any, dtype: Any) -> Any:
    """The array in another type; what that cannot hold becomes infinite or zero in silence."""
    with np.errstate(all="ignore"):
        return array.astype(dtype)


def _broadcast(array: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """An array of a shape; on the host where its values are known, so that nothing is compiled."""
    if _known(array):
        return jnp.asarray(np.broadcast_to(np.asarray(array), shape))
    return jnp.broadcast_to(array, shape)


def _finite(name: str, array: Any, dtype: Any, given: Any = None) -> jax.Array:
    """The array in its final type, refused if an entry is not finite in it.

    Args:
        name: What the argument is called.
        array: Its values.
        dtype: Their type in the end.
        given: What the values came in, of which the message names the column if it is a frame.
    """
    dtype = jax.dtypes.canonicalize_dtype(dtype)
    if not _known(array):
        return array.astype(dtype)
    if isinstance(array, jax.Array):
        # Also while the caller's function of something else is traced.
        with jax.ensure_compile_time_eval():
            converted = array.astype(dtype)
            good = bool(jnp.isfinite(converted).all())
    else:
        converted = _cast(array, dtype)
        good = bool(np.isfinite(converted).all())
    if not good:
        finite = np.isfinite(np.asarray(array))
        if finite.all():
            raise ValueError(
                f"{name} holds values too large for {jnp.dtype(dtype).name}; rescale it or enable "
                "float64 with jax.config.update('jax_enable_x64', True)."
            )
        where, place = np.argwhere(~finite), ""
        if array.ndim:
            labels = column_labels(given)
            column = "" if labels is None else f", column {labels[where[0][-1]]!r}"
            place = f" (first at {tuple(int(i) for i in where[0])}{column})"
        raise ValueError(
            f"{name} holds NaN or infinite values: {len(where)} of them{place}. Drop or impute "
            "those rows first."
        )
    return jnp.asarray(converted)
