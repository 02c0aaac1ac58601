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
from jaxtyping import Array, Float, Int

from bmjax import _devices, _lane, _loop, _validate
from bmjax._fit import run
from bmjax._frame import Frame, Units, enter, leave
from bmjax._initial import Point
from bmjax._optimum import Climb, Plan, begin, next_fit, points, report
from bmjax._options import checked
from bmjax._precision import full_precision
from bmjax._ragged import groups as by_rung
from bmjax._ragged import is_ragged
from bmjax._result import LaneSteps, Result
from bmjax._solvers import Solver
from bmjax._threads import Settings, cores
from bmjax._types import Problem, select
from bmjax._uncertainty import uncertainty as uncertainty_at

# Lanes side by side share the overhead of a kernel, which rules below some 20 kB a dataset; above
# it one dataset after another is faster, in cache and without batched products (measured).
_LANES_BYTES = 2**16
_CHUNK = 2**26  # bytes of input that travel to the device at once
_PAYS = 2**18  # bytes of input from which on a call costs little beside the fits it makes
_ACCELERATOR_LANES = 512


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
    features, targets, counts, dtype = _validate.batch(X, y, sample_weights)
    b, n = targets.shape
    k = features.shape[-1]
    options, solver, plan, frame = checked(k, dtype, **asked)
    over = _devices.checked(mesh)
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
    deal = _devices.Deal(cut.size, devices)
    shared = features.ndim == 2
    if shared:
        features = jnp.asarray(features, dtype)
    settings = {
        "solver": solver,
        "plan": plan,
        "frame": frame,
        "with_uncertainty": _validate.flag("uncertainty", uncertainty),
        "width": cut.width,
    }
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
            result, steps = _work_off(*data, jnp.asarray(count, jnp.int32), options, **settings)
        else:
            result, steps = _work_off_spread(data, deal.counts(count), options, over, settings)
        at = deal.places(count)
        result, steps = _devices.to_host((result, steps))
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
        width = _validate.count("width", width, low=1)
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
        climb: Its fits so far.
    """

    problem: Problem
    units: Units
    climb: Climb


@partial(jax.jit, static_argnames=("solver", "plan", "frame", "with_uncertainty", "width"))
@full_precision
def _work_off(
    X: Float[Array, "*b n k"],
    y: Float[Array, "b n"],
    sample_weights: Float[Array, "b n"] | None,
    count: Int[Array, ""],
    options: _lane.Options,
    solver: Solver,
    plan: Plan,
    frame: Frame,
    with_uncertainty: bool,
    width: int,
) -> tuple[Result, Int[Array, ""]]:
    """The fits of one chunk, of which the first `count` datasets are real, and lane-steps made."""
    size = len(y)

    def dataset(i: Int[Array, ""]) -> tuple[Array, Array, Array | None]:
        return (
            X if X.ndim == 2 else X[i],
            y[i],
            None if sample_weights is None else sample_weights[i],
        )

    if width == 1:
        # One after another: no lane to keep full, and no batched products.
        def one(i):
            return run(
                *dataset(i),
                options,
                solver=solver,
                plan=plan,
                frame=frame,
                with_uncertainty=with_uncertainty,
            )

        result = _loop.one_by_one(one, size, count)
        return result, jnp.sum(result.num_steps, dtype=jnp.int32) // solver.iterations

    shared = X.T if X.ndim == 2 and frame.plain and sample_weights is None else None

    def entered(i: Int[Array, ""]) -> tuple[Problem, _lane.Options, Units]:
        return enter(frame, options, *dataset(i))

    def whole(problem: Problem) -> Problem:
        return problem if shared is None else problem._replace(X=shared)

    def starting_points(i: Int[Array, ""]) -> Point:
        problem, own_options, _ = entered(i)
        return points(problem, own_options, plan)

    # All starts beforehand, so that a refill only has to pick them up: on a CPU one at a time, with
    # products too small for XLA to split between threads; see `fit_batch`.
    together = None if jax.default_backend() == "cpu" else min(width, size)
    places = jax.lax.map(starting_points, jnp.arange(size), batch_size=together)

    def start(index: Int[Array, " w"]) -> _Work:
        def begin_one(i):
            problem, _, units = entered(i)
            there = jax.tree.map(lambda leaf: leaf[i], places)
            climb = begin(problem, options, solver, plan, there)
            return _Work(problem if shared is None else problem._replace(X=None), units, climb)

        return jax.vmap(begin_one)(index)

    def step(work: _Work) -> _Work:
        lane = _lane.advance(whole(work.problem), options, solver, work.climb.lane)
        return work._replace(climb=work.climb._replace(lane=lane))

    def after_fit(work: _Work) -> _Work:
        climb = next_fit(whole(work.problem), options, solver, plan, work.climb)
        ended = ~work.climb.lane.running & ~work.climb.done
        return work._replace(climb=select(ended, climb, work.climb))

    def advance(work: _Work) -> _Work:
        return begin_next(jax.vmap(step)(work))

    def begin_next(work: _Work) -> _Work:
        """Whatever has ended begins its next fit, also where that ends before any step."""
        return jax.lax.while_loop(
            lambda work: jnp.any(~work.climb.lane.running & ~work.climb.done),
            jax.vmap(after_fit),
            work,
        )

    def outcome(work: _Work) -> Result:
        certain = None
        if with_uncertainty:
            certain = uncertainty_at(whole(work.problem), work.climb.best.state)
        return leave(frame, work.units, report(work.climb.best, work.climb.starts, certain))

    return _loop.run_pool(
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
    options: _lane.Options,
    mesh: Mesh,
    settings: dict[str, Any],
) -> tuple[Result, Array]:
    """The fits of a chunk dealt out to the devices of a mesh, and the lane-steps each has made."""
    X, y, sample_weights = data
    own, shared = ((y, sample_weights), X) if X.ndim == 2 else ((y, sample_weights, X), None)
    return _spread(mesh, tuple(settings.items()))(
        jax.tree.map(lambda rows: _devices.split(mesh, rows), own),
        _devices.everywhere(mesh, (shared, options)),
        _devices.split(mesh, counts),
    )


@cache
def _spread(mesh: Mesh, settings: tuple[tuple[str, Any], ...]) -> Any:
    """`_work_off` on every device of a mesh, compiled."""

    def local(own: Any, everywhere: Any, count: Int[Array, ""]) -> tuple[Result, Array]:
        X, options = everywhere
        y, sample_weights, *rest = own
        result, steps = _work_off(
            rest[0] if rest else X, y, sample_weights, count, options, **dict(settings)
        )
        return result, steps[None]

    return jax.jit(_devices.spread(local, mesh))
