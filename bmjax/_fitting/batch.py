"""`fit_batch`: many datasets, each ending independently of the others.

On a CPU, datasets run one after another, or a few side by side where they are tiny, and chunks of
them go to all cores from host threads, because inside a compiled loop XLA runs on one. On an
accelerator one wide pool of lanes is kept full. With a mesh every device fits its own share of a
chunk. Either way memory is bounded by a chunk, however many datasets there are, and the inputs may
be larger than the device's memory.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import ArrayLike
from jaxtyping import Array

from bmjax._checks import inputs, validate
from bmjax._fitting.batch_units import near_zero, put_back, taken
from bmjax._fitting.checking import checked
from bmjax._fitting.dataset import (
    Outputs,
    Settings,
    room_of,
    settings_of,
    slots_to_move,
    told,
    with_room,
)
from bmjax._fitting.lanes import Chunk, find_starts, work_off, work_off_spread
from bmjax._fitting.options import FitOptions, takes_options
from bmjax._fitting.ragged import groups as by_rung
from bmjax._fitting.ragged import is_ragged
from bmjax._model.options import Plan
from bmjax._results.names import by_number, names_of
from bmjax._results.parts import LaneSteps
from bmjax._results.result import Result, named
from bmjax._runtime import ladder, sharding, threads
from bmjax._runtime.debugging import unwatched
from bmjax._runtime.programs import PROGRAMS
from bmjax._runtime.threads import cores, one_blas_thread
from bmjax._selection.starts import Point, Room

# Lanes side by side share the overhead of a kernel, which dominates below some 20 kB a dataset;
# above that one dataset after another is faster, in cache and without batched products (measured).
_LANES_BYTES = 2**16
_CHUNK = 2**26  # most bytes of input that are sent to the device at once
# Bytes of input above which the overhead of a call is small beside its fits, and negligible.
_PAYS, _NEGLIGIBLE = 2**18, 2**21
_SHARE = 8  # chunks that make up the share of a worker, if they are not too short to pay
_ACCELERATOR_LANES = 512
# Up to this many features each has a slot, and starts are found in the same program as the fits.
_TOGETHER = 16


@takes_options()
@unwatched
def fit_batch(
    X: ArrayLike,
    y: ArrayLike,
    *,
    sample_weights: ArrayLike | None = None,
    uncertainty: bool = False,
    width: int | None = None,
    mesh: Mesh | None = None,
    **options: Unpack[FitOptions],
) -> Result:
    """Fit many datasets of one shape, each as `fit` would fit it.

    Datasets end independently and no lane waits for another, which makes this several times faster
    than `jax.vmap(fit)`. A dataset with NaN or infinite entries is not refused: it gets the status
    `NON_FINITE` and does not affect the others. Cannot be used inside `jit`.

    Args:
        X: (b, n, k) features of each dataset, or (n, k) shared by all. NumPy arrays stay on the
            host and are sent in chunks, so they may be larger than the device's memory. Or a list
            of (n_i, k) datasets of different lengths, with y and `sample_weights` as lists too:
            they are padded with rows of weight zero to a few lengths, each a compilation. Of
            frames, the column names of the first stay with the result.
        y: (b, n) targets; or (n,) shared by all datasets if `sample_weights` is (b, n).
        sample_weights: As for `fit`, (b, n), or (n,) for all datasets. With rows of weight zero,
            datasets of different lengths can form one batch.
        options: Options are given by name, and are the same for all datasets.
        uncertainty: As for `fit`, but off by default, since it takes k x k numbers a dataset.
        width: Number of lanes side by side. Default: on a CPU 1, or more if a dataset is tiny; 512
            elsewhere.
        mesh: Devices to spread the datasets over, of any axes. With several processes each makes
            the same call with the same arguments, and has the whole result. Default: one device,
            with all cores if it is a CPU.

    Returns:
        The fits, with a leading axis of b. `lane_steps` counts the steps that they cost.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a shape does not fit or an option is out of range.

    Example:
        >>> import numpy as np
        >>> import bmjax
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5, 40, 3))  # five datasets of forty rows
        >>> y = 2 * X[:, :, 0] + 0.3 * rng.normal(size=(5, 40))
        >>> batch = bmjax.fit_batch(X, y)
        >>> batch
        <bmjax.Result: 5 fits of 3 features, 5 CONVERGED>
        >>> int(batch.support[:, 0].sum()), bool(batch[0].converged)
        (5, True)
    """
    names = names_of(X)
    options = by_number(options, names)
    fit_them = partial(
        _of_one_length, options=options, uncertainty=uncertainty, width=width, mesh=mesh
    )
    if not is_ragged(X):
        return named(fit_them((X, y, sample_weights)), names)
    groups = by_rung(X, y, sample_weights)
    parts = [fit_them((group.X, group.y, group.sample_weights)) for group in groups]
    spent = [part.lane_steps for part in parts if part.lane_steps is not None]
    order = np.argsort(np.concatenate([group.numbers for group in groups]))
    result = jax.tree.map(
        lambda *leaves: jnp.concatenate(leaves)[order],
        *parts,
    )
    spent = LaneSteps(*map(sum, zip(*spent, strict=True)))
    return named(result, names)._replace(lane_steps=spent)


def _of_one_length(
    data: tuple[Any, Any, Any], *, options: FitOptions, uncertainty: Any, width: Any, mesh: Any
) -> Result:
    """The fits of datasets of one length, given as X, y and sample weights."""
    if not all(map(validate.known, jax.tree.leaves(data))):
        raise TypeError(
            "fit_batch cuts its datasets into chunks on the host, so it does not run inside "
            "jax.jit, jax.vmap or jax.grad. Call it outside, or use jax.vmap(bmjax.fit) there."
        )
    features, targets, counts, dtype = inputs.batch(*data)
    b, n = targets.shape
    k = features.shape[-1]
    given = checked(k, dtype, options)
    over = sharding.checked(mesh)
    devices = 1 if over is None else over.size
    on_cpu = (jax.devices() if over is None else over.devices.ravel())[0].platform == "cpu"
    workers = cores() if on_cpu and over is None else 1
    # One chunk at a time is dealt out to all devices of a mesh, so each needs a share of its own.
    cut = _cut(-(-b // devices), n * k * dtype.itemsize, workers, on_cpu, width, given.plan)
    if on_cpu and cut.width > 1 and _lanes_that_pay(n * k * dtype.itemsize) < 2:
        # XLA splits batched products of this size between its own threads, and two host threads
        # that both wait for these wait forever (jaxlib 0.10).
        workers = 1
        if over is not None:
            cut = cut._replace(width=1)
    deal = sharding.Deal(cut.size, devices)
    shared = features.ndim == 2
    # Only with an intercept does a fit not depend on where a column has its zero.
    movable = given.frame.intercept
    y_movable = movable and given.options.has_units
    if inputs.at_hand(targets):
        inputs.outcomes(given.options.family, targets, counts, batch=True)
    off_all = None
    if shared:
        features, off_all = near_zero(features, dtype, movable=movable)
        features = jnp.asarray(features, dtype)
    outputs = Outputs(validate.flag("uncertainty", uncertainty))
    settings = settings_of(given, room_of(n, k, given), outputs)
    # With many features the starts are found first, to see how many slots the fits need.
    apart = over is None and given.plan.dense == 0 and settings.room.fit > _TOGETHER
    inherited = threads.Settings.here()

    def work(begin: int) -> tuple[Any, int]:
        with inherited.in_this_thread():
            return fit_chunk(begin)

    def fit_chunk(begin: int) -> tuple[Any, int]:
        count = min(deal.size, b - begin)
        rows = begin + deal.datasets(count)

        def own(values: Any) -> Any:
            return None if values is None else taken(values, rows, dtype)

        number, weights = jnp.asarray(count, jnp.int32), own(counts)
        X, off_X = features, off_all
        if not shared:
            X, off_X = near_zero(features, dtype, rows, counts, movable=movable)
        y, off_y = near_zero(targets, dtype, rows, counts, movable=y_movable)
        chunk = Chunk(X, y, weights, number, given.options)
        if over is None:
            places, used = _starts_apart(chunk, settings) if apart else (None, settings)
            static = {"settings": used, "width": cut.width}
            result, steps = PROGRAMS.call(work_off, chunk, places, static=static)
        else:
            result, steps = work_off_spread(
                chunk, deal.counts(count), over, settings=settings, width=cut.width
            )
        at = deal.places(count)
        result, steps = sharding.to_host((result, steps))
        result = jax.tree.map(lambda leaf: leaf[at], result)
        off_X = off_X if shared or off_X is None else off_X[at]
        result = put_back(result, off_X, None if off_y is None else off_y[at])
        return result, int(np.sum(steps))

    begins = range(0, b, deal.size)
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        parts = list(pool.map(work, begins))
    result = jax.tree.map(
        lambda *leaves: jnp.asarray(np.concatenate(leaves)), *(p[0] for p in parts)
    )
    useful = int(np.sum(np.asarray(result.num_steps), dtype=np.int64))
    total = sum(steps for _, steps in parts) * given.solver.iterations
    return told(result._replace(lane_steps=LaneSteps(useful, total)), None, given)


def _starts_apart(chunk: Chunk, settings: Settings) -> tuple[Point, Settings]:
    """The starts of the fits of a chunk, and the settings with as few slots as those need."""
    room = settings.room
    most = room.search

    def find(room: Room) -> tuple[tuple[Point, Array], Array]:
        static = {"settings": settings._replace(room=room)}
        places, full, sizes = PROGRAMS.call(find_starts, chunk, static=static)
        return (places, sizes), full

    if room.in_stages:
        room = room._replace(search=ladder.slots(32, most))
    (places, sizes), room = with_room(find, room, most)
    needed = int(np.max(sizes)) + slots_to_move(chunk.options, settings.plan)
    room = room._replace(fit=ladder.slots(needed, room.fit))
    return places, settings._replace(room=room)


def _power_of_two(size: int) -> int:
    """The largest power of two that is not above a size."""
    return 1 << max(size, 1).bit_length() - 1


class _Cut(NamedTuple):
    """The division of a batch: the number of datasets a chunk, and of lanes side by side in it."""

    size: int
    width: int


def _lanes_that_pay(dataset_bytes: int) -> int:
    """The number of lanes that pay on a CPU; each works on X, the mask means and their product."""
    return _LANES_BYTES // (3 * dataset_bytes)


def _cut(
    b: int, dataset_bytes: int, workers: int, on_cpu: bool, width: int | None, plan: Plan
) -> _Cut:
    """The cut of a batch; a chunk is a power of two, so that few shapes are ever compiled."""
    if width is not None:
        width = validate.count("width", width, low=1)
    elif on_cpu and plan.fits > 1:
        width = 1  # lanes that begin one fit after another wait for each other
    elif on_cpu:
        width = min(max(_lanes_that_pay(dataset_bytes), 1), 32)
    else:
        width = _ACCELERATOR_LANES
    # A pool of lanes wastes steps only at its end, so each worker gets one long chunk. Datasets one
    # by one get chunks as short as pays, so that no worker waits long for another's last chunk.
    fair = -(-b // workers)
    size = 1 << (max(fair, 1) - 1).bit_length()
    if width == 1 and workers > 1:
        at_least, at_most = _PAYS // dataset_bytes, _NEGLIGIBLE // dataset_bytes
        size = min(size, _power_of_two(max(at_least, min(at_most, fair // _SHARE))))
    size = min(size, max(_CHUNK // dataset_bytes, 1))
    size = max(size, min(width, b))
    return _Cut(size, min(width, size))
