"""Input checks, made once, in Python, before anything is traced.

Shapes and types are always checked; values only where they are known, which they are not inside the
caller's `jit` or `vmap`.
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

# The largest int32, which JAX counts in. More steps would take years, so it serves as no limit.
MOST_STEPS = 2**31 - 1


def chosen_features(name: str, value: Any, k: int) -> jax.Array:
    """A choice of features, given as k booleans or by their numbers, as k booleans.

    Raises:
        TypeError: If the value is neither.
        ValueError: If there are not k booleans, or a number is that of no feature.
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
    if not known(array):
        raise TypeError(f"{name} is traced; inside jit give booleans, one a feature.")
    numbers = np.asarray(array)
    if numbers.ndim != 1 or numbers.min() < -k or numbers.max() >= k:
        raise ValueError(f"{name} is {value}; wanted numbers of features, 0 to {k - 1}.")
    mask = np.zeros(k, bool)
    mask[numbers] = True
    return jnp.asarray(mask)


def key_words(key: jax.Array) -> list[int]:
    """The integers that make up a JAX random key, of the new style or the old.

    Raises:
        TypeError: If the value is not a key.
    """
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.key_data(key)
    if not isinstance(key, jax.Array | np.ndarray) or key.dtype != np.uint32:
        raise TypeError(f"key is {key!r}; give one JAX random key: jax.random.key(0).")
    return np.asarray(key).ravel().tolist()


def flag(name: str, value: Any) -> bool:
    """The value as a Python bool.

    Raises:
        TypeError: If it is neither True nor False.
    """
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is {value!r}; it must be True or False.")
    return bool(value)


def per_feature(name: str, value: ArrayLike, k: int, dtype: Any) -> jax.Array:
    """A number for each of k features, from one number or k of them.

    Raises:
        TypeError: If the value is not real.
        ValueError: If it is neither a number nor k of them, or not finite.
    """
    array = floating_array(name, value)
    if array.shape not in ((), (k,)):
        raise ValueError(f"{name} has shape {array.shape}, wanted a number or ({k},).")
    return broadcast(finite(name, array, dtype), (k,))


def rates(name: str, value: ArrayLike, k: int, dtype: Any) -> jax.Array:
    """Inclusion rates in (0, 1] of k features, from one number or k of them.

    Raises:
        TypeError: If the value is not real.
        ValueError: If the shape does not fit or a rate is outside (0, 1].
    """
    array = per_feature(name, value, k, dtype)
    if known(array) and not np.all((np.asarray(array) > 0) & (np.asarray(array) <= 1)):
        raise ValueError(f"{name} is {value}; an inclusion rate lies above 0 and not above 1.")
    return array


def rate_rows(name: str, value: ArrayLike, k: int, dtype: Any) -> jax.Array:
    """Inclusion rates in [0, 1] of s starts, as (s, k), from (s,) for all features or (s, k).

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
    array = finite(name, array, dtype)
    if known(array) and not np.all((np.asarray(array) >= 0) & (np.asarray(array) <= 1)):
        raise ValueError(f"{name} is {value}; an inclusion rate lies between 0 and 1.")
    return broadcast(array, (len(array), k))


def number(
    name: str,
    value: ArrayLike,
    dtype: Any,
    *,
    low: float,
    high: float = float("inf"),
    open_low: bool,
) -> jax.Array:
    """A real number in the range from `low` to `high`, `low` itself excluded if `open_low`.

    Raises:
        TypeError: If it is not a real number.
        ValueError: If it is an array or out of range.
    """
    array = floating_array(name, value)
    if array.shape != ():
        raise ValueError(f"{name} has shape {array.shape}, wanted one number.")
    array = finite(name, array, dtype)
    if known(array):
        at = np.asarray(array)
        inside = low < at <= high if open_low else low <= at <= high
        if not inside:
            above = "above" if open_low else "at least"
            top = "" if high == float("inf") else f" and at most {high:g}"
            raise ValueError(f"{name} is {value}; it must be {above} {low:g}{top}.")
    return array


def option(name: str, value: Any) -> None:
    """Refuse a solver's option that is not a positive Python number (the caller handles None).

    Raises:
        TypeError: If it is not a real number.
        ValueError: If it is not above zero and finite.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is {value!r}; it must be a number.")
    size: Any = value  # not as a float, which overflows for a long int
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
    """A limit of steps, 0 or more, cut to the largest integer that JAX counts in.

    Raises:
        TypeError: If it is not a whole number.
        ValueError: If it is below 0.
    """
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        value = min(int(value), MOST_STEPS)
    return count(name, value, low=0)


def choice(name: str, value: Any, among: Sequence[str]) -> str:
    """A word, which must be one of several.

    Raises:
        TypeError: If it is not a string.
        ValueError: If it is none of these words.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}; it must be one of {', '.join(among)}.")
    if value not in among:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(among)}.")
    return value


def known(array: Any) -> bool:
    return not isinstance(array, jax.core.Tracer)


def cast(array: Any, dtype: Any) -> Any:
    """The array in another type; values out of its range become infinite or zero silently."""
    with np.errstate(all="ignore"):
        return array.astype(dtype)


def finite(name: str, array: Any, dtype: Any, given: Any = None) -> jax.Array:
    """The array in its final type; it is refused if an entry is not finite in that type.

    Args:
        name: Name of the argument, for messages.
        array: The values of the argument.
        dtype: The type to convert them to.
        given: The user's argument; if it is a frame, the message names the column.
    """
    dtype = jax.dtypes.canonicalize_dtype(dtype)
    if not known(array):
        return array.astype(dtype)
    if isinstance(array, jax.Array):
        # Also while a function of other values is traced by the caller.
        with jax.ensure_compile_time_eval():
            converted = array.astype(dtype)
            good = bool(jnp.isfinite(converted).all())
    else:
        converted = cast(array, dtype)
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


def broadcast(array: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """The array broadcast to a shape, on the host if its values are known, to compile nothing."""
    if known(array):
        return jnp.asarray(np.broadcast_to(np.asarray(array), shape))
    return jnp.broadcast_to(array, shape)
