"""Every drop, addition and exchange of a whole group of columns, judged from sums over samples.

The columns of a group leave a slab at once and enter it one by one, each by a rank-one update, so
that columns that are combinations of others are left out of a group. With V the inverse of X'X over
the slots, b the coefficients, r = X'residual and D = X'X - (X'X) V (X'X) the part of the products
that the slots do not explain, dropping g adds b_g' V_gg^-1 b_g to the sum of squared residuals,
adding g subtracts r_g' D_gg^-1 r_g, and an exchange is an addition to the slab without the group. A
column that was left out as a combination of others stays out until its group is added again, so if
columns of one group are combinations of those of others, a drop or an exchange may be judged worse
than it is.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bmjax._model.groups import NO_COLUMN
from bmjax._model.linalg import inverse_over
from bmjax._runtime.backend import Array, cond, fori_loop, map_rows, namespace, put, take
from bmjax._selection.criterion import Effects
from bmjax._selection.gram import Rows, Squares
from bmjax._selection.neighbours import After, Charges, explained
from bmjax._selection.slab import Move, Slab, Source, change_of, moved


class Layout(NamedTuple):
    """The groups that a search chooses among.

    Attributes:
        members: The columns of each group, filled with `NO_COLUMN` if it has fewer than d.
        blocks: The products of the unit columns of each group.
    """

    members: Int[Array, "g d"]
    blocks: Float[Array, "g d d"]

    @property
    def there(self) -> Bool[Array, "g d"]:
        """Whether each place of `members` holds a column."""
        return self.members < NO_COLUMN

    @property
    def sizes(self) -> Int[Array, " g"]:
        """The number of columns of each group."""
        xp = namespace(self.members)
        return xp.sum(self.there, axis=1, dtype=xp.int32)

    def slots(self, slab: Slab) -> Int[Array, "g d"]:
        """The slot of each column of each group, -1 for none."""
        xp, (m, k) = namespace(slab.gram), slab.gram.shape
        numbers = xp.arange(1, m + 1, dtype=xp.int32)
        return take(put(xp.zeros(k, xp.int32), slab.features, numbers), self.members) - 1

    def kept(self, slab: Slab) -> Bool[Array, " g"]:
        """Whether any column of each group has a slot."""
        return namespace(slab.gram).any(self.slots(slab) >= 0, axis=1)


def layout_of(source: Squares | Rows, members: Int[Array, "g d"]) -> Layout:
    """The layout of the groups of a dataset, for columns of unit length."""
    return Layout(members, blocks_of(source, members))


def blocks_of(source: Squares | Rows, members: Int[Array, "g d"]) -> Float[Array, "g d d"]:
    """The products of the columns of each group, zero for places without a column."""

    def of_one(own: Int[Array, " d"]) -> Float[Array, "d d"]:
        if isinstance(source, Squares):
            return take(take(source.gram, own).T, own)
        rows = take(source.X, own) * take(source.scale, own)[:, None]
        counted = rows if source.counts is None else rows * source.counts[None, :]
        return counted @ rows.T

    return map_rows(of_one, members)


def independent(
    matrix: Float[Array, "m m"], order: Int[Array, " m"], used: Bool[Array, " m"]
) -> Bool[Array, " m"]:
    """Whether each column is used and is no combination of used columns before it in an order.

    Args:
        matrix: The products of the columns, with ones on the diagonal.
        order: The numbers of the columns in that order.
        used: Whether each column may be chosen.
    """
    xp, m = namespace(matrix), len(used)
    least = _rank(m, matrix.dtype)

    def eliminate(p: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        left, chosen = carry
        one = order[p]
        pivot = left[one, one]
        use = used[one] & (pivot > least)
        column = left[:, one] * xp.where(use, 1 / xp.sqrt(xp.where(use, pivot, 1)), 0)
        return left - column[:, None] * column[None, :], put(chosen, one, use)

    return fori_loop(m, eliminate, (matrix, xp.zeros(m, bool)))[1]


class GroupMove(NamedTuple):
    """A drop, an addition, or an exchange of one group.

    Attributes:
        out: The group that is dropped; the number of groups for none.
        into: The group that is added; the number of groups for none.
        rise: The rise of the score at the present charges, in nats; inf for a forced addition.
    """

    out: Int[Array, ""]
    into: Int[Array, ""]
    rise: Float[Array, ""]


def squares_after(slab: Slab, layout: Layout) -> After:
    """||residual||^2 after each move of a group, infinite for a move that is not possible."""
    xp, kept = namespace(slab.gram), layout.kept(slab)
    groups, candidate = len(kept), ~kept

    def exchanged(i: Array, swap: Float[Array, "g g"]) -> Float[Array, "g g"]:
        one = order[i]
        after = _after_adding(without(slab, layout.members[one]), layout, candidate)
        return put(swap, one, after)

    order = xp.argsort(candidate, stable=True).astype(xp.int32)  # the groups kept come first
    blank = xp.full((groups, groups), xp.inf, slab.gram.dtype)
    return After(
        drop=squares_after_drops(slab, layout),
        add=_after_adding(slab, layout, candidate),
        swap=fori_loop(xp.sum(kept, dtype=xp.int32), exchanged, blank),
    )


def squares_after_drops(slab: Slab, layout: Layout) -> Float[Array, " g"]:
    """||residual||^2 after dropping each group, infinite for a group that is not kept."""
    xp, slots = namespace(slab.gram), layout.slots(slab)
    here = slots >= 0
    both = here[:, :, None] & here[:, None, :]
    inverse = xp.where(both, slab.inverse[slots[:, :, None], slots[:, None, :]], 0)
    coef = xp.where(here, slab.coef[slots], 0)
    # A pivot is one over the part of a unit column that the others leave, so none is below 1.
    lost = _explained(inverse, coef, here, 0.5)
    return xp.where(xp.any(here, axis=1), slab.square + lost, xp.inf)


def _after_adding(slab: Slab, layout: Layout, candidate: Bool[Array, " g"]) -> Float[Array, " g"]:
    """||residual||^2 after adding each group; infinite for those kept or explained by these."""
    xp, members = namespace(slab.gram), layout.members
    reach, gram = (take(rows.T, members) for rows in (slab.reach, slab.gram))  # (g, d, m)
    left = layout.blocks - reach @ xp.swapaxes(gram, 1, 2)
    least = rank_of(slab)
    some = xp.any(xp.diagonal(left, axis1=1, axis2=2) > least, axis=1)
    gain = _explained(left, take(slab.slope, members), layout.there, least)
    return xp.where(candidate & some, xp.maximum(slab.square - gain, 0), xp.inf)


def rank_of(slab: Slab) -> float:
    """The squared length left of a unit column below which it is a combination of others."""
    return _rank(len(slab.features), slab.gram.dtype)


def _rank(m: int, dtype: Any) -> float:
    return 100 * m * float(np.finfo(dtype).eps)


def _explained(
    matrix: Float[Array, "g d d"],
    vector: Float[Array, "g d"],
    there: Bool[Array, "g d"],
    least: float,
) -> Float[Array, " g"]:
    """The sum of squares that each group explains, vector' matrix^-1 vector.

    Columns whose pivot is below `least` are left out.
    """
    xp = namespace(matrix)

    def eliminate(p: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        matrix, vector, gain = carry
        column = matrix[:, :, p]
        pivot = column[:, p]
        use = there[:, p] & (pivot > least)
        over = xp.where(use, 1 / xp.where(use, pivot, 1), 0)
        share = vector[:, p] * over
        gain = gain + share * vector[:, p]
        vector = vector - share[:, None] * column
        outer = column[:, :, None] * column[:, None, :]
        return matrix - over[:, None, None] * outer, vector, gain

    carry = matrix, vector, xp.zeros(len(matrix), matrix.dtype)
    return fori_loop(matrix.shape[1], eliminate, carry)[2]


def without(slab: Slab, columns: Int[Array, " d"]) -> Slab:
    """The slab without some columns, which are removed all at once."""
    xp, k = namespace(slab.gram), len(slab.slope)
    found = slab.used[None, :] & (slab.features[None, :] == columns[:, None])  # (d, m)
    here, out = xp.any(found, axis=1), xp.any(found, axis=0)
    slots = xp.argmax(found, axis=1)
    own = xp.where(here[None, :], slab.inverse[:, slots], 0)
    inner = inverse_over(xp.where(here[:, None], own[slots], 0), here)
    coef, reach = xp.where(here, slab.coef[slots], 0), slab.reach[slots]
    spread = own @ inner
    left = slab.inverse - spread @ own.T
    return Slab(
        features=xp.where(out, k, slab.features),
        gram=xp.where(out[:, None], 0, slab.gram),
        inverse=xp.where(out[:, None] | out[None, :], 0, left),
        reach=xp.where(out[:, None], 0, slab.reach - spread @ reach),
        coef=xp.where(out, 0, slab.coef - spread @ coef),
        slope=slab.slope + (inner @ coef) @ reach,
        square=slab.square + coef @ inner @ coef,
    )


def with_columns(
    source: Source, slab: Slab, columns: Int[Array, " d"], exists: Bool[Array, " d"]
) -> Slab:
    """The slab with some columns added one by one, except those that are combinations of others."""
    xp, (m, k), least = namespace(slab.gram), slab.gram.shape, rank_of(slab)
    no_slot = xp.asarray(m, xp.int32)

    def add(p: Array, slab: Slab) -> Slab:
        feature = xp.minimum(columns[p], k - 1)
        free = 1 - slab.reach[:, feature] @ slab.gram[:, feature]

        def added() -> Slab:
            square = xp.maximum(slab.square - slab.slope[feature] ** 2 / free, 0)
            move = Move(no_slot, feature, slab.square, square)
            return moved(source, slab, move, change_of(slab, move), xp.asarray(True))

        return cond(exists[p] & (free > least) & ~xp.all(slab.used), added, lambda: slab)

    return fori_loop(len(columns), add, slab)


def ranked_move(
    slab: Slab,
    layout: Layout,
    after: After,
    price: Charges,
    most: Int[Array, ""] | int,
    rank: Int[Array, ""] | int = 0,
) -> GroupMove:
    """The best move of a group (rank 0), the second best (rank 1), and so on.

    Args:
        slab: The present subset of columns.
        layout: The groups.
        after: ||residual||^2 after each move.
        price: The charges of the groups.
        most: Largest number of columns allowed.
        rank: The rank of the move.
    """
    xp = namespace(slab.gram)
    kept, sizes, square = layout.kept(slab), layout.sizes, slab.square
    groups, size = len(sizes), xp.sum(kept, dtype=xp.int32)
    room = xp.minimum(most, len(slab.features)) - xp.sum(xp.where(kept, sizes, 0), dtype=xp.int32)
    total = price.kept.total

    def risen(after: Array, sums: Effects, possible: Array, grown: int) -> Array:
        return price.rises((size, square), xp.where(possible, after, xp.inf), sums, grown)

    def entering(before: Array, after: Array) -> Effects:
        # As if the columns that enter were orthogonal to those in the slots.
        return price.entering(explained(before, after), xp.broadcast_to(sizes, after.shape))

    left = total.minus(price.kept)
    drop = risen(after.drop, left, kept, -1) + price.masks
    add = risen(after.add, total.plus(entering(square, after.add)), sizes <= room, 1)
    fits = sizes[None, :] <= room + sizes[:, None]
    others = left.at_rows().plus(entering(after.drop[:, None], after.swap))
    swap = risen(after.swap, others, fits, 0) + price.masks[:, None]
    rises = xp.concatenate([drop, add, swap.ravel()])
    last = len(rises) - 1
    chosen = xp.argsort(-rises, stable=True)[xp.minimum(rank, last)].astype(xp.int32)
    swaps, pair = chosen >= 2 * groups, xp.maximum(chosen - 2 * groups, 0)
    out = xp.where(swaps, pair // groups, xp.where(chosen < groups, chosen, groups))
    into = xp.where(swaps, pair % groups, xp.where(chosen < groups, groups, chosen - groups))
    return GroupMove(out.astype(xp.int32), into.astype(xp.int32), rises[chosen])
