"""Which features to keep, if a kept one is never masked: a search over subsets, move by move.

Every drop of a feature, every addition and every exchange of one for another is judged in closed
form. What is held are the rows of X'X that belong to kept features (a slab of m slots by k), the
inverse over the slots and the product of the two, each brought along by a rank-one update. So a
move costs O(m k) beside one pass over X, whatever the number of features is. The same formulas
serve a state with fractional masks, whose slab is that of the masked features.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from bmjax._backend import Array, fori_loop, map_rows, namespace, put, take, while_loop
from bmjax._squares import Rows, Squares, inverse_factor

# Rank-one updates after which everything is computed anew, for the sake of rounding.
_FRESH = 32


class Source(Protocol):
    """Where a search gets its sums from, for columns of unit length."""

    def row(self, feature: Int[Array, ""]) -> Float[Array, " k"]:
        """The products of one column with all columns."""
        ...

    def leftover(
        self, features: Int[Array, " m"], coef: Float[Array, " m"]
    ) -> tuple[Float[Array, " k"], Float[Array, ""]]:
        """X'residual and ||residual||^2 at coefficients of some features."""
        ...


class Slab(NamedTuple):
    """Least squares on a subset of unit columns, and what a move from it needs.

    Attributes:
        features: The feature in each slot; k where a slot is empty.
        gram: The products of the kept columns with all columns, zero in empty slots.
        inverse: V, the inverse of X'X over the slots, zero in empty ones.
        reach: H = V gram.
        coef: The coefficients, b.
        slope: r = X'residual.
        square: ||residual||^2.
    """

    features: Int[Array, " m"]
    gram: Float[Array, "m k"]
    inverse: Float[Array, "m m"]
    reach: Float[Array, "m k"]
    coef: Float[Array, " m"]
    slope: Float[Array, " k"]
    square: Float[Array, ""]

    @property
    def used(self) -> Bool[Array, " m"]:
        """The slots that hold a feature."""
        return self.features < len(self.slope)

    @property
    def kept(self) -> Bool[Array, " k"]:
        """The features that have a slot."""
        return put(namespace(self.slope).zeros(len(self.slope), bool), self.features, True)

    @property
    def size(self) -> Int[Array, ""]:
        """How many features are kept."""
        xp = namespace(self.slope)
        return xp.sum(self.used, dtype=xp.int32)


class Charges(NamedTuple):
    """What a subset costs, in nats.

    Attributes:
        kept: Saved by emptying a slot; -inf for a feature that may not be dropped.
        new: Spent on adding a feature.
        by_size: Spent on a subset of 0, 1, ..., m features as such.
    """

    kept: Float[Array, " m"]
    new: Float[Array, ""]
    by_size: Float[Array, " sizes"]

    def of_size(self, size: Int[Array, ""]) -> Float[Array, ""]:
        """What a subset of some size costs as such."""
        return self.by_size[namespace(self.by_size).clip(size, 0, len(self.by_size) - 1)]


class Move(NamedTuple):
    """One feature dropped, added, or exchanged for another.

    Attributes:
        slot: The slot that is emptied; m for none.
        feature: The feature that is added; k for none.
        rise: By how much the score rises while the charges stay as they are.
        square: ||residual||^2 after the move.
    """

    slot: Int[Array, ""]
    feature: Int[Array, ""]
    rise: Float[Array, ""]
    square: Float[Array, ""]


class Rules(NamedTuple):
    """What a search goes by.

    Attributes:
        pricing: What features cost, which may depend on the present coefficients.
        rise: The rise of the log likelihood.
        n: Number of samples, which rounding grows with.
        most: Largest subset allowed.
        max_steps: Most moves.
    """

    pricing: "Pricing"
    rise: "Rise"
    n: int | Array
    most: int | Array
    max_steps: Int[Array, ""] | int


class Search(NamedTuple):
    """The end of a search.

    Attributes:
        support: The subset.
        coef: Least squares on it, for unit columns.
        score: Its score, in nats up to a constant of the dataset.
        steps: Moves made.
        ended: Whether no move raises the score.
        full: Whether every slot is taken, so that more of them might lead further.
    """

    support: Bool[Array, " k"]
    coef: Float[Array, " k"]
    score: Float[Array, ""]
    steps: Int[Array, ""]
    ended: Bool[Array, ""]
    full: Bool[Array, ""]


# The rise of the log likelihood from one sum of squared residuals (the first) to another.
Rise = Callable[[Array, Array], Array]
# What features cost, by slot, at a slab's subset, given its coefficients and sum of squares.
Pricing = Callable[[Int[Array, " m"], Float[Array, " m"], Float[Array, ""]], Charges]


def likelihood_rise(
    n: int | Array, noise_precision: Float[Array, ""] | None, floor: Float[Array, ""]
) -> Rise:
    """The rise of the log likelihood as the sum of squared residuals changes.

    Args:
        n: Number of samples.
        noise_precision: The noise precision where it is known; else it is that of the residuals.
        floor: Sums below this are rounding and count as this.

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


def refreshed(source: Source, slab: Slab) -> Slab:
    """The slab from its features and their rows of X'X, nothing brought along by updates.

    Steadied by a ridge of a few roundings, which two rounds of refinement take out again.

    Args:
        source: The sums of the dataset.
        slab: Only its features, rows of X'X and coefficients, close to the answer, are read.
    """
    xp = namespace(slab.gram)
    features, gram, coef = slab.features, slab.gram, slab.coef
    inverse = _inverse(take(gram.T, features).T, slab.used)
    slope, square = source.leftover(features, coef)

    def refine(_: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        coef, slope, square = carry
        step = inverse @ take(slope, features)
        after = slope - step @ gram
        # ||r - X step||^2, with X'r before and after.
        square = square - step @ (take(slope, features) + take(after, features))
        return coef + step, after, square

    coef, slope, square = fori_loop(2, refine, (coef, slope, square))
    return Slab(features, gram, inverse, inverse @ gram, coef, slope, xp.maximum(square, 0))


def _begun(features: Int[Array, " m"], gram: Float[Array, "m k"], coef: Float[Array, " m"]) -> Slab:
    """A slab of which no more is known than its features, their rows and coefficients."""
    xp = namespace(gram)
    (m, k), dtype = gram.shape, gram.dtype
    inverse, reach = xp.zeros((m, m), dtype), xp.zeros((m, k), dtype)
    return Slab(features, gram, inverse, reach, coef, xp.zeros(k, dtype), xp.zeros((), dtype))


def _inverse(among: Float[Array, "m m"], used: Bool[Array, " m"]) -> Float[Array, "m m"]:
    """The inverse of the products of the kept columns, unit length, zero in empty slots."""
    xp, m = namespace(among), len(used)
    both = used[:, None] & used[None, :]
    ridge = 2 * m * xp.finfo(among.dtype).eps
    half = inverse_factor(xp.where(both, among, 0) + xp.diag(xp.where(used, ridge, 1)))
    return xp.where(both, half.T @ half, 0)


def slab_at(
    omega: Float[Array, "m m"],
    gram: Float[Array, "m k"],
    features: Int[Array, " m"],
    weights: Float[Array, " m"],
    slope: Float[Array, " k"],
    square: Float[Array, ""],
    scale: Float[Array, " k"],
) -> Slab:
    """The slab of a fitted state, for its moves.

    Args:
        omega: Second moments of the masked features, in the slots.
        gram: Their products with all columns, which are not masked.
        features: The feature in each slot, k where a slot is empty.
        weights: The weights, which solve the normal equations of omega.
        slope: X'residual of all columns.
        square: E||residual||^2.
        scale: One over the length of each column, 0 where that is zero.
    """
    xp = namespace(omega)
    used = features < len(slope)
    diagonal = xp.diagonal(omega)
    own = xp.where(used & (diagonal > 0), 1 / xp.sqrt(xp.where(diagonal > 0, diagonal, 1)), 0)
    gram = gram * own[:, None] * scale[None, :]
    inverse = _inverse(omega * own[:, None] * own[None, :], used)
    coef = xp.where(own > 0, weights / xp.where(own > 0, own, 1), 0)
    return Slab(features, gram, inverse, inverse @ gram, coef, slope * scale, square)


class After(NamedTuple):
    """||residual||^2 after each move, infinite for one that is not possible.

    Attributes:
        drop: After emptying each slot.
        add: After adding each feature.
        swap: After exchanging the feature in a slot (row) for another (column).
    """

    drop: Float[Array, " m"]
    add: Float[Array, " k"]
    swap: Float[Array, "m k"]


def squares_after(slab: Slab) -> After:
    """||residual||^2 after each of the m + k + m k moves, in closed form.

    With V the inverse of X'X over the slots, b the coefficients, r = X'residual, H = V X'X and
    d = 1 - sum_i H_ij (X'X)_ij: dropping i adds b_i^2 / V_ii; adding j takes r_j^2 / d_j off;
    after dropping i, r_j is r_j + H_ij b_i / V_ii and d_j is d_j + H_ij^2 / V_ii.
    """
    xp = namespace(slab.gram)
    eps = xp.finfo(slab.gram.dtype).eps
    rank = 100 * len(slab.features) * eps  # a column with less left is a combination of others
    variance = _variance(slab)
    dropped = slab.coef**2 / variance
    candidate = ~slab.kept
    free = _free(slab)
    gain = slab.slope**2 / xp.where(free > rank, free, 1)
    free_then = free[None, :] + slab.reach**2 / variance[:, None]
    slope_then = slab.slope[None, :] + slab.reach * (slab.coef / variance)[:, None]
    gain_then = slope_then**2 / xp.where(free_then > rank, free_then, 1)
    swap = xp.maximum((slab.square + dropped)[:, None] - gain_then, 0)
    may_swap = slab.used[:, None] & candidate[None, :] & (free_then > rank)
    return After(
        drop=xp.where(slab.used, slab.square + dropped, xp.inf),
        add=xp.where(candidate & (free > rank), xp.maximum(slab.square - gain, 0), xp.inf),
        swap=xp.where(may_swap, swap, xp.inf),
    )


def _variance(slab: Slab) -> Float[Array, " m"]:
    """V_ii, one in empty slots."""
    xp = namespace(slab.gram)
    diagonal = xp.diagonal(slab.inverse)
    return xp.where(slab.used, xp.maximum(diagonal, xp.finfo(diagonal.dtype).eps), 1)


def _free(slab: Slab) -> Float[Array, " k"]:
    """The square of each unit column that the kept ones leave."""
    xp = namespace(slab.gram)
    return 1 - xp.sum(slab.reach * slab.gram, axis=0)


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
        price: What features cost.
        rise: The rise of the log likelihood.
        most: Largest subset allowed.
        needed: Features that have to be in; those that are not come first.
    """
    xp = namespace(slab.gram)
    m, k = slab.reach.shape
    size = slab.size
    here = price.of_size(size)
    saved = price.kept + here - price.of_size(size - 1)
    spent = price.new + price.of_size(size + 1) - here
    addable, best_add = after.add, xp.argmin(after.add).astype(xp.int32)
    into = xp.argmin(after.swap, axis=1).astype(xp.int32)
    swapped = xp.min(after.swap, axis=1)
    room = size < xp.minimum(most, m)
    rises = xp.concatenate(
        [
            _rise_or_not(rise, slab.square, after.drop, saved),
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


class _Change(NamedTuple):
    """A move as vectors of the slots, from which every update follows.

    Attributes:
        drop: V_i / V_ii of the slot that is emptied, else zero.
        reach: V X_S'x of the added column once that slot is empty, else zero.
        free: The square of the added column that the others leave, else one.
        at: The slot that is emptied or filled, one-hot.
        fills: Whether it is filled.
        coef: The coefficients after the move.
    """

    drop: Float[Array, " m"]
    reach: Float[Array, " m"]
    free: Float[Array, ""]
    at: Bool[Array, " m"]
    fills: Bool[Array, ""]
    coef: Float[Array, " m"]


def _change(slab: Slab, move: Move) -> _Change:
    xp = namespace(slab.gram)
    m, k = slab.reach.shape
    empties, fills = move.slot < m, move.feature < k
    out = xp.minimum(move.slot, m - 1)
    feature = xp.minimum(move.feature, k - 1)
    variance = xp.where(empties, _variance(slab)[out], 1)
    drop = xp.where(empties, slab.inverse[:, out] / variance, 0)
    at = xp.arange(m, dtype=xp.int32) == xp.where(
        empties, out, xp.argmin(slab.used).astype(xp.int32)
    )
    coef = xp.where(empties & at, 0, slab.coef - drop * slab.coef[out])
    reach, gram = slab.reach[:, feature], slab.gram[:, feature]
    then = xp.where(at, 0, reach - drop * reach[out])
    slope = slab.slope[feature] + xp.where(empties, reach[out] * slab.coef[out] / variance, 0)
    free = 1 - then @ gram
    size = xp.where(fills, slope / xp.where(fills, free, 1), 0)
    then = xp.where(fills, then, 0)
    coef = xp.where(at & fills, size, coef - then * size)
    return _Change(drop, then, xp.where(fills, free, 1), at, fills, coef)


def _moved(source: Source, slab: Slab, move: Move, change: _Change, go: Array) -> Slab:
    """The slab after a move, by rank-one updates; as it was where `go` is false."""
    xp = namespace(slab.gram)
    k = slab.reach.shape[1]
    drop, then, free, at, fills, _ = change
    drop, then = xp.where(go, drop, 0), xp.where(go, then, 0)
    out = xp.argmax(at).astype(xp.int32)
    row = xp.where(fills, source.row(xp.minimum(move.feature, k - 1)), 0)
    own = xp.where(fills, (row - then @ slab.gram) / free, 0)  # row `at` of H after the move
    on = (at & go)[:, None]
    left = slab.inverse - drop[:, None] * slab.inverse[out][None, :]
    left = xp.where(on | on.T, 0, left)
    side = xp.where(go & fills, xp.where(at, -1, then), 0)
    slope = slab.slope + xp.where(go & xp.any(drop != 0), slab.coef[out], 0) * (
        slab.reach[out] / xp.where(xp.any(drop != 0), _variance(slab)[out], 1)
    )
    size = xp.where(go & fills, change.coef[out], 0)
    feature = xp.where(fills, move.feature, k)
    return Slab(
        features=xp.where(at & go, feature, slab.features),
        gram=put(slab.gram, out, xp.where(go, row, slab.gram[out])),
        inverse=left + side[:, None] * side[None, :] / free,
        reach=xp.where(
            on,
            own[None, :],
            slab.reach - drop[:, None] * slab.reach[out][None, :] - then[:, None] * own[None, :],
        ),
        coef=xp.where(go, change.coef, slab.coef),
        slope=slope - size * free * own,
        square=xp.where(go, move.square, slab.square),
    )


def search(
    source: Source,
    start: Slab,
    reference: Float[Array, ""],
    rules: Rules,
    needed: Bool[Array, " k"] | None = None,
) -> Search:
    """Make the best move until none raises the score.

    Moves are made by rank-one updates; before the search is called ended, and after every 32 of
    them, all is computed anew.

    Args:
        source: The sums of the dataset.
        start: The subset to start from, of which features, rows of X'X and coefficients are read.
        reference: A sum of squared residuals that the score is taken against.
        rules: What the search goes by.
        needed: Features that have to be in the subset, if they are not zero.

    Returns:
        The last subset.
    """
    xp = namespace(start.gram)
    pricing, rise, n, most, max_steps = rules
    gram = start.gram
    m, k = gram.shape
    zero = xp.zeros((), xp.int32)
    # Not below what rounding may make of nothing.
    least = 25 * n * float(xp.finfo(gram.dtype).eps)

    def cost(price: Charges, size: Array) -> Array:
        return size.astype(price.new.dtype) * price.new + price.of_size(size)

    def advance(carry: tuple[Slab, Array, Array, Array]) -> tuple[Slab, Array, Array, Array]:
        slab, steps, since, _ = carry
        price = pricing(slab.features, slab.coef, slab.square)
        move = best_of(slab, squares_after(slab), price, rise, most, needed)
        change = _change(slab, move)
        grown = (move.feature < k).astype(xp.int32) - (move.slot < m).astype(xp.int32)
        feature = xp.where(change.fills, move.feature, k)
        then = pricing(xp.where(change.at, feature, slab.features), change.coef, move.square)
        gain = rise(slab.square, move.square)
        gain = gain - cost(then, slab.size + grown) + cost(price, slab.size)
        forced = xp.isposinf(move.rise)
        go = forced | ((move.rise > least) & (gain > least))
        slab = _moved(source, slab, move, change, go)
        one = go.astype(xp.int32)
        return slab, steps + one, since + one, go

    def round_of_moves(carry: tuple[Slab, Array, Array, Array]) -> tuple[Slab, Array, Array, Array]:
        slab, steps, _, _ = carry
        slab = refreshed(source, slab)
        begun = slab, steps, zero, xp.asarray(True)
        slab, after, _, helped = while_loop(
            lambda c: c[3] & (c[1] < max_steps) & (c[2] < _FRESH), advance, begun
        )
        ended = ~helped & (after == steps)
        return slab, after, ended, ended | (after >= max_steps)

    no = xp.asarray(False)
    slab, steps, ended, _ = while_loop(lambda c: ~c[3], round_of_moves, (start, zero, no, no))
    price = pricing(slab.features, slab.coef, slab.square)
    score = rise(reference, slab.square) - cost(price, slab.size)
    return Search(
        support=slab.kept,
        coef=put(xp.zeros(k, gram.dtype), slab.features, slab.coef),
        score=score,
        steps=steps,
        ended=ended,
        full=xp.all(slab.used),
    )


def from_both_ends(sums: Squares, rules: Rules, needed: Bool[Array, " k"] | None = None) -> Search:
    """The better of two searches, from nothing and from as much as there may be.

    The latter are the features that say most of y alone.

    Args:
        sums: Sums over samples for columns of unit length.
        rules: What a search goes by.
        needed: Features that have to be in the subset.
    """
    xp = namespace(sums.gram)
    k = len(sums.anchor)

    def from_one(start: Bool[Array, " k"]) -> Search:
        return search(sums, whole_slab(sums, start), sums.square, rules, needed)

    needed = None if needed is None else needed & sums.explains
    order = xp.argsort(-xp.abs(sums.slope + sums.gram @ sums.anchor))
    alone = xp.argsort(order).astype(xp.int32)
    starts = xp.stack([xp.zeros(k, bool), alone < rules.most])
    if needed is not None:
        starts |= needed[None]
    ends = map_rows(from_one, starts)
    best = xp.argmax(ends.score).astype(xp.int32)
    end: Search = jax.tree.map(lambda leaf: leaf[best], ends)
    return end._replace(steps=xp.max(ends.steps), ended=xp.all(ends.ended))


def whole_slab(sums: Squares, support: Bool[Array, " k"]) -> Slab:
    """A slab with a slot for every feature, of which some are kept, to be refreshed."""
    xp = namespace(sums.gram)
    k = len(support)
    kept = support & sums.explains
    features = xp.where(kept, xp.arange(k, dtype=xp.int32), k).astype(xp.int32)
    gram = xp.where(kept[:, None], sums.gram, 0)
    return _begun(features, gram, xp.where(kept, sums.anchor, 0))


def from_nothing(
    rows: Rows, slots: int, rules: Rules, needed: Bool[Array, " k"] | None = None
) -> Search:
    """A search from nothing with room for some of many features: X'X is never formed.

    Args:
        rows: The dataset.
        slots: How many features there is room for.
        rules: What a search goes by.
        needed: Features that have to be in the subset.
    """
    xp = namespace(rows.X)
    k, dtype = len(rows.X), rows.X.dtype
    empty = xp.full(slots, k, xp.int32)
    slab = _begun(empty, xp.zeros((slots, k), dtype), xp.zeros(slots, dtype))
    square = rows.y**2 if rows.counts is None else rows.counts * rows.y**2
    needed = None if needed is None else needed & (rows.scale > 0)
    return search(rows, slab, xp.sum(square), rules, needed)


def most_features(n: int | Array, k: int | Array) -> int | Array:
    """The largest subset to look at: where n <= k, n // 2, since a perfect fit says nothing."""
    if isinstance(n, int) and isinstance(k, int):
        return k if n > k else n // 2
    return namespace(n, k).where(n > k, k, n // 2).astype("int32")


def flat(price: float, m: int, dtype: Any, xp: Any = jnp) -> Pricing:
    """The same charge for every feature, and none for the size, in arrays of a namespace."""
    charges = Charges(xp.full(m, price, dtype), xp.asarray(price, dtype), xp.zeros(1, dtype))
    return lambda features, coef, square: charges


def bic_charge(n: int) -> float:
    """What BIC charges a feature, in nats."""
    return 0.5 * math.log(n)
