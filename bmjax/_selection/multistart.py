"""The search for the best optimum of a dataset: several starts, then moves, judged by the score.

The bound has many local optima. One fit climbs from a start to the nearest optimum; here the fits
of a dataset follow each other, first from every start, then from the best end with a feature
dropped, added or exchanged for another, as long as that leads to a better fit.
"""

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from bmjax._model.bound import bound_slack
from bmjax._model.options import SPARSE_RATES, Plan
from bmjax._model.problem import Problem, State, Totals
from bmjax._model.status import Status
from bmjax._model.working_set import slots_for, spread, taken
from bmjax._results.parts import History, Starts
from bmjax._runtime.backend import Array, cond, map_rows, namespace, put, select, while_loop
from bmjax._selection.criterion import Criterion, criterion, score
from bmjax._selection.rounds import undecided
from bmjax._selection.starts import Point, Room, dense_point, sparse_points
from bmjax._solvers import one_fit

ADDED_RATES = (0.99, 0.5)
# A smaller rise of the score, in nats, may be the remaining rise of a fit that has converged.
LEAST_RISE = 0.01
# The masks adapt only after a move, so one that lowers the score a little, in nats, is tried.
WORTH_A_TRY = -1.0


class End(NamedTuple):
    """A fit that has ended.

    Attributes:
        outcome: The state, bound, number of iterations and status of the fit.
        features: The features in its working set, by slot.
        course: Its history if recorded, else None.
        extra: Further sums that its `Fitter` keeps for the moves from this end.
    """

    outcome: one_fit.Outcome
    features: Int[Array, " m"]
    course: History | None = None
    extra: Any = None


class Fitter(Protocol):
    """The interface to one dataset, in memory or in blocks: fits from a start, moves from an end.

    Attributes:
        totals: The `Problem`, or the `Totals` over all samples.
        max_steps: Largest number of iterations over all fits.
        iterations: Number of iterations in a step of the solver.
    """

    totals: Any
    max_steps: Any
    iterations: int

    def fit(self, state: State, features: Int[Array, " m"], used: Int[Array, ""]) -> End:
        """The end of the fit from a state; `used` iterations were spent by earlier fits."""
        ...

    def start(self, point: Point, features: Int[Array, " m"]) -> State:
        """The state of some features before the first step from a point."""
        ...

    def score(self, rule: Criterion, end: End) -> Float[Array, ""]:
        """The score of a finished fit; -inf for a fit that cannot be ranked."""
        ...

    def move(
        self, rule: Criterion, end: End, rate: Float[Array, ""], rank: Int[Array, ""]
    ) -> tuple[State, Int[Array, " m"], Float[Array, ""]]:
        """The state after the best single move from an end, its features, and the score's rise."""
        ...


class Climb(NamedTuple):
    """The progress of the fits of a dataset.

    Attributes:
        state: The state that the next fit starts from.
        features: The features in its working set, by slot.
        number: The number of the next fit.
        done: Whether no fit is left to make.
        best: The best fit so far.
        failures: Number of moves since the last that led to a better fit.
        starts: The record of every fit.
    """

    state: State
    features: Int[Array, " m"]
    number: Int[Array, ""]
    done: Bool[Array, ""]
    best: Any
    failures: Int[Array, ""]
    starts: Starts


def points(
    problem: Problem, options: one_fit.Options, plan: Plan, room: Room
) -> tuple[Point, Bool[Array, ""]]:
    """The starts of a dataset, those from the best subset first.

    Args:
        problem: The dataset.
        options: The options, in the units of the fit.
        plan: The number of starts of each kind.
        room: The numbers of slots.

    Returns:
        The starts, and whether the search has run out of slots.
    """
    xp = namespace(problem)
    parts, full = [], xp.asarray(False)
    if plan.sparse:
        rule = criterion(plan.criterion, problem, room.most)
        rates = xp.asarray(SPARSE_RATES[: plan.sparse], problem.y.dtype)
        sparse, full = sparse_points(problem, rule, rates, room)
        parts.append(sparse)
    if plan.dense:
        near = undecided(problem)

        def dense(rates: Array) -> Point:
            return dense_point(near, rates, options.initial_weights, room.tall)

        parts.append(map_rows(dense, options.rates))
    return jax.tree.map(lambda *leaves: xp.concatenate(leaves), *parts), full


def best_fit(fitter: Fitter, plan: Plan, points: Point, slots: int) -> tuple[End, Starts]:
    """The best of all fits of a dataset: from every start, then from one move after another.

    Args:
        fitter: The dataset.
        plan: The number of starts and moves.
        points: The starts.
        slots: Number of slots of a fit.

    Returns:
        The best fit and the record of all.
    """
    climb = begin(fitter, plan, points, slots)
    rule = criterion(plan.criterion, fitter.totals, slots)

    def one_more(climb: Climb) -> Climb:
        used = climb.starts.num_steps.sum(dtype="int32")
        end = fitter.fit(climb.state, climb.features, used)
        return next_fit(fitter, rule, plan, points, climb, end)

    if namespace(points) is jnp:  # a compiled loop must carry a best fit from the first step on
        used = climb.number
        shape = jax.eval_shape(lambda c: fitter.fit(c.state, c.features, used), climb)
        blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shape)
        climb = climb._replace(best=blank)
    climb = while_loop(lambda climb: ~climb.done, one_more, climb)
    return climb.best, climb.starts


def begin(fitter: Fitter, plan: Plan, points: Point, slots: int) -> Climb:
    """The progress before the first fit."""
    xp = namespace(points)
    needed = xp.any(points.inclusion > 0, axis=0) | ~fitter.totals.maskable
    features = slots_for(needed, slots)
    k = len(needed)
    zero, no = xp.zeros((), xp.int32), xp.asarray(False)
    return Climb(
        state=_start(fitter, points, features, 0),
        features=features,
        number=zero,
        done=no,
        best=None,
        failures=zero,
        starts=blank_starts(plan.fits, k, points.weights.dtype, xp),
    )


def _start(
    fitter: Fitter, points: Point, features: Int[Array, " m"], number: Int[Array, ""] | int
) -> State:
    """The state before the first step from the start of a given number."""
    point: Point = jax.tree.map(lambda leaf: leaf[number], points)
    of_slots = point._replace(
        inclusion=taken(point.inclusion, features), weights=taken(point.weights, features)
    )
    return fitter.start(of_slots, features)


def blank_starts(rows: int, k: int, dtype: Any, xp: Any = jnp) -> Starts:
    """A record with rows for fits that have not been made."""
    return Starts(
        score=xp.full(rows, -xp.inf, dtype),
        bound=xp.full(rows, xp.nan, dtype),
        size=xp.full(rows, -1, xp.int32),
        status=xp.full(rows, Status.RUNNING, xp.int32),
        num_steps=xp.zeros(rows, xp.int32),
        inclusion=xp.full((rows, k), xp.nan, dtype),
        coef=xp.full((rows, k), xp.nan, dtype),
        best=xp.zeros((), xp.int32),
        next_rise=xp.asarray(xp.nan, dtype),
    )


def recorded(
    starts: Starts,
    number: Int[Array, ""],
    end: End,
    value: Float[Array, ""],
    best: Int[Array, ""],
) -> Starts:
    """The record with one more fit, given its score and the number of the best fit so far."""
    outcome, k = end.outcome, starts.coef.shape[-1]
    state, xp = outcome.state, namespace(starts)
    coef = xp.where(state.active, state.coef, 0)
    return starts._replace(
        score=put(starts.score, number, value),
        bound=put(starts.bound, number, outcome.bound),
        size=put(starts.size, number, state.active.sum(dtype="int32")),
        status=put(starts.status, number, outcome.status),
        num_steps=put(starts.num_steps, number, outcome.num_steps),
        inclusion=put(starts.inclusion, number, spread(state.inclusion, end.features, k)),
        coef=put(starts.coef, number, spread(coef, end.features, k)),
        best=best,
    )


def score_of(rule: Criterion, problem: Problem | Totals, end: one_fit.Outcome) -> Float[Array, ""]:
    """The score of a finished fit; -inf for a fit that met NaN or infinity."""
    value = score(rule, problem, end.state, end.bound)
    return namespace(value).where(end.status == Status.NON_FINITE, -namespace(value).inf, value)


def next_fit(
    fitter: Fitter, rule: Criterion, plan: Plan, points: Point, climb: Climb, end: End
) -> Climb:
    """Record a fit that has ended and find the start of the next one, if any is left to make.

    Args:
        fitter: The dataset.
        rule: The criterion that ranks the fits.
        plan: The number of starts and moves.
        points: The starts.
        climb: The progress so far.
        end: The fit that has ended.
    """
    xp = namespace(climb.starts)
    value = fitter.score(rule, end)
    number = climb.number
    highest = climb.starts.score[climb.starts.best]
    slack = bound_slack(fitter.totals, xp.where(xp.isfinite(highest), highest, 0))
    # The first fit is the best until another is better, even if it has no score.
    improved = (number == 0) | (value > highest + xp.maximum(LEAST_RISE, slack))
    best = end if climb.best is None else select(improved, end, climb.best)
    chosen = xp.where(improved, number, climb.starts.best)
    following = number + 1
    failures = xp.where(improved | (number < plan.starts), 0, climb.failures + 1)
    starts = recorded(climb.starts, number, end, value, chosen)
    climb = climb._replace(number=following, best=best, failures=failures, starts=starts)
    if plan.fits == 1:
        return climb._replace(done=xp.asarray(True))
    nan = xp.full_like(value, xp.nan)

    def another_start() -> tuple[State, Array, Array, Array]:
        # Fits do not change the slots, in which the features of all starts are.
        row = xp.minimum(following, plan.starts - 1)
        state = _start(fitter, points, climb.features, row)
        return state, climb.features, nan, xp.asarray(False)

    def a_move() -> tuple[State, Array, Array, Array]:
        rank, rate = failures // len(ADDED_RATES), failures % len(ADDED_RATES)
        rate = xp.asarray(ADDED_RATES, value.dtype)[rate]
        state, features, rise = fitter.move(rule, best, rate, rank)
        return state, features, rise, ~(rise > WORTH_A_TRY) | (following == plan.fits)

    if plan.moves == 0:
        state, features, rise, _ = another_start()
        done = following == plan.starts
    elif plan.starts == 1:
        state, features, rise, done = a_move()
    else:
        state, features, rise, done = cond(following < plan.starts, another_start, a_move)
    # A search that is cut short reports it, even if its best fit has converged.
    used = starts.num_steps.sum(dtype="int32")
    exhausted = used + fitter.iterations > fitter.max_steps
    cut_short, out_of_steps = exhausted & ~done, xp.asarray(Status.MAX_STEPS, xp.int32)
    status = xp.where(cut_short, out_of_steps, best.outcome.status)
    outcome = best.outcome._replace(status=status)
    return climb._replace(
        state=state,
        features=features,
        done=done | exhausted,
        best=best._replace(outcome=outcome),
        starts=starts._replace(next_rise=rise),
    )
