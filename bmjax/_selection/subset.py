"""The best subset that climbs from the empty subset, and from all features, find."""

import math
from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Bool, Float, Int

from bmjax._model.working_set import slots_for, taken
from bmjax._runtime.backend import Array, map_rows, namespace, put, take, while_loop
from bmjax._selection.climb import Pricing, Rules, climb, eliminated
from bmjax._selection.criterion import Criterion, effects
from bmjax._selection.gram import Rows, Squares
from bmjax._selection.neighbours import Charges, Noise
from bmjax._selection.slab import Slab, Source, begun, empty_slab


class Stages(NamedTuple):
    """The climbs of a search, each of which begins where the one before ended.

    Attributes:
        rules: A function for the charges and limits of a climb, given its number.
        number: The number of climbs.
    """

    rules: Callable[[Int[Array, ""] | int], Rules]
    number: int = 1

    @property
    def last(self) -> Rules:
        """The charges and limits of the last climb, which decide."""
        return self.rules(self.number - 1)


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


def search(
    source: Source,
    start: Slab,
    reference: Float[Array, ""],
    stages: Stages,
    needed: Bool[Array, " k"] | None = None,
    first: Int[Array, ""] | int = 0,
) -> Search:
    """The subset at the end of one `climb` or several.

    Args:
        source: The sums of the dataset.
        start: The subset to start from, of which features, rows of X'X and coefficients are read.
        reference: The sum of squared residuals at which the log likelihood counts as zero.
        stages: The climbs.
        needed: Features that must be in the subset, unless they are zero.
        first: The number of the first climb to make.
    """
    xp = namespace(start.gram)
    first = xp.asarray(first, xp.int32)

    def next_climb(
        carry: tuple[Slab, Array, Array, Array, Array],
    ) -> tuple[Slab, Array, Array, Array, Array]:
        slab, number, steps, _, full = carry
        rules, last = stages.rules(number), number == stages.number - 1
        slab, made, ended = climb(source, slab, rules, needed, exact=number > first, last=last)
        return slab, number + 1, steps + made, ended, full | xp.all(slab.used)

    no = xp.asarray(False)
    carry = start, first, xp.zeros((), xp.int32), no, no
    slab, _, steps, ended, full = while_loop(lambda c: c[1] < stages.number, next_climb, carry)
    rules = stages.last
    spent = rules.pricing(slab.features, slab.coef).of_subset(slab.size, slab.square)
    return Search(
        support=slab.kept,
        coef=put(xp.zeros_like(slab.slope), slab.features, slab.coef),
        score=rules.noise.rise(reference, slab.square) - spent,
        steps=steps,
        ended=ended,
        full=full,
    )


def from_both_ends(
    sums: Squares, stages: Stages, slots: int, needed: Bool[Array, " k"] | None = None
) -> Search:
    """The best of the searches from the empty subset and from as many features as allowed.

    The latter are the features that each alone explain the most of y. They all have slots until
    those that raise the score by leaving have left. If the search from the empty subset goes in
    stages, one that makes only the last climb begins there too.

    Args:
        sums: Sums over samples for columns of unit length.
        stages: The climbs from the empty subset, the last of which is made from the other end too.
        slots: Number of slots of the climbs.
        needed: Features that must be in the subset.
    """
    xp = namespace(sums.gram)
    k, last = len(sums.anchor), stages.number - 1
    order = xp.argsort(-xp.abs(sums.slope + sums.gram @ sums.anchor))
    alone = xp.argsort(order).astype(xp.int32)
    empty = xp.zeros(k, bool)
    if needed is not None:
        empty = needed = needed & sums.explains
    most = stages.last.most
    few, dropped = eliminated(sums, whole_slab(sums, empty | (alone < most)), stages.last)
    left = put(xp.zeros_like(sums.anchor), few.features, few.coef)
    starts = [(empty, sums.anchor, first) for first in sorted({0, last})]
    supports, coefs, firsts = zip(*starts, (empty | few.kept, left, last), strict=True)

    def from_one(start: tuple[Array, Array, Array]) -> Search:
        support, coef, first = start
        slab = slab_on(sums, support, coef, slots)
        return search(sums, slab, sums.square, stages, needed, first)

    rows = xp.stack(supports), xp.stack(coefs), xp.asarray(firsts, xp.int32)
    ends = map_rows(from_one, rows)
    best = xp.argmax(ends.score)
    return Search(*(leaf[best] for leaf in ends))._replace(
        steps=xp.max(ends.steps) + dropped,
        ended=xp.all(ends.ended),
        full=xp.any(ends.full),
    )


def whole_slab(sums: Squares, support: Bool[Array, " k"]) -> Slab:
    """A slab with a slot for every feature and some features kept, to be refreshed."""
    return slab_on(sums, support, sums.anchor, len(support))


def slab_on(
    sums: Squares, support: Bool[Array, " k"], coef: Float[Array, " k"], slots: int
) -> Slab:
    """A slab with some features kept, as many as there are slots for, to be refreshed.

    Args:
        sums: Sums over samples for columns of unit length.
        support: Whether to keep each feature.
        coef: The coefficients of these features, as a first approximation.
        slots: Number of slots.
    """
    xp = namespace(sums.gram)
    kept = support & sums.explains
    features = slots_for(kept, slots)
    features = xp.where(taken(kept, features), features, len(kept))
    return begun(features, take(sums.gram, features), take(coef, features))


def from_nothing(
    rows: Rows, slots: int, stages: Stages, needed: Bool[Array, " k"] | None = None
) -> Search:
    """A search from the empty subset with slots for some of many features; X'X is never formed.

    Args:
        rows: The dataset.
        slots: Number of slots for features.
        stages: The climbs.
        needed: Features that must be in the subset.
    """
    slab = empty_slab(rows.X, slots)
    needed = None if needed is None else needed & (rows.scale > 0)
    return search(rows, slab, rows.square, stages, needed)


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
