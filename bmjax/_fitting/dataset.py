"""One dataset in the units of the fit: the slots it needs, and its fits from their starts."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Array, Bool

from bmjax._checks import inputs
from bmjax._fitting.checking import Checked
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
from bmjax._selection.starts import Point, Room, room_for
from bmjax._solvers.paper import Solver

T = TypeVar("T")


class Outputs(NamedTuple):
    """The optional outputs of a fit, a static argument.

    Attributes:
        uncertainty: Whether to compute the covariance of the effects.
        history_length: Number of solver steps to record, None for no record.
    """

    uncertainty: bool
    history_length: int | None = None


class Settings(NamedTuple):
    """Everything that is compiled into a fit, a static argument.

    Attributes:
        solver: The solver, which makes the steps.
        plan: The number of starts and moves, and the criterion that ranks fits.
        frame: Whether to add an intercept and whether to scale.
        room: The numbers of slots for the search and for the fits.
        outputs: The optional outputs.
    """

    solver: Solver
    plan: Plan
    frame: Frame
    room: Room
    outputs: Outputs


def settings_of(given: Checked, room: Room, outputs: Outputs) -> Settings:
    """The settings that follow from checked arguments, the room and the outputs."""
    return Settings(given.solver, given.plan, given.frame, room, outputs)


def told(result: Result, names: Names | None, given: Checked) -> Result:
    """The result with the names of its features and the labels of their groups."""
    result = named(result, names)
    return result if given.labels is None else result._replace(groups=given.labels)


def room_of(n: int, k: int, given: Checked) -> Room:
    """The room of a fit whose values cannot be inspected: as many slots as it may need."""
    width = k + int(given.frame.intercept)
    most = width
    if n <= width and not given.plan.dense:
        most = min(n // 2 + always_in(given, k) + 1, width)
    return room_for(n, width, most, most, groups=given.labels is not None)


def always_in(given: Checked, k: int) -> int:
    """The number of features that are never masked; k if the values of `unmasked` are traced."""
    unmasked = given.options.unmasked
    chosen = 0 if unmasked is None else int(np.sum(unmasked)) if inputs.at_hand(unmasked) else k
    return chosen + int(given.frame.intercept)


def slots_to_move(options: Options, plan: Plan) -> int:
    """The number of slots that the moves may need; each move adds a feature or a group of them."""
    widest = 1
    if options.groups is not None and options.groups.members is not None:
        widest = options.groups.members.shape[1]
    return (plan.moves + 1) * widest


def with_room(
    find: Callable[[Room], tuple[T, Bool[Array, "..."]]], room: Room, most: int
) -> tuple[T, Room]:
    """Run a search, and again with more slots for as long as it runs out of them.

    Args:
        find: The search. It returns its findings and whether it ran out of slots, for each dataset
            if several.
        room: The room for the first run.
        most: The largest number of slots that the search could fill.

    Returns:
        The findings, and the room that the last run had.
    """
    found, full = find(room)
    while np.any(full) and room.search < most:
        room = room._replace(search=ladder.slots(4 * room.search, most))
        found, full = find(room)
    return found, room


def best_of_all(
    problem: Problem, options: Options, settings: Settings, starts: Point
) -> tuple[End, Result]:
    """The best fit of a dataset and the result that reports it, both in the units of the fit."""
    fitter = InMemory(problem, options, settings.solver, settings.outputs.history_length)
    end, record = best_fit(fitter, settings.plan, starts, settings.room.fit)
    return end, reported(problem, end, record, settings.outputs)


def reported(problem: Problem, end: End, record: Starts, outputs: Outputs) -> Result:
    """The result of a dataset's best fit, with the covariance of its effects if requested."""
    certain, state, features = None, end.outcome.state, end.features
    if outputs.uncertainty:
        near = informed(problem, features, state)
        certain = uncertainty_at(near, state, features, columns=problem)
    result = report(end, record, certain)
    if problem.family is None:
        return result
    return _of_family(gathered(problem, features), state, result)


def _of_family(part: Problem, state: State, result: Result) -> Result:
    """The result of a fit that is not Gaussian, with the R^2, sizes and parameters of its family.

    Args:
        part: The problem, restricted to the features of the state.
        state: The fitted state.
        result: The result as computed for a Gaussian fit.
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
