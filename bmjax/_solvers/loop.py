"""The loops that drive every solver. They know nothing of the mathematics."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int

from bmjax._model.problem import Status
from bmjax._runtime.backend import select

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
        dataset: The number of the dataset in each lane; the number of datasets for an idle lane.
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
    """The work of a pool of lanes, as four functions.

    Attributes:
        start: Returns the work before its first step, lanes in front, for numbers of datasets.
        advance: Makes one step of every lane; harmless for a lane that has ended.
        running: Whether each lane has not ended.
        report: Returns the outcome of every lane.
    """

    start: Callable[[Int[Array, " w"]], Any]
    advance: Callable[[Any], Any]
    running: Callable[[Any], Bool[Array, " w"]]
    report: Callable[[Any], Any]


def run_pool(job: Job, size: int, count: Int[Array, ""], width: int) -> tuple[Any, Int[Array, ""]]:
    """Fit many datasets with a fixed number of lanes, none of which waits for another.

    A `vmap`ped loop would run every lane until the slowest ends. Here an ended lane takes the next
    dataset. Once none is left, the lanes still at work are moved into an eighth of the width, and
    so on; each width is compiled separately, so there are few.

    Args:
        job: The work of the lanes.
        size: Number of rows of the outcomes.
        count: Number of datasets to fit, at most `size`.
        width: Number of lanes.

    Returns:
        The outcomes, with the datasets in front, and the number of lane-steps made.
    """
    start, advance, running, report = job

    def retire_and_refill(pool: Pool) -> Pool:
        ended = ~running(pool.work)
        finished = jax.tree.map(
            lambda rows, new: rows.at[jnp.where(ended, pool.dataset, size)].set(new, mode="drop"),
            pool.finished,
            report(pool.work),
        )
        take = ended & (pool.dataset < size)
        order = pool.next_dataset + jnp.cumsum(take, dtype=jnp.int32) - 1
        fresh = take & (order < count)
        dataset = jnp.where(take, jnp.where(fresh, order, size), pool.dataset)
        begun = start(jnp.minimum(order, size - 1))
        work = jax.vmap(select)(fresh, begun, pool.work)
        taken = jnp.sum(fresh, dtype=jnp.int32)
        return pool._replace(
            work=work, dataset=dataset, next_dataset=pool.next_dataset + taken, finished=finished
        )

    def at_work(pool: Pool) -> Bool[Array, " w"]:
        return pool.dataset < size

    def settle(pool: Pool) -> Pool:
        """Retire ended lanes, also those that a refill brings and that end before any step."""
        return lax.while_loop(
            lambda pool: jnp.any(at_work(pool) & ~running(pool.work)), retire_and_refill, pool
        )

    def step(pool: Pool) -> Pool:
        lanes = len(pool.dataset)
        pool = pool._replace(work=advance(pool.work), lane_steps=pool.lane_steps + jnp.int32(lanes))
        due = jnp.any(at_work(pool) & ~running(pool.work))
        return lax.cond(due, settle, lambda pool: pool, pool)

    first = jnp.arange(width, dtype=jnp.int32)
    work = start(jnp.minimum(first, size - 1))
    blank = jax.tree.map(
        lambda leaf: jnp.zeros((size, *leaf.shape[1:]), leaf.dtype), jax.eval_shape(report, work)
    )
    pool = Pool(
        work=work,
        dataset=jnp.where(first < count, first, size),
        next_dataset=jnp.minimum(jnp.int32(width), count),
        finished=blank,
        lane_steps=jnp.zeros((), jnp.int32),
    )
    pool = settle(pool)
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
