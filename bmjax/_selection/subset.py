"""Which features to keep, if a kept one is never masked: a search over subsets, move by move.

Every drop of a feature, every addition and every exchange of one for another is judged in closed
form. What is held are the rows of X'X that belong to kept features (a slab of m slots by k), the
inverse over the slots and the product of the two, each brought along by a rank-one update. So a
move costs O(m k) beside one pass over X, whatever the number of features is. The same formulas
serve a state with fractional masks, whose slab is that of the masked features.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from bmjax._runtime.backend import Array, map_rows, namespace, put, while_loop
from bmjax._selection.gram import Rows, Squares
from bmjax._selection.neighbours import Charges, Rise, best_of, drop_rises, squares_after
from bmjax._selection.slab import Slab, Source, begun, change_of, moved, refreshed

# Rank-one updates after which everything is computed anew, for the sake of rounding.
_FRESH = 32


class Rules(NamedTuple):
    """The prices and limits of a search.

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


# What features cost, by slot, at a slab's subset, given its coefficients and sum of squares.
Pricing = Callable[[Int[Array, " m"], Float[Array, " m"], Float[Array, ""]], Charges]


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
    least = _least_rise(gram, n)

    def advance(carry: tuple[Slab, Array, Array, Array]) -> tuple[Slab, Array, Array, Array]:
        slab, steps, since, _ = carry
        price = pricing(slab.features, slab.coef, slab.square)
        move = best_of(slab, squares_after(slab), price, rise, most, needed)
        change = change_of(slab, move)
        grown = (move.feature < k).astype(xp.int32) - (move.slot < m).astype(xp.int32)
        feature = xp.where(change.fills, move.feature, k)
        then = pricing(xp.where(change.at, feature, slab.features), change.coef, move.square)
        gain = rise(slab.square, move.square)
        gain = gain - then.of_subset(slab.size + grown) + price.of_subset(slab.size)
        forced = xp.isposinf(move.rise)
        go = forced | ((move.rise > least) & (gain > least))
        slab = moved(source, slab, move, change, go)
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
    score = rise(reference, slab.square) - price.of_subset(slab.size)
    return Search(
        support=slab.kept,
        coef=put(xp.zeros(k, gram.dtype), slab.features, slab.coef),
        score=score,
        steps=steps,
        ended=ended,
        full=xp.all(slab.used),
    )


def eliminated(source: Source, start: Slab, rules: Rules) -> tuple[Slab, Int[Array, ""]]:
    """Features dropped from a large subset, one by one, as long as the score rises.

    Additions and exchanges are left for the search that follows: while most features are in, there
    is little to add, and a drop alone costs no more than an update of V, O(m^2).

    Args:
        source: The sums of the dataset.
        start: The subset to start from, of which features, rows of X'X and coefficients are read.
        rules: What the search goes by.

    Returns:
        The subset, to be refreshed, and how many features were dropped.
    """
    xp = namespace(start.gram)
    pricing, rise, n, _, _ = rules
    m, k = start.gram.shape
    least = _least_rise(start.gram, n)
    slots, zero = xp.arange(m, dtype=xp.int32), xp.zeros((), xp.int32)

    def drop(carry: tuple[Slab, Array, Array]) -> tuple[Slab, Array, Array]:
        slab, since, _ = carry
        price, size = pricing(slab.features, slab.coef, slab.square), slab.size
        after = slab.squares_after_drops
        rises = drop_rises(slab, after, price, rise)
        out = xp.argmax(rises).astype(xp.int32)
        at, column = slots == out, slab.inverse[:, out] / slab.variances[out]
        features = xp.where(at, k, slab.features)
        coef = xp.where(at, 0, slab.coef - column * slab.coef[out])
        then = pricing(features, coef, after[out])
        gain = rise(slab.square, after[out]) - then.of_subset(size - 1) + price.of_subset(size)
        go = (rises[out] > least) & (gain > least)
        left = slab.inverse - column[:, None] * slab.inverse[out][None, :]
        dropped = slab._replace(
            features=xp.where(go, features, slab.features),
            inverse=xp.where(go, xp.where(at[:, None] | at[None, :], 0, left), slab.inverse),
            coef=xp.where(go, coef, slab.coef),
            square=xp.where(go, after[out], slab.square),
        )
        return dropped, since + go.astype(xp.int32), go

    def round_of_drops(carry: tuple[Slab, Array, Array]) -> tuple[Slab, Array, Array]:
        slab, steps, _ = carry
        begun = refreshed(source, slab), zero, xp.asarray(True)
        slab, since, helped = while_loop(lambda c: c[2] & (c[1] < _FRESH), drop, begun)
        gram = xp.where(slab.used[:, None], slab.gram, 0)
        return slab._replace(gram=gram), steps + since, helped

    some = xp.any(start.used)
    slab, steps, _ = while_loop(lambda c: c[2], round_of_drops, (start, zero, some))
    return slab, steps


def _least_rise(gram: Float[Array, "m k"], n: int | Array) -> float | Array:
    """A rise of the score that is not below what rounding may make of nothing."""
    return 25 * n * float(namespace(gram).finfo(gram.dtype).eps)


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
        slab, dropped = eliminated(sums, whole_slab(sums, start), rules)
        end = search(sums, slab, sums.square, rules, needed)
        return end._replace(steps=end.steps + dropped)

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
    return begun(features, gram, xp.where(kept, sums.anchor, 0))


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
    slab = begun(empty, xp.zeros((slots, k), dtype), xp.zeros(slots, dtype))
    square = rows.y**2 if rows.counts is None else rows.counts * rows.y**2
    needed = None if needed is None else needed & (rows.scale > 0)
    return search(rows, slab, xp.sum(square), rules, needed)


def flat(price: float, m: int, dtype: Any, xp: Any = jnp) -> Pricing:
    """One price for every feature and none for the size, in arrays of a namespace."""
    charges = Charges(xp.full(m, price, dtype), xp.asarray(price, dtype), xp.zeros(1, dtype))
    return lambda features, coef, square: charges


def bic_charge(n: int) -> float:
    """What BIC charges a feature, in nats."""
    return 0.5 * math.log(n)
