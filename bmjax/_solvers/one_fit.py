"""One fit from a start to its local optimum: start, advance, outcome."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from bmjax._model.bound import lower_bound
from bmjax._model.family import mean_predictor, touching
from bmjax._model.options import Options
from bmjax._model.problem import Problem, State, Totals
from bmjax._model.status import Status
from bmjax._model.steps import exact_fit
from bmjax._model.sweep import residual
from bmjax._results.parts import History
from bmjax._runtime.backend import Array, namespace
from bmjax._solvers import convergence, loop
from bmjax._solvers.paper import Solver


def start(
    problem: Problem,
    options: Options,
    solver: Solver,
    state: State,
    used: Int[Array, ""] | int = 0,
) -> loop.Lane:
    """The lane before the first step from a state; it has ended already if there is nothing to do.

    `used` is the number of iterations that earlier fits of the dataset have made.
    """
    carry = solver.init(touching(problem, state), state), convergence.start(problem, state)
    state = carry[0].state
    sizes = jnp.append(carry[1].size, jnp.sqrt(problem.mean(problem.y**2)))
    largest = jnp.append(jnp.max(jnp.abs(problem.X), axis=1), jnp.max(jnp.abs(problem.y)))
    most_steps = (options.max_steps - used) // solver.iterations
    status = verdict(state, ~jnp.any(state.active), jnp.asarray(False), most_steps < 1)
    status = jnp.where(squares_lost(sizes, largest), Status.NON_FINITE, status).astype(jnp.int32)
    if problem.family is not None:
        status = jnp.where(_separated(problem, state), Status.SEPARATED, status)
        status = jnp.where(problem.family.fits(problem), status, Status.NON_FINITE)
        status = status.astype(jnp.int32)
    return loop.Lane(carry, jnp.zeros((), jnp.int32), status, most_steps)


def advance(problem: Problem, options: Options, solver: Solver, lane: loop.Lane) -> loop.Lane:
    """The lane after one step of the solver, with its verdict."""
    before, monitor = lane.carry
    touched = touching(problem, before.state)
    if problem.family is not None and hasattr(before, "residual"):
        before = before._replace(residual=residual(touched, before.state))
    after = solver.step(touched, before)
    num_steps = lane.num_steps + 1  # a lane counts steps, `max_steps` iterations
    monitor, converged = convergence.observe(
        problem, monitor, before.state, after.state, num_steps, options.tolerance
    )
    converged &= solver.settled(touched, after, options.tolerance) | ~jnp.any(after.state.active)
    out_of_steps = num_steps >= lane.most_steps
    status = verdict(after.state, converged, solver.stalled(after), out_of_steps)
    if problem.family is not None:
        separated = _separated(problem, after.state) & (status != Status.NON_FINITE)
        status = jnp.where(separated, Status.SEPARATED, status).astype(jnp.int32)
    return lane._replace(carry=(after, monitor), num_steps=num_steps, status=status)


def record(problem: Problem, lane: loop.Lane) -> History:
    """The row of the history for the state of a lane."""
    state = lane.carry[0].state
    return History(
        weights=state.weights,
        inclusion=state.inclusion,
        noise_precision=state.noise_precision,
        bound=lower_bound(problem, state),
        active_count=jnp.sum(state.active, dtype=jnp.int32),
    )


class Outcome(NamedTuple):
    """The outcome of a fit.

    Attributes:
        state: The state to report.
        bound: The lower bound at this state.
        num_steps: Iterations run.
        status: The code of `Status` with which the fit ended.
    """

    state: State
    bound: Float[Array, ""]
    num_steps: Int[Array, ""]
    status: Int[Array, ""]


def outcome(problem: Problem, solver: Solver, lane: loop.Lane) -> Outcome:
    """The outcome of a lane that has ended."""
    state = solver.result(touching(problem, lane.carry[0].state), lane.carry[0])
    touched = touching(problem, state)
    bound = lower_bound(touched, state)
    return ended(touched, state, bound, lane.num_steps * solver.iterations, lane.status)


def ended(
    problem: Problem | Totals,
    state: State,
    bound: Float[Array, ""],
    num_steps: Int[Array, ""],
    status: Int[Array, ""],
) -> Outcome:
    """The outcome of a fit, its status corrected for an exact fit or values that are not finite."""
    xp = namespace(state)
    exact = (status == Status.CONVERGED) & exact_fit(problem, state)
    status = xp.where(exact, Status.EXACT_FIT, status)
    status = xp.where(state.finite & xp.isfinite(bound), status, Status.NON_FINITE)
    return Outcome(state, bound, num_steps, status.astype(xp.int32))


def _separated(problem: Problem, state: State) -> Bool[Array, ""]:
    """Whether the effects show that the likelihood has no maximum."""
    return problem.family.separated(problem, mean_predictor(problem, state))


def squares_lost(sizes: Float[Array, " d"], largest: Float[Array, " d"]) -> Bool[Array, ""]:
    """Whether squares of a column or of y overflow or underflow in their type.

    Args:
        sizes: Root mean square of each column, and of y.
        largest: Largest absolute value of each column, and of y.
    """
    too_small = (largest > 0) & (sizes**2 < 100 * jnp.finfo(sizes.dtype).tiny)
    return jnp.any(too_small | ~jnp.isfinite(sizes))


def verdict(
    state: State,
    converged: Bool[Array, ""],
    stalled: Bool[Array, ""],
    out_of_steps: Bool[Array, ""],
) -> Int[Array, ""]:
    """The status after a step; of several that apply, the gravest."""
    status = jnp.where(out_of_steps, Status.MAX_STEPS, Status.RUNNING)
    status = jnp.where(stalled, Status.STALLED, status)
    status = jnp.where(converged, Status.CONVERGED, status)
    return jnp.where(state.finite, status, Status.NON_FINITE).astype(jnp.int32)
