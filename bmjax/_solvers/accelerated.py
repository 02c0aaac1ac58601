"""The default solver: EM with a safeguarded extrapolation of each inclusion rate.

EM moves the log-odds of an idle feature by about 1 / (2 n) a step until it is pruned, and those of
a weak feature to their limit as slowly. Both are sequences that can be extrapolated, each feature
separately: if two successive moves are r1 and r2, a sequence that converges linearly has a distance
of r2 rho / (1 - rho) left, rho = r2 / r1 (Aitken's delta-squared), and one with rho >= 1 a long
distance.

The support is decided within some ten such cycles. What remains is a weak feature or two that slide
along a ridge on which weight * inclusion hardly changes, too slowly for two adjacent moves to show
the curvature of the course. So once no feature has been pruned for a while, rho is taken from the
previous cycle, which is further back (the secant method), and the weight is extrapolated with its
inclusion rate. Done from the first cycle on, this would keep features that should be pruned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from bmjax._checks import validate
from bmjax._model import steps
from bmjax._model.blocks import left_over
from bmjax._model.bound import bound_after_m_step, bound_slack
from bmjax._model.problem import Problem, State, Totals
from bmjax._runtime.backend import select
from bmjax._solvers.convergence import rest
from bmjax._solvers.extrapolation import Landmark, along, log_inclusion_moves, rate_of_convergence
from bmjax._solvers.safeguard import Progress, begin

# Limits of the trust: below the first there is hardly any extrapolation, and more than the second
# is never useful.
LEAST_TRUST, MOST_TRUST = 30.0, 1e6
# Number of cycles without a rise of the bound after which extrapolation pauses. On tall data
# float32 does not resolve rises below a tenth of a nat, but moves stay informative.
_PATIENCE = 50


class AcceleratedCarry(NamedTuple):
    """The carry of `Accelerated`.

    Attributes:
        state: The state, always the outcome of an EM iteration.
        residual: y - (X o M) weights at this state.
        progress: The course of the bound, one step for each cycle.
        trust: Largest extrapolation, as a multiple of the last EM move.
        moves: Moves of every log inclusion rate by the first two EM iterations of the last cycle.
        landmark: The point at which the last cycle measured the course.
        calm: Number of cycles since a feature was pruned.
    """

    state: State
    residual: Float[Array, " n"]
    progress: Progress
    trust: Float[Array, ""]
    moves: Float[Array, "2 k"]
    landmark: Landmark
    calm: Int[Array, ""]


class Candidate(NamedTuple):
    """A state that a cycle may end with.

    Attributes:
        state: The state.
        residual: y - (X o M) weights at this state.
        bound: A function for the lower bound at this state, called only if it is needed.
    """

    state: State
    residual: Float[Array, " n"]
    bound: Callable[[], Float[Array, ""]]


@dataclass(frozen=True)
class Accelerated:
    """EM with extrapolated inclusion rates. One step is a cycle of three EM iterations.

    Two EM iterations measure how each log-odds moves; the extrapolated rates are then given to a
    third, which re-estimates masks and weights. Its outcome is kept if the bound has not fallen
    below that of the last state kept, or if a feature was pruned; else the outcome of the second
    iteration is kept. So the bound never falls from cycle to cycle while the active set is
    unchanged. The trust in the extrapolation grows if it is kept and shrinks if not. After `calm`
    cycles without pruning the course is judged from one cycle to the next, and weights are
    extrapolated with their rates. The solver does not depend on the units of any column.

    Attributes:
        max_move: Longest extrapolation of a log-odds, in nats.
        trust: Largest extrapolation at the start, as a multiple of the last move.
        grow: Factor on the trust after an extrapolation that was kept.
        shrink: Divisor of the trust after one that was not.
        calm: Number of cycles without pruning after which the selection counts as finished.
        sweeps: Number of coordinate sweeps in each E step.

    Example:
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> bmjax.fit(X, y, intercept=True, solver=bmjax.Accelerated())
        <bmjax.Result: 6 of 10 features kept, CONVERGED>
    """

    max_move: float = 6.0
    trust: float = 1000.0
    grow: float = 4.0
    shrink: float = 30.0
    calm: int = 3
    sweeps: int = 1
    iterations: ClassVar[int] = 3

    def __post_init__(self):
        """Refuse options that are out of range."""
        validate.count("sweeps", self.sweeps, low=1)
        validate.count("calm", self.calm, low=1)
        for name in ("max_move", "trust", "grow", "shrink"):
            validate.option(name, getattr(self, name))

    def init(self, problem: Problem, state: State) -> AcceleratedCarry:
        """The carry before the first step."""
        return self.carry_at(state, left_over(problem, state)[0])

    def carry_at(self, state: State, residual: Float[Array, " n"]) -> AcceleratedCarry:
        """The carry at a state whose residual is known."""
        dtype = state.weights.dtype
        return AcceleratedCarry(
            state=state,
            residual=residual,
            progress=begin(jnp.asarray(-jnp.inf, dtype)),
            trust=jnp.asarray(self.trust, dtype),
            moves=jnp.full((2, len(state.weights)), jnp.inf, dtype),
            landmark=Landmark(state.log_odds, jnp.zeros_like(state.weights)),
            calm=jnp.zeros((), jnp.int32),
        )

    def step(self, problem: Problem, carry: AcceleratedCarry) -> AcceleratedCarry:
        """The carry after one cycle."""

        def iterate(i: Array, trail: tuple[Any, ...]) -> tuple[Any, ...]:
            first, last, residual, second, _ = trail
            # The third iteration starts from the extrapolated state, with the second's residual.
            beyond = i == 2
            moved = self.beyond(carry, first, last)
            start = last._replace(
                log_odds=jnp.where(beyond, moved.log_odds, last.log_odds),
                weights=jnp.where(beyond, moved.weights, last.weights),
            )
            new, left = steps.em_iteration(
                problem, start, residual, self.sweeps, residual_weights=last.weights
            )
            kept = new, left.residual, left.sum_squares
            second = select(i == 1, kept, second)
            first = select(beyond, first, _without_masks(last))
            return first, new, left.residual, second, left.sum_squares

        start, zero = carry.state, jnp.zeros((), problem.dtype)
        begun = start, carry.residual, zero
        trail = _without_masks(start), start, carry.residual, begun, zero
        first, third, third_left, (second, left, sum_squares), third_squares = jax.lax.fori_loop(
            0, 3, iterate, trail
        )
        bound = bound_after_m_step(problem, third, third_squares)
        return self.judge(
            problem,
            carry,
            first,
            Candidate(second, left, lambda: bound_after_m_step(problem, second, sum_squares)),
            Candidate(third, third_left, lambda: bound),
        )

    def beyond(self, carry: AcceleratedCarry, first: State, second: State) -> State:
        """The state extrapolated from two EM iterations: rates and weights moved on."""
        # Once the bound has stopped rising, only rounding is left to extrapolate: plain EM settles,
        # which extrapolation would prevent.
        settling = carry.progress.idle > _PATIENCE
        trust = jnp.where(settling, 0, carry.trust)
        selected = carry.calm >= self.calm
        inside = second.active
        for state in (carry.state, first, second):  # rates of exactly zero or one do not move
            inside &= jnp.isfinite(state.log_odds)
        l0, l1, l2 = (jnp.where(inside, s.log_odds, 0) for s in (carry.state, first, second))
        rho, moving = rate_of_convergence(l0, l1, l2, carry.landmark, selected)
        l3 = l2 + jnp.where(inside & moving, self._to_go(l2 - l1, rho, trust), 0)
        weights = along(first.weights, second.weights, l1, l2, l3)
        return second._replace(
            log_odds=jnp.where(inside, l3, second.log_odds),
            weights=jnp.where(inside & selected, weights, second.weights),
        )

    def judge(
        self,
        problem: Problem | Totals,
        carry: AcceleratedCarry,
        first: State,
        second: Candidate,
        third: Candidate,
    ) -> AcceleratedCarry:
        """The carry after a cycle, with the third state if its bound has not fallen.

        Args:
            problem: The dataset.
            carry: The carry before the cycle.
            first: The state after one EM iteration.
            second: The state after another EM iteration.
            third: The state after an EM iteration from the extrapolated state.
        """
        start, bound = carry.state, third.bound()
        slack = bound_slack(problem, bound)
        best = carry.progress.bound
        pruned = jnp.any(start.active != third.state.active)
        kept = jnp.isfinite(bound) & (pruned | (bound >= best - slack))
        trust = jnp.where(kept, carry.trust * self.grow, carry.trust / self.shrink)
        state, residual = select(kept, third[:2], second[:2])
        # The next extrapolation has to reach the bound of the state that it starts from.
        own = jax.lax.cond(kept, lambda: bound, second.bound)
        changed = jnp.any(start.active != state.active)
        return AcceleratedCarry(
            state=state,
            residual=residual,
            progress=carry.progress.after_step(own, slack, changed),
            trust=jnp.clip(trust, LEAST_TRUST, MOST_TRUST),
            moves=log_inclusion_moves(start, first, second.state),
            landmark=Landmark(first.log_odds, second.state.log_odds - first.log_odds),
            calm=jnp.where(changed, 0, carry.calm + 1),
        )

    def settled(
        self, problem: Problem | Totals, carry: AcceleratedCarry, tolerance: Float[Array, ""]
    ) -> Bool[Array, ""]:
        """Whether the last EM iterations, too, predict that the fixed point is near.

        From cycle to cycle long extrapolations and small EM moves alternate, so that the states
        alone may seem to converge. Here d2^2 / (d1 - d2), the rest of a geometric series, has to be
        within the tolerance as well. A move within rounding counts as none: the windows of
        `convergence` decide whether it hides a drift.
        """
        d1, d2 = carry.moves
        active = carry.state.active
        slowing = d1 > d2
        to_go = jnp.where(slowing, d2**2 / jnp.where(slowing, d1 - d2, 1), jnp.inf)
        at_rest = d2 <= rest(problem, carry.state, tolerance)
        return jnp.all(at_rest | (to_go <= tolerance) | ~active)

    def result(self, problem: Problem, carry: AcceleratedCarry) -> State:
        """The state to report."""
        del problem
        return steps.restrict(carry.state, carry.state.active)

    def stalled(self, carry: AcceleratedCarry) -> Bool[Array, ""]:
        """Whether the bound stopped rising long ago."""
        return carry.progress.stalled

    def _to_go(
        self, move: Float[Array, " k"], rho: Float[Array, " k"], trust: Float[Array, ""]
    ) -> Float[Array, " k"]:
        """The distance left of a course after a move, if each move is rho times the one before."""
        slowing = rho < 1
        factor = jnp.where(slowing, rho / jnp.where(slowing, 1 - rho, 1), trust)
        factor = jnp.where(rho > -1, jnp.minimum(factor, trust), 0)
        return jnp.clip(move * factor, -self.max_move, self.max_move)


def _without_masks(state: State) -> State:
    """The state without its masks, so that these need not be stored."""
    return state._replace(mask_mean=state.mask_mean[:, :0])
