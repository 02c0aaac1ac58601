"""The neighbours of a subset, one drop, addition or exchange away, judged in closed form."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bmjax._model.problem import Problem, Totals
from bmjax._runtime.backend import Array, fori_loop, namespace, put
from bmjax._selection.criterion import Criterion, Effects, effects
from bmjax._selection.slab import Move, Slab


class Noise(NamedTuple):
    """The noise of a dataset, by which sums of squared residuals are judged.

    Attributes:
        samples: Number of samples.
        known: The known noise precision, or None to use that of the residuals.
        floor: Sums of squares below this are rounding error and are raised to it.
    """

    samples: int | Array
    known: Float[Array, ""] | None
    floor: float | Float[Array, ""]

    def precision(self, square: Float[Array, "*s"]) -> Float[Array, "*s"]:
        """The noise precision at a sum of squared residuals."""
        xp = namespace(square)
        if self.known is not None:
            return xp.broadcast_to(self.known, xp.shape(square))
        return self.samples / xp.maximum(square, self.floor)

    def rise(self, before: Float[Array, "*s"], after: Float[Array, "*s"]) -> Float[Array, "*s"]:
        """The rise of the log likelihood from one sum of squared residuals to another."""
        if self.known is not None:
            return 0.5 * self.known * (before - after)
        # Through log1p, since in float32 the difference of two logarithms would be lost.
        xp = namespace(before, after)
        before, after = xp.maximum(before, self.floor), xp.maximum(after, self.floor)
        return -0.5 * self.samples * xp.log1p((after - before) / before)


def noise_of(problem: Problem | Totals) -> Noise:
    """The noise of a dataset."""
    n = problem.num_samples
    return Noise(n, problem.noise_precision, n * problem.noise_floor)


class Charges(NamedTuple):
    """The charges of a subset and of its neighbours, in nats.

    Attributes:
        rule: The charge of features.
        kept: The terms of the feature in each slot.
        masks: What its masks cost the feature in each slot; -inf if it may not be dropped.
        noise: The noise of the dataset.
    """

    rule: Criterion
    kept: Effects
    masks: Float[Array, " m"]
    noise: Noise

    def of(self, sums: Effects, square: Float[Array, "*s"]) -> Float[Array, "*s"]:
        """The charge of features from their sums, at a sum of squared residuals."""
        return self.rule.charge(sums.per_noise(self.noise.precision(square)))

    def of_subset(self, size: Int[Array, ""], square: Float[Array, ""]) -> Float[Array, ""]:
        """The charge of the subset of a size, which counts features that may not be masked."""
        return self.of(self.kept.total, square) + self.rule.of_size(size)

    def gain(
        self,
        here: tuple[Int[Array, ""], Float[Array, ""]],
        then: "Charges",
        there: tuple[Int[Array, ""], Float[Array, ""]],
    ) -> Float[Array, ""]:
        """The rise of the score from this subset to another, each at its own charges.

        Args:
            here: The size of this subset, and ||residual||^2.
            then: The charges of the other.
            there: The size of the other, and its ||residual||^2.
        """
        rise = self.noise.rise(here[1], there[1])
        return rise - then.of_subset(*there) + self.of_subset(*here)

    def entering(self, explained: Float[Array, "*s"], columns: Array | None = None) -> Effects:
        """The terms of features that enter, from the squared length of their contributions."""
        return effects(explained / self.noise.samples, True, columns)

    def rises(
        self,
        here: tuple[Int[Array, ""], Float[Array, ""]],
        after: Float[Array, "*s"],
        sums: Effects,
        grown: Int[Array, "*s"] | int,
    ) -> Float[Array, "*s"]:
        """The rise of the score to some neighbours, but for masks.

        Args:
            here: The size of the present subset, and ||residual||^2.
            after: ||residual||^2 at each neighbour; where infinite, as if impossible, it is -inf.
            sums: The sums of the features of each neighbour.
            grown: Number of features that each neighbour has more.
        """
        xp, (size, square) = namespace(after), here
        possible = xp.isfinite(after)
        after = xp.where(possible, after, square)
        saved = (
            self.of_subset(size, square) - self.of(sums, after) - self.rule.of_size(size + grown)
        )
        return xp.where(possible, self.noise.rise(square, after) + saved, -xp.inf)


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
    most: Int[Array, ""] | int,
    needed: Bool[Array, " k"] | None = None,
) -> Move:
    """The move that raises the score the most.

    Args:
        slab: The present subset.
        after: ||residual||^2 after each move.
        price: The charges of features.
        most: Largest subset allowed.
        needed: Features that must be in the subset; missing ones are added first.
    """
    xp = namespace(slab.gram)
    m, k = slab.reach.shape
    size, slots, free = slab.size, xp.arange(m, dtype=xp.int32), slab.left_over
    # Only the addition, and into each slot the exchange, that explains the most is priced.
    best_add = xp.argmin(after.add).astype(xp.int32)
    into = xp.argmin(after.swap, axis=1).astype(xp.int32)
    free_then = free[into] + slab.reach[slots, into] ** 2 / slab.variances
    free = xp.append(free_then, free[best_add])
    room = size < xp.minimum(most, m)
    added = xp.where(room, after.add[best_add], xp.inf)
    without = xp.append(after.drop, slab.square)
    entered = xp.append(xp.min(after.swap, axis=1), added)
    new = price.entering(explained(without, entered) / xp.where(xp.isfinite(entered), free, 1))
    total = price.kept.total
    left = total.minus(price.kept)
    sums = left.beside(left.beside(total).plus(new))
    squares = xp.concatenate([after.drop, entered])
    grown = xp.asarray(np.repeat([-1, 0, 1], [m, m, 1]), xp.int32)
    rises = price.rises((size, slab.square), squares, sums, grown)
    rises = rises + xp.concatenate([price.masks, price.masks, xp.zeros_like(added)[None]])
    chosen = xp.argmax(rises).astype(xp.int32)
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
    missing = needed & xp.isfinite(after.add)
    first = xp.argmax(missing).astype(xp.int32)
    forced = Move(xp.asarray(m, xp.int32), first, xp.full_like(move.rise, xp.inf), after.add[first])
    force = xp.any(missing) & (size < m)
    return Move(*(xp.where(force, a, b) for a, b in zip(forced, move, strict=True)))


def drop_rises(slab: Slab, after: Float[Array, " m"], price: Charges) -> Float[Array, " m"]:
    """The rise of the score after emptying each slot; -inf for an empty slot.

    Args:
        slab: The present subset.
        after: ||residual||^2 after emptying each slot.
        price: The charges of features.
    """
    left = price.kept.total.minus(price.kept)
    return price.rises((slab.size, slab.square), after, left, -1) + price.masks


def explained(before: Float[Array, "*s"], after: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """The fall of ||residual||^2 by an addition; zero if that is not possible."""
    xp = namespace(before, after)
    possible = xp.isfinite(before) & xp.isfinite(after)
    before, after = xp.where(possible, before, 0), xp.where(possible, after, 0)
    return xp.maximum(before - after, 0)


def ranked_move(
    slab: Slab,
    price: Charges,
    most: Int[Array, ""] | int,
    rank: Int[Array, ""] | int,
) -> Move:
    """The best move (rank 0), the second best (rank 1), and so on."""
    xp = namespace(slab.gram)
    m, k = slab.reach.shape

    def without_best(_: Array, after: After) -> After:
        move = best_of(slab, after, price, most)
        drops, adds = move.feature == k, move.slot == m
        row = xp.minimum(move.slot, m - 1)
        this = (xp.arange(k, dtype=xp.int32) == move.feature) & ~(drops | adds)
        return After(
            drop=put(after.drop, xp.where(drops, move.slot, m), xp.inf),
            add=put(after.add, xp.where(adds, move.feature, k), xp.inf),
            swap=put(after.swap, row, xp.where(this, xp.inf, after.swap[row])),
        )

    after = fori_loop(rank, without_best, squares_after(slab))
    return best_of(slab, after, price, most)


def most_features(n: int | Array, k: int | Array) -> int | Array:
    """The largest subset to consider: n // 2 if n <= k, since a perfect fit is uninformative."""
    if isinstance(n, int) and isinstance(k, int):
        return k if n > k else n // 2
    return namespace(n, k).where(n > k, k, n // 2).astype("int32")
