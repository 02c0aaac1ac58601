"""A dataset in memory: its fit from a start, the move to the next fit, and the result."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from bmjax._model.blocks import in_blocks
from bmjax._model.family import local, touching
from bmjax._model.problem import Problem, State
from bmjax._model.working_set import gathered, spread
from bmjax._results.parts import History, Starts, Uncertainty
from bmjax._results.result import Result
from bmjax._runtime.backend import Array, namespace
from bmjax._runtime.precision import full_precision
from bmjax._runtime.programs import PROGRAMS
from bmjax._selection.criterion import Criterion
from bmjax._selection.group_moves import best_group_move
from bmjax._selection.moves import best_move, surroundings
from bmjax._selection.multistart import End, score_of
from bmjax._selection.starts import Point, state_at
from bmjax._solvers import loop, narrowing, one_fit
from bmjax._solvers.paper import Solver


class InMemory:
    """The `Fitter` of a dataset in memory, on the host or in a compiled program.

    Args:
        problem: The dataset.
        options: The options, in the units of the fit.
        solver: The solver, which makes the steps.
        history_length: Number of solver steps to record, None for no record.
    """

    def __init__(
        self,
        problem: Problem,
        options: one_fit.Options,
        solver: Solver,
        history_length: int | None = None,
    ):
        self.totals, self._options, self._solver = problem, options, solver
        self.max_steps, self.iterations = options.max_steps, solver.iterations
        self._history_length = history_length

    def start(self, point: Point, features: Int[Array, " m"]) -> State:
        """The state of some features before the first step from a point."""
        return state_at(gathered(self.totals, features), point)

    def fit(self, state: State, features: Int[Array, " m"], used: Int[Array, ""]) -> End:
        """The end of the fit from a state; `used` iterations were spent by earlier fits."""
        part = gathered(self.totals, features)
        if part.groups is not None:  # other groups must not cause a compilation
            part = part._replace(groups=part.groups._replace(members=None))
        if namespace(part) is not jnp:
            part = in_blocks(part)
        static = {"solver": self._solver, "history_length": self._history_length}
        arguments = part, self._options, state, used
        if namespace(part) is jnp:
            outcome, course = fit_from(*arguments, **static)
        elif self._history_length is None and len(part.X) > narrowing.WIDE:
            begin = narrowing.Begin(state, used)
            outcome = narrowing.fit_narrowing(part, self._options, begin, self._solver)
            course = None
        else:
            outcome, course = jax.device_get(PROGRAMS.call(fit_from, *arguments, static=static))
        return End(outcome, features, course)

    def score(self, rule: Criterion, end: End) -> Float[Array, ""]:
        """The score of a finished fit; -inf for a fit that cannot be ranked."""
        part = gathered(self.totals, end.features)
        return score_of(rule, touching(part, end.outcome.state), end.outcome)

    def move(
        self, rule: Criterion, end: End, rate: Float[Array, ""], rank: Int[Array, ""]
    ) -> tuple[State, Int[Array, " m"], Float[Array, ""]]:
        """The state after the best single move from an end, its features, and the score's rise."""
        state, features = end.outcome.state, end.features
        near = local(self.totals, features, state)
        around = surroundings(near, state, features)
        part = gathered(near, features)
        move = best_move if part.groups is None else best_group_move
        return move(part, rule, state, around, rate, rank)


@full_precision
def fit_from(
    part: Problem,
    options: one_fit.Options,
    state: State,
    used: Int[Array, ""],
    *,
    solver: Solver,
    history_length: int | None,
) -> tuple[one_fit.Outcome, History | None]:
    """The fit of the features in the slots from a state, a function to be compiled.

    Args:
        part: The problem of the features in the slots.
        options: The options, in the units of the fit.
        state: The state to start from.
        used: Number of iterations made by earlier fits.
        solver: The solver, which makes the steps.
        history_length: Number of solver steps to record, None for no record.

    Returns:
        The end of the fit, and its history.
    """
    lane = one_fit.start(part, options, solver, state, used)

    def advance(lane: loop.Lane) -> loop.Lane:
        return one_fit.advance(part, options, solver, lane)

    course = None
    if history_length is None:
        lane = loop.run(advance, lane)
    else:
        lane, course = loop.run_recorded(
            advance, lane, partial(one_fit.record, part), history_length
        )
    return one_fit.outcome(part, solver, lane), course


def report(end: End, starts: Starts, uncertainty: Uncertainty | None = None) -> Result:
    """The result, by feature, of a dataset whose fits have all ended."""
    (state, bound, _, status), features, course, _ = end
    k, xp = starts.coef.shape[-1], namespace(starts)

    def whole(values: Array) -> Array:
        return spread(values, features, k)

    if course is not None:
        course = course._replace(weights=whole(course.weights), inclusion=whole(course.inclusion))
    weights = whole(state.weights)
    return Result(
        coef=whole(xp.where(state.active, state.coef, 0)),
        weights=weights,
        inclusion=whole(state.inclusion),
        support=whole(state.active),
        intercept=xp.zeros_like(state.noise_precision),
        center=xp.zeros_like(weights),
        noise_precision=state.noise_precision,
        bound=bound,
        num_steps=starts.num_steps.sum(dtype="int32"),
        status=status,
        starts=starts,
        uncertainty=uncertainty,
        history=course,
    )
