"""The stopping rule: a prediction of the distance of every parameter to its fixed point.

A rule on the size of the last step cannot be trusted here. Plain EM moves the log-odds of an idle
feature by about (1 - pi) / (2 n) a step until it is pruned, so any fixed threshold is met at once
if n is large. This rule compares two successive windows of steps instead. If a coordinate moved by
d1 and then by d2, a linearly converging sequence has a distance of d2 r / (1 - r) left, r = d2 /
d1; for a steady or growing drift r >= 1, and the distance is infinite.

The coordinates have no units: log(inclusion), asinh(coef * rms(x) * sqrt(noise precision)), whose
differences are relative to the larger of the effect and the noise, and half the log noise
precision. So the verdict does not depend on the scale of y or of a column. The windows grow with
the number of steps, so that it does not depend on n either.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from bmjax._model.problem import Problem, State, Totals
from bmjax._runtime.backend import select

# A window is at least this fraction of the steps before it, so that a rate of convergence as
# slow as one over the number of steps shows clearly above rounding.
_WINDOW_FRACTION = 8


class Monitor(NamedTuple):
    """The memory of the stopping rule between two checks.

    Attributes:
        size: Root mean square of each feature, which scales its effect.
        last: Coordinates after the last step.
        oldest: Coordinates two windows before the next check.
        middle: Coordinates one window before the next check.
        window: Number of steps in a window.
        next_check: The step at which the current window is full.
        pruned_at: The last step at which a feature was pruned.
    """

    size: Float[Array, " k"]
    last: Float[Array, " d"]
    oldest: Float[Array, " d"]
    middle: Float[Array, " d"]
    window: Int[Array, ""]
    next_check: Int[Array, ""]
    pruned_at: Int[Array, ""]


def coordinates(state: State, size: Float[Array, " k"]) -> Float[Array, " d"]:
    """The (2 k + 1) unit-free coordinates of a state; zero where a feature is pruned."""
    log_inclusion = jnp.where(state.active, jax.nn.log_sigmoid(state.log_odds), 0)
    signal = jnp.arcsinh(state.coef * size * jnp.sqrt(state.noise_precision))
    noise = 0.5 * jnp.log(state.noise_precision)
    return jnp.concatenate([log_inclusion, jnp.where(state.active, signal, 0), noise[None]])


def start(problem: Problem | Totals, state: State) -> Monitor:
    """The monitor before the first step."""
    size = jnp.sqrt(problem.mean_squares)
    here = coordinates(state, size)
    zero = jnp.zeros((), jnp.int32)
    # `oldest` is compared with only once two windows have passed, see `pruned_at`.
    return Monitor(size, here, here, here, window=zero + 1, next_check=zero + 1, pruned_at=zero)


def observe(
    problem: Problem | Totals,
    monitor: Monitor,
    before: State,
    after: State,
    num_steps: Int[Array, ""],
    tolerance: Float[Array, ""],
) -> tuple[Monitor, Bool[Array, ""]]:
    """Update the monitor with a step.

    Args:
        problem: The dataset.
        monitor: The monitor so far.
        before: The state before the step.
        after: The state after the step.
        num_steps: Number of steps done, including this one.
        tolerance: Largest predicted distance to the fixed point that counts as converged.

    Returns:
        The new monitor, and whether the fit has converged.
    """
    newest = coordinates(after, monitor.size)
    pruned = jnp.any(before.active != after.active)
    pruned_at = jnp.where(pruned, num_steps, monitor.pruned_at)

    due = num_steps >= monitor.next_check
    comparable = num_steps - pruned_at >= 2 * monitor.window
    # A cycle whose period divides the window looks like rest at its ends, so the last step counts
    # too.
    near = jnp.all(jnp.abs(newest - monitor.last) <= tolerance)
    near &= _within(problem, monitor, newest, after, tolerance)
    converged = (due & comparable & near) | ~jnp.any(after.active)

    # A check either slides by one window or, if windows have become short relative to the steps
    # done, doubles them: the two just seen then form the first of the next two.
    grow = num_steps >= _WINDOW_FRACTION * monitor.window
    window = jnp.where(grow, 2 * monitor.window, monitor.window)
    waiting = monitor._replace(last=newest, pruned_at=pruned_at)
    checked = waiting._replace(
        oldest=jnp.where(grow, monitor.oldest, monitor.middle),
        middle=newest,
        window=window,
        next_check=num_steps + window,
    )
    return select(due, checked, waiting), converged


def _within(
    problem: Problem | Totals,
    monitor: Monitor,
    newest: Float[Array, " d"],
    state: State,
    tolerance: Float[Array, ""],
) -> Bool[Array, ""]:
    """Whether every coordinate is predicted to be within the tolerance of its limit.

    Two moves of lengths d1 and d2 of a sequence that converges linearly give the distance to its
    limit, d2^2 / (d1 - d2), Aitken's delta-squared.
    """
    rounding = rounding_of(newest)
    first = jnp.abs(monitor.middle - monitor.oldest)
    second = jnp.abs(newest - monitor.middle)
    # Rounding may have made the first move look larger and the second smaller than they were.
    slowing = first - second - 2 * rounding
    to_go = (second + rounding) * (second + rounding) / jnp.where(slowing > 0, slowing, 1)
    predicted = (slowing > 0) & (to_go <= tolerance)

    # A rate may also stand still: to rounding, or moving so slowly over the whole window that only
    # rounding decides whether it speeds up or slows down. If it can drift, this counts only if a
    # drift of 0.01 / n a step, a fiftieth of the usual one, would have been visible within the
    # window and is not lost in the rounding of a single step. On tall data in float32 it is lost,
    # so a rate also counts as at rest if it moves no faster than rounding may move it, in a step of
    # up to three EM iterations. In float64 that is negligible.
    k = len(state.active)
    window = monitor.window.astype(newest.dtype)
    drift = 0.01 / problem.num_samples
    shows = rounding[:k] <= drift * window
    shows &= float(jnp.finfo(newest.dtype).eps) <= 10 * drift
    can_drift = state.active & jnp.isfinite(state.log_odds)
    crawling = second[:k] <= rounding[:k] + crawl(problem, tolerance) * window
    rate_still = crawling & (second[:k] <= jnp.maximum(tolerance, rounding[:k]))
    rate_still &= shows | ~can_drift
    rate_still |= second[:k] <= jnp.minimum(tolerance, 3 * rate_rounding(state) * window)
    # Weights and noise follow the rates and the masks at a speed that does not depend on n, so a
    # move of a quarter of the tolerance over a whole window counts as rest: in float32 the solution
    # of the normal equations jitters by their condition number times the rounding.
    still = jnp.concatenate([rate_still, second[k:] <= jnp.maximum(0.25 * tolerance, rounding[k:])])
    return jnp.all(predicted | still)


def crawl(problem: Problem | Totals, tolerance: Float[Array, ""]) -> Float[Array, ""]:
    """The change of a log inclusion rate in one step that counts as none.

    A slope of the bound of s nats per unit of log inclusion moves it by s / n in an EM step; this
    is the step for a slope of a hundredth of the tolerance.
    """
    return 0.01 * tolerance / problem.num_samples


def rest(
    problem: Problem | Totals, state: State, tolerance: Float[Array, ""]
) -> Float[Array, " k"]:
    """The move of each log inclusion rate in one EM iteration that counts as none.

    It is the rounding of log inclusion, limited to the move by a slope of the bound of a hundredth
    of a nat per unit, so that on tall data the drift of an idle feature does not count as rounding.
    """
    log_inclusion = jnp.where(state.active, jax.nn.log_sigmoid(state.log_odds), 0)
    drift = jnp.asarray(0.01 / problem.num_samples, log_inclusion.dtype)
    rounding = jnp.minimum(rounding_of(log_inclusion), drift)
    return jnp.maximum(rounding, rate_rounding(state)) + crawl(problem, tolerance)


def rate_rounding(state: State) -> Float[Array, " k"]:
    """The largest move of each log inclusion rate in one EM iteration that may be rounding.

    These are four roundings of the log-odds. A rate is a mean over samples, whose roundings average
    out, so that it comes to rest much more closely than `rounding_of` allows. But mask means near
    one are rounded to a multiple of the spacing there, and a part of that remains in any mean of
    them.
    """
    eps = jnp.finfo(state.log_odds.dtype).eps
    live = state.active & jnp.isfinite(state.log_odds)
    log_odds = jnp.where(live, state.log_odds, 0)
    of_log_odds = (1 + jnp.abs(log_odds)) * jax.nn.sigmoid(-log_odds)
    return 4 * eps * jnp.where(live, 1 / 16 + of_log_odds, 1)


def rounding_of(values: Float[Array, " d"]) -> Float[Array, " d"]:
    """The largest error of coordinates that may be rounding."""
    return 16 * jnp.finfo(values.dtype).eps * (1 + jnp.abs(values))
