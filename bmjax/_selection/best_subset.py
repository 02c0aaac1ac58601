"""The best subset of the features of a dataset under a criterion, found as if none were masked."""

from jaxtyping import Bool, Float

from bmjax._model.problem import Problem, Totals
from bmjax._runtime.backend import Array, namespace, take
from bmjax._selection.climb import Rules
from bmjax._selection.criterion import Criterion, constant, effects, one_of, universal
from bmjax._selection.gram import Rows, Squares, unit_columns, unit_scale
from bmjax._selection.neighbours import Charges, most_features, noise_of
from bmjax._selection.subset import Stages, from_both_ends, from_nothing

# A search from the empty subset adds so many features beyond those that noise explains, at no
# charge, before the rule decides: more features at once may be worth what each alone is not.
_FURTHER = 3


def best_subset(
    problem: Problem | Totals,
    rule: Criterion,
    sums: Squares,
    slots: int | None = None,
    *,
    in_stages: bool = False,
) -> tuple[Bool[Array, " k"], Float[Array, " k"], Bool[Array, ""]]:
    """The subset of the highest score that searches by moves and pairs find, and its weights.

    They begin from the empty subset and from all features.

    Args:
        problem: The dataset.
        rule: The charge of each feature.
        sums: The sums over samples of the dataset.
        slots: Number of slots. Default: one for every feature.
        in_stages: Whether to search from the empty subset in stages as well.

    Returns:
        Whether each feature is in the subset, least squares on it, and whether a search ran out of
        slots, if there are fewer than features.
    """
    m, scale = unit_columns(sums)
    k = len(scale)
    slots = k if slots is None else slots
    stages = _stages(problem, rule, k, slots, in_stages=in_stages)
    end = from_both_ends(m, stages, slots, _needed(problem))
    return end.support | ~problem.maskable, end.coef * scale, end.full & (slots < k)


def few_of_many(
    problem: Problem, rule: Criterion, slots: int
) -> tuple[Bool[Array, " k"], Float[Array, " k"], Bool[Array, ""]]:
    """The best subset found from the empty one in stages, with slots for a few of many features.

    Args:
        problem: The dataset.
        rule: The charge of each feature.
        slots: Number of slots.

    Returns:
        Whether each feature is in the subset, least squares on it, and whether the search ran out
        of slots.
    """
    scale = unit_scale(problem.squares)
    rows = Rows(problem.X, problem.y, problem.sample_weights, scale)
    stages = _stages(problem, rule, len(scale), slots, in_stages=True)
    end = from_nothing(rows, slots, stages, _needed(problem))
    return end.support | ~problem.maskable, end.coef * scale, end.full


def _stages(
    problem: Problem | Totals, rule: Criterion, k: int, slots: int, *, in_stages: bool
) -> Stages:
    """The climbs of a search for the best subset of k features under a criterion.

    The rule charges a feature more, the fewer are kept or the weaker it is than the others, so from
    the empty subset a climb under it may end too early. In stages, it is the third climb.
    """
    xp = namespace(problem)
    noise, maskable = noise_of(problem), problem.maskable
    most = most_features(problem.num_rows, problem.num_features)
    criteria, limits = [rule], [10 * slots]
    if in_stages:
        criteria = [universal(rule, k), constant(rule, 0.0), rule]
        limits = [10 * slots, _FURTHER, 10 * slots]

    def rules(number: Array | int) -> Rules:
        own = one_of(criteria, number) if in_stages else rule

        def pricing(features: Array, coef: Array) -> Charges:
            may = take(maskable, features)
            kept = effects(coef**2 / noise.samples, may)
            return Charges(own, kept, xp.where(may, xp.zeros_like(coef), -xp.inf), noise)

        return Rules(pricing, noise, most, xp.asarray(limits, xp.int32)[number])

    return Stages(rules, len(criteria))


def _needed(problem: Problem | Totals) -> Bool[Array, " k"] | None:
    """Whether each feature is always in, None if it is known that none is."""
    return problem.unmasked if isinstance(problem, Problem) else ~problem.maskable
