"""The one entry for arrays of any package: they become real numbers or are refused by name.

Every number that converts without loss is accepted: of any byte order, as a bool, in a frame whose
columns differ in type, in a nullable column, as an object that is a number (also Decimal and
Fraction). Values that NumPy would convert to unintended numbers are refused: a value behind a mask,
a time, a code of a category. A missing value is NaN, which the caller treats as any other NaN.
"""

import numbers
from decimal import Decimal
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

_NUMBERS = (numbers.Real, np.bool_, Decimal)
_ENCODE = "give numbers (encode categories as 0/1 columns)."


def real_array(name: str, value: Any) -> Any:
    """An array of booleans, integers or floating-point numbers; a JAX array stays on its device.

    Args:
        name: Name of the caller's argument, for messages.
        value: An array or frame of any package, or anything that NumPy makes an array of.

    Raises:
        TypeError: If it is not an array of real numbers.
        ValueError: If it is not rectangular, or values are masked.
    """
    if not isinstance(value, jax.Array):
        return _on_host(name, value)
    if jnp.issubdtype(value.dtype, jnp.complexfloating):
        raise TypeError(f"{name} has dtype {value.dtype}; only real numbers can be fitted.")
    if not (jnp.issubdtype(value.dtype, jnp.number) or value.dtype == bool):
        raise TypeError(f"{name} has dtype {value.dtype}; {_ENCODE}")
    return value


def floating_array(name: str, value: Any) -> Any:
    """A real array in a floating-point type, its own if it has one.

    Raises:
        TypeError: If it is not an array of real numbers.
        ValueError: If it is not rectangular, or values are masked.
    """
    array = real_array(name, value)
    if jnp.issubdtype(array.dtype, jnp.floating):
        return array
    # Integers would wrap around once squared. Host arrays go through float64.
    return array.astype(jnp.result_type(float) if isinstance(array, jax.Array) else float)


def column_labels(value: Any) -> list[Any] | None:
    """The labels of a frame's columns, None for anything else."""
    columns = _columns(value)
    return None if columns is None else [label for label, _ in columns]


def refuse_disguised(name: str, value: Any) -> None:
    """Refuse values that other packages would convert to numbers: masked values, times, categories.

    Raises:
        TypeError: If the value holds times or categories.
        ValueError: If values are masked.
    """
    for label, column in _columns(value) or []:
        refuse_disguised(_of_frame(label, name), column)
    if isinstance(value, np.ma.MaskedArray):
        hidden = int(np.ma.getmaskarray(value).sum())
        if hidden:
            raise ValueError(
                f"{name} is a masked array with {hidden} values masked; drop those rows, or give "
                f"{name}.filled(...)."
            )
    dtype = getattr(value, "dtype", None)
    if getattr(dtype, "kind", None) in ("M", "m"):
        raise TypeError(
            f"{name} has dtype {dtype}, times; give numbers, such as of days: "
            "(times - start) / numpy.timedelta64(1, 'D')."
        )
    if str(dtype) == "category":
        raise TypeError(f"{name} has dtype category; {_ENCODE}")


def _on_host(name: str, value: Any) -> Any:
    """Anything but a JAX array, as a NumPy array of real numbers."""
    for dense in ("toarray", "todense"):
        if hasattr(value, dense):
            raise TypeError(
                f"{name} is a sparse {type(value).__name__}; give it dense, as {name}.{dense}()."
            )
    columns = _columns(value)
    if columns is not None:
        return _of_columns(name, value, columns)
    if isinstance(value, list | tuple) and any(map(_is_foreign, value)):
        return _stacked(name, value)
    refuse_disguised(name, value)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} is not a rectangular array: {error}") from None
    refuse_disguised(name, array)
    if array.dtype == object:
        return _of_objects(name, value, array)
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise TypeError(f"{name} has dtype {array.dtype}; only real numbers can be fitted.")
    if not (jnp.issubdtype(array.dtype, jnp.number) or array.dtype == bool):
        raise TypeError(f"{name} has dtype {array.dtype}; {_ENCODE}")
    if array.dtype.itemsize > 8:  # long doubles, which JAX lacks
        with np.errstate(over="ignore", under="ignore"):
            return array.astype(np.float64)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _is_foreign(value: Any) -> bool:
    """Whether NumPy may lose the meaning of the value when it converts a list of such values."""
    if isinstance(value, np.generic) or type(value) is np.ndarray:
        return False
    return hasattr(value, "__array__") or hasattr(value, "toarray")


def _stacked(name: str, values: list[Any] | tuple[Any, ...]) -> Any:
    """Arrays checked one by one and stacked along a new first axis."""
    parts = [real_array(f"{name}[{i}]", value) for i, value in enumerate(values)]
    if any(isinstance(part, jax.core.Tracer) for part in parts):
        return jnp.stack([jnp.asarray(part, jnp.result_type(float)) for part in parts])
    try:
        return np.stack([np.asarray(part) for part in parts])
    except ValueError as error:
        raise ValueError(f"{name} is not a rectangular array: {error}") from None


def _columns(value: Any) -> list[tuple[Any, Any]] | None:
    """Labels and columns of a frame of pandas or polars; None for anything else."""
    if hasattr(value, "iloc") and hasattr(value, "columns"):
        return [(label, value.iloc[:, j]) for j, label in enumerate(value.columns)]
    if hasattr(value, "get_columns"):
        return [(column.name, column) for column in value.get_columns()]
    return None


def _of_frame(label: Any, name: str) -> str:
    return f"column {label!r} of {name}"


def _of_columns(name: str, frame: Any, columns: list[tuple[Any, Any]]) -> np.ndarray:
    """A frame converted column by column; as a whole, mixed types would be an array of objects."""
    if not columns:
        return np.empty(frame.shape)
    return np.column_stack([_on_host(_of_frame(label, name), column) for label, column in columns])


def _of_objects(name: str, value: Any, array: np.ndarray) -> np.ndarray:
    """An array of objects that are numbers, as float64, with NaN for missing ones."""
    if array.ndim == 0:
        raise TypeError(f"{name} is {type(value).__name__}, not an array of numbers.")
    found = np.empty(array.shape)
    for place, one in np.ndenumerate(array):
        if one is None or type(one).__name__ == "NAType":
            found[place] = np.nan
        elif isinstance(one, _NUMBERS):
            try:
                found[place] = float(one)
            except (OverflowError, ValueError):
                raise ValueError(f"{name} holds {one!r} at {place}, beyond float64.") from None
        else:
            raise TypeError(
                f"{name} has dtype object and holds {one!r}, of type {type(one).__name__}, at "
                f"{place}; {_ENCODE}"
            )
    return found
