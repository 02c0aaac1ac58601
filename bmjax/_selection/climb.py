"""Best-subset search by single moves and pairs, where kept features are never masked.

Every drop of a feature, every addition and every exchange of one for another is judged in closed
form. The search stores the rows of X'X of the kept features (a slab of m slots by k), the inverse
over the slots and the product of the two, each updated by rank one. So a move costs O(m k) and one
pass over X. Once no move raises the score, two features at once may be added. The same formulas
hold for a state with fractional masks, whose slab is that of the masked features.
"""

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Bool, Float, Int

from bmjax._runtime.backend import Array, cond, namespace, select, while_loop
from bmjax._selection.neighbours import Charges, Noise, best_of, drop_rises, squares_after
from bmjax._selection.pairs import with_best_pair
from bmjax._selection.slab import Slab, Source, change_of, moved, refreshed

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


# The charges of features, by slot, given a slab's features and coefficients.
Pricing = Callable[[Int[Array, " m"], Float[Array, " m"]], Charges]


def climb(
    source: Source,
    start: Slab,
    rules: Rules,
    needed: Bool[Array, " k"] | None = None,
    *,
    exact: Bool[Array, ""] | bool = False,
    last: Bool[Array, ""] | bool = True,
) -> tuple[Slab, Int[Array, ""], Bool[Array, ""]]:
    """Make the best move, again and again until none raises the score, nor a pair of additions.

    Moves are made by rank-one updates; before the end, and after every 32 of them, all is
    recomputed.

    Args:
        source: The sums of the dataset.
        start: The subset to start from, of which features, rows of X'X and coefficients are read.
        rules: The charges and limits of the search.
        needed: Features that must be in the subset, unless they are zero.
        exact: Whether all of the start is known, so that nothing is recomputed at first.
        last: Whether no other climb follows; else the last subset need not be recomputed, and no
            pairs are added.

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
        gain = price.gain((slab.size, slab.square), then, (slab.size + grown, move.square))
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
        ended = ~helped & (~known & (after == steps) | ~last)
        slab, added = cond(ended & last, lambda: two_more(slab), lambda: (slab, no))
        after = after + 2 * added.astype(xp.int32)
        return slab, after, no, (ended & ~added) | (after >= max_steps)

    def two_more(slab: Slab) -> tuple[Slab, Array]:
        more, possible = with_best_pair(source, slab)
        price, then = (pricing(each.features, each.coef) for each in (slab, more))
        gain = price.gain((slab.size, slab.square), then, (more.size, more.square))
        go = possible & (more.size <= most) & (gain > least)
        return select(go, more, slab), go

    no, last = xp.asarray(False), xp.asarray(last)
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
        then = pricing(features, coef)
        gain = price.gain((size, slab.square), then, (size - 1, after[out]))
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
