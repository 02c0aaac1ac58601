"""Checks of the labels that put columns into groups, and of values that must agree in a group."""

import numbers
from collections.abc import Iterable, Sequence
from typing import Any

import jax.core
import numpy as np

from bmjax._checks.validate import known

Label = int | str | None


def group_labels(name: str, value: Any, k: int) -> tuple[Label, ...]:
    """One label for each of k columns: an integer, a string, or None for a column in no group.

    Raises:
        TypeError: If a label is of another kind, or the labels are traced.
        ValueError: If there are not k labels, or one is NaN.
    """
    if isinstance(value, jax.core.Tracer):
        raise TypeError(f"{name} is traced; give labels that are known before, such as a list.")
    if isinstance(value, str | bytes | dict | set) or not isinstance(value, Iterable):
        raise TypeError(f"{name} is {value!r}; give a list of {k} labels, one a column of X.")
    plain: Any = value
    labels: list[Any] = plain.tolist() if hasattr(plain, "tolist") else list(plain)
    if len(labels) != k:
        raise ValueError(f"{name} has {len(labels)} labels, wanted {k}: one for each column of X.")
    return tuple(_label(name, column, label) for column, label in enumerate(labels))


def _label(name: str, column: int, label: Any) -> Label:
    if label is None or isinstance(label, str):
        return None if label is None else str(label)
    if isinstance(label, numbers.Real) and not isinstance(label, bool | np.bool_):
        if isinstance(label, numbers.Integral):
            return int(label)
        if np.isnan(float(label)):
            raise ValueError(
                f"{name} holds NaN for column {column}; give None for a column by itself."
            )
    raise TypeError(
        f"{name} holds {label!r} for column {column}; a label is an integer, a string, or None for "
        "a column by itself."
    )


def same_in_group(name: str, value: Any, labels: Sequence[Label], members: np.ndarray) -> None:
    """Refuse values that are not the same for all columns of a group.

    Args:
        name: Name of the argument, for messages.
        value: Values of each column, (k,) or (s, k), or the numbers of some columns; anything else
            is checked elsewhere, or holds for all columns.
        labels: The label of each column.
        members: (g, d) the columns of each group, filled with numbers of k or more where it has
            fewer than d.

    Raises:
        TypeError: If the values are traced.
        ValueError: If they differ within a group.
    """
    if value is None:
        return
    if not known(value):
        raise TypeError(f"{name} is traced; with groups it has to be known before.")
    array, k = np.asarray(value), len(labels)
    if name == "unmasked" and array.dtype != bool:
        array = np.isin(np.arange(k), array % k)
    if array.shape[-1:] != (k,) or (name == "starts" and array.ndim < 2):
        return
    for own in members:
        of_group = array[..., own[own < k]]
        if (of_group != of_group[..., :1]).any():
            raise ValueError(
                f"{name} differs between the columns of the group {labels[own[0]]!r}, which are in "
                "or out together; give all of them the same."
            )
