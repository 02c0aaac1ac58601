"""Groups of columns: one mask and one inclusion rate for all columns of a group.

The 0/1 columns of a categorical feature, the terms of a spline or the markers of a gene act
together or not at all. Given the weights, a group acts by E_g = sum over its columns of weight_j
x_j, and for the masks the problem is that without groups, with features E_g of weight one. Given
the masks, which are the same for all columns of a group, the second moment of the masks of two of
its columns is E[z z] = E[z]. A group of d columns is charged d/2 log(n pi) for its weights and
log(n)/2 for its rate, as Laplace's method over its d weights gives.

The masks and the rate of a group are stored for each of its d columns, with the same values, so
that shapes do not depend on the grouping; sums over groups count the first column of each.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bmjax._runtime.backend import Array, namespace

# Fills the places of a group with fewer columns than the largest; larger than any column's number.
NO_COLUMN = 2**30


class Groups(NamedTuple):
    """The groups of the columns of a problem, or of those in its slots.

    Attributes:
        number: The number of the group of each column.
        size: The number of columns of that group; 0 in an empty slot.
        first: Whether each column is the first of its group.
        members: The columns of each group in the dataset, filled with `NO_COLUMN`; None if not
            needed.
    """

    number: Int[Array, " k"]
    size: Int[Array, " k"]
    first: Bool[Array, " k"]
    members: Int[Array, "g d"] | None

    @property
    def same(self) -> Bool[Array, "k k"]:
        """Whether two columns belong to the same group."""
        return self.number[:, None] == self.number[None, :]

    def tied(self, values: Array) -> Array:
        """Values by column, replaced by that of the first column for all columns of a group."""
        xp = namespace(values, self.number)
        return values[xp.argmax(self.same, axis=1).astype(xp.int32)]

    def summed(self, values: Float[Array, "k *n"]) -> Float[Array, "k *n"]:
        """Sums over the columns of each group, in the row of its first column, else zero."""
        return (self.same & self.first[:, None]).astype(values.dtype) @ values


def padded(groups: Groups | None, columns: int) -> Groups | None:
    """The groups with a number of padding columns appended, each alone."""
    if groups is None:
        return None
    xp, before = namespace(groups.number), len(groups.number)
    beyond = xp.arange(before, before + columns, dtype=xp.int32)
    return groups._replace(
        number=xp.concatenate([groups.number, beyond]),
        size=xp.concatenate([groups.size, xp.ones(columns, xp.int32)]),
        first=xp.concatenate([groups.first, xp.ones(columns, bool)]),
    )


def groups_of(labels: Sequence[object]) -> Groups | None:
    """The groups of columns with the same label; None if every column is alone.

    Args:
        labels: The label of each column; a column with the label None is alone.
    """
    columns: dict[object, list[int]] = {}
    for column, label in enumerate(labels):
        columns.setdefault((column,) if label is None else label, []).append(column)
    if len(columns) == len(labels):
        return None
    widest = max(map(len, columns.values()))
    members = np.full((len(columns), widest), NO_COLUMN, np.int32)
    number, size = np.zeros((2, len(labels)), np.int32)
    first = np.zeros(len(labels), bool)
    for group, own in enumerate(columns.values()):
        members[group, : len(own)] = own
        number[own], size[own], first[own[0]] = group, len(own), True
    return Groups(number, size, first, members)
