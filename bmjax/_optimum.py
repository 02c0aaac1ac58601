"""The better optimum of a dataset: several starts, then moves, judged by the score.

The bound has many local optima. One fit climbs from a start to the nearest; here a dataset's fits
follow each other, first from every start, then from the best end with a feature dropped, added
without masks or exchanged for another, as long as that leads to a better one.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from bmjax import _lane, _loop
from bmjax._bound import Masks, bound_slack, masking_cost, masks_after_m_step
from bmjax._criterion import Criterion, charge_at, criterion, score
from bmjax._initial import Point, dense_point, sparse_points, state_at
from bmjax._result import History, Result, Starts, Uncertainty
from bmjax._solvers import Solver
from bmjax._squares import Squares, with_variance
from bmjax._steps import m_step, moments, residual
from bmjax._subset import (
    Charges,
    likelihood_rise,
    most_features,
    refit,
    rises,
    turned,
    unit_columns,
)
from bmjax._types import Problem, State, Status, Totals, select

# Rates of the starts from the best subset, and of a feature that a move adds: where the first has
# led to nothing better, since a weak feature may be kept only if it is masked, the second.
SPARSE_RATES = (0.99, 0.5)
ADDED_RATES = (0.99, 0.5)
# A smaller rise of the score, in nats, may be what was left to go when a fit was called converged.
LEAST_RISE = 0.01
# A move's masks adapt only after it, so one that looks a little worse is tried as well, in nats.
WORTH_A_TRY = -1.0


class Plan(NamedTuple):
    """How many fits a dataset gets, a static argument.

    Attributes:
        sparse: Starts from the best subset of features.
        dense: Starts at given rates.
        moves: Most moves.
        criterion: Name of the rule that ranks the fits.
    """

    sparse: int
    dense: int
    moves: int
    criterion: str

    @property
    def starts(self) -> int:
        """Starts of either kind."""
        return self.sparse + self.dense

    @property
    def fits(self) -> int:
        """Most fits a dataset may get."""
        return self.starts + self.moves


class Climb(NamedTuple):
    """A dataset's fits so far.

    Attributes:
        lane: The fit on its way.
        number: Its number.
        done: Whether no fit is left to make.
        points: Where the starts are.
        best: The best fit so far.
        improved: Whether that was the last one.
        failures: Moves since one that led to a better fit.
        starts: What came of every fit.
    """

    lane: _loop.Lane
    number: Int[Array, ""]
    done: Bool[Array, ""]
    points: Point
    best: _lane.Outcome
    improved: Bool[Array, ""]
    failures: Int[Array, ""]
    starts: Starts


def points(problem: Problem, options: _lane.Options, plan: Plan) -> Point:
    """Where the starts of a dataset are, those from the best subset first."""
    parts = []
    if plan.sparse:
        rule = criterion(plan.criterion, problem)
        rates = jnp.asarray(SPARSE_RATES[: plan.sparse], problem.y.dtype)
        parts.append(sparse_points(problem, rule, rates))
    if plan.dense:
        parts.append(
            lax.map(
                lambda rates: dense_point(problem, rates, options.initial_weights), options.rates
            )
        )
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


def begin(
    problem: Problem, options: _lane.Options, solver: Solver, plan: Plan, points: Point
) -> Climb:
    """The first fit before its first step."""
    state = state_at(problem, jax.tree.map(lambda leaf: leaf[0], points))
    dtype = problem.y.dtype
    zero, no = jnp.zeros((), jnp.int32), jnp.asarray(False)
    blank = blank_starts(plan.fits, len(problem.X), dtype)
    unknown = _lane.Outcome(state, jnp.asarray(jnp.nan, dtype), zero, zero)
    return Climb(
        lane=_lane.start(problem, options, solver, state),
        number=zero,
        done=no,
        points=points,
        best=unknown,
        improved=no,
        failures=zero,
        starts=blank,
    )


def blank_starts(rows: int, k: int, dtype: Any) -> Starts:
    """The record of fits that have not been made."""
    return Starts(
        score=jnp.full(rows, -jnp.inf, dtype),
        bound=jnp.full(rows, jnp.nan, dtype),
        size=jnp.full(rows, -1, jnp.int32),
        status=jnp.full(rows, Status.RUNNING, jnp.int32),
        num_steps=jnp.zeros(rows, jnp.int32),
        inclusion=jnp.full((rows, k), jnp.nan, dtype),
        coef=jnp.full((rows, k), jnp.nan, dtype),
        best=jnp.zeros((), jnp.int32),
    )


def row_of(end: _lane.Outcome, value: Float[Array, ""], best: Int[Array, ""]) -> Starts:
    """The record of one fit, its score given and which fit is the best so far."""
    return Starts(
        score=value,
        bound=end.bound,
        size=jnp.sum(end.state.active, dtype=jnp.int32),
        status=end.status,
        num_steps=end.num_steps,
        inclusion=end.state.inclusion,
        coef=jnp.where(end.state.active, end.state.coef, 0),
        best=best,
    )


def score_of(rule: Criterion, problem: Problem | Totals, end: _lane.Outcome) -> Float[Array, ""]:
    """The score of a finished fit; -inf for one that met NaN or infinity."""
    value = score(rule, problem, end.state, end.bound)
    return jnp.where(end.status == Status.NON_FINITE, -jnp.inf, value)


def next_fit(
    problem: Problem, options: _lane.Options, solver: Solver, plan: Plan, climb: Climb
) -> Climb:
    """Take note of a fit that has ended and begin the next one, if one is left to make."""
    rule = criterion(plan.criterion, problem)
    end = _lane.outcome(problem, solver, climb.lane)
    value = score_of(rule, problem, end)
    number = climb.number
    highest = climb.starts.score[climb.starts.best]
    slack = bound_slack(problem, highest)
    # The first fit is the best until another is better, even if it has no score.
    improved = (number == 0) | (value > highest + jnp.maximum(LEAST_RISE, slack))
    best = select(improved, end, climb.best)
    row = row_of(end, value, jnp.where(improved, number, climb.starts.best))
    starts = jax.tree.map(
        lambda rows, new: rows.at[number].set(new) if rows.ndim else new, climb.starts, row
    )
    following = number + 1
    failed = jnp.where(improved | (number < plan.starts), 0, climb.failures + 1)
    climb = climb._replace(
        number=following, best=best, improved=improved, failures=failed, starts=starts
    )
    if plan.fits == 1:
        return climb._replace(done=jnp.asarray(True))

    def another_start() -> tuple[State, Array]:
        row = jnp.minimum(following, plan.starts - 1)
        point = jax.tree.map(lambda leaf: leaf[row], climb.points)
        return state_at(problem, point), jnp.asarray(False)

    def a_move() -> tuple[State, Array]:
        rank, rate = failed // len(ADDED_RATES), failed % len(ADDED_RATES)
        rate = jnp.asarray(ADDED_RATES, problem.y.dtype)[rate]
        state, rise = best_move(problem, rule, best.state, rate, rank)
        return state, ~(rise > WORTH_A_TRY) | (following == plan.fits)

    if plan.moves == 0:
        state, done = another_start()[0], following == plan.starts
    elif plan.starts == 1:
        state, done = a_move()
    else:
        state, done = lax.cond(following < plan.starts, another_start, a_move)
    # A search that was cut short says so, even if its best fit had converged.
    used = jnp.sum(starts.num_steps, dtype=jnp.int32)
    exhausted = used + solver.iterations > options.max_steps
    cut_short = exhausted & ~done
    status = jnp.where(cut_short, jnp.int32(Status.MAX_STEPS), best.status)
    return climb._replace(
        lane=_lane.start(problem, options, solver, state, used),
        done=done | exhausted,
        best=best._replace(status=status),
    )


def report(
    best: _lane.Outcome,
    starts: Starts,
    uncertainty: Uncertainty | None = None,
    course: History | None = None,
) -> Result:
    """What there is to say of a dataset whose fits have all ended."""
    state, bound, _, status = best
    return Result(
        coef=jnp.where(state.active, state.coef, 0),
        weights=state.weights,
        inclusion=state.inclusion,
        support=state.active,
        intercept=jnp.zeros_like(state.noise_precision),
        center=jnp.zeros_like(state.weights),
        noise_precision=state.noise_precision,
        bound=bound,
        num_steps=jnp.sum(starts.num_steps, dtype=jnp.int32),
        status=status,
        starts=starts,
        uncertainty=uncertainty,
        history=course,
    )


def best_move(
    problem: Problem,
    rule: Criterion,
    state: State,
    rate: Float[Array, ""],
    rank: Int[Array, ""] | int = 0,
) -> tuple[State, Float[Array, ""]]:
    """The state after the best single move from a fitted one, and by how much the score rises.

    A feature is dropped, added, or exchanged for another. The masks of the other features stay as
    they are and weights and noise follow, so the rise is exact at a rate of 1, but for what the
    masks gain when they adapt.

    Args:
        problem: The dataset.
        rule: What features are charged.
        state: A state that an M step leaves where it is.
        rate: Masks and inclusion rate that a feature is added with.
        rank: 0 for the best move, 1 for the second best and so on.

    Returns:
        The state after the move, weights and noise re-estimated, and the rise of the score.
    """
    kept = state.active
    at_masks = moments(problem, state)
    variance = jnp.where(kept, at_masks.variance, 0)
    features = jnp.where(kept[:, None], at_masks.masked, problem.X)
    left = residual(problem, state)
    counted = problem.weighted(features)
    sums = Squares(
        gram=counted @ features.T,
        anchor=state.weights,
        slope=counted @ left,
        square=problem.total(left**2),
        samples=jnp.asarray(problem.num_samples, left.dtype),
    )
    masks = masks_after_m_step(problem, state)
    after, rise = choose_move(problem, rule, state, with_variance(sums, variance), masks, rank)
    mask_mean = jnp.where((after & ~kept)[:, None], rate, state.mask_mean)
    moved = state._replace(active=after, mask_mean=jnp.where(after[:, None], mask_mean, 0))
    return m_step(problem, moved), rise


def choose_move(
    problem: Problem | Totals,
    rule: Criterion,
    state: State,
    sums: Squares,
    masks: Masks,
    rank: Int[Array, ""] | int,
) -> tuple[Bool[Array, " k"], Float[Array, ""]]:
    """The features after a move, and by how much the score rises.

    Args:
        problem: The dataset.
        rule: What features are charged.
        state: Where to move from.
        sums: Of the masked features that are kept and of the others as they are, around the
            weights.
        masks: What there is to know of the masks.
        rank: 0 for the best move, 1 for the second best and so on.
    """
    k, n, kept = len(state.weights), problem.num_samples, state.active
    m, _ = unit_columns(sums)
    new = charge_at(rule, problem, state)
    # The bound charges a feature at inclusion 1 log(n)/2, the rule what it charges a new one.
    own = masking_cost(problem, state, masks) - 0.5 * problem.log_samples + new
    charges = Charges(rule.per_feature(jnp.where(kept, own, 0)), new, rule.by_size)
    rise = likelihood_rise(n, problem.noise_precision, n * problem.noise_floor)
    most = most_features(problem.num_rows, k)
    gains = rises(m, kept, refit(m, kept), charges, rise, most)
    move = jnp.argsort(gains, descending=True)[rank]
    return kept ^ turned(move, k), gains[move]
