"""A fit that begins with many features, in ever fewer slots as they are pruned.

An iteration costs O(n m + m^3) for m slots, and most of the features of a start from all of them
are pruned within a few iterations. So once only a quarter of the slots is in use, the lane moves to
fewer of them, each size a program of its own. The lane keeps all that it carries, whatever the
solver, so the fit is the same to rounding.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jaxtyping import Bool, Int

from bmjax._model.options import Options
from bmjax._model.problem import Problem, State
from bmjax._model.steps import restrict
from bmjax._model.working_set import gathered, spread
from bmjax._runtime import ladder
from bmjax._runtime.backend import Array
from bmjax._runtime.precision import full_precision
from bmjax._runtime.programs import PROGRAMS
from bmjax._solvers import one_fit
from bmjax._solvers.loop import Lane
from bmjax._solvers.paper import Solver

# Slots from which on fewer of them are worth another compilation.
WIDE = 128
_IN_USE = 4  # slots for each feature in use, above which a lane moves to fewer


class Begin(NamedTuple):
    """The arguments of a fit before its first step.

    Attributes:
        state: The state to start from.
        used: Iterations made by fits before.
    """

    state: State
    used: Int[Array, ""]


def fit_narrowing(part: Problem, options: Options, begin: Begin, solver: Solver) -> one_fit.Outcome:
    """The outcome of a fit of m features in memory, over the m slots that it began with.

    Args:
        part: The features in the slots, in NumPy arrays.
        options: The checked options of the fit.
        begin: The state to start from.
        solver: The solver.
    """
    static = {"solver": solver}
    shapes, slots, near, lane = None, np.arange(len(part.X)), part, begin
    while True:
        size = len(slots)
        least = np.asarray(size // _IN_USE if size > WIDE else -1, np.int32)
        called = PROGRAMS.call(some_steps, near, options, lane, least, static=static)
        lane, outcome = jax.device_get(called)
        if not lane.running:
            return outcome._replace(state=_whole(outcome.state, slots, len(part.X)))
        active = lane.carry[0].state.active
        # Slots that no feature in use needs keep pruned ones.
        room = ladder.slots(int(active.sum()), size)
        chosen = np.sort(np.argsort(~active, stable=True)[:room])
        shapes = shapes or _shapes(part, options, begin, solver)
        lane = jax.tree.map(partial(_chosen, chosen=chosen, size=size), lane, *shapes)
        slots = slots[chosen]
        near = gathered(part, slots.astype(np.int32))


@full_precision
def some_steps(
    part: Problem,
    options: Options,
    begin: Begin | Lane,
    least: Int[Array, ""],
    *,
    solver: Solver,
) -> tuple[Lane, one_fit.Outcome]:
    """A lane at its end, or once no more than `least` features are active; its outcome there."""
    lane = one_fit.start(part, options, solver, *begin) if isinstance(begin, Begin) else begin

    def goes_on(lane: Lane) -> Bool[Array, ""]:
        active = lane.carry[0].state.active
        return lane.running & (active.sum(dtype="int32") > least)

    lane = lax.while_loop(goes_on, partial(one_fit.advance, part, options, solver), lane)
    return lane, one_fit.outcome(part, solver, lane)


def _shapes(part: Problem, options: Options, begin: Begin, solver: Solver) -> tuple[Lane, Lane]:
    """The arrays of a lane of m slots and of m - 1, which show the axes that go by slot."""

    def lane_of(size: int) -> Lane:
        def start(part: Problem, begin: Begin) -> Lane:
            slots = np.arange(size, dtype=np.int32)
            state = begin.state
            first = {name: getattr(state, name)[:size] for name in _BY_SLOT}
            return one_fit.start(
                gathered(part, slots), options, solver, state._replace(**first), begin.used
            )

        return jax.eval_shape(start, part, begin)

    m = len(part.X)
    return lane_of(m), lane_of(m - 1)


def _chosen(leaf: np.ndarray, of_all: Any, of_fewer: Any, *, chosen: np.ndarray, size: int) -> Any:
    """An array of a lane with the values of the chosen slots, of `size`.

    An axis may hold several values of each slot one after another, and others behind them.
    """
    for axis, (all_slots, fewer) in enumerate(zip(of_all.shape, of_fewer.shape, strict=True)):
        runs = all_slots - fewer
        if runs:
            places = [run * size + chosen for run in range(runs)]
            others = np.arange(runs * size, leaf.shape[axis])
            leaf = np.take(leaf, np.concatenate([*places, others]), axis=axis)
    return leaf


_BY_SLOT = ("mask_mean", "weights", "log_odds", "active")


def _whole(state: State, slots: np.ndarray, m: int) -> State:
    """The state of some of m slots as that of all, the features of the others pruned."""
    of_all = {name: spread(getattr(state, name).T, slots, m).T for name in _BY_SLOT}
    return restrict(state._replace(**of_all), of_all["active"])
