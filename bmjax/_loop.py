"""The one loop that drives every solver. It knows nothing of the mathematics."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int

from bmjax._types import Status

T = TypeVar("T")


class Lane(NamedTuple):
    """One dataset on its way: what the solver carries, how far it is, and the verdict."""

    carry: Any
    num_steps: Int[Array, ""]
    status: Int[Array, ""]


def launch(carry: Any) -> Lane:
    """A lane that has not moved yet."""
    return Lane(carry, jnp.zeros((), jnp.int32), jnp.asarray(Status.RUNNING, jnp.int32))


def run(
    advance: Callable[[Lane], Lane],
    lane: Lane,
    record: Callable[[Lane], T] | None = None,
    record_length: int = 0,
) -> tuple[Lane, T | None]:
    """Advance a lane until its status says that it has ended.

    Args:
        advance: One step. It must end the lane after a bounded number of steps.
        lane: Where to start.
        record: What to write down of the lane after each step, a pytree of arrays.
        record_length: Rows to keep room for. Rows of steps that were not run hold NaN, or -1
            for integers.

    Returns:
        The lane at its end, and the record with a leading axis of `record_length`, or None.
    """

    def running(carry):
        return carry[0].status == Status.RUNNING

    if record is None:
        lane, _ = lax.while_loop(running, lambda carry: (advance(carry[0]), None), (lane, None))
        return lane, None

    def empty(leaf):
        fill = jnp.nan if jnp.issubdtype(leaf.dtype, jnp.floating) else -1
        return jnp.full((record_length, *leaf.shape), fill, leaf.dtype)

    def advance_and_record(carry):
        lane, rows = carry
        lane = advance(lane)
        rows = jax.tree.map(
            lambda row, new: row.at[lane.num_steps - 1].set(new, mode="drop"), rows, record(lane)
        )
        return lane, rows

    rows = jax.tree.map(empty, jax.eval_shape(record, lane))
    return lax.while_loop(running, advance_and_record, (lane, rows))
