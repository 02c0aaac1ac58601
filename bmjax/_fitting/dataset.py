"""One dataset in the units of the fit: how much room it needs, and its fits from their starts."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Array, Bool

from bmjax._checks import inputs
from bmjax._fitting.options import Checked
from bmjax._model.family import informed, mean_predictor, predictor
from bmjax._model.options import Frame, Options, Plan
from bmjax._model.problem import Problem, State
from bmjax._model.working_set import gathered
from bmjax._results.covariance import uncertainty as uncertainty_at
from bmjax._results.names import Names
from bmjax._results.parts import Starts
from bmjax._results.result import Result, named
from bmjax._runtime import ladder
from bmjax._runtime.backend import namespace
from bmjax._selection.in_memory import InMemory, report
from bmjax._selection.multistart import End, best_fit
from bmjax._selection.starts import Point, Room
from bmjax._solvers.paper import Solver

T = TypeVar("T")


class Outputs(NamedTuple):
    """The extra outputs that were asked of a fit, a static argument.

    Attributes:
        uncertainty: Whether to find the covariance of the effects.
        history_length: Steps of the solver to keep a record of, None for no record.
    """

    uncertainty: bool
    history_length: int | None = None


class Settings(NamedTuple):
    """All that is compiled into a fit, a static argument.

    Attributes:
        solver: How to step.
        plan: How many fits a dataset gets.
        frame: How a dataset is brought into the form that is fitted.
        room: How many features there is room for.
        outputs: The extra outputs that were asked of the fit.
    """

    solver: Solver
    plan: Plan
    frame: Frame
    room: Room
    outputs: Outputs


def settings_of(given: Checked, room: Room, outputs: Outputs) -> Settings:
    """The settings of checked arguments."""
    return Settings(given.solver, given.plan, given.frame, room, outputs)


def told(result: Result, names: Names | None, given: Checked) -> Result:
    """A result that knows what its features are called and how they are grouped."""
    result = named(result, names)
    return result if given.labels is None else result._replace(groups=given.labels)


def room_of(n: int, k: int, given: Checked) -> Room:
    """The room of a fit whose values cannot be looked at: as much as it may need."""
    width = k + int(given.frame.intercept)
    if n > width or given.plan.dense:
        return Room(n > width, width, width)
    most = min(n // 2 + always_in(given, k) + 1, width)
    return Room(False, most, most)


def always_in(given: Checked, k: int) -> int:
    """How many features are never masked, all of them where that cannot be looked at."""
    unmasked = given.options.unmasked
    chosen = 0 if unmasked is None else int(np.sum(unmasked)) if inputs.at_hand(unmasked) else k
    return chosen + int(given.frame.intercept)


def slots_to_move(options: Options, plan: Plan) -> int:
    """How many slots the moves after the starts may need, each for a feature or a group of them."""
    widest = 1
    if options.groups is not None and options.groups.members is not None:
        widest = options.groups.members.shape[1]
    return (plan.moves + 1) * widest


def with_room(
    find: Callable[[Room], tuple[T, Bool[Array, "..."]]], room: Room, most: int
) -> tuple[T, Room]:
    """Run a search again with more slots until it has enough of them.

    Args:
        find: The search. It returns its findings and whether it ran out of slots (for each
            dataset, if there are several).
        room: Room to begin with.
        most: The largest number of slots that could be of use.

    Returns:
        The findings, and the room that they needed.
    """
    found, full = find(room)
    while np.any(full) and room.search < most:
        room = room._replace(search=ladder.slots(4 * room.search, most))
        found, full = find(room)
    return found, room


def best_of_all(
    problem: Problem, options: Options, settings: Settings, starts: Point
) -> tuple[End, Result]:
    """The best fit of a dataset, and what is reported of it, both in the units of the fit."""
    fitter = InMemory(problem, options, settings.solver, settings.outputs.history_length)
    end, record = best_fit(fitter, settings.plan, starts, settings.room.fit)
    return end, reported(problem, end, record, settings.outputs)


def reported(problem: Problem, end: End, record: Starts, outputs: Outputs) -> Result:
    """The report on a dataset's best fit, with the covariance of the effects if asked for."""
    certain, state, features = None, end.outcome.state, end.features
    if outputs.uncertainty:
        near = informed(problem, features, state)
        certain = uncertainty_at(near, state, features, columns=problem)
    result = report(end, record, certain)
    if problem.family is None:
        return result
    return _of_family(gathered(problem, features), state, result)


def _of_family(part: Problem, state: State, result: Result) -> Result:
    """A result with what there is to say otherwise where y is not Gaussian.

    Args:
        part: The features that the state is about.
        state: The fitted state.
        result: What is said of it as of a Gaussian fit.
    """
    family, certain = part.family, result.uncertainty
    if certain is not None:
        likelihood = family.log_likelihood(part, mean_predictor(part, state), state.noise_precision)
        share = family.explained(likelihood, part.mean(part.y), part.num_samples)
        if share is not None:
            sizes = namespace(state).sqrt(part.mean_squares)
            certain = certain._replace(r_squared=share, relative_size=sizes)
    settled = family.settled_at(part, *predictor(part, state), state.noise_precision)
    return result._replace(uncertainty=certain, family=settled)
