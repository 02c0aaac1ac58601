"""Chains over supports, whose moves are chosen by the closed forms of all moves of a kind.

A chain is a process in continuous time. Each feature flips at a rate of its pace times min(1, ratio
of the posterior after the flip to that before), which leaves the posterior invariant for any paces,
since a flip and its return have the same one. This is Metropolis, but all flips are judged at once,
so that only those that happen are simulated and no step is lost to rejections (Zanella, 2020; Zhou
and Smith, 2022). The time that a support is held is its weight.
While it is held, the probability of each feature given all others is known, and is averaged instead
of the feature's presence.

If effects cancel, or columns are alike, single flips hardly move a chain. So at a constant rate a
feature, the anchor, is drawn and flipped together with another one, which is chosen by the
posterior after each such pair: two additions, two drops or an exchange. The pair is accepted by the
ratio of the sums over partners before and after, which makes the move reversible (Zanella, 2020).

g and the rate are summed out: the evidence is read from a table by size and residual.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Bool, Float, Int

from bmjax._posterior.prior import LEAST_SHARE, Evidence, judged
from bmjax._posterior.sweep import (
    Edge,
    Moves,
    Update,
    after_flip,
    after_pair,
    edge_of,
    no_update,
    update,
)
from bmjax._runtime.backend import Array

_POINTS = 256  # grid points of the table, in the log of the residual share
PAIRS = 3.0  # rate of the pairs, relative to the largest rate of a feature's flip


class Table(NamedTuple):
    """`judged` tabulated on a grid of sizes and log shares, with one row for each step of the grid.

    Attributes:
        low: The least log share.
        step: Step of the log share.
        log: The log evidence and its slope at the lower end of the step, and both at the upper end.
        moments: shrink, shrink_square and spread at the lower end, and all three at the upper.
    """

    low: Float[Array, ""]
    step: Float[Array, ""]
    log: Float[Array, "rows 4"]
    moments: Float[Array, "rows 6"]


class Ground(NamedTuple):
    """The data that the chains of a dataset share.

    Attributes:
        table: The table of the evidence.
        most: Size of the largest support.
        pace: Largest rate of each feature's flip.
        anchors: Weights that the anchor of a pair is drawn by; zero for padding.
        elsewhere: Whether each feature was drawn into the working set at random.
        chance: Log probability of the working set, by the number of such features in the support.
    """

    table: Table
    most: Int[Array, ""]
    pace: Float[Array, " w"]
    anchors: Float[Array, " w"]
    elsewhere: Bool[Array, " w"]
    chance: Float[Array, " sizes"]


class Place(NamedTuple):
    """The state of a chain: its support, and the matrix swept on it."""

    matrix: Float[Array, "v v"]
    inside: Bool[Array, " w"]


class Tally(NamedTuple):
    """Sums over time for w features.

    Attributes:
        time: Time spent.
        probability: Time times the probability of each feature given the others.
        coef: Time times that probability times the mean effect given that the feature is in.
        square: The same for the square of the effect.
        drift: Time times the rate of each feature's flip at pace one, negative if it would go out.
    """

    time: Float[Array, ""]
    probability: Float[Array, " w"]
    coef: Float[Array, " w"]
    square: Float[Array, " w"]
    drift: Float[Array, " w"]


class Visits(NamedTuple):
    """The supports visited, one for each step.

    Attributes:
        hold: Time that each support was held.
        log: Logarithm of the posterior of each support, up to a constant.
        share: Share of y'y that each support leaves.
        inside: Whether each feature is in each support.
    """

    hold: Float[Array, " t"]
    log: Float[Array, " t"]
    share: Float[Array, " t"]
    inside: Bool[Array, "t w"]


class _Seen(NamedTuple):
    """The rows of supports in the table, their positions in the step, and their log evidence."""

    row: Array
    part: Array
    log: Array


def tabulated(evidence: Evidence, least: Float[Array, ""]) -> Table:
    """The table of the evidence of a dataset.

    Args:
        evidence: The evidence of the dataset.
        least: The least share of y'y that any support leaves.
    """
    low = jnp.log(jnp.clip(least, LEAST_SHARE, 0.5)) - 0.1
    step = -low / (_POINTS - 1)
    grid = low + step * jnp.arange(_POINTS, dtype=step.dtype)
    sizes = jnp.arange(len(evidence.log_size), dtype=jnp.int32)
    shape = len(sizes), _POINTS
    share = jnp.broadcast_to(jnp.exp(grid)[None, :], shape)
    found = judged(evidence, share, jnp.broadcast_to(sizes[:, None], shape))
    # Sizes that are not allowed are never looked up, but must not make the sums NaN.
    log = jnp.where(jnp.isfinite(found.log), found.log, 0)
    rise = jnp.diff(log, axis=1)
    slope = 0.5 * (rise[:, 1:] + rise[:, :-1])
    slope = jnp.concatenate([rise[:, :1], slope, rise[:, -1:]], axis=1)
    value = jnp.stack([log, slope], axis=-1)
    others = jnp.stack([found.shrink, found.shrink_square, found.spread], axis=-1)

    def steps(values: Array) -> Array:
        both = jnp.concatenate([values[:, :-1], values[:, 1:]], axis=-1)
        return both.reshape(-1, both.shape[-1])

    return Table(low, step, steps(value), steps(others))


def _look_up(table: Table, share: Float[Array, "*s"], size: Int[Array, "*s"]) -> _Seen:
    """The log evidence of supports by cubic interpolation of the table in the log share."""
    place = (jnp.log(jnp.clip(share, LEAST_SHARE, 1)) - table.low) / table.step
    place = jnp.clip(place, 0, _POINTS - 1)
    left = jnp.minimum(place.astype(jnp.int32), _POINTS - 2)
    t = place - left.astype(place.dtype)
    row = size * (_POINTS - 1) + left
    values = table.log.at[row].get(mode="promise_in_bounds")
    f0, d0, f1, d1 = (values[..., i] for i in range(4))
    rise = f1 - f0
    log = f0 + t * (d0 + t * (3 * rise - 2 * d0 - d1 + t * (d0 + d1 - 2 * rise)))
    return _Seen(row, t, log)


def _moments(table: Table, seen: _Seen) -> tuple[Array, Array, Array]:
    """The shrink, shrink_square and spread of supports that were looked up."""
    values = table.moments.at[seen.row].get(mode="promise_in_bounds")
    low, high = values[..., :3], values[..., 3:]
    between = low + seen.part[..., None] * (high - low)
    return between[..., 0], between[..., 1], between[..., 2]


def advanced(
    place: Place, ground: Ground, draws: Float[Array, "t 4"]
) -> tuple[Place, Tally, Visits]:
    """Advance a chain by some steps.

    Args:
        place: The state of the chain.
        ground: The data that the chains share.
        draws: Uniform random numbers, four for each step.
    """
    w, dtype = len(place.inside), place.matrix.dtype
    none = jnp.zeros(w, dtype)

    def step(
        carry: tuple[Array, Update, Edge, Tally], draw: Float[Array, " 4"]
    ) -> tuple[tuple[Array, Update, Edge, Tally], tuple[Array, ...]]:
        matrix, due, edge, tally = carry
        # The update is applied one step late, since XLA would recompute vectors that are not in
        # memory for every entry of the matrix.
        matrix = due.matrix(matrix)
        now = _look_up(ground.table, edge.square, edge.size)
        flips = after_flip(edge, ground.most)
        then = _look_up(ground.table, flips.square, flips.size)
        ratio = then.log - now.log + _chance(ground, edge, None)
        evenly = _rate(ratio, flips.possible)
        rate = ground.pace * evenly
        busy = jnp.sum(rate)
        hold = 1 / (busy + PAIRS)
        drift = tally.drift + hold * jnp.where(edge.inside, -evenly, evenly)
        tally = _added(ground.table, tally, hold, edge, flips, now, then)._replace(drift=drift)

        # The event that comes first, a flip or a pair.
        single = draw[0] * (busy + PAIRS) < busy
        anchor = _chosen(ground.anchors, draw[1])
        pairs = _pair_rates(ground, edge, matrix[anchor, :w], now.log, anchor)
        total = jnp.sum(pairs)
        chosen = _chosen(jnp.where(single, rate, pairs), draw[2])
        first = jnp.where(single, chosen, anchor)
        change = update(matrix, edge.inside, first, chosen, ~single, single | (total > 0))
        there = change.edge(edge)
        log_there = _look_up(ground.table, there.square, there.size).log
        row = change.row(matrix, anchor)[:w]
        back = jnp.sum(_pair_rates(ground, there, row, log_there, anchor))
        go = single | ((total > 0) & (draw[3] * back < total))
        change = change._replace(
            keep=jnp.where(go, change.keep, 1), left=jnp.where(go, change.left, 0)
        )
        visited = hold, now.log, edge.square, edge.inside
        edge = jax.tree.map(lambda new, old: jnp.where(go, new, old), there, edge)
        return (matrix, change, edge, tally), visited

    begun = Tally(jnp.zeros((), dtype), none, none, none, none)
    edge = edge_of(place.matrix, place.inside)
    carry = place.matrix, no_update(place.inside, dtype), edge, begun
    (matrix, due, edge, tally), visits = lax.scan(step, carry, draws)
    return Place(due.matrix(matrix), edge.inside), tally, Visits(*visits)


def _rate(ratio: Array, possible: Array) -> Array:
    return jnp.where(possible, jnp.exp(jnp.minimum(ratio, 0)), 0)


def _chosen(rate: Array, draw: Array) -> Array:
    """A random index, with probabilities proportional to the rates."""
    w = len(rate)
    # Cumulative sums by a matrix product, which compiles to less code than `cumsum`.
    sums = rate @ jnp.triu(jnp.ones((w, w), rate.dtype))
    found = jnp.sum(sums <= draw * sums[-1], dtype=jnp.int32)
    # Rounding must not lead beyond the last index of positive rate.
    last = w - 1 - jnp.argmax(rate[::-1] > 0).astype(jnp.int32)
    return jnp.minimum(found, last)


def _chance(ground: Ground, edge: Edge, anchor: Array | None) -> Array:
    """The change of the log probability of the working set by each flip, with that of an anchor."""
    count = jnp.sum(edge.inside & ground.elsewhere, dtype=jnp.int32)
    change = jnp.where(ground.elsewhere, jnp.where(edge.inside, -1, 1), 0)
    if anchor is not None:
        change = change + change[anchor]
    last = len(ground.chance) - 1
    return ground.chance[jnp.clip(count + change, 0, last)] - ground.chance[count]


def _pair_rates(ground: Ground, edge: Edge, row: Array, log: Array, anchor: Array) -> Array:
    pairs = after_pair(edge, row, ground.most, anchor)
    then = _look_up(ground.table, pairs.square, pairs.size)
    return _rate(then.log - log + _chance(ground, edge, anchor), pairs.possible)


def _added(  # noqa: PLR0913 - a step seen from both of its ends
    table: Table, tally: Tally, hold: Array, edge: Edge, flips: Moves, now: _Seen, then: _Seen
) -> Tally:
    """The sums, but for the drift, with the time of a support added, each feature given others."""
    inside, possible = edge.inside, flips.possible
    ratio = then.log - now.log
    probability = jnp.where(possible, jax.nn.sigmoid(jnp.where(inside, -ratio, ratio)), 0)
    own = jnp.where(possible, edge.own, 1)
    effect = jnp.where(inside, edge.slope, edge.slope / own)
    variance = jnp.where(inside, -own, 1 / own)
    # Given that the feature is in: the moments here if it is, else those after its flip.
    here, there = _moments(table, now), _moments(table, then)
    shrink, shrink_square, spread = (
        jnp.where(inside, a, b) for a, b in zip(here, there, strict=True)
    )
    square = shrink_square * effect**2 + spread * variance
    return Tally(
        tally.time + hold,
        tally.probability + hold * probability,
        tally.coef + hold * probability * shrink * effect,
        tally.square + hold * probability * square,
        tally.drift,
    )


def tally_at(ground: Ground, edge: Edge) -> Tally:
    """The sums of a chain that holds a support for a time of one, with no drift."""
    now = _look_up(ground.table, edge.square, edge.size)
    flips = after_flip(edge, ground.most)
    then = _look_up(ground.table, flips.square, flips.size)
    none = jnp.zeros_like(edge.own)
    begun = Tally(jnp.zeros((), none.dtype), none, none, none, none)
    return _added(ground.table, begun, jnp.ones((), none.dtype), edge, flips, now, then)
