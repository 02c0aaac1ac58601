"""Best-subset search by single moves, where kept features are never masked.

Every drop of a feature, every addition and every exchange of one for another is judged in closed
form. The search stores the rows of X'X of the kept features (a slab of m slots by k), the inverse
over the slots and the product of the two, each updated by rank one. So a move costs O(m k) and one
pass over X. The same formulas hold for a state with fractional masks, whose slab is that of the
masked features.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
from jaxtyping import Bool, Float, Int

from bmjax._runtime.backend import Array, cond, map_rows, namespace, put, select, while_loop
from bmjax._selection.criterion import Criterion, effects
from bmjax._selection.gram import Rows, Squares
from bmjax._selection.neighbours import Charges, Noise, best_of, drop_rises, squares_after
from bmjax._selection.slab import Slab, Source, begun, change_of, moved, refreshed

# Number of rank-one updates after which all is recomputed, against rounding errors.
_FRESH = 32


class Rules(NamedTuple):
    """The charges and limits of a search.

    Attributes:
        pricing: A function for the charges of features at the present coefficients.
        noise: The noise of the dataset, and its number of samples, with which rounding errors grow.
        most: Largest subset allowed.
        max_steps: Largest number of moves.
    """

    pricing: "Pricing"
    noise: Noise
    most: int | Array
    max_steps: Int[Array, ""] | int


class Search(NamedTuple):
    """The end of a search.

    Attributes:
        support: Whether each feature is in the subset.
        coef: Least squares on the subset, for unit columns.
        score: The score of the subset, in nats up to a constant of the dataset.
        steps: Number of moves made.
        ended: Whether no move raises the score.
        full: Whether every slot is taken, so that more slots might lead to a better subset.
    """

    support: Bool[Array, " k"]
    coef: Float[Array, " k"]
    score: Float[Array, ""]
    steps: Int[Array, ""]
    ended: Bool[Array, ""]
    full: Bool[Array, ""]


# The charges of features, by slot, given a slab's features and coefficients.
Pricing = Callable[[Int[Array, " m"], Float[Array, " m"]], Charges]


def search(
    source: Source,
    start: Slab,
    reference: Float[Array, ""],
    rules: Rules,
    needed: Bool[Array, " k"] | None = None,
    *,
    exact: bool = False,
) -> Search:
    """The subset at the end of a `climb`.

    Args:
        source: The sums of the dataset.
        start: The subset to start from, of which features, rows of X'X and coefficients are read.
        reference: The sum of squared residuals at which the log likelihood counts as zero.
        rules: The charges and limits of the search.
        needed: Features that must be in the subset, unless they are zero.
        exact: Whether all of the start is known, see `climb`.
    """
    xp = namespace(start.gram)
    slab, steps, ended = climb(source, start, rules, needed, exact=exact)
    spent = rules.pricing(slab.features, slab.coef).of_subset(slab.size, slab.square)
    return Search(
        support=slab.kept,
        coef=put(xp.zeros_like(slab.slope), slab.features, slab.coef),
        score=rules.noise.rise(reference, slab.square) - spent,
        steps=steps,
        ended=ended,
        full=xp.all(slab.used),
    )


def climb(
    source: Source,
    start: Slab,
    rules: Rules,
    needed: Bool[Array, " k"] | None = None,
    *,
    exact: bool = False,
    last: bool = True,
) -> tuple[Slab, Int[Array, ""], Bool[Array, ""]]:
    """Make the best move, again and again until none raises the score.

    Moves are made by rank-one updates; before the end, and after every 32 of them, all is
    recomputed.

    Args:
        source: The sums of the dataset.
        start: The subset to start from, of which features, rows of X'X and coefficients are read.
        rules: The charges and limits of the search.
        needed: Features that must be in the subset, unless they are zero.
        exact: Whether all of the start is known, so that nothing is recomputed at first.
        last: Whether no other climb follows; else the last subset need not be recomputed.

    Returns:
        The last subset, the number of moves, and whether no move raises the score.
    """
    xp = namespace(start.gram)
    pricing, noise, most, max_steps = rules
    gram = start.gram
    m, k = gram.shape
    zero = xp.zeros((), xp.int32)
    least = _least_rise(gram, noise.samples)

    def advance(carry: tuple[Slab, Array, Array, Array]) -> tuple[Slab, Array, Array, Array]:
        slab, steps, since, _ = carry
        price = pricing(slab.features, slab.coef)
        move = best_of(slab, squares_after(slab), price, most, needed)
        change = change_of(slab, move)
        grown = (move.feature < k).astype(xp.int32) - (move.slot < m).astype(xp.int32)
        feature = xp.where(change.fills, move.feature, k)
        then = pricing(xp.where(change.at, feature, slab.features), change.coef)
        gain = noise.rise(slab.square, move.square)
        gain = gain - then.of_subset(slab.size + grown, move.square)
        gain = gain + price.of_subset(slab.size, slab.square)
        forced = xp.isposinf(move.rise)
        go = forced | ((move.rise > least) & (gain > least))
        slab = moved(source, slab, move, change, go)
        one = go.astype(xp.int32)
        return slab, steps + one, since + one, go

    def round_of_moves(carry: tuple[Slab, Array, Array, Array]) -> tuple[Slab, Array, Array, Array]:
        slab, steps, known, _ = carry
        slab = cond(known, lambda: slab, lambda: refreshed(source, slab))
        begun = slab, steps, zero, xp.asarray(True)
        slab, after, _, helped = while_loop(
            lambda c: c[3] & (c[1] < max_steps) & (c[2] < _FRESH), advance, begun
        )
        # Without a move since all was recomputed, no move raises the score.
        ended = ~helped & (~known & (after == steps) | (not last))
        return slab, after, no, ended | (after >= max_steps)

    no = xp.asarray(False)
    begun = start, zero, xp.asarray(exact), no
    slab, steps, _, _ = while_loop(lambda c: ~c[3], round_of_moves, begun)
    return slab, steps, steps < max_steps


def eliminated(source: Source, start: Slab, rules: Rules) -> tuple[Slab, Int[Array, ""]]:
    """Drop features from a large subset, one by one, as long as the score rises.

    Additions and exchanges are left to the search that follows: while most features are in, there
    is little to add, and a drop costs no more than an update of V, O(m^2).

    Args:
        source: The sums of the dataset.
        start: The subset to start from, of which features, rows of X'X and coefficients are read.
        rules: The charges and limits of the search.

    Returns:
        The subset, to be refreshed, and the number of features dropped.
    """
    xp = namespace(start.gram)
    pricing, noise, _, _ = rules
    m, k = start.gram.shape
    least = _least_rise(start.gram, noise.samples)
    slots, zero = xp.arange(m, dtype=xp.int32), xp.zeros((), xp.int32)

    def drop(carry: tuple[Slab, Array, Array]) -> tuple[Slab, Array, Array]:
        slab, since, _ = carry
        price, size = pricing(slab.features, slab.coef), slab.size
        after = slab.squares_after_drops
        rises = drop_rises(slab, after, price)
        out = xp.argmax(rises).astype(xp.int32)
        at, column = slots == out, slab.inverse[:, out] / slab.variances[out]
        features = xp.where(at, k, slab.features)
        coef = xp.where(at, 0, slab.coef - column * slab.coef[out])
        spent = pricing(features, coef).of_subset(size - 1, after[out])
        gain = noise.rise(slab.square, after[out]) - spent + price.of_subset(size, slab.square)
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
    """The largest rise of the score that may be rounding error."""
    return 25 * n * float(namespace(gram).finfo(gram.dtype).eps)


def from_both_ends(
    sums: Squares,
    rules: Rules,
    needed: Bool[Array, " k"] | None = None,
    reference: Float[Array, ""] | None = None,
) -> Search:
    """The better of two searches, from the empty subset and from as many features as allowed.

    The latter are the features that each alone explain the most of y.

    Args:
        sums: Sums over samples for columns of unit length.
        rules: The charges and limits of a search.
        needed: Features that must be in the subset.
        reference: The sum of squared residuals at which the log likelihood counts as zero. Default:
            that of the sums.
    """
    xp = namespace(sums.gram)
    k = len(sums.anchor)
    reference = sums.square if reference is None else reference

    def from_one(start: Bool[Array, " k"]) -> Search:
        slab, dropped = eliminated(sums, whole_slab(sums, start), rules)
        end = search(sums, slab, reference, rules, needed)
        return end._replace(steps=end.steps + dropped)

    needed = None if needed is None else needed & sums.explains
    order = xp.argsort(-xp.abs(sums.slope + sums.gram @ sums.anchor))
    alone = xp.argsort(order).astype(xp.int32)
    starts = xp.stack([xp.zeros(k, bool), alone < rules.most])
    if needed is not None:
        starts |= needed[None]
    ends = map_rows(from_one, starts)
    return better_of(*(jax.tree.map(lambda leaf, i=i: leaf[i], ends) for i in range(2)))


def better_of(one: Search, other: Search) -> Search:
    """The search that ended at the higher score, with the steps and end of both.

    Args:
        one: A search.
        other: Another one, with the same reference.
    """
    xp = namespace(one.score)
    better: Search = select(other.score > one.score, other, one)
    return better._replace(
        steps=xp.maximum(one.steps, other.steps),
        ended=one.ended & other.ended,
        full=one.full,
    )


def whole_slab(sums: Squares, support: Bool[Array, " k"]) -> Slab:
    """A slab with a slot for every feature and some features kept, to be refreshed."""
    xp = namespace(sums.gram)
    k = len(support)
    kept = support & sums.explains
    features = xp.where(kept, xp.arange(k, dtype=xp.int32), k).astype(xp.int32)
    gram = xp.where(kept[:, None], sums.gram, 0)
    return begun(features, gram, xp.where(kept, sums.anchor, 0))


def from_nothing(
    rows: Rows,
    slots: int,
    stages: Sequence[Rules],
    needed: Bool[Array, " k"] | None = None,
) -> Search:
    """A search from the empty subset with slots for some of many features; X'X is never formed.

    Args:
        rows: The dataset.
        slots: Number of slots for features.
        stages: Charges and limits of searches that begin where the one before ended.
        needed: Features that must be in the subset.
    """
    xp = namespace(rows.X)
    k, dtype = len(rows.X), rows.X.dtype
    empty = xp.full(slots, k, xp.int32)
    slab = begun(empty, xp.zeros((slots, k), dtype), xp.zeros(slots, dtype))
    needed = None if needed is None else needed & (rows.scale > 0)
    *first, last = stages
    full, steps, exact = xp.asarray(False), xp.zeros((), xp.int32), False
    for rules in first:
        slab, moves, _ = climb(rows, slab, rules, needed, exact=exact, last=False)
        full, steps, exact = full | xp.all(slab.used), steps + moves, True
    end = search(rows, slab, rows.square, last, needed, exact=exact)
    return end._replace(full=full | end.full, steps=steps + end.steps)


def flat(each: float, k: int, noise: Noise) -> Pricing:
    """A pricing of one charge for each of k features and none for the size."""

    def pricing(features: Array, coef: Array) -> Charges:
        xp = namespace(coef)
        rule = Criterion(each, False, xp.zeros(1, coef.dtype))
        kept = effects(xp.ones_like(coef), features < k)
        return Charges(rule, kept, xp.zeros_like(coef), noise)

    return pricing


def bic_charge(n: int) -> float:
    """The charge of a feature in BIC, log(n) / 2, in nats."""
    return 0.5 * math.log(n)
