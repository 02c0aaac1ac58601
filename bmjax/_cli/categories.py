"""Categorical columns of a file: a 0/1 column for each level but the first, all in one group."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmjax._cli.errors import UsageError, listed, shown
from bmjax._fitting.categories import Encoding, dummy_name

# The levels of each categorical column; effects are relative to the first.
Levels = Mapping[str, Sequence[str]]


def levels_of(column: Any) -> tuple[str, ...]:
    """The distinct values of a column, sorted as numbers if all are numbers, else as text."""
    values = sorted(set(column.dropna().str.strip()))
    try:
        return tuple(sorted(values, key=float))
    except ValueError:
        return tuple(values)


def codes_of(column: Any, levels: Sequence[str]) -> NDArray[np.float64]:
    """The number of each value among the levels, NaN for a value that is not a level."""
    numbers = {level: float(number) for number, level in enumerate(levels)}
    return column.str.strip().map(numbers).to_numpy(np.float64)


def dummy_names(name: str, levels: Levels) -> list[str]:
    """The names of the 0/1 columns of a categorical column; its own name if it holds numbers."""
    return [dummy_name(name, level) for level in levels[name][1:]] if name in levels else [name]


def labels_of(names: Sequence[str], levels: Levels) -> list[str | None] | None:
    """The group label of each feature: the categorical column that it comes from, or None."""
    if not levels:
        return None
    columns = {dummy: name for name in levels for dummy in dummy_names(name, levels)}
    return [columns.get(name) for name in names]


def expanded(
    values: NDArray[np.float64], names: Sequence[str], levels: Levels
) -> tuple[NDArray[np.float64], list[str]]:
    """The columns and names of the features, with categorical columns expanded to 0/1 columns.

    Args:
        values: (n, columns) numbers; for categories, the numbers of the levels.
        names: Names of the columns.
        levels: Levels of each categorical column.

    Raises:
        UsageError: If a categorical column has too few or too many levels, or a name occurs twice.
    """
    if not levels:
        return values, list(names)
    for name, own in levels.items():
        if len(own) < 2:
            raise UsageError(f"--categorical: column {name!r} has one level only. --exclude it.")
        if 2 * len(own) > len(values):
            raise UsageError(
                f"--categorical: column {name!r} has {len(own)} levels in {len(values)} rows, too "
                "many to tell their effects. Join some, or --exclude it."
            )
    encoding = Encoding(tuple(levels.get(name) for name in names))
    longer = encoding.names(names)
    twice = [name for name in dict.fromkeys(longer) if longer.count(name) > 1]
    if twice:
        raise UsageError(f"--categorical: there would be two columns {listed(twice)}. Rename one.")
    return encoding.expanded(values), list(longer)


def described(levels: Levels) -> list[str]:
    """A sentence on each categorical column."""
    return [
        f"{shown(name)} has {len(own)} levels, kept or pruned together; effects are against "
        f"{shown(own[0])}."
        for name, own in levels.items()
    ]
