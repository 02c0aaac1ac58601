"""The compiled work of `fit_batch`: the fits of a chunk of datasets, one by one or side by side."""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int

from bmjax._fitting.dataset import Settings, best_of_all, reported
from bmjax._fitting.units import Units, enter, leave
from bmjax._model.blocks import in_blocks
from bmjax._model.options import Options
from bmjax._model.problem import Problem
from bmjax._model.working_set import gathered
from bmjax._results.result import Result
from bmjax._runtime import sharding
from bmjax._runtime.precision import full_precision
from bmjax._selection.criterion import criterion
from bmjax._selection.in_memory import InMemory
from bmjax._selection.multistart import Climb, End, begin, next_fit, points
from bmjax._selection.starts import Point
from bmjax._solvers import loop, one_fit


class Chunk(NamedTuple):
    """Datasets that are fitted in one call.

    Attributes:
        X: Features of each dataset, or one array shared by all.
        y: Their targets.
        sample_weights: How often each row counts.
        real: Number of datasets that are real; the others only pad the chunk.
        options: The options, in the user's units.
    """

    X: Float[Array, "*b n k"]
    y: Float[Array, "b n"]
    sample_weights: Float[Array, "b n"] | None
    real: Int[Array, ""]
    options: Options

    def entered(self, settings: Settings, i: Int[Array, ""]) -> tuple[Problem, Options, Units]:
        """Dataset i in the units of the fit."""
        X = self.X if self.X.ndim == 2 else self.X[i]
        counts = None if self.sample_weights is None else self.sample_weights[i]
        return enter(settings.frame, self.options, X, self.y[i], counts)


@full_precision
def find_starts(
    chunk: Chunk, *, settings: Settings
) -> tuple[Point, Bool[Array, " b"], Int[Array, " b"]]:
    """The starts of each dataset, whether it ran out of slots, and how many features it needs."""

    def one(i: Int[Array, ""]) -> tuple[Point, Array, Array]:
        problem, options, _ = chunk.entered(settings, i)
        there, full = points(problem, options, settings.plan, settings.room)
        needed = jnp.any(there.inclusion > 0, axis=0) | ~problem.maskable
        return there, full, jnp.sum(needed, dtype=jnp.int32)

    return loop.one_by_one(one, len(chunk.y), chunk.real)


@full_precision
def work_off(
    chunk: Chunk, places: Point | None, *, settings: Settings, width: int
) -> tuple[Result, Int[Array, ""]]:
    """The fits of one chunk, and the number of lane-steps made.

    Args:
        chunk: The datasets.
        places: The starts of their fits, if they have been found already.
        settings: The settings that are compiled in.
        width: Number of lanes side by side.
    """
    if width > 1:
        return _side_by_side(chunk, places, settings, width)

    # One after another: no lanes to keep full, and no batched products.
    def one(i: Int[Array, ""]) -> Result:
        problem, options, units = chunk.entered(settings, i)
        problem = in_blocks(problem)
        starts = _starts_of(places, settings, i, problem, options)
        return leave(settings.frame, units, best_of_all(problem, options, settings, starts)[1])

    result = loop.one_by_one(one, len(chunk.y), chunk.real)
    return result, jnp.sum(result.num_steps, dtype=jnp.int32) // settings.solver.iterations


def _starts_of(
    places: Point | None, settings: Settings, i: Int[Array, ""], problem: Problem, options: Options
) -> Point:
    """The starts of the fits of dataset i."""
    if places is None:
        return points(problem, options, settings.plan, settings.room)[0]
    return jax.tree.map(lambda leaf: leaf[i], places)


class _Work(NamedTuple):
    """The dataset that a lane works on, and the progress of its fits.

    Attributes:
        problem: Its problem; X is None if all datasets share one X.
        units: The units that convert its result to those of the user.
        points: The starts of its fits.
        climb: Its best fit so far, and the record of all.
        lane: The fit that is running.
    """

    problem: Problem
    units: Units
    points: Point
    climb: Climb
    lane: loop.Lane


def _side_by_side(
    chunk: Chunk, places: Point | None, settings: Settings, width: int
) -> tuple[Result, Int[Array, ""]]:
    """The fits of a chunk by a pool of lanes."""
    solver, plan, frame, room, outputs = settings
    size, options = len(chunk.y), chunk.options
    alone = chunk.X.ndim == 2 and frame.plain and chunk.sample_weights is None
    shared = chunk.X.T if alone else None

    def whole(problem: Problem) -> Problem:
        return problem if shared is None else problem._replace(X=shared)

    def starts_of(i: Int[Array, ""]) -> Point:
        return _starts_of(places, settings, i, *chunk.entered(settings, i)[:2])

    # All starts are found beforehand, so that a refill only picks them up: on a CPU one at a time,
    # with products too small for XLA to split between threads; see `_of_one_length`.
    together = None if jax.default_backend() == "cpu" else min(width, size)
    all_starts = jax.lax.map(starts_of, jnp.arange(size), batch_size=together)

    def lane_of(problem: Problem, climb: Climb) -> loop.Lane:
        part = gathered(problem, climb.features)
        used = jnp.sum(climb.starts.num_steps, dtype=jnp.int32)
        return one_fit.start(part, options, solver, climb.state, used)

    def ended(problem: Problem, climb: Climb, lane: loop.Lane) -> End:
        part = gathered(problem, climb.features)
        return End(one_fit.outcome(part, solver, lane), climb.features)

    def start(index: Int[Array, " w"]) -> _Work:
        def begin_one(i: Int[Array, ""]) -> _Work:
            problem, _, units = chunk.entered(settings, i)
            there = jax.tree.map(lambda leaf: leaf[i], all_starts)
            climb = begin(InMemory(problem, options, solver), plan, there, room.fit)
            lane = lane_of(problem, climb)
            climb = climb._replace(best=ended(problem, climb, lane))
            kept = problem if shared is None else problem._replace(X=None)
            return _Work(kept, units, there, climb, lane)

        return jax.vmap(begin_one)(index)

    def step(work: _Work) -> _Work:
        part = gathered(whole(work.problem), work.climb.features)
        return work._replace(lane=one_fit.advance(part, options, solver, work.lane))

    def proceed(work: _Work) -> _Work:
        problem, climb = whole(work.problem), work.climb
        rule = criterion(plan.criterion, problem, room.fit)
        end = ended(problem, climb, work.lane)
        fitter = InMemory(problem, options, solver)
        after = next_fit(fitter, rule, plan, work.points, climb, end)
        return work._replace(climb=after, lane=lane_of(problem, after))

    def outcome(work: _Work) -> Result:
        climb = work.climb
        result = reported(whole(work.problem), climb.best, climb.starts, outputs)
        return leave(frame, work.units, result)

    job = loop.Job(
        start=start,
        step=jax.vmap(step),
        paused=lambda work: ~work.lane.running & ~work.climb.done,
        proceed=jax.vmap(proceed),
        done=lambda work: work.climb.done,
        report=jax.vmap(outcome),
    )
    return loop.run_pool(job, size, chunk.real, width)


def work_off_spread(
    chunk: Chunk, counts: Any, mesh: Mesh, *, settings: Settings, width: int
) -> tuple[Result, Array]:
    """The fits of a chunk dealt out to the devices of a mesh, and the lane-steps of each device.

    Args:
        chunk: The datasets.
        counts: Number of real datasets on each device.
        mesh: The devices.
        settings: The settings that are compiled in.
        width: Number of lanes side by side on each device.
    """
    X, y, sample_weights, _, options = chunk
    own, shared = ((y, sample_weights), X) if X.ndim == 2 else ((y, sample_weights, X), None)
    return _spread(mesh, settings, width)(
        jax.tree.map(lambda rows: sharding.split(mesh, rows), own),
        sharding.everywhere(mesh, (shared, options)),
        sharding.split(mesh, counts),
    )


@lru_cache(maxsize=32)
def _spread(mesh: Mesh, settings: Settings, width: int) -> Any:
    """`work_off` on every device of a mesh, compiled."""

    def local(own: Any, everywhere: Any, count: Int[Array, ""]) -> tuple[Result, Array]:
        X, options = everywhere
        y, sample_weights, *rest = own
        chunk = Chunk(rest[0] if rest else X, y, sample_weights, count, options)
        result, steps = work_off(chunk, None, settings=settings, width=width)
        return result, steps[None]

    return jax.jit(sharding.spread(local, mesh))
