"""Extrapolation of a course of log-odds from its last moves."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from bmjax._model.problem import State

# Distance to a landmark, in moves, beyond which the difference to it shows the course.
_FAR = 3.0


class Landmark(NamedTuple):
    """A previous point of a course.

    Attributes:
        log_odds: Log-odds of each inclusion rate at that point.
        move: The move of these log-odds by an EM iteration.
    """

    log_odds: Float[Array, " k"]
    move: Float[Array, " k"]


def rate_of_convergence(
    l0: Float[Array, " k"],
    l1: Float[Array, " k"],
    l2: Float[Array, " k"],
    landmark: Landmark,
    selected: Bool[Array, ""],
) -> tuple[Float[Array, " k"], Bool[Array, " k"]]:
    """The ratio of successive moves along each course, and whether each course moves at all.

    Args:
        l0: Log-odds before two EM iterations.
        l1: Log-odds after the first iteration.
        l2: Log-odds after the second iteration.
        landmark: The point at which the previous cycle measured the course.
        selected: Whether to use the landmark if it is far enough.
    """
    r1, r2 = l1 - l0, l2 - l1
    # A move within rounding is no information on the course. Besides that of the log-odds there is
    # that of mask means near one, which are multiples of the spacing there: a part of it, a fourth,
    # remains in their mean and moves log-odds by that over one minus the rate. On tall data in
    # float32, courses extrapolated from it would never settle.
    eps = jnp.finfo(l2.dtype).eps
    noise = 4 * eps * (1 + jnp.abs(l2)) + 0.25 * eps * (1 + jnp.exp(l2))
    moving = (jnp.abs(r1) > noise) & (jnp.abs(r2) > noise)
    side_by_side = r2 / jnp.where(moving, r1, 1)
    # The first moves after an extrapolation contain transients, which matter less the further back
    # the move that the present one is compared with.
    distance = l1 - landmark.log_odds
    far = selected & (jnp.abs(distance) > _FAR * jnp.abs(r2))
    from_afar = 1 + (r2 - landmark.move) / jnp.where(far, distance, 1)
    return jnp.where(far, from_afar, side_by_side), moving


def along(
    w1: Float[Array, " k"],
    w2: Float[Array, " k"],
    l1: Float[Array, " k"],
    l2: Float[Array, " k"],
    l3: Float[Array, " k"],
) -> Float[Array, " k"]:
    """Weights extrapolated with their log-odds, which move on from l2 to l3.

    From l1 to l2 the weight, which moved from w1 to w2, has compensated for some part of the change
    of its inclusion rate, between none and all of it (weight * inclusion constant); it continues to
    compensate for the same part.
    """
    u1, u2, u3 = (jax.nn.log_sigmoid(x) for x in (l1, l2, l3))
    change = u2 - u1
    comparable = (w1 * w2 > 0) & (change != 0)
    ratio = jnp.where(comparable, w2 / jnp.where(comparable, w1, 1), 1)
    part = jnp.clip(-jnp.log(ratio) / jnp.where(comparable, change, 1), 0, 1)
    return w2 * jnp.exp(part * (u2 - u3))


def log_inclusion_moves(start: State, first: State, second: State) -> Float[Array, "2 k"]:
    """Absolute changes of log inclusion from one state to the next; zero where pruned."""
    u0, u1, u2 = (
        jnp.where(second.active, jax.nn.log_sigmoid(s.log_odds), 0) for s in (start, first, second)
    )
    return jnp.stack([jnp.abs(u1 - u0), jnp.abs(u2 - u1)])
