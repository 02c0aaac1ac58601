"""Best-subset search over groups of columns, where kept groups are never masked.

Every drop, addition and exchange of a whole group is judged in closed form; see `group_slab`.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
from jaxtyping import Bool, Float, Int

from bmjax._model.groups import NO_COLUMN
from bmjax._model.problem import Problem
from bmjax._runtime.backend import Array, map_rows, namespace, put, select, take, while_loop
from bmjax._selection.criterion import Criterion, effects, universal
from bmjax._selection.gram import Rows, Squares, anchored, unit_columns, unit_scale
from bmjax._selection.group_slab import (
    GroupMove,
    Layout,
    blocks_of,
    independent,
    ranked_move,
    squares_after,
    squares_after_drops,
    with_columns,
    without,
)
from bmjax._selection.neighbours import After, Charges, Noise, most_features, noise_of
from bmjax._selection.slab import Slab, Source, empty_slab, refreshed
from bmjax._selection.subset import whole_slab

# Number of drops after which all is recomputed, against rounding errors.
_FRESH = 8


class GroupRules(NamedTuple):
    """The charges and limits of a search.

    Attributes:
        layout: The groups.
        prices: A function for the charges of the groups, given a slab.
        noise: The noise of the dataset.
        most: Largest number of columns allowed.
        least: The largest rise of the score that may be rounding error.
        needed: Whether each group must be in the subset, if it can explain anything.
    """

    layout: Layout
    prices: Callable[[Slab], Charges]
    noise: Noise
    most: Int[Array, ""] | int
    least: float | Array
    needed: Bool[Array, " g"]

    def spent(self, slab: Slab) -> Float[Array, ""]:
        """The total charge of the groups in a slab."""
        size = namespace(slab.gram).sum(self.layout.kept(slab), dtype="int32")
        return self.prices(slab).of_subset(size, slab.square)

    def gain(self, before: Slab, after: Slab) -> Float[Array, ""]:
        """The rise of the score from one slab to another, each at its own charges."""
        rise = self.noise.rise(before.square, after.square)
        return rise - self.spent(after) + self.spent(before)


def best_groups(
    problem: Problem, rule: Criterion, tall: bool, slots: int
) -> tuple[Bool[Array, " k"], Float[Array, " k"], Bool[Array, ""]]:
    """The subset of groups of the highest score that a search by single moves finds.

    The search starts from the empty subset, and for tall data from a large subset as well.

    Args:
        problem: The dataset, with groups.
        rule: The charge of each group.
        tall: Whether there are more samples than columns.
        slots: Number of slots for columns; all columns if the data are tall.

    Returns:
        Whether each column is in the subset, least squares on it, and whether the slots ran out.
    """
    xp, members = namespace(problem), _members(problem)
    if tall:
        sums = anchored(problem.X, problem.y, problem.sample_weights, tall=True)
        source, scale = unit_columns(sums)
        rules = _rules(problem, rule, Layout(members, blocks_of(source, members)))
        slab, full = _from_both_ends(source, rules), xp.asarray(False)
    else:
        scale = unit_scale(problem.squares)
        source = Rows(problem.X, problem.y, problem.sample_weights, scale)
        rules = _rules(problem, rule, Layout(members, blocks_of(source, members)))
        blank = empty_slab(problem.X, slots)
        easy = _rules(problem, universal(rule, len(members)), rules.layout)
        slab = _search(source, blank, rules)
        eased = _search(source, _search(source, blank, easy), rules)
        slab = select(rules.gain(slab, eased) > 0, eased, slab)
        full = xp.sum(~slab.used, dtype=xp.int32) < members.shape[1]
    kept = rules.layout.kept(slab)
    columns = xp.where(kept[:, None], members, NO_COLUMN)
    support = put(xp.zeros(len(scale), bool), columns.ravel(), True)
    coef = put(xp.zeros_like(scale), slab.features, slab.coef)
    return support | ~problem.maskable, coef * scale, full


def _members(problem: Problem) -> Int[Array, "g d"]:
    assert problem.groups is not None
    assert problem.groups.members is not None
    return problem.groups.members


def _rules(problem: Problem, rule: Criterion, layout: Layout) -> GroupRules:
    """The charges and limits of a search under a criterion."""
    xp, n = namespace(problem), problem.num_samples
    noise = noise_of(problem)
    needed = xp.any(take(~problem.maskable, layout.members), axis=1)

    def prices(slab: Slab) -> Charges:
        coef = take(put(xp.zeros_like(slab.slope), slab.features, slab.coef), layout.members)
        strength = xp.sum(coef * (layout.blocks @ coef[:, :, None])[:, :, 0], axis=1) / n
        kept = effects(strength, layout.kept(slab) & ~needed, layout.sizes)
        masks = xp.where(needed, -xp.inf, xp.zeros_like(strength))
        return Charges(rule, kept, masks, noise)

    return GroupRules(
        layout=layout,
        prices=prices,
        noise=noise,
        most=most_features(problem.num_rows, problem.num_features),
        least=25 * n * float(xp.finfo(problem.dtype).eps),
        needed=needed,
    )


def _from_both_ends(sums: Squares, rules: GroupRules) -> Slab:
    """The better of two searches, from the empty subset and from as many groups as allowed.

    The latter are the groups that each alone explain the most of y.
    """
    layout = rules.layout
    xp, k, members = namespace(sums.gram), len(sums.anchor), layout.members
    empty = refreshed(sums, whole_slab(sums, xp.zeros(k, bool)))

    def columns_of(groups: Bool[Array, " g"]) -> Bool[Array, " k"]:
        columns = xp.where(groups[:, None], members, NO_COLUMN)
        return put(xp.zeros(k, bool), columns.ravel(), True)

    needed_first = xp.argsort(~columns_of(rules.needed), stable=True).astype(xp.int32)

    def from_one(start: Bool[Array, " g"]) -> tuple[Slab, Array]:
        support = columns_of(start) & sums.explains
        support = independent(sums.gram, needed_first, support)
        end = _search(sums, _eliminated(sums, whole_slab(sums, support), rules), rules)
        return end, rules.gain(empty, end)

    alone = xp.where(rules.needed, -xp.inf, squares_after(empty, layout).add)
    order = xp.argsort(alone, stable=True).astype(xp.int32)
    fits = xp.cumsum(layout.sizes[order], dtype=xp.int32) <= rules.most
    starts = xp.stack([rules.needed, rules.needed | put(xp.zeros_like(fits), order, fits)])
    ends, scores = map_rows(from_one, starts)
    best = xp.argmax(scores).astype(xp.int32)
    end: Slab = jax.tree.map(lambda leaf: leaf[best], ends)
    return end


def _search(source: Source, start: Slab, rules: GroupRules) -> Slab:
    """Make the best move of a group, again and again until none raises the score."""
    xp, layout = namespace(start.gram), rules.layout
    most_moves = xp.asarray(10 * len(layout.members), xp.int32)

    def advance(carry: tuple[Slab, Array, Array]) -> tuple[Slab, Array, Array]:
        slab, steps, _ = carry
        move = _best(slab, squares_after(slab, layout), rules)
        after = _moved(source, slab, move, rules)
        gain = rules.gain(slab, after)
        forced = xp.isposinf(move.rise) & take(layout.kept(after), move.into)
        go = forced | ((move.rise > rules.least) & (gain > rules.least))
        return select(go, after, slab), steps + 1, go & (steps < most_moves)

    carry = refreshed(source, start), xp.zeros((), xp.int32), xp.asarray(True)
    return while_loop(lambda carry: carry[2], advance, carry)[0]


def _best(slab: Slab, after: After, rules: GroupRules) -> GroupMove:
    """The move that raises the score the most, or adds a needed group that is missing."""
    layout = rules.layout
    xp, kept = namespace(slab.gram), layout.kept(slab)
    move = ranked_move(slab, layout, after, rules.prices(slab), rules.most)
    free = xp.sum(~slab.used, dtype=xp.int32)
    missing = rules.needed & ~kept & xp.isfinite(after.add) & (layout.sizes <= free)
    none, first = xp.asarray(len(kept), xp.int32), xp.argmax(missing).astype(xp.int32)
    return select(xp.any(missing), GroupMove(none, first, xp.full_like(move.rise, xp.inf)), move)


def _moved(source: Source, slab: Slab, move: GroupMove, rules: GroupRules) -> Slab:
    """The slab after a move, recomputed."""
    members, blocks = rules.layout
    xp, nobody = namespace(slab.gram), len(members)
    out, into = (
        xp.where(group < nobody, take(members, group), NO_COLUMN) for group in (move.out, move.into)
    )
    exists = xp.diagonal(take(blocks, move.into)) > 0
    slab = with_columns(source, without(slab, out), into, exists)
    return refreshed(source, slab)


def _eliminated(source: Source, start: Slab, rules: GroupRules) -> Slab:
    """Drop groups from a large subset, one by one, as long as the score rises.

    A drop costs no more than an update, so additions and exchanges are left to the next search.
    """
    xp, layout = namespace(start.gram), rules.layout
    groups, dtype = len(layout.members), start.gram.dtype
    nowhere = xp.full(groups, xp.inf, dtype), xp.full((groups, groups), xp.inf, dtype)

    def drop(carry: tuple[Slab, Array, Array]) -> tuple[Slab, Array, Array]:
        slab, since, _ = carry
        after = After(squares_after_drops(slab, layout), *nowhere)
        move = ranked_move(slab, layout, after, rules.prices(slab), rules.most)
        dropped = without(slab, take(layout.members, move.out))
        go = (move.rise > rules.least) & (rules.gain(slab, dropped) > rules.least)
        return select(go, dropped, slab), since + 1, go

    def round_of_drops(carry: tuple[Slab, Array, Array]) -> tuple[Slab, Array, Array]:
        fresh = refreshed(source, carry[0]), xp.zeros((), xp.int32), xp.asarray(True)
        return while_loop(lambda c: c[2] & (c[1] < _FRESH), drop, fresh)

    carry = start, xp.zeros((), xp.int32), xp.asarray(True)
    return while_loop(lambda c: c[2], round_of_drops, carry)[0]
