"""One dataset in blocks: how it is fitted from a start, and moved on from an end."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from bmjax._model.bound import Masks, bound_of
from bmjax._model.linalg import solve_normal_equations
from bmjax._model.options import SPARSE_RATES, Plan
from bmjax._model.problem import DUST, State, Status, Totals
from bmjax._model.steps import survivors
from bmjax._model.sums import precision_of, weights_and_rates
from bmjax._results.covariance import Products, uncertainty_of
from bmjax._results.parts import Uncertainty
from bmjax._results.result import Result
from bmjax._runtime.backend import Array
from bmjax._selection.criterion import Criterion, criterion
from bmjax._selection.gram import Squares, residual_slope, residual_square
from bmjax._selection.in_memory import report
from bmjax._selection.moves import Surroundings, best_move
from bmjax._selection.multistart import End, best_fit, score_of
from bmjax._selection.rounds import Subset, blank, maximised, price, repeated
from bmjax._selection.starts import Point, best_subset, points_on, state_of
from bmjax._solvers import convergence, one_fit
from bmjax._solvers.accelerated import Accelerated, AcceleratedCarry, Candidate
from bmjax._stream.passes import INFORMED, LOCAL, MaskedPass, Passes


class _Step(NamedTuple):
    """An EM iteration.

    Attributes:
        state: The state after it.
        bound: Its bound.
        separated: Whether the state before it calls every sample right.
    """

    state: State
    bound: Float[Array, ""]
    separated: Bool[Array, ""]


def _m_step(totals: Totals, before: State, passed: MaskedPass, active: Bool[Array, " k"]) -> _Step:
    """The M step over some features, at the masks that a pass has found."""
    totals = _by_rows(totals, passed)
    sums, n = passed.sums, totals.num_samples
    state = weights_and_rates(totals, before, sums, active)
    around = Squares(sums.gram, before.weights, sums.slope, sums.square, n)
    sum_squares = residual_square(around, state.weights) + state.weights**2 @ sums.variance
    state = state._replace(noise_precision=precision_of(totals, sum_squares / n))
    masks = Masks(sums.kept / n, sums.left_out / n, passed.entropy)
    separated = passed.rows is not None and passed.rows.mixed == 0
    return _Step(state, bound_of(totals, state, sum_squares, masks), np.asarray(separated))


def _by_rows(totals: Totals, passed: MaskedPass) -> Totals:
    """The totals of the squared errors near the likelihood that a pass has been about."""
    if passed.rows is None:
        return totals
    n = totals.num_samples
    return totals._replace(
        mean_squares=passed.rows.squares / n,
        target_square=passed.rows.target_square / n,
        log_base=passed.rows.log_base,
    )


@partial(jax.jit, static_argnames="solver")
def _beyond(solver: Accelerated, carry: AcceleratedCarry, first: State, second: State) -> State:
    return solver.beyond(carry, first, second)


class _Lane(NamedTuple):
    """A fit on its way.

    Attributes:
        carry: What the solver carries.
        monitor: What the stopping rule remembers.
        num_steps: Cycles made.
        status: The verdict so far.
    """

    carry: AcceleratedCarry
    monitor: convergence.Monitor
    num_steps: Int[Array, ""]
    status: Int[Array, ""]


@partial(jax.jit, static_argnames="solver")
def _advance(
    solver: Accelerated,
    totals: Totals,
    tolerance: Float[Array, ""],
    most_steps: Int[Array, ""],
    lane: _Lane,
    cycle: tuple[_Step, _Step, _Step],
) -> _Lane:
    """The lane after a cycle of three EM iterations."""
    first, second, third = cycle
    before = lane.carry
    carry = solver.judge(
        totals,
        before,
        first.state,
        Candidate(second.state, before.residual, lambda: second.bound),
        Candidate(third.state, before.residual, lambda: third.bound),
    )
    num_steps = lane.num_steps + 1
    monitor, converged = convergence.observe(
        totals, lane.monitor, before.state, carry.state, num_steps, tolerance
    )
    converged &= solver.settled(totals, carry, tolerance) | ~jnp.any(carry.state.active)
    status = one_fit.verdict(carry.state, converged, solver.stalled(carry), num_steps >= most_steps)
    separated = (first.separated | third.separated) & (status != Status.NON_FINITE)
    status = jnp.where(separated, Status.SEPARATED, status).astype(jnp.int32)
    return _Lane(carry, monitor, num_steps, status)


@partial(jax.jit, static_argnames="solver")
def _begun(
    solver: Accelerated,
    totals: Totals,
    largest: Float[Array, " d"],
    state: State,
    most_steps: Int[Array, ""],
) -> _Lane:
    """A fit before its first cycle."""
    carry = solver.carry_at(state, jnp.zeros(0))
    sizes = jnp.sqrt(jnp.append(totals.mean_squares, totals.target_square))
    nothing, no = ~jnp.any(state.active), jnp.asarray(False)
    status = one_fit.verdict(state, nothing, no, most_steps < 1)
    status = jnp.where(one_fit.squares_lost(sizes, largest), Status.NON_FINITE, status)
    monitor = convergence.start(totals, state)
    return _Lane(carry, monitor, jnp.zeros((), jnp.int32), status.astype(jnp.int32))


class _There(NamedTuple):
    """What is known of the end of a fit.

    Attributes:
        totals: Those of the squared errors that touch the likelihood there.
        near: Those of the squared errors with its curvature.
        around: The sums of the latter.
    """

    totals: Totals
    near: Totals
    around: Surroundings


class Streamed:
    """A dataset that is read block by block, to be fitted from its starts.

    Args:
        passes: The passes over its rows.
        totals: What it comes to as a whole.
        options: What was asked.
        solver: How to step.
    """

    def __init__(
        self, passes: Passes, totals: Totals, options: one_fit.Options, solver: Accelerated
    ):
        self.totals, self.max_steps = totals, options.max_steps
        self.iterations = solver.iterations
        self._passes, self._tolerance, self._solver = passes, options.tolerance, solver

    def start(self, point: Point, features: Int[Array, " k"]) -> State:
        """The state before the first step from a point; masks are found by the first pass."""
        del features
        can_explain = (self.totals.mean_squares > 0) & (self.totals.target_square > 0)
        return state_of(point, can_explain, self.totals.maskable, 0)

    def fit(self, state: State, features: Int[Array, " k"], used: Int[Array, ""]) -> End:
        """The end of the fit from a state; one more pass finds the sums there, for the moves."""
        solver, totals = self._solver, self.totals
        most_steps = np.asarray((self.max_steps - used) // solver.iterations, np.int32)
        lane = _begun(solver, totals, self._passes.largest, state, most_steps)
        while lane.status == Status.RUNNING:
            first = self._em(jax.device_get(lane.carry.state))
            second = self._em(first.state)
            beyond = _beyond(solver, lane.carry, first.state, second.state)
            cycle = first, second, self._em(jax.device_get(beyond))
            lane = _advance(solver, totals, self._tolerance, most_steps, lane, cycle)
        lane = jax.device_get(lane)
        state, steps = lane.carry.state, lane.num_steps * solver.iterations
        while True:  # each time round prunes a feature
            passed = self._passes.masked(state)
            active = self._survivors(state, passed)
            if (active == state.active).all():
                break
            state = state._replace(active=active, weights=np.where(active, state.weights, 0))
        end = _m_step(totals, state, passed, active)
        outcome = one_fit.ended(_by_rows(totals, passed), end.state, end.bound, steps, lane.status)
        near = passed
        if self._passes.family is not None:
            near = self._passes.masked(state, LOCAL)
        sums = near.sums
        around = Surroundings(
            features=features,
            anchor=state.weights,
            sums=sums,
            with_all=sums.gram,
            slope=sums.slope,
            squares=np.diagonal(sums.gram),
            entropy=near.entropy,
        )
        there = _There(_by_rows(totals, passed), _by_rows(totals, near), around)
        return End(outcome, features, extra=there)

    def score(self, rule: Criterion, end: End) -> Float[Array, ""]:
        """The score of a finished fit; -inf where it has none."""
        return score_of(rule, end.extra.totals, end.outcome)

    def move(
        self, rule: Criterion, end: End, rate: Float[Array, ""], rank: Int[Array, ""]
    ) -> tuple[State, Int[Array, " k"], Float[Array, ""]]:
        """The state after the best single move from an end, its features, and the rise."""
        there = end.extra
        return best_move(there.near, rule, end.outcome.state, there.around, rate, rank)

    def _em(self, state: State) -> _Step:
        passed = self._passes.masked(state)
        return _m_step(self.totals, state, passed, self._survivors(state, passed))

    def _survivors(self, state: State, passed: MaskedPass) -> Bool[Array, " k"]:
        return survivors(self.totals, state, passed.sums.kept / self.totals.num_samples)


def best_streamed(
    passes: Passes,
    options: one_fit.Options,
    solver: Accelerated,
    plan: Plan,
    with_uncertainty: bool,
) -> Result:
    """The best of all starts and moves, in the units that the fit is made in."""
    k, family = len(passes.largest) - 1, passes.family
    raw = passes.plain(np.zeros(k))
    totals = _totals(passes, options, raw)
    rule = criterion(plan.criterion, totals)
    if family is None:
        anchor = solve_normal_equations(raw.gram, raw.slope, np.ones(k, bool))
        sums, found = passes.plain(anchor), None
    else:
        none = blank(totals)
        sums = passes.near(none.weights, none.noise_precision)
        found = best_by_rounds(passes, totals, rule) if plan.sparse else None
    starts = _points(totals, options, plan, rule, sums, found)
    end, record = best_fit(Streamed(passes, totals, options, solver), plan, starts, k)
    certain = _uncertainty(passes, totals, raw.gram, sums, end) if with_uncertainty else None
    return report(end, record, certain)._replace(family=family)


class _Rows(NamedTuple):
    """The rows of a stream as a refit asks for them."""

    passes: Passes
    totals: Totals

    def near(self, weights: Float[Array, " k"], noise: Float[Array, ""]) -> Squares:
        """As `Likelihood`."""
        return self.passes.near(weights, noise)

    def values(self, weights: Float[Array, "c k"], noise: Float[Array, ""]) -> Float[Array, " c"]:
        """As `Likelihood`."""
        return self.passes.values(weights, noise).log_likelihood

    def separated(self, weights: Float[Array, " k"]) -> Bool[Array, ""]:
        """As `Likelihood`."""
        return self.passes.values(weights[None, :], np.ones(())).mixed[0] == 0

    def precision(self, variance: Float[Array, ""]) -> Float[Array, ""]:
        """As `Likelihood`."""
        return precision_of(self.totals, variance)


def best_by_rounds(passes: Passes, totals: Totals, rule: Criterion) -> Subset:
    """The best subset of a stream whose y is not Gaussian."""
    data = _Rows(passes, totals)

    def find(best: Subset) -> tuple[Array, Array]:
        near = passes.near(best.weights, best.noise_precision)
        return best_subset(totals, rule, near)[0], np.asarray(False)

    def refit(start: Subset, support: Bool[Array, " k"]) -> Subset:
        weights = np.where(support, start.weights, 0)
        end = maximised(data, weights, start.noise_precision, support)
        near = passes.near(end.weights, end.noise_precision)
        size = support.sum(dtype=np.int32)
        spent = price(rule, near, end, support & totals.maskable, size)
        return Subset(support, end.weights, end.noise_precision, end.value - spent)

    return repeated(refit(blank(totals), ~totals.maskable), find, refit)[0]


def _totals(passes: Passes, options: one_fit.Options, raw: Squares) -> Totals:
    """What the dataset comes to as a whole."""
    n, k = raw.samples, len(raw.anchor)
    unmasked = np.zeros(k, bool)
    if options.unmasked is not None:
        unmasked[: len(options.unmasked)] = options.unmasked
    if passes.intercept:
        unmasked[-1] = True
    return Totals(
        num_samples=n,
        num_rows=np.asarray(passes.rows, np.int32),
        mean_squares=np.diagonal(raw.gram) / n,
        target_square=raw.square / n,
        maskable=~unmasked,
        noise_precision=options.noise_precision,
        prune_threshold=options.prune_threshold,
        family=passes.family,
    )


def _points(
    totals: Totals,
    options: one_fit.Options,
    plan: Plan,
    rule: Criterion,
    sums: Squares,
    found: Subset | None,
) -> Point:
    """Where the starts are, those from the best subset first, as for `fit`."""
    n, k = totals.num_samples, len(sums.anchor)
    points = []
    if plan.sparse:
        rates = np.asarray(SPARSE_RATES[: plan.sparse])
        if found is None:
            support, weights = best_subset(totals, rule, sums)
            square = residual_square(sums, weights) / n
        else:
            support, weights, square = found.support, found.weights, 1 / found.noise_precision
        points.append(points_on(totals, rates, support, weights, square))
    for row in options.rates:
        rates = np.ones(k)
        rates[: len(row)] = row
        rates = np.where(totals.maskable, rates, 1)
        weights = solve_normal_equations(sums.gram, sums.slope + sums.gram @ sums.anchor, rates > 0)
        square = residual_square(sums, weights) / n
        one = Point(rates, weights, precision_of(totals, square))
        points.append(jax.tree.map(lambda leaf: np.asarray(leaf)[None], one))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *points)


def _uncertainty(
    passes: Passes, totals: Totals, gram: Float[Array, "k k"], sums: Squares, end: End
) -> Uncertainty:
    state, family = end.outcome.state, passes.family
    covariance = gram / totals.num_samples - np.outer(passes.mean, passes.mean)
    spread = np.sqrt(np.maximum(np.diagonal(covariance), 0))
    # What is left of a constant column is rounding.
    spread = np.where(spread > DUST * np.finfo(spread.dtype).eps * np.abs(passes.mean), spread, 0)
    unit = np.where(spread > 0, 1 / np.where(spread > 0, spread, 1), 0)
    correlation = np.clip(covariance * unit[:, None] * unit[None, :], -1, 1)
    coef, omega = np.where(state.active, state.coef, 0), end.extra.around.sums.omega
    if family is None:
        slope, square = residual_slope(sums, coef), residual_square(sums, coef)
        products = Products(omega, gram, slope, square, correlation)
        return uncertainty_of(totals, state, end.features, products)
    informed, near = passes.masked(state, INFORMED), passes.near(coef, state.noise_precision)
    omega = informed.sums.omega
    products = Products(omega, near.gram, near.slope, near.square, correlation)
    at = _by_rows(totals, informed)
    at = at._replace(noise_precision=state.noise_precision * family.information)
    certain = uncertainty_of(at, state, end.features, products)
    likelihood = passes.values(coef[None, :], state.noise_precision).log_likelihood[0]
    share = family.explained(likelihood, passes.y_mean, totals.num_samples)
    if share is None:
        return certain
    return certain._replace(r_squared=share, relative_size=np.sqrt(totals.mean_squares))
