"""Groups of columns: one mask and one inclusion rate for all columns of a group.

The dummies of a categorical variable, the terms of a spline or the markers of a gene act together
or not at all. Given the weights, a group acts by E_g = sum over its columns of weight_j x_j, and in
its masks the problem is the one without groups, with features E_g of weight one. Given the masks,
those of a group are the same, so the second moments of two of its columns hold E[z z] = E[z]. A
group of d columns is charged d/2 log(n pi) for its weights and log(n)/2 for its rate, as Laplace's
method over its d weights gives.

What belongs to a group is held column by column, the same number d times, so that shapes do not
depend on the grouping; sums over groups count the first column of each.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bmjax._runtime.backend import Array, namespace

# In the place of a column where a group has fewer than the largest; beyond any number of columns.
NO_COLUMN = 2**30


class Groups(NamedTuple):
    """Which columns belong together, for the columns of a problem or those in its slots.

    Attributes:
        number: The group of each column.
        size: How many columns that has; 0 in an empty slot.
        first: Whether a column is the first of its group.
        members: The columns of each group, `NO_COLUMN` where it has fewer, whatever the slots;
            None where nobody looks for another group.
    """

    number: Int[Array, " k"]
    size: Int[Array, " k"]
    first: Bool[Array, " k"]
    members: Int[Array, "g d"] | None

    @property
    def same(self) -> Bool[Array, "k k"]:
        """Whether two columns are of one group."""
        return self.number[:, None] == self.number[None, :]

    def tied(self, values: Array) -> Array:
        """Values by column, that of the first column for all of a group."""
        xp = namespace(values, self.number)
        return values[xp.argmax(self.same, axis=1).astype(xp.int32)]

    def summed(self, values: Float[Array, "k *n"]) -> Float[Array, "k *n"]:
        """Sums over the columns of each group, in the place of its first column, else zero."""
        return (self.same & self.first[:, None]).astype(values.dtype) @ values


def padded(groups: Groups | None, columns: int) -> Groups | None:
    """The groups with so many columns more that are none of the dataset's."""
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
    """The groups of columns with the same label, None where every column is by itself.

    Args:
        labels: The label of each column; one whose label is None is by itself.
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
