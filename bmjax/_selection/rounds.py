"""The best subset where y is not Gaussian: search by a quadratic likelihood, refit, search again.

The search for a subset judges its moves in closed form, which takes squared errors. So it is given
those of the likelihood's parabolas at the best subset so far, first at none; what it finds is
refitted by the likelihood itself, and as long as the score rises, the search is repeated there.
"""

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Bool, Float, Int

from bmjax._model.family import by_rows
from bmjax._model.linalg import solve_normal_equations
from bmjax._model.problem import Problem, State
from bmjax._model.sums import precision_of
from bmjax._model.working_set import gathered, slots_for, spread, taken
from bmjax._runtime.backend import Array, namespace, select, while_loop
from bmjax._selection.criterion import Criterion, price_of_groups

# Searches at most, and steps of a refit at most, both rarely more than five.
_ROUNDS, _STEPS = 8, 50
# A smaller rise, in nats, is none: of the score, and of the log likelihood in one step of a refit.
_LEAST_RISE, _SETTLED = 0.01, 1e-3
# Lengths of a step to choose from: Newton's may be too long where p is near 0 or 1.
_LENGTHS = (1.0, 0.5, 0.25, 0.0625)


class Subset(NamedTuple):
    """A subset with the maximum of its likelihood.

    Attributes:
        support: The features in it.
        weights: Their weights, zero elsewhere.
        noise_precision: The noise precision.
        score: Its score, in nats.
    """

    support: Bool[Array, " k"]
    weights: Float[Array, " k"]
    noise_precision: Float[Array, ""]
    score: Float[Array, ""]


# The best subset of a Gaussian problem, and whether the search ran out of room.
Find = Callable[[Problem], tuple[Array, Array]]


def by_rounds(
    problem: Problem, rule: Criterion, slots: int, find: Find
) -> tuple[Subset, Bool[Array, ""]]:
    """The best subset found.

    Args:
        problem: The dataset.
        rule: What a feature is charged.
        slots: How many features there is room for.
        find: The search in a Gaussian problem.

    Returns:
        The subset, and whether a search has run out of room.
    """
    xp = namespace(problem)

    def another(carry: tuple[Subset, Array, Array, Array]) -> tuple[Subset, Array, Array, Array]:
        best, full, count, _ = carry
        support, ran_out = find(_local(problem, best))
        new = refitted(problem, rule, best, support, slots)
        better = new.score > best.score + _LEAST_RISE
        return select(better, new, best), full | ran_out, count + 1, better & (count + 1 < _ROUNDS)

    none = refitted(problem, rule, _blank(problem), ~problem.maskable, slots)
    begun = none, xp.asarray(False), xp.zeros((), xp.int32), xp.asarray(True)
    best, full, _, _ = while_loop(lambda c: c[3], another, begun)
    return best, full


def undecided(problem: Problem) -> Problem:
    """The squared errors of the likelihood where nothing is known; a Gaussian problem as it is."""
    return problem if problem.family is None else _local(problem, _blank(problem))


def _blank(problem: Problem) -> Subset:
    """No feature, not even those that are never masked."""
    xp, k, dtype = namespace(problem), len(problem.X), problem.dtype
    variance = xp.maximum(problem.target_square, xp.finfo(dtype).tiny)
    return Subset(
        support=xp.zeros(k, bool),
        weights=xp.zeros(k, dtype),
        noise_precision=precision_of(problem, variance),
        score=xp.asarray(-xp.inf, dtype),
    )


def _local(problem: Problem, at: Subset) -> Problem:
    """The squared errors of the likelihood at a subset."""
    mean = at.weights @ problem.X
    still = namespace(mean).zeros_like(mean)
    return by_rows(problem, problem.family.local(problem, mean, still, at.noise_precision))


class _Refit(NamedTuple):
    """How far a refit has come, by slot."""

    weights: Float[Array, " m"]
    noise_precision: Float[Array, ""]
    value: Float[Array, ""]
    steps: Int[Array, ""]
    done: Bool[Array, ""]


def refitted(
    problem: Problem, rule: Criterion, start: Subset, support: Bool[Array, " k"], slots: int
) -> Subset:
    """A subset with the weights of the highest likelihood, by Newton's or EM's steps.

    Args:
        problem: The dataset.
        rule: What a feature is charged.
        start: Where to start from.
        support: The features to keep.
        slots: How many features there is room for.
    """
    xp, k, family = namespace(problem), len(problem.X), problem.family
    features = slots_for(support, slots)
    part = gathered(problem, features)
    used = taken(support, features)
    weights = taken(xp.where(support, start.weights, 0), features)
    still = xp.zeros_like(problem.y)

    def value_at(weights: Array, noise: Array) -> Array:
        return family.log_likelihood(part, weights @ part.X, noise)

    def step(carry: _Refit) -> _Refit:
        mean = carry.weights @ part.X
        parabola = family.local(part, mean, still, carry.noise_precision)
        near = by_rows(part, parabola)
        counted = near.weighted(near.X)
        left = near.y - carry.weights @ near.X
        move = solve_normal_equations(counted @ near.X.T, counted @ left, used)
        steps = xp.asarray(_LENGTHS, move.dtype)[:, None] * move[None, :]
        tried = carry.weights[None, :] + steps
        values = xp.stack([value_at(w, carry.noise_precision) for w in tried])
        values = xp.where(xp.isfinite(values), values, -xp.inf)
        best = xp.argmax(values)
        weights = xp.where(values[best] > carry.value, tried[best], carry.weights)
        left = near.y - weights @ near.X
        noise = precision_of(near, near.mean(left**2))
        value = value_at(weights, noise)
        rose = value > carry.value + _SETTLED
        count = carry.steps + 1
        ended = ~rose | (count >= _STEPS) | family.separated(part, weights @ part.X)
        return _Refit(weights, noise, value, count, ended)

    noise = start.noise_precision
    begun = _Refit(
        weights, noise, value_at(weights, noise), xp.zeros((), xp.int32), xp.asarray(False)
    )
    end = while_loop(lambda c: ~c.done, step, begun)
    weights = spread(end.weights, features, k)
    if problem.groups is not None:
        near = by_rows(part, family.local(part, end.weights @ part.X, still, end.noise_precision))
        at = State(part.X[:, :0], end.weights, xp.zeros_like(weights), end.noise_precision, used)
        score = end.value - price_of_groups(rule, near, at)
        return Subset(support, weights, end.noise_precision, score)
    at = _local(problem, Subset(support, weights, end.noise_precision, end.value))
    strength = weights**2 * at.mean_squares * end.noise_precision
    chosen = support & problem.maskable
    size = xp.sum(support, dtype=xp.int32)
    charge = rule.charge(rule.width(strength, chosen))
    price = xp.sum(chosen, dtype=weights.dtype) * charge
    size = xp.minimum(size, len(rule.by_size) - 1)
    return Subset(support, weights, end.noise_precision, end.value - price - rule.by_size[size])
