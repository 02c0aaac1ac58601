"""`fit_batch`: many datasets, each ending on its own.

On a CPU, datasets run one after another, or a few side by side where they are tiny, and chunks of
them go to all cores from host threads, because inside a compiled loop XLA runs on one. On an
accelerator one wide pool of lanes is kept full. Either way memory is bounded by a chunk, whatever
the number of datasets, and the inputs may be larger than the device.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from bmjax import _lane, _loop, _validate
from bmjax._fit import run
from bmjax._frame import Frame, Units, enter, leave
from bmjax._initial import Point
from bmjax._optimum import Climb, Plan, begin, next_fit, points, report
from bmjax._options import checked
from bmjax._result import LaneSteps, Result
from bmjax._solvers import Solver
from bmjax._types import Problem, select
from bmjax._uncertainty import uncertainty as uncertainty_at

# Lanes side by side share the overhead of a kernel, which rules below some 20 kB a dataset; above
# it one dataset after another is faster, in cache and without batched products (measured).
_LANES_BYTES = 2**16
_CHUNK = 2**26  # bytes of input that travel to the device at once
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
) -> Result:
    """Fit many datasets of one shape, each as `fit` would fit it.

    Datasets end on their own and no lane waits for another, which makes this several times
    faster than `jax.vmap(fit)`. A dataset with NaN or infinite entries is not refused: it gets
    the status `NON_FINITE` and leaves the others as they are. Not for use inside `jit`.

    Args:
        X: (b, n, k) features of each dataset, or (n, k) shared by all. NumPy arrays stay on the
            host and travel in chunks, so they may be larger than the device's memory.
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

    Returns:
        The fits, with a leading axis of b. `lane_steps` says what they cost.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a shape does not fit or an option is out of range.
    """
    features, targets, counts, dtype = _validate.batch(X, y, sample_weights)
    b, n = targets.shape
    k = features.shape[-1]
    options, solver, plan, frame = checked(
        k,
        dtype,
        intercept=intercept,
        unmasked=unmasked,
        standardize=standardize,
        solver=solver,
        noise_precision=noise_precision,
        initial_weights=initial_weights,
        initial_inclusion=initial_inclusion,
        starts=starts,
        moves=moves,
        criterion=criterion,
        prune_threshold=prune_threshold,
        tolerance=tolerance,
        max_steps=max_steps,
    )
    on_cpu = jax.default_backend() == "cpu"
    workers = len(os.sched_getaffinity(0)) if on_cpu else 1
    cut = _cut(b, n * k * dtype.itemsize, workers, on_cpu, width, plan)
    if cut.width > 1 and _lanes_that_pay(n * k * dtype.itemsize) < 2:
        # XLA splits batched products of this size between its own threads, and two host threads
        # that both wait for these wait for ever (jaxlib 0.10).
        workers = 1
    shared = features.ndim == 2
    if shared:
        features = jnp.asarray(features, dtype)
    work_off = partial(
        _work_off,
        options=options,
        solver=solver,
        plan=plan,
        frame=frame,
        with_uncertainty=_validate.flag("uncertainty", uncertainty),
        width=cut.width,
    )

    inherited = _Settings.here()

    def chunk(begin: int) -> tuple[Any, int]:
        with inherited.in_this_thread():
            return fit_chunk(begin)

    def fit_chunk(begin: int) -> tuple[Any, int]:
        rows = slice(begin, min(begin + cut.size, b))
        X = features if shared else _padded(features[rows], cut.size, dtype)
        count = jnp.asarray(rows.stop - rows.start, jnp.int32)
        own = None if counts is None else _padded(counts[rows], cut.size, dtype)
        result, steps = work_off(X, _padded(targets[rows], cut.size, dtype), own, count)
        return jax.tree.map(lambda leaf: np.asarray(leaf)[: rows.stop - rows.start], result), int(
            steps
        )

    begins = range(0, b, cut.size)
    with ThreadPoolExecutor(workers) as pool:
        parts = list(pool.map(chunk, begins))
    result = jax.tree.map(
        lambda *leaves: jnp.asarray(np.concatenate(leaves)), *(p[0] for p in parts)
    )
    useful = int(np.sum(np.asarray(result.num_steps), dtype=np.int64))
    total = sum(steps for _, steps in parts) * solver.iterations
    return result._replace(lane_steps=LaneSteps(useful, total))


class _Settings(NamedTuple):
    """What the caller has set for its own thread alone, as by `with jax.enable_x64(True):`."""

    x64: bool
    device: Any
    precision: str | None

    @classmethod
    def here(cls) -> "_Settings":
        """Those of this thread."""
        return cls(
            jax.config.jax_enable_x64,  # pyright: ignore[reportAttributeAccessIssue]
            jax.config.jax_default_device,  # pyright: ignore[reportAttributeAccessIssue]
            jax.config.jax_default_matmul_precision,  # pyright: ignore[reportAttributeAccessIssue]
        )

    @contextmanager
    def in_this_thread(self) -> Iterator[None]:
        """The same in another thread."""
        with (
            jax.enable_x64(self.x64),
            jax.default_device(self.device),
            jax.default_matmul_precision(self.precision),
        ):
            yield


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
    # A pool of lanes wastes steps only at its end, so it gets one long chunk a worker; single
    # datasets get two, so that a worker that is done early can help.
    fair = -(-b // (workers if width > 1 else 2 * workers))
    size = 1 << (max(fair, 1) - 1).bit_length()
    size = min(size, max(_CHUNK // dataset_bytes, 1))
    size = max(size, min(width, b))
    return _Cut(size, min(width, size))


def _padded(rows: Any, size: int, dtype: Any) -> Array:
    """Rows on the device, filled up to `size` with the first one (never worked off)."""
    missing = size - len(rows)
    if missing and isinstance(rows, jax.Array):
        rows = jnp.concatenate([rows, jnp.broadcast_to(rows[:1], (missing, *rows.shape[1:]))])
    elif missing:
        rows = np.concatenate([rows, np.broadcast_to(rows[:1], (missing, *rows.shape[1:]))])
    if not isinstance(rows, jax.Array):
        with np.errstate(over="ignore"):
            rows = rows.astype(dtype)
    return jnp.asarray(rows, dtype)


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
        return leave(frame, work.units, report(work.climb, certain))

    return _loop.run_pool(
        lambda index: begin_next(start(index)),
        advance,
        lambda work: ~work.climb.done,
        jax.vmap(outcome),
        size,
        count,
        width,
    )
