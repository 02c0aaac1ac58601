"""The loops that drive every solver. They know nothing of the mathematics."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Bool, Int

from bmjax._model.status import Status
from bmjax._runtime.backend import Array, select

T = TypeVar("T")


class Lane(NamedTuple):
    """A running fit: the carry of the solver, its steps and their limit, and its status."""

    carry: Any
    num_steps: Int[Array, "*b"]
    status: Int[Array, "*b"]
    most_steps: Int[Array, "*b"]

    @property
    def running(self) -> Bool[Array, "*b"]:
        """Whether the lane has not ended."""
        return self.status == Status.RUNNING


def run(advance: Callable[[Lane], Lane], lane: Lane) -> Lane:
    """Advance a lane until its status says that it has ended.

    Args:
        advance: A function that makes one step; it must end the lane after finitely many.
        lane: The lane to start from.

    Returns:
        The lane at its end.
    """
    return lax.while_loop(lambda lane: lane.running, advance, lane)


def run_recorded(
    advance: Callable[[Lane], Lane], lane: Lane, record: Callable[[Lane], T], length: int
) -> tuple[Lane, T]:
    """Advance a lane to its end and record values after each step.

    Args:
        advance: A function that makes one step.
        lane: The lane to start from.
        record: A function from a lane to the values to record, a pytree of arrays.
        length: Number of rows of the record. Rows of steps that were not run hold NaN, or -1 for
            integers.

    Returns:
        The lane at its end, and the record with a leading axis of `length`.
    """

    def advance_and_record(carry):
        lane, rows = carry
        lane = advance(lane)
        rows = jax.tree.map(
            lambda row, new: row.at[lane.num_steps - 1].set(new, mode="drop"), rows, record(lane)
        )
        return lane, rows

    rows = blank_record(record, lane, length)
    return lax.while_loop(lambda carry: carry[0].running, advance_and_record, (lane, rows))


def blank_record(record: Callable[[Lane], T], lane: Lane, length: int) -> T:
    """A record before the first step, filled with NaN, or -1 for integers."""

    def empty(leaf):
        fill = jnp.nan if jnp.issubdtype(leaf.dtype, jnp.floating) else -1
        return jnp.full((length, *leaf.shape), fill, leaf.dtype)

    return jax.tree.map(empty, jax.eval_shape(record, lane))


def one_by_one(function: Callable[[Int[Array, ""]], T], size: int, count: Int[Array, ""]) -> T:
    """Apply a function to 0, 1, ..., count - 1, one after another.

    The count is traced, so that one compiled loop serves any number of filled rows.

    Args:
        function: A function from a number to a pytree of arrays.
        size: Number of rows of the outcomes; those from `count` on hold zeros.
        count: Number of calls to make.

    Returns:
        The outcomes, stacked.
    """

    def store(i, outcomes):
        return jax.tree.map(lambda rows, new: rows.at[i].set(new), outcomes, function(i))

    blank = jax.tree.map(
        lambda leaf: jnp.zeros((size, *leaf.shape), leaf.dtype), jax.eval_shape(function, 0)
    )
    return lax.fori_loop(0, count, store, blank)


class Pool(NamedTuple):
    """A fixed number of lanes side by side, each refilled when its dataset has ended.

    Attributes:
        work: The work of each lane and its progress, a pytree with the lanes in front.
        dataset: The number of the dataset in each lane; the number of datasets for an idle lane,
            and one more for a lane that has not had any dataset yet.
        next_dataset: The number of the next dataset to start.
        finished: The outcome of each dataset, written as it ends.
        lane_steps: Number of steps made so far, counting every lane, at work or not.
    """

    work: Any
    dataset: Int[Array, " w"]
    next_dataset: Int[Array, ""]
    finished: Any
    lane_steps: Int[Array, ""]


class Job(NamedTuple):
    """The work of a pool of lanes, as functions of the work of all lanes.

    A dataset gets several fits: a lane is paused between two of them, and done after the last.

    Attributes:
        start: Returns the work before its first step, lanes in front, for numbers of datasets.
        step: Makes one step of every lane; harmless for a lane that is done.
        paused: Whether each lane has ended a fit and is not done, so that `proceed` is due.
        proceed: Returns the work with paused lanes at their next fit, or done.
        done: Whether each lane has made all fits of its dataset.
        report: Returns the outcome of every lane.
    """

    start: Callable[[Int[Array, " w"]], Any]
    step: Callable[[Any], Any]
    paused: Callable[[Any], Bool[Array, " w"]]
    proceed: Callable[[Any], Any]
    done: Callable[[Any], Bool[Array, " w"]]
    report: Callable[[Any], Any]


def run_pool(job: Job, size: int, count: Int[Array, ""], width: int) -> tuple[Any, Int[Array, ""]]:
    """Fit many datasets with a fixed number of lanes, none of which waits for another.

    A `vmap`ped loop would run every lane until the slowest ends. Here an ended lane takes the next
    dataset. Once none is left, the lanes still at work are moved into an eighth of the width, and
    so on; each width is compiled separately, so there are few, and each function of the job stands
    once in the program of a width.

    Args:
        job: The work of the lanes.
        size: Number of rows of the outcomes.
        count: Number of datasets to fit, at most `size`.
        width: Number of lanes.

    Returns:
        The outcomes, with the datasets in front, and the number of lane-steps made.
    """

    def at_work(pool: Pool) -> Bool[Array, " w"]:
        return pool.dataset != size

    def paused(pool: Pool) -> Bool[Array, " w"]:
        return (pool.dataset < size) & job.paused(pool.work)

    def ended(pool: Pool) -> Bool[Array, " w"]:
        return at_work(pool) & (job.done(pool.work) | (pool.dataset > size))

    def proceed(pool: Pool) -> Pool:
        moved = jax.vmap(select)(paused(pool), job.proceed(pool.work), pool.work)
        return pool._replace(work=moved)

    def retire_and_refill(pool: Pool) -> Pool:
        take = ended(pool)
        finished = jax.tree.map(
            lambda rows, new: rows.at[jnp.where(take, pool.dataset, size)].set(new, mode="drop"),
            pool.finished,
            job.report(pool.work),
        )
        order = pool.next_dataset + jnp.cumsum(take, dtype=jnp.int32) - 1
        fresh = take & (order < count)
        begun = job.start(jnp.minimum(order, size - 1))
        return pool._replace(
            work=jax.vmap(select)(fresh, begun, pool.work),
            dataset=jnp.where(take, jnp.where(fresh, order, size), pool.dataset),
            next_dataset=pool.next_dataset + jnp.sum(fresh, dtype=jnp.int32),
            finished=finished,
        )

    def settle(pool: Pool) -> Pool:
        pool = lax.cond(jnp.any(paused(pool)), proceed, lambda pool: pool, pool)
        return lax.cond(jnp.any(ended(pool)), retire_and_refill, lambda pool: pool, pool)

    def step(pool: Pool) -> Pool:
        # Fits may also end before any step, so lanes are settled until none is due.
        pool = lax.while_loop(lambda pool: jnp.any(paused(pool) | ended(pool)), settle, pool)
        made = jnp.where(jnp.any(at_work(pool)), len(pool.dataset), 0).astype(jnp.int32)
        return pool._replace(work=job.step(pool.work), lane_steps=pool.lane_steps + made)

    def blank(shapes: Any, rows: int) -> Any:
        return jax.tree.map(lambda leaf: jnp.zeros((rows, *leaf.shape[1:]), leaf.dtype), shapes)

    lanes = jnp.full(width, size + 1, jnp.int32)
    work = jax.eval_shape(job.start, lanes)
    pool = Pool(
        work=blank(work, width),
        dataset=lanes,
        next_dataset=jnp.zeros((), jnp.int32),
        finished=blank(jax.eval_shape(job.report, work), size),
        lane_steps=jnp.zeros((), jnp.int32),
    )
    while True:
        narrower = width // 8
        pool = lax.while_loop(
            lambda pool, least=narrower: jnp.sum(at_work(pool), dtype=jnp.int32) > least,
            step,
            pool,
        )
        if narrower == 0:
            return pool.finished, pool.lane_steps
        width = narrower
        chosen = jnp.argsort(~at_work(pool), stable=True)[:width]
        pool = pool._replace(
            work=jax.tree.map(lambda leaf, rows=chosen: leaf[rows], pool.work),
            dataset=pool.dataset[chosen],
        )
