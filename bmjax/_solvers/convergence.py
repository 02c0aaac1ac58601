"""When a fit has converged: a prediction of how far every parameter still has to go.

A rule on the size of the last step cannot be trusted here. Plain EM moves the log-odds of an
idle feature by about (1 - pi) / (2 n) a step while it heads for its pruning, so any fixed
threshold is met at once when n is large. This rule compares two successive windows of steps
instead. If a coordinate moved by d1 and then by d2, a linearly converging sequence still has
d2 r / (1 - r) to go, r = d2 / d1; a steady or growing drift has r >= 1 and infinitely far to go.

The coordinates have no units: log(inclusion), asinh(coef * rms(x) * sqrt(noise precision)), whose
differences are relative to the larger of the effect and the noise, and half the log noise
precision. So the verdict does not change with the scale of y or of a column, and the windows grow
with the number of steps, so that it does not depend on n either.
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
        size: Root mean square of each feature, the unit of its weight.
        last: Coordinates after the last step.
        oldest: Coordinates two windows before the next check.
        middle: Coordinates one window before the next check.
        window: Steps in a window.
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
    """Take note of a step.

    Args:
        problem: The dataset.
        monitor: The monitor so far.
        before: State before the step.
        after: State after it.
        num_steps: Steps done, this one included.
        tolerance: Largest predicted distance to the fixed point that counts as converged.

    Returns:
        The new monitor, and whether the fit has converged.
    """
    newest = coordinates(after, monitor.size)
    pruned = jnp.any(before.active != after.active)
    pruned_at = jnp.where(pruned, num_steps, monitor.pruned_at)

    due = num_steps >= monitor.next_check
    comparable = num_steps - pruned_at >= 2 * monitor.window
    # A cycle whose period divides the window looks like rest at its ends, hence the last step too.
    near = jnp.all(jnp.abs(newest - monitor.last) <= tolerance)
    near &= _within(problem, monitor, newest, after, tolerance)
    converged = (due & comparable & near) | ~jnp.any(after.active)

    # A check either slides by one window or, when windows have become short beside the steps
    # done, doubles them: the two just seen are then the first of the next two.
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

    Two moves of a sequence that converges linearly say how far its limit is: with d1 and d2 their
    lengths, d2^2 / (d1 - d2), Aitken's delta-squared.
    """
    rounding = rounding_of(newest)
    first = jnp.abs(monitor.middle - monitor.oldest)
    second = jnp.abs(newest - monitor.middle)
    # Rounding may have made the first move look larger and the second smaller than they were.
    slowing = first - second - 2 * rounding
    to_go = (second + rounding) * (second + rounding) / jnp.where(slowing > 0, slowing, 1)
    predicted = (slowing > 0) & (to_go <= tolerance)

    # A rate may also stand still: to rounding, or moving so slowly over the whole window that
    # only rounding decides whether it speeds up or slows down. Where it can drift this counts only
    # if a drift of 0.01 / n a step, a fiftieth of the usual one, would have shown within the
    # window and is not lost in the rounding of a single step. On tall data in float32 it is lost,
    # so a rate rests as well that is no faster than rounding alone may move it, in a step of up to
    # three EM iterations. In float64 that is next to nothing.
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
    # quarter of the tolerance over a whole window is rest: in float32 the solution of the normal
    # equations jitters by their condition number times the rounding.
    still = jnp.concatenate([rate_still, second[k:] <= jnp.maximum(0.25 * tolerance, rounding[k:])])
    return jnp.all(predicted | still)


def crawl(problem: Problem | Totals, tolerance: Float[Array, ""]) -> Float[Array, ""]:
    """Change of a log inclusion rate in one step that counts as none.

    A slope of the bound of s nats per unit of log inclusion moves it by s / n in an EM step; this
    is the step of a slope of a hundredth of the tolerance.
    """
    return 0.01 * tolerance / problem.num_samples


def rest(
    problem: Problem | Totals, state: State, tolerance: Float[Array, ""]
) -> Float[Array, " k"]:
    """The move of each log inclusion rate in one EM iteration that counts as none.

    Rounding, but where the type can tell no more than a slope of the bound of a hundredth of a nat
    per unit, so that on tall data the drift of an idle feature is not taken for it.
    """
    log_inclusion = jnp.where(state.active, jax.nn.log_sigmoid(state.log_odds), 0)
    drift = jnp.asarray(0.01 / problem.num_samples, log_inclusion.dtype)
    rounding = jnp.minimum(rounding_of(log_inclusion), drift)
    return jnp.maximum(rounding, rate_rounding(state)) + crawl(problem, tolerance)


def rate_rounding(state: State) -> Float[Array, " k"]:
    """How far one EM iteration may move each log inclusion rate by rounding alone.

    Four roundings of its log-odds. A rate is a mean over samples, whose own roundings average out,
    so that it comes to rest far more closely than `rounding_of` allows for. But masks near one are
    rounded to a multiple of the spacing there, of which a part is left in the mean of however many.
    """
    eps = jnp.finfo(state.log_odds.dtype).eps
    live = state.active & jnp.isfinite(state.log_odds)
    log_odds = jnp.where(live, state.log_odds, 0)
    of_log_odds = (1 + jnp.abs(log_odds)) * jax.nn.sigmoid(-log_odds)
    return 4 * eps * jnp.where(live, 1 / 16 + of_log_odds, 1)


def rounding_of(values: Float[Array, " d"]) -> Float[Array, " d"]:
    """How far coordinates may be off by rounding alone."""
    return 16 * jnp.finfo(values.dtype).eps * (1 + jnp.abs(values))
