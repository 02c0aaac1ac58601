"""Best-subset search for a y that is not Gaussian, by quadratic approximations of the likelihood.

The search for a subset judges its moves in closed form, which requires squared errors. So it gets
those of a quadratic approximation of the likelihood at the best subset so far, at first the empty
one; the subset it finds is refitted by the likelihood itself, and as long as the score rises, the
search is repeated there.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int

from bmjax._model.family import by_rows
from bmjax._model.linalg import solve_normal_equations
from bmjax._model.problem import Problem, State, Totals
from bmjax._model.sums import precision_of
from bmjax._model.working_set import gathered, slots_for, spread, taken
from bmjax._runtime.backend import Array, namespace, select, while_loop
from bmjax._selection.criterion import Criterion, effects, effects_of, price
from bmjax._selection.gram import Squares, residual_square, squares

# Largest numbers of searches, and of steps of a refit; both rarely exceed five.
_ROUNDS, _STEPS = 8, 50
# Smaller rises, in nats, count as none: of the score, and of the log likelihood in a refit's step.
_LEAST_RISE, _SETTLED = 0.01, 1e-3
# Lengths of a step to choose from: Newton's step may be too long if p is near 0 or 1.
_LENGTHS = (1.0, 0.5, 0.25, 0.0625)


class Subset(NamedTuple):
    """A subset with the parameters that maximise its likelihood.

    Attributes:
        support: Whether each feature is in the subset.
        weights: Weights, zero off the support.
        noise_precision: The noise precision.
        score: The score of the subset, in nats.
    """

    support: Bool[Array, " k"]
    weights: Float[Array, " k"]
    noise_precision: Float[Array, ""]
    score: Float[Array, ""]


@runtime_checkable
class Likelihood(Protocol):
    """The likelihood of a dataset, in memory or read in blocks, as a refit needs it."""

    def near(self, weights: Float[Array, " m"], noise: Float[Array, ""]) -> Squares:
        """The squared errors with the slope and curvature of the likelihood at some weights."""
        ...

    def values(
        self, weights: Float[Array, "c m"], noise: Float[Array, ""]
    ) -> tuple[Float[Array, " c"], Bool[Array, " c"]]:
        """The log likelihood at each of c weights, and whether they show that it has no maximum."""
        ...

    def precision(self, variance: Float[Array, ""]) -> Float[Array, ""]:
        """The noise precision: one over the variance, or the known one."""
        ...


# A search: the best subset of a Gaussian problem, and whether it ran out of slots.
Find = Callable[[Problem], tuple[Array, Array]]


def by_rounds(
    problem: Problem, rule: Criterion, slots: int, find: Find
) -> tuple[Subset, Bool[Array, ""]]:
    """The best subset that repeated searches find.

    Args:
        problem: The dataset.
        rule: The charge of each feature.
        slots: Number of slots for features.
        find: The search for the best subset of a Gaussian problem.

    Returns:
        The subset, and whether a search has run out of slots.
    """

    def refit(start: Subset, support: Bool[Array, " k"]) -> Subset:
        return refitted(problem, rule, start, support, slots)

    none = refit(blank(problem), ~problem.maskable)
    return repeated(none, lambda best: find(_local(problem, best)), refit)


def repeated(
    none: Subset,
    find: Callable[[Subset], tuple[Array, Array]],
    refit: Callable[[Subset, Array], Subset],
) -> tuple[Subset, Bool[Array, ""]]:
    """The best subset found by searches that are each made near the best subset so far.

    Args:
        none: The subset of only those features that are never masked.
        find: The search near a subset: the features it finds, and whether it ran out of slots.
        refit: The maximum of the likelihood on these features, from the parameters of a subset.
    """
    xp = namespace(none)

    def another(carry: tuple[Subset, Array, Array, Array]) -> tuple[Subset, Array, Array, Array]:
        best, full, count, _ = carry
        support, ran_out = find(best)
        new = refit(best, support)
        better = new.score > best.score + _LEAST_RISE
        return select(better, new, best), full | ran_out, count + 1, better & (count + 1 < _ROUNDS)

    begun = none, xp.asarray(False), xp.zeros((), xp.int32), xp.asarray(True)
    best, full, _, _ = while_loop(lambda c: c[3], another, begun)
    return best, full


def undecided(problem: Problem) -> Problem:
    """The squared errors of the likelihood at weights of zero; a Gaussian problem unchanged."""
    return problem if problem.family is None else _local(problem, blank(problem))


def blank(problem: Problem | Totals) -> Subset:
    """The empty subset, without even the features that are never masked."""
    xp, k, dtype = namespace(problem), len(problem.maskable), problem.dtype
    variance = xp.maximum(problem.target_square, xp.finfo(dtype).tiny)
    return Subset(
        support=xp.zeros(k, bool),
        weights=xp.zeros(k, dtype),
        noise_precision=precision_of(problem, variance),
        score=xp.asarray(-xp.inf, dtype),
    )


def _local(problem: Problem, at: Subset) -> Problem:
    """The Gaussian problem of the squared errors of the likelihood at a subset."""
    mean = at.weights @ problem.X
    still = namespace(mean).zeros_like(mean)
    return by_rows(problem, problem.family.local(problem, mean, still, at.noise_precision))


class Maximum(NamedTuple):
    """The state of the iteration to the maximum of a likelihood.

    Attributes:
        weights: The weights.
        noise_precision: The noise precision.
        value: The log likelihood.
        steps: Number of steps made.
        done: Whether the iteration has ended.
    """

    weights: Float[Array, " m"]
    noise_precision: Float[Array, ""]
    value: Float[Array, ""]
    steps: Int[Array, ""]
    done: Bool[Array, ""]


def maximised(
    data: Likelihood,
    weights: Float[Array, " m"],
    noise: Float[Array, ""],
    used: Bool[Array, " m"],
) -> Maximum:
    """Maximise the likelihood over some weights, by steps of Newton or EM.

    Args:
        data: The dataset.
        weights: The weights to start from.
        noise: The noise precision at the start.
        used: Whether each feature has a weight.
    """
    xp = namespace(weights)

    def step(carry: Maximum) -> Maximum:
        near = data.near(carry.weights, carry.noise_precision)
        move = solve_normal_equations(near.gram, near.slope, used)
        lengths = xp.asarray(_LENGTHS, move.dtype)
        tried = carry.weights[None, :] + lengths[:, None] * move[None, :]
        values, _ = data.values(tried, carry.noise_precision)
        values = xp.where(xp.isfinite(values), values, -xp.inf)
        best = xp.argmax(values)
        weights = xp.where(values[best] > carry.value, tried[best], carry.weights)
        noise = data.precision(residual_square(near, weights) / near.samples)
        (value,), (separated,) = data.values(weights[None, :], noise)
        rose = value > carry.value + _SETTLED
        count = carry.steps + 1
        ended = ~rose | (count >= _STEPS) | separated
        return Maximum(weights, noise, value, count, ended)

    (value,), _ = data.values(weights[None, :], noise)
    begun = Maximum(weights, noise, value, xp.zeros((), xp.int32), xp.asarray(False))
    return while_loop(lambda c: ~c.done, step, begun)


def spent_on(
    rule: Criterion, near: Squares, end: Maximum, chosen: Bool[Array, " m"], size: Int[Array, ""]
) -> Float[Array, ""]:
    """The charge of the features of a refit.

    Args:
        rule: The charge of features.
        near: The squared errors at the refit.
        end: The refit.
        chosen: Whether each feature is in it and may be masked.
        size: Number of features in it, including those that may not be masked.
    """
    strength = end.weights**2 * namespace(end).diagonal(near.gram) / near.samples
    kept = effects(strength, chosen).total.per_noise(end.noise_precision)
    return rule.charge(kept) + rule.of_size(size)


class _InSlots(NamedTuple):
    """The `Likelihood` of the features in the slots, for a dataset in memory."""

    part: Problem

    def near(self, weights: Float[Array, " m"], noise: Float[Array, ""]) -> Squares:
        """As `Likelihood`."""
        near = self.rows(weights, noise)
        return squares(near.X, near.y, weights, near.sample_weights)

    def rows(self, weights: Float[Array, " m"], noise: Float[Array, ""]) -> Problem:
        """The Gaussian problem of these squared errors."""
        mean = weights @ self.part.X
        still = namespace(mean).zeros_like(mean)
        return by_rows(self.part, self.part.family.local(self.part, mean, still, noise))

    def values(
        self, weights: Float[Array, "c m"], noise: Float[Array, ""]
    ) -> tuple[Float[Array, " c"], Bool[Array, " c"]]:
        """As `Likelihood`."""
        xp, part = namespace(weights), self.part
        means = [own @ part.X for own in weights]
        likelihoods = [part.family.log_likelihood(part, mean, noise) for mean in means]
        separated = [part.family.separated(part, mean) for mean in means]
        return xp.stack(likelihoods), xp.stack(separated)

    def precision(self, variance: Float[Array, ""]) -> Float[Array, ""]:
        """As `Likelihood`."""
        return precision_of(self.part, variance)


def refitted(
    problem: Problem, rule: Criterion, start: Subset, support: Bool[Array, " k"], slots: int
) -> Subset:
    """A subset with the weights that maximise its likelihood.

    Args:
        problem: The dataset.
        rule: The charge of each feature.
        start: The subset whose parameters to start from.
        support: Whether to keep each feature.
        slots: Number of slots for features.
    """
    xp, k = namespace(problem), len(problem.X)
    features = slots_for(support, slots)
    part, used = gathered(problem, features), taken(support, features)
    data = _InSlots(part)
    weights = taken(xp.where(support, start.weights, 0), features)
    end = maximised(data, weights, start.noise_precision, used)
    if problem.groups is None:
        near = data.near(end.weights, end.noise_precision)
        size = xp.sum(support, dtype=xp.int32)
        spent = spent_on(rule, near, end, used & part.maskable, size)
    else:
        near = data.rows(end.weights, end.noise_precision)
        rates = xp.zeros_like(end.weights)
        at = State(part.X[:, :0], end.weights, rates, end.noise_precision, used)
        spent = price(rule, near, at, effects_of(near, at).total)
    return Subset(support, spread(end.weights, features, k), end.noise_precision, end.value - spent)
