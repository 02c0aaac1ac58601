"""A dataset in blocks: its fit from a start, and the moves from its end."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from bmjax._model.bound import Masks, bound_of
from bmjax._model.problem import State, Totals
from bmjax._model.status import Status
from bmjax._model.steps import survivors
from bmjax._model.sums import precision_of, weights_and_rates
from bmjax._runtime.backend import Array
from bmjax._selection.criterion import Criterion
from bmjax._selection.gram import Squares, residual_square
from bmjax._selection.moves import Surroundings, best_move
from bmjax._selection.multistart import End, score_of
from bmjax._selection.starts import Point, state_of
from bmjax._solvers import convergence, one_fit
from bmjax._solvers.accelerated import Accelerated, AcceleratedCarry, Candidate
from bmjax._stream.passes import LOCAL, MaskedPass, Passes


class _Step(NamedTuple):
    """The outcome of an EM iteration.

    Attributes:
        state: The state after the iteration.
        bound: The lower bound at this state.
        separated: Whether the state before it classifies every sample correctly.
    """

    state: State
    bound: Float[Array, ""]
    separated: Bool[Array, ""]


def _m_step(totals: Totals, before: State, passed: MaskedPass, active: Bool[Array, " k"]) -> _Step:
    """The M step over the active features, at the masks that a pass has found."""
    totals = totals_at(totals, passed)
    sums, n = passed.sums, totals.num_samples
    state = weights_and_rates(totals, before, sums, active)
    around = Squares(sums.gram, before.weights, sums.slope, sums.square, n)
    sum_squares = residual_square(around, state.weights) + state.weights**2 @ sums.variance
    state = state._replace(noise_precision=precision_of(totals, sum_squares / n))
    masks = Masks(sums.kept / n, sums.left_out / n, passed.entropy)
    separated = passed.rows is not None and passed.rows.mixed == 0
    return _Step(state, bound_of(totals, state, sum_squares, masks), np.asarray(separated))


def totals_at(totals: Totals, passed: MaskedPass) -> Totals:
    """The totals of the squared errors near the likelihood that a pass has used."""
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
    """A fit that is running.

    Attributes:
        carry: The carry of the solver.
        monitor: The memory of the stopping rule.
        num_steps: Number of cycles made.
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
    """The lane before its first cycle."""
    carry = solver.carry_at(state, jnp.zeros(0))
    sizes = jnp.sqrt(jnp.append(totals.mean_squares, totals.target_square))
    nothing, no = ~jnp.any(state.active), jnp.asarray(False)
    status = one_fit.verdict(state, nothing, no, most_steps < 1)
    status = jnp.where(one_fit.squares_lost(sizes, largest), Status.NON_FINITE, status)
    monitor = convergence.start(totals, state)
    return _Lane(carry, monitor, jnp.zeros((), jnp.int32), status.astype(jnp.int32))


class _There(NamedTuple):
    """Sums and totals at the end of a fit.

    Attributes:
        totals: Totals of the squared errors that touch the likelihood at the end.
        near: Totals of the squared errors with the curvature of the likelihood.
        around: The sums of the latter squared errors.
    """

    totals: Totals
    near: Totals
    around: Surroundings


class Streamed:
    """The `Fitter` of a dataset that is read block by block.

    Args:
        passes: The passes over its rows.
        totals: The totals of the dataset.
        options: The options, in the units of the fit.
        solver: The solver, which makes the steps.
    """

    def __init__(
        self, passes: Passes, totals: Totals, options: one_fit.Options, solver: Accelerated
    ):
        self.totals, self.max_steps = totals, options.max_steps
        self.iterations = solver.iterations
        self._passes, self._tolerance, self._solver = passes, options.tolerance, solver

    def start(self, point: Point, features: Int[Array, " k"]) -> State:
        """The state before the first step from a point; the first pass finds its masks."""
        del features
        can_explain = (self.totals.mean_squares > 0) & (self.totals.target_square > 0)
        return state_of(point, can_explain, self.totals.maskable, 0)

    def fit(self, state: State, features: Int[Array, " k"], used: Int[Array, ""]) -> End:
        """The end of the fit from a state, with the sums there for the moves, by one more pass."""
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
        while True:  # each further round prunes a feature
            passed = self._passes.masked(state)
            active = self._survivors(state, passed)
            if (active == state.active).all():
                break
            state = state._replace(active=active, weights=np.where(active, state.weights, 0))
        end = _m_step(totals, state, passed, active)
        outcome = one_fit.ended(totals_at(totals, passed), end.state, end.bound, steps, lane.status)
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
        there = _There(totals_at(totals, passed), totals_at(totals, near), around)
        return End(outcome, features, extra=there)

    def score(self, rule: Criterion, end: End) -> Float[Array, ""]:
        """The score of a finished fit; -inf for a fit that cannot be ranked."""
        return score_of(rule, end.extra.totals, end.outcome)

    def move(
        self, rule: Criterion, end: End, rate: Float[Array, ""], rank: Int[Array, ""]
    ) -> tuple[State, Int[Array, " k"], Float[Array, ""]]:
        """The state after the best single move from an end, its features, and the score's rise."""
        there = end.extra
        return best_move(there.near, rule, end.outcome.state, there.around, rate, rank)

    def _em(self, state: State) -> _Step:
        passed = self._passes.masked(state)
        return _m_step(self.totals, state, passed, self._survivors(state, passed))

    def _survivors(self, state: State, passed: MaskedPass) -> Bool[Array, " k"]:
        return survivors(self.totals, state, passed.sums.kept / self.totals.num_samples)
