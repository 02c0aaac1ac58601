"""Which features to keep, if a kept one is never masked: a search over subsets, move by move.

Every drop of a feature, every addition and every exchange of one for another is judged in closed
form from the k x k sums of a dataset, all of them for the price of one product. The same formulas
serve a state with fractional masks, whose sums are those of the masked features.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from bmjax._squares import Squares, inverse_factor, residual_slope, residual_square
from bmjax._types import select


class Refit(NamedTuple):
    """Least squares on a subset of unit columns.

    Attributes:
        coef: Coefficients, zero outside the subset.
        inverse: The inverse of X'X on the subset, zero elsewhere.
        square: Sum of squared residuals.
    """

    coef: Float[Array, " k"]
    inverse: Float[Array, "k k"]
    square: Float[Array, ""]


class Charges(NamedTuple):
    """What a subset costs, in nats.

    Attributes:
        kept: Saved by dropping a feature; -inf for one that may not be dropped.
        new: Spent on adding one.
        by_size: Spent on a subset of 0, 1, ..., k features as such.
    """

    kept: Float[Array, " k"]
    new: Float[Array, ""]
    by_size: Float[Array, " k_plus_1"]


class Search(NamedTuple):
    """Where a search has come to.

    Attributes:
        support: The subset.
        refit: Least squares on it.
        score: Its score, in nats.
        steps: Moves made.
        ended: Whether no move raises the score.
    """

    support: Bool[Array, " k"]
    refit: Refit
    score: Float[Array, ""]
    steps: Int[Array, ""]
    ended: Bool[Array, ""]


# The rise of the log likelihood from one sum of squared residuals (the first) to another.
Rise = Callable[[Array, Array], Array]


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
        before, after = jnp.maximum(before, floor), jnp.maximum(after, floor)
        return -0.5 * n * jnp.log1p((after - before) / before)

    return rise


def unit_columns(m: Squares) -> tuple[Squares, Float[Array, " k"]]:
    """The same sums for columns of unit length, so that one threshold of rank serves all."""
    diagonal = jnp.diagonal(m.gram)
    scale = jnp.where(diagonal > 0, lax.rsqrt(jnp.where(diagonal > 0, diagonal, 1)), 0)
    anchor = jnp.where(scale > 0, m.anchor / jnp.where(scale > 0, scale, 1), 0)
    gram = m.gram * scale[:, None] * scale[None, :]
    return m._replace(gram=gram, anchor=anchor, slope=m.slope * scale), scale


def refit(m: Squares, support: Bool[Array, " k"]) -> Refit:
    """Least squares on a subset of unit columns, steadied by a ridge of a few roundings."""
    k = len(support)
    both = support[:, None] & support[None, :]
    ridge = 2 * k * jnp.finfo(m.gram.dtype).eps
    system = jnp.where(both, m.gram, 0) + jnp.diag(jnp.where(support, ridge, 1))
    half = inverse_factor(system)
    inverse = jnp.where(both, half.T @ half, 0)
    coef = jnp.where(support, m.anchor, 0)
    for _ in range(3):  # the second and third take out the ridge and the rounding
        coef += inverse @ residual_slope(m, coef)
    return Refit(coef, inverse, residual_square(m, coef))


def rises(
    m: Squares,
    support: Bool[Array, " k"],
    at: Refit,
    charges: Charges,
    rise: Rise,
    max_features: int | Array,
) -> Float[Array, " moves"]:
    """By how much each of the k + k + k^2 moves would raise the score; -inf where impossible.

    With V the inverse of X'X on the support, b the coefficients, r = X'residual, H = X'X V and
    d = (X'X)_jj - (H X'X)_jj: dropping i adds b_i^2 / V_ii to the residual square; adding j takes
    r_j^2 / d_j off it; after dropping i, r_j is r_j + H_ji b_i / V_ii and d_j is
    d_j + H_ji^2 / V_ii. So all k^2 exchanges cost one k x k product.

    Args:
        m: Sums of unit columns.
        support: The present subset.
        at: Least squares on it.
        charges: What features cost.
        rise: The rise of the log likelihood.
        max_features: Largest subset allowed.

    Returns:
        The rises of drops, of additions, and of exchanges (row: added, column: dropped).
    """
    k = len(support)
    eps = jnp.finfo(m.gram.dtype).eps
    slope = residual_slope(m, at.coef)
    variance = jnp.where(support, jnp.maximum(jnp.diagonal(at.inverse), eps), 1)
    reach = m.gram @ at.inverse
    free = jnp.diagonal(m.gram) - jnp.sum(reach * m.gram, axis=1)
    rank = 100 * k * eps  # a column with less than this left is a combination of the others
    size = jnp.sum(support, dtype=jnp.int32)
    here = charges.by_size[size]

    dropped = at.coef**2 / variance
    saved = charges.kept + here - charges.by_size[jnp.maximum(size - 1, 0)]
    drop = jnp.where(support, rise(at.square, at.square + dropped) + saved, -jnp.inf)

    gain = slope**2 / jnp.where(free > rank, free, 1)
    spent = charges.new + charges.by_size[jnp.minimum(size + 1, k)] - here
    may_add = ~support & (free > rank) & (size < max_features)
    add = jnp.where(may_add, rise(at.square, jnp.maximum(at.square - gain, 0)) - spent, -jnp.inf)

    free_then = free[:, None] + reach**2 / variance[None, :]
    slope_then = slope[:, None] + reach * (at.coef / variance)[None, :]
    gain_then = slope_then**2 / jnp.where(free_then > rank, free_then, 1)
    after = jnp.maximum(at.square + dropped[None, :] - gain_then, 0)
    may_swap = ~support[:, None] & support[None, :] & (free_then > rank)
    swap = rise(at.square, after) + charges.kept[None, :] - charges.new
    swap = jnp.where(may_swap, swap, -jnp.inf)
    return jnp.concatenate([drop, add, swap.ravel()])


def turned(move: Int[Array, ""], k: int) -> Bool[Array, " k"]:
    """The features that a move, an index into `rises`, drops or adds."""
    exchange = jnp.maximum(move - 2 * k, 0)
    one = jnp.arange(k) == move % k
    two = (jnp.arange(k) == exchange // k) | (jnp.arange(k) == exchange % k)
    return jnp.where(move < 2 * k, one, two)


def search(
    m: Squares,
    start: Bool[Array, " k"],
    charges: Callable[[Bool[Array, " k"], Refit], Charges],
    rise: Rise,
    n: int | Array,
    max_features: int | Array,
    max_steps: Int[Array, ""] | int,
) -> Search:
    """Make the best move until none raises the score.

    Args:
        m: Sums of unit columns.
        start: The subset to start from.
        charges: What features cost, which may depend on the present coefficients.
        rise: The rise of the log likelihood.
        n: Number of samples, which rounding grows with.
        max_features: Largest subset allowed.
        max_steps: Most moves.

    Returns:
        The last subset, its score in nats up to a constant of the dataset.
    """
    k = len(start)
    # Not below what rounding may make of nothing.
    least = 25 * n * float(jnp.finfo(m.gram.dtype).eps)

    def judged(support: Bool[Array, " k"]) -> tuple[Refit, Array]:
        at = refit(m, support)
        price = charges(support, at)
        size = jnp.sum(support, dtype=jnp.int32)
        # Against the square of the anchor, which is close, for the sake of float32.
        each = size.astype(price.new.dtype) * price.new
        score = rise(m.square, at.square) - each - price.by_size[size]
        return at, score

    def advance(last: Search) -> Search:
        price = charges(last.support, last.refit)
        gains = rises(m, last.support, last.refit, price, rise, max_features)
        move = jnp.argmax(gains)
        support = last.support ^ turned(move, k)
        at, score = judged(support)
        better = (gains[move] > least) & (score > last.score + least)
        moved = Search(support, at, score, last.steps + 1, jnp.asarray(False))
        return select(better, moved, last._replace(ended=jnp.asarray(True)))

    at, score = judged(start)
    begun = Search(start, at, score, jnp.zeros((), jnp.int32), jnp.asarray(False))
    return lax.while_loop(lambda s: ~s.ended & (s.steps < max_steps), advance, begun)


def most_features(n: int | Array, k: int) -> int | Array:
    """The largest subset to look at: where n <= k, n // 2, since a perfect fit says nothing."""
    if isinstance(n, int):
        return k if n > k else n // 2
    return jnp.where(n > k, jnp.int32(k), n // 2)


def starts_of_search(m: Squares, max_features: int | Array) -> Bool[Array, "2 k"]:
    """Nothing, and as much as there may be: the features that say most of y alone."""
    k = len(m.slope)
    order = jnp.argsort(-jnp.abs(m.slope + m.gram @ m.anchor))
    alone = jnp.argsort(order).astype(jnp.int32)
    return jnp.stack([jnp.zeros(k, bool), alone < max_features])


def flat(price: float, k: int, dtype: jnp.dtype) -> Callable[[Bool[Array, " k"], Refit], Charges]:
    """The same charge for every feature, and none for the size."""
    charges = Charges(jnp.full(k, price, dtype), jnp.asarray(price, dtype), jnp.zeros(k + 1, dtype))
    return lambda support, at: charges


def bic_charge(n: int) -> float:
    """What BIC charges a feature, in nats."""
    return 0.5 * math.log(n)
