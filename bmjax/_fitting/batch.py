"""`fit_batch`: many datasets, each ending on its own.

On a CPU, datasets run one after another, or a few side by side where they are tiny, and chunks of
them go to all cores from host threads, because inside a compiled loop XLA runs on one. On an
accelerator one wide pool of lanes is kept full. With a mesh every device works off its own share
of a chunk. Either way memory is bounded by a chunk, whatever the number of datasets, and the inputs
may be larger than the device.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from bmjax._checks import validate
from bmjax._fitting.fit import room_of
from bmjax._fitting.options import checked
from bmjax._fitting.ragged import groups as by_rung
from bmjax._fitting.ragged import is_ragged
from bmjax._fitting.units import Units, enter, leave
from bmjax._model.options import Frame, Plan
from bmjax._model.problem import Problem
from bmjax._model.working_set import gathered
from bmjax._results.covariance import uncertainty as uncertainty_at
from bmjax._results.result import LaneSteps, Result, Starts
from bmjax._runtime import ladder, sharding
from bmjax._runtime.backend import select
from bmjax._runtime.precision import full_precision
from bmjax._runtime.programs import PROGRAMS
from bmjax._runtime.threads import Settings, cores
from bmjax._selection.criterion import criterion
from bmjax._selection.in_memory import InMemory, report
from bmjax._selection.multistart import Climb, End, begin, best_fit, next_fit, points
from bmjax._selection.starts import Point, Room
from bmjax._solvers import loop, one_fit
from bmjax._solvers.paper import Solver

# Lanes side by side share the overhead of a kernel, which rules below some 20 kB a dataset; above
# it one dataset after another is faster, in cache and without batched products (measured).
_LANES_BYTES = 2**16
_CHUNK = 2**26  # bytes of input that travel to the device at once
_PAYS = 2**18  # bytes of input from which on a call costs little beside the fits it makes
_ACCELERATOR_LANES = 512
# Features up to which every feature has a slot, and starts are found in the same program as fits.
_TOGETHER = 16


def fit_batch(
    X: ArrayLike,
    y: ArrayLike,
    *,
    intercept: bool = False,
    unmasked: ArrayLike | None = None,
    sample_weights: ArrayLike | None = None,
    standardize: bool = False,
    solver: Solver | None = None,
    noise_precision: ArrayLike | None = None,
    initial_weights: ArrayLike | None = None,
    initial_inclusion: ArrayLike | None = None,
    starts: ArrayLike | None = None,
    moves: int | None = None,
    criterion: str = "learned",
    prune_threshold: ArrayLike | None = None,
    tolerance: ArrayLike = 1e-3,
    max_steps: int = 20_000,
    uncertainty: bool = False,
    width: int | None = None,
    mesh: Mesh | None = None,
) -> Result:
    """Fit many datasets of one shape, each as `fit` would fit it.

    Datasets end on their own and no lane waits for another, which makes this several times
    faster than `jax.vmap(fit)`. A dataset with NaN or infinite entries is not refused: it gets
    the status `NON_FINITE` and leaves the others as they are. Not for use inside `jit`.

    Args:
        X: (b, n, k) features of each dataset, or (n, k) shared by all. NumPy arrays stay on the
            host and travel in chunks, so they may be larger than the device's memory. Or a list
            of (n_i, k), datasets of different length, with y and `sample_weights` lists as well:
            they are filled up with rows that do not count to a few lengths, each a compilation.
        y: (b, n) targets; (n,) for all datasets if these differ by `sample_weights` of (b, n).
        intercept: As for `fit`.
        unmasked: As for `fit`, the same for all datasets.
        sample_weights: As for `fit`, (b, n), or (n,) for all datasets. Rows of weight zero make
            datasets of different length one batch.
        standardize: As for `fit`.
        solver: As for `fit`.
        noise_precision: As for `fit`, the same for all datasets.
        initial_weights: As for `fit`, the same for all datasets.
        initial_inclusion: As for `fit`, the same for all datasets.
        starts: As for `fit`, the same for all datasets.
        moves: As for `fit`.
        criterion: As for `fit`.
        prune_threshold: As for `fit`.
        tolerance: As for `fit`.
        max_steps: As for `fit`.
        uncertainty: As for `fit`, but off by default: k x k numbers a dataset.
        width: Lanes side by side. Default: on a CPU 1, or more where a dataset is tiny; 512
            elsewhere.
        mesh: Devices to spread the datasets over, whatever its axes. With several processes each
            makes the same call with the same arguments, and has the whole result. Default: one
            device, on a CPU all of its cores.

    Returns:
        The fits, with a leading axis of b. `lane_steps` says what they cost.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a shape does not fit or an option is out of range.
    """
    asked = {
        "intercept": intercept,
        "unmasked": unmasked,
        "standardize": standardize,
        "solver": solver,
        "noise_precision": noise_precision,
        "initial_weights": initial_weights,
        "initial_inclusion": initial_inclusion,
        "starts": starts,
        "moves": moves,
        "criterion": criterion,
        "prune_threshold": prune_threshold,
        "tolerance": tolerance,
        "max_steps": max_steps,
    }
    fit_them = partial(_of_one_length, asked=asked, uncertainty=uncertainty, width=width, mesh=mesh)
    if not is_ragged(X):
        return fit_them(X, y, sample_weights)
    groups = by_rung(X, y, sample_weights)
    parts = [fit_them(group.X, group.y, group.sample_weights) for group in groups]
    spent = [part.lane_steps for part in parts if part.lane_steps is not None]
    order = np.argsort(np.concatenate([group.numbers for group in groups]))
    result = jax.tree.map(
        lambda *leaves: jnp.concatenate(leaves)[order],
        *(part._replace(lane_steps=None) for part in parts),
    )
    return result._replace(lane_steps=LaneSteps(*map(sum, zip(*spent, strict=True))))


def _of_one_length(
    X: Any,
    y: Any,
    sample_weights: Any,
    *,
    asked: dict[str, Any],
    uncertainty: Any,
    width: Any,
    mesh: Any,
) -> Result:
    """The fits of datasets of one length."""
    features, targets, counts, dtype = validate.batch(X, y, sample_weights)
    b, n = targets.shape
    k = features.shape[-1]
    given = checked(k, dtype, **asked)
    options, solver, plan, frame = given
    over = sharding.checked(mesh)
    devices = 1 if over is None else over.size
    on_cpu = (jax.devices() if over is None else over.devices.ravel())[0].platform == "cpu"
    workers = cores() if on_cpu and over is None else 1
    # One chunk at a time is dealt out to all devices of a mesh, so each needs one of its own.
    cut = _cut(-(-b // devices), n * k * dtype.itemsize, workers, on_cpu, width, plan)
    if on_cpu and cut.width > 1 and _lanes_that_pay(n * k * dtype.itemsize) < 2:
        # XLA splits batched products of this size between its own threads, and two host threads
        # that both wait for these wait for ever (jaxlib 0.10).
        workers = 1
        if over is not None:
            cut = cut._replace(width=1)
    deal = sharding.Deal(cut.size, devices)
    shared = features.ndim == 2
    if shared:
        features = jnp.asarray(features, dtype)
    room = room_of(n, k, given)
    settings = _Settings(
        solver,
        plan,
        frame,
        room,
        validate.flag("uncertainty", uncertainty),
        cut.width,
    )
    # Where few of many features are kept, the starts are found first, to see how many are.
    apart = over is None and plan.dense == 0 and room.fit > _TOGETHER
    inherited = Settings.here()

    def chunk(begin: int) -> tuple[Any, int]:
        with inherited.in_this_thread():
            return fit_chunk(begin)

    def fit_chunk(begin: int) -> tuple[Any, int]:
        count = min(deal.size, b - begin)
        rows = begin + deal.datasets(count)

        def own(values: Any) -> Any:
            return None if values is None else _taken(values, rows, dtype)

        X = features if shared else own(features)
        data = X, own(targets), own(counts)
        if over is None:
            chunk = *data, jnp.asarray(count, jnp.int32), options
            places, used = _starts_apart(chunk, settings) if apart else (None, settings)
            result, steps = PROGRAMS.call(_work_off, *chunk, places, static={"settings": used})
        else:
            result, steps = _work_off_spread(data, deal.counts(count), options, over, settings)
        at = deal.places(count)
        result, steps = sharding.to_host((result, steps))
        return jax.tree.map(lambda leaf: leaf[at], result), int(np.sum(steps))

    begins = range(0, b, deal.size)
    with ThreadPoolExecutor(workers) as pool:
        parts = list(pool.map(chunk, begins))
    result = jax.tree.map(
        lambda *leaves: jnp.asarray(np.concatenate(leaves)), *(p[0] for p in parts)
    )
    useful = int(np.sum(np.asarray(result.num_steps), dtype=np.int64))
    total = sum(steps for _, steps in parts) * solver.iterations
    return result._replace(lane_steps=LaneSteps(useful, total))


class _Settings(NamedTuple):
    """The static arguments of a chunk."""

    solver: Solver
    plan: Plan
    frame: Frame
    room: Room
    with_uncertainty: bool
    width: int


def _starts_apart(chunk: Any, settings: _Settings) -> tuple[Point, _Settings]:
    """Where the fits of a chunk start, and settings with as few slots as they need."""
    room = settings.room
    most = room.search
    if not room.tall:
        room = room._replace(search=ladder.slots(32, most))
    while True:
        static = {"settings": settings._replace(room=room)}
        places, full, sizes = PROGRAMS.call(_find_starts, *chunk, static=static)
        if room.tall or room.search == most or not np.any(full):
            break
        room = room._replace(search=ladder.slots(4 * room.search, most))
    needed = int(np.max(sizes)) + settings.plan.moves + 1
    room = room._replace(fit=ladder.slots(needed, room.fit if room.tall else most))
    return places, settings._replace(room=room)


class _Cut(NamedTuple):
    """How a batch is cut up: datasets a chunk, and lanes side by side in it."""

    size: int
    width: int


def _lanes_that_pay(dataset_bytes: int) -> int:
    """How many lanes side by side pay on a CPU; each works on X, the masks and their product."""
    return _LANES_BYTES // (3 * dataset_bytes)


def _cut(
    b: int, dataset_bytes: int, workers: int, on_cpu: bool, width: int | None, plan: Plan
) -> _Cut:
    """Chunks of a power of two, so that few shapes are ever compiled."""
    if width is not None:
        width = validate.count("width", width, low=1)
    elif on_cpu and plan.fits > 1:
        width = 1  # lanes that begin one fit after another wait for each other
    elif on_cpu:
        width = min(max(_lanes_that_pay(dataset_bytes), 1), 32)
    else:
        width = _ACCELERATOR_LANES
    # A pool of lanes wastes steps only at its end, so it gets one long chunk a worker. Datasets one
    # by one get chunks as short as pays, so that no worker waits long for another's last.
    fair = -(-b // workers)
    size = 1 << (max(fair, 1) - 1).bit_length()
    if width == 1 and workers > 1:
        size = min(size, 1 << max(_PAYS // dataset_bytes, 1).bit_length() - 1)
    size = min(size, max(_CHUNK // dataset_bytes, 1))
    size = max(size, min(width, b))
    return _Cut(size, min(width, size))


def _taken(values: Any, rows: np.ndarray, dtype: Any) -> Any:
    """Some rows, in the type they are fitted in, where they lie."""
    if isinstance(values, jax.Array):
        return values[rows].astype(dtype)
    with np.errstate(over="ignore"):
        return values[rows].astype(dtype, copy=False)


class _Work(NamedTuple):
    """What a lane works on and how far it is.

    Attributes:
        problem: Its problem; X is None where all share one.
        units: The way back to the user's units.
        points: Where its fits start.
        climb: Its fits so far.
        lane: The fit on its way.
    """

    problem: Problem
    units: Units
    points: Point
    climb: Climb
    lane: loop.Lane


def _entered(
    X: Float[Array, "*b n k"],
    y: Float[Array, "b n"],
    sample_weights: Float[Array, "b n"] | None,
    options: one_fit.Options,
    frame: Frame,
    i: Int[Array, ""],
) -> tuple[Problem, one_fit.Options, Units]:
    """Dataset i of a chunk in the units of the fit."""
    counts = None if sample_weights is None else sample_weights[i]
    return enter(frame, options, X if X.ndim == 2 else X[i], y[i], counts)


@full_precision
def _find_starts(
    X: Float[Array, "*b n k"],
    y: Float[Array, "b n"],
    sample_weights: Float[Array, "b n"] | None,
    count: Int[Array, ""],
    options: one_fit.Options,
    *,
    settings: _Settings,
) -> tuple[Point, Bool[Array, " b"], Int[Array, " b"]]:
    """Where the fits of a chunk start, which ran out of room, and how many features they need."""

    def one(i: Int[Array, ""]) -> tuple[Point, Array, Array]:
        problem, own_options, _ = _entered(X, y, sample_weights, options, settings.frame, i)
        there, full = points(problem, own_options, settings.plan, settings.room)
        needed = jnp.any(there.inclusion > 0, axis=0) | ~problem.maskable
        return there, full, jnp.sum(needed, dtype=jnp.int32)

    return loop.one_by_one(one, len(y), count)


@full_precision
def _work_off(
    X: Float[Array, "*b n k"],
    y: Float[Array, "b n"],
    sample_weights: Float[Array, "b n"] | None,
    count: Int[Array, ""],
    options: one_fit.Options,
    places: Point | None,
    *,
    settings: _Settings,
) -> tuple[Result, Int[Array, ""]]:
    """The fits of one chunk, of which the first `count` datasets are real, and lane-steps made.

    `places` is where they start, if that has been found already.
    """
    solver, plan, frame, room, with_uncertainty, width = settings
    size, slots = len(y), room.fit

    def entered(i: Int[Array, ""]) -> tuple[Problem, one_fit.Options, Units]:
        return _entered(X, y, sample_weights, options, frame, i)

    def starts_of(i: Int[Array, ""], problem: Problem, own_options: one_fit.Options) -> Point:
        if places is None:
            return points(problem, own_options, plan, room)[0]
        return jax.tree.map(lambda leaf: leaf[i], places)

    def finished(problem: Problem, units: Units, end: End, record: Starts) -> Result:
        certain = None
        if with_uncertainty:
            certain = uncertainty_at(problem, end.outcome.state, end.features)
        return leave(frame, units, report(end, record, certain))

    if width == 1:
        # One after another: no lane to keep full, and no batched products.
        def one(i: Int[Array, ""]) -> Result:
            problem, own_options, units = entered(i)
            fitter = InMemory(problem, own_options, solver)
            end, record = best_fit(fitter, plan, starts_of(i, problem, own_options), slots)
            return finished(problem, units, end, record)

        result = loop.one_by_one(one, size, count)
        return result, jnp.sum(result.num_steps, dtype=jnp.int32) // solver.iterations

    shared = X.T if X.ndim == 2 and frame.plain and sample_weights is None else None

    def whole(problem: Problem) -> Problem:
        return problem if shared is None else problem._replace(X=shared)

    # All starts beforehand, so that a refill only has to pick them up: on a CPU one at a time, with
    # products too small for XLA to split between threads; see `fit_batch`.
    together = None if jax.default_backend() == "cpu" else min(width, size)
    all_starts = jax.lax.map(
        lambda i: starts_of(i, *entered(i)[:2]), jnp.arange(size), batch_size=together
    )

    def lane_of(problem: Problem, climb: Climb) -> loop.Lane:
        part = gathered(problem, climb.features)
        used = jnp.sum(climb.starts.num_steps, dtype=jnp.int32)
        return one_fit.start(part, options, solver, climb.state, used)

    def ended(problem: Problem, climb: Climb, lane: loop.Lane) -> End:
        part = gathered(problem, climb.features)
        return End(one_fit.outcome(part, solver, lane), climb.features)

    def start(index: Int[Array, " w"]) -> _Work:
        def begin_one(i: Int[Array, ""]) -> _Work:
            problem, _, units = entered(i)
            there = jax.tree.map(lambda leaf: leaf[i], all_starts)
            climb = begin(InMemory(problem, options, solver), plan, there, slots)
            lane = lane_of(problem, climb)
            climb = climb._replace(best=ended(problem, climb, lane))
            kept = problem if shared is None else problem._replace(X=None)
            return _Work(kept, units, there, climb, lane)

        return jax.vmap(begin_one)(index)

    def step(work: _Work) -> _Work:
        part = gathered(whole(work.problem), work.climb.features)
        return work._replace(lane=one_fit.advance(part, options, solver, work.lane))

    def after_fit(work: _Work) -> _Work:
        problem, climb = whole(work.problem), work.climb
        rule = criterion(plan.criterion, problem, slots)
        end = ended(problem, climb, work.lane)
        fitter = InMemory(problem, options, solver)
        after = next_fit(fitter, rule, plan, work.points, climb, end)
        moved = work._replace(climb=after, lane=lane_of(problem, after))
        return select(~work.lane.running & ~climb.done, moved, work)

    def advance(work: _Work) -> _Work:
        return begin_next(jax.vmap(step)(work))

    def begin_next(work: _Work) -> _Work:
        """Whatever has ended begins its next fit, also where that ends before any step."""
        return jax.lax.while_loop(
            lambda work: jnp.any(~work.lane.running & ~work.climb.done),
            jax.vmap(after_fit),
            work,
        )

    def outcome(work: _Work) -> Result:
        return finished(whole(work.problem), work.units, work.climb.best, work.climb.starts)

    return loop.run_pool(
        lambda index: begin_next(start(index)),
        advance,
        lambda work: ~work.climb.done,
        jax.vmap(outcome),
        size,
        count,
        width,
    )


def _work_off_spread(
    data: tuple[Any, Any, Any],
    counts: np.ndarray,
    options: one_fit.Options,
    mesh: Mesh,
    settings: _Settings,
) -> tuple[Result, Array]:
    """The fits of a chunk dealt out to the devices of a mesh, and the lane-steps each has made."""
    X, y, sample_weights = data
    own, shared = ((y, sample_weights), X) if X.ndim == 2 else ((y, sample_weights, X), None)
    return _spread(mesh, settings)(
        jax.tree.map(lambda rows: sharding.split(mesh, rows), own),
        sharding.everywhere(mesh, (shared, options)),
        sharding.split(mesh, counts),
    )


@cache
def _spread(mesh: Mesh, settings: _Settings) -> Any:
    """`_work_off` on every device of a mesh, compiled."""

    def local(own: Any, everywhere: Any, count: Int[Array, ""]) -> tuple[Result, Array]:
        X, options = everywhere
        y, sample_weights, *rest = own
        features = rest[0] if rest else X
        result, steps = _work_off(
            features, y, sample_weights, count, options, None, settings=settings
        )
        return result, steps[None]

    return jax.jit(sharding.spread(local, mesh))
