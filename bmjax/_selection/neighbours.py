"""The neighbours of a subset, one drop, addition or exchange away, judged in closed form."""

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Bool, Float, Int

from bmjax._runtime.backend import Array, fori_loop, namespace, put
from bmjax._selection.slab import Move, Slab


class Charges(NamedTuple):
    """The charges of a subset, in nats.

    Attributes:
        kept: Charge saved by emptying each slot; -inf for a feature that may not be dropped.
        new: Charge of adding a feature.
        by_size: Charge of the size of a subset of 0, 1, ..., m features.
    """

    kept: Float[Array, " m"]
    new: Float[Array, ""]
    by_size: Float[Array, " sizes"]

    def of_size(self, size: Int[Array, ""]) -> Float[Array, ""]:
        """The charge of a subset for its size alone."""
        return self.by_size[namespace(self.by_size).clip(size, 0, len(self.by_size) - 1)]

    def of_subset(self, size: Int[Array, ""]) -> Float[Array, ""]:
        """The charge of a subset of some size, each feature at the charge of a new one."""
        return size.astype(self.new.dtype) * self.new + self.of_size(size)


# The rise of the log likelihood from one sum of squared residuals (the first) to another.
Rise = Callable[[Array, Array], Array]


def likelihood_rise(
    n: int | Array, noise_precision: Float[Array, ""] | None, floor: Float[Array, ""]
) -> Rise:
    """A function for the rise of the log likelihood between two sums of squared residuals.

    Args:
        n: Number of samples.
        noise_precision: The known noise precision, or None to use that of the residuals.
        floor: Sums below this are rounding error and are raised to it.

    Returns:
        A function of two sums of squares, before and after.
    """

    def rise(before: Array, after: Array) -> Array:
        if noise_precision is not None:
            return 0.5 * noise_precision * (before - after)
        # Through log1p, since in float32 the difference of two logarithms would be lost.
        xp = namespace(before, after)
        before, after = xp.maximum(before, floor), xp.maximum(after, floor)
        return -0.5 * n * xp.log1p((after - before) / before)

    return rise


class After(NamedTuple):
    """||residual||^2 after each move, infinite for a move that is not possible.

    Attributes:
        drop: ||residual||^2 after emptying each slot.
        add: ||residual||^2 after adding each feature.
        swap: ||residual||^2 after exchanging the feature in a slot (row) for another (column).
    """

    drop: Float[Array, " m"]
    add: Float[Array, " k"]
    swap: Float[Array, "m k"]


def squares_after(slab: Slab) -> After:
    """||residual||^2 after each of the m + k + m k moves, in closed form.

    With V the inverse of X'X over the slots, b the coefficients, r = X'residual, H = V X'X and d =
    1 - sum_i H_ij (X'X)_ij: dropping i adds b_i^2 / V_ii; adding j subtracts r_j^2 / d_j; after
    dropping i, r_j is r_j + H_ij b_i / V_ii and d_j is d_j + H_ij^2 / V_ii.
    """
    xp = namespace(slab.gram)
    eps = xp.finfo(slab.gram.dtype).eps
    rank = 100 * len(slab.features) * eps  # a column with less left over is a combination of others
    variance = slab.variances
    dropped = slab.coef**2 / variance
    candidate = ~slab.kept
    free = slab.left_over
    gain = slab.slope**2 / xp.where(free > rank, free, 1)
    free_then = free[None, :] + slab.reach**2 / variance[:, None]
    slope_then = slab.slope[None, :] + slab.reach * (slab.coef / variance)[:, None]
    gain_then = slope_then**2 / xp.where(free_then > rank, free_then, 1)
    swap = xp.maximum((slab.square + dropped)[:, None] - gain_then, 0)
    may_swap = slab.used[:, None] & candidate[None, :] & (free_then > rank)
    return After(
        drop=slab.squares_after_drops,
        add=xp.where(candidate & (free > rank), xp.maximum(slab.square - gain, 0), xp.inf),
        swap=xp.where(may_swap, swap, xp.inf),
    )


def best_of(
    slab: Slab,
    after: After,
    price: Charges,
    rise: Rise,
    most: Int[Array, ""] | int,
    needed: Bool[Array, " k"] | None = None,
) -> Move:
    """The move that raises the score the most.

    Args:
        slab: The present subset.
        after: ||residual||^2 after each move.
        price: The charges of features.
        rise: The rise of the log likelihood.
        most: Largest subset allowed.
        needed: Features that must be in the subset; missing ones are added first.
    """
    xp = namespace(slab.gram)
    m, k = slab.reach.shape
    size = slab.size
    here = price.of_size(size)
    spent = price.new + price.of_size(size + 1) - here
    addable, best_add = after.add, xp.argmin(after.add).astype(xp.int32)
    into = xp.argmin(after.swap, axis=1).astype(xp.int32)
    swapped = xp.min(after.swap, axis=1)
    room = size < xp.minimum(most, m)
    rises = xp.concatenate(
        [
            drop_rises(slab, after.drop, price, rise),
            _rise_or_not(rise, slab.square, swapped, price.kept - price.new),
            xp.where(room, _rise_or_not(rise, slab.square, addable[best_add], -spent), -xp.inf)[
                None
            ],
        ]
    )
    chosen = xp.argmax(rises).astype(xp.int32)
    squares = xp.concatenate([after.drop, swapped, addable[best_add][None]])
    move = Move(
        slot=xp.where(chosen < 2 * m, chosen % m, m).astype(xp.int32),
        feature=xp.where(
            chosen < m, k, xp.where(chosen < 2 * m, into[chosen % m], best_add)
        ).astype(xp.int32),
        rise=rises[chosen],
        square=squares[chosen],
    )
    if needed is None:
        return move
    missing = needed & xp.isfinite(addable)
    first = xp.argmax(missing).astype(xp.int32)
    forced = Move(xp.asarray(m, xp.int32), first, xp.full_like(move.rise, xp.inf), addable[first])
    force = xp.any(missing) & (size < m)
    return Move(*(xp.where(force, a, b) for a, b in zip(forced, move, strict=True)))


def drop_rises(
    slab: Slab, after: Float[Array, " m"], price: Charges, rise: Rise
) -> Float[Array, " m"]:
    """The rise of the score after emptying each slot; -inf for an empty slot.

    Args:
        slab: The present subset.
        after: ||residual||^2 after emptying each slot.
        price: The charges of features.
        rise: The rise of the log likelihood.
    """
    saved = price.kept + price.of_size(slab.size) - price.of_size(slab.size - 1)
    return _rise_or_not(rise, slab.square, after, saved)


def _rise_or_not(rise: Rise, before: Array, after: Array, saved: Array) -> Array:
    """The rise of the score; -inf for a move that is not possible."""
    xp = namespace(after)
    possible = xp.isfinite(after)
    return xp.where(possible, rise(before, xp.where(possible, after, before)) + saved, -xp.inf)


def ranked_move(
    slab: Slab,
    price: Charges,
    rise: Rise,
    most: Int[Array, ""] | int,
    rank: Int[Array, ""] | int,
) -> Move:
    """The best move (rank 0), the second best (rank 1), and so on."""
    xp = namespace(slab.gram)
    m, k = slab.reach.shape

    def without_best(_: Array, after: After) -> After:
        move = best_of(slab, after, price, rise, most)
        drops, adds = move.feature == k, move.slot == m
        row = xp.minimum(move.slot, m - 1)
        this = (xp.arange(k, dtype=xp.int32) == move.feature) & ~(drops | adds)
        return After(
            drop=put(after.drop, xp.where(drops, move.slot, m), xp.inf),
            add=put(after.add, xp.where(adds, move.feature, k), xp.inf),
            swap=put(after.swap, row, xp.where(this, xp.inf, after.swap[row])),
        )

    after = fori_loop(rank, without_best, squares_after(slab))
    return best_of(slab, after, price, rise, most)


def most_features(n: int | Array, k: int | Array) -> int | Array:
    """The largest subset to consider: n // 2 if n <= k, since a perfect fit is uninformative."""
    if isinstance(n, int) and isinstance(k, int):
        return k if n > k else n // 2
    return namespace(n, k).where(n > k, k, n // 2).astype("int32")
