"""The default solver: EM with a safeguarded extrapolation of each inclusion rate.

EM moves the log-odds of an idle feature by about 1 / (2 n) a step on its way to being pruned, and
those of a weak one as slowly to where it stays. Both are sequences that can be extrapolated, each
feature by itself: if two successive moves are r1 and r2, a sequence that converges linearly has
r2 rho / (1 - rho) to go, rho = r2 / r1 (Aitken's delta-squared), and one with rho >= 1 a long way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from bmjax import _steps, _validate
from bmjax._bound import bound_after_m_step, bound_slack
from bmjax._progress import Progress, begin
from bmjax._stopping import crawl, rounding_of
from bmjax._types import Problem, State, Totals, select

# Below the first the extrapolation would no longer be one; the second is beyond any use.
_LEAST_TRUST, _MOST_TRUST = 30.0, 1e6
# Cycles without a rise of the bound after which extrapolation pauses.
_PATIENCE = 10


class AcceleratedCarry(NamedTuple):
    """What `Accelerated` carries.

    Attributes:
        state: The state, always the outcome of an EM iteration.
        residual: y - (X o M) weights there.
        progress: The bounds of the states, a step a cycle.
        trust: Largest extrapolation, as a multiple of the last EM move.
        moves: How far the last cycle's first two EM iterations each moved every log inclusion.
    """

    state: State
    residual: Float[Array, " n"]
    progress: Progress
    trust: Float[Array, ""]
    moves: Float[Array, "2 k"]


class Candidate(NamedTuple):
    """A state that a cycle may end with.

    Attributes:
        state: The state.
        residual: y - (X o M) weights there.
        bound: Its bound, evaluated where it is needed.
    """

    state: State
    residual: Float[Array, " n"]
    bound: Callable[[], Float[Array, ""]]


@dataclass(frozen=True)
class Accelerated:
    """EM with extrapolated inclusion rates. One step is a cycle of three EM iterations.

    Two EM iterations measure how each log-odds moves; the extrapolated rates are then given to a
    third, which re-estimates masks and weights. Its outcome is kept if the bound has not fallen
    below that of the last one kept, or if a feature was pruned; else the second iteration's is.
    So the bound never falls from cycle to cycle while the active set stands. The trust in the
    extrapolation grows when it is kept and shrinks when not. Free of the units of every column.

    Attributes:
        max_move: Longest extrapolation of a log-odds, in nats.
        trust: Largest extrapolation at the start, as a multiple of the last move.
        grow: Factor on the trust after an extrapolation that was kept.
        shrink: Divisor of the trust after one that was not.
        sweeps: Coordinate sweeps in each E step.
    """

    max_move: float = 6.0
    trust: float = 1000.0
    grow: float = 4.0
    shrink: float = 30.0
    sweeps: int = 1
    iterations: ClassVar[int] = 3

    def __post_init__(self):
        """Refuse bad options."""
        _validate.count("sweeps", self.sweeps, low=1)
        for name in ("max_move", "trust", "grow", "shrink"):
            _validate.option(name, getattr(self, name))

    def init(self, problem: Problem, state: State) -> AcceleratedCarry:
        """The carry before the first step."""
        return self.carry_at(state, _steps.residual(problem, state))

    def carry_at(self, state: State, residual: Float[Array, " n"]) -> AcceleratedCarry:
        """The same from a residual at hand."""
        dtype = state.weights.dtype
        return AcceleratedCarry(
            state=state,
            residual=residual,
            progress=begin(jnp.asarray(-jnp.inf, dtype)),
            trust=jnp.asarray(self.trust, dtype),
            moves=jnp.full((2, len(state.weights)), jnp.inf, dtype),
        )

    def step(self, problem: Problem, carry: AcceleratedCarry) -> AcceleratedCarry:
        """One cycle."""
        start = carry.state
        first, left = _steps.em_iteration(problem, start, carry.residual, self.sweeps)
        second, left = _steps.em_iteration(problem, first, left.residual, self.sweeps)
        # Weights stay, so the residual does too.
        beyond = self.beyond(carry, first, second)
        third, third_left = _steps.em_iteration(problem, beyond, left.residual, self.sweeps)
        bound = bound_after_m_step(problem, third, third_left.sum_squares)
        return self.judge(
            problem,
            carry,
            first,
            Candidate(
                second, left.residual, lambda: bound_after_m_step(problem, second, left.sum_squares)
            ),
            Candidate(third, third_left.residual, lambda: bound),
        )

    def beyond(self, carry: AcceleratedCarry, first: State, second: State) -> State:
        """The state that two EM iterations point to: rates moved on, all else as in the second."""
        # Once the bound has stopped rising, what is left to extrapolate is rounding: plain EM
        # settles where extrapolation would only stir.
        settling = carry.progress.idle > _PATIENCE
        trust = jnp.where(settling, 0, carry.trust)
        return second._replace(log_odds=self._extrapolate(carry.state, first, second, trust))

    def judge(
        self,
        problem: Problem | Totals,
        carry: AcceleratedCarry,
        first: State,
        second: Candidate,
        third: Candidate,
    ) -> AcceleratedCarry:
        """The carry after a cycle: with the third state if its bound has not fallen.

        Args:
            problem: The dataset.
            carry: The carry before.
            first: The state after one EM iteration.
            second: After another one.
            third: After one from beyond.
        """
        start, bound = carry.state, third.bound()
        slack = bound_slack(problem, bound)
        best = carry.progress.bound
        pruned = jnp.any(start.active != third.state.active)
        kept = jnp.isfinite(bound) & (pruned | (bound >= best - slack))
        trust = jnp.where(kept, carry.trust * self.grow, carry.trust / self.shrink)
        state, residual = select(kept, third[:2], second[:2])
        # What the next extrapolation has to reach is the bound of the state it starts from.
        own = jax.lax.cond(kept, lambda: bound, second.bound)
        changed = jnp.any(start.active != state.active)
        return AcceleratedCarry(
            state=state,
            residual=residual,
            progress=carry.progress.after_step(own, slack, changed),
            trust=jnp.clip(trust, _LEAST_TRUST, _MOST_TRUST),
            moves=_log_inclusion_moves(start, first, second.state),
        )

    def settled(
        self, problem: Problem | Totals, carry: AcceleratedCarry, tolerance: Float[Array, ""]
    ) -> Bool[Array, ""]:
        """Whether the last EM iterations too predict that the fixed point is near.

        From cycle to cycle long extrapolations and small EM moves alternate, so that the course
        of the states alone may look as if it were dying down. Here d2^2 / (d1 - d2), the rest of
        a geometric series, has to be within the tolerance too. A move within rounding counts as
        none: whether it hides a drift is for the windows of `_stopping` to tell.
        """
        d1, d2 = carry.moves
        u = jax.nn.log_sigmoid(carry.state.log_odds)
        active = carry.state.active
        rounding = rounding_of(jnp.where(active, u, 0))
        slowing = d1 > d2
        to_go = jnp.where(slowing, d2**2 / jnp.where(slowing, d1 - d2, 1), jnp.inf)
        at_rest = d2 <= rounding + crawl(problem, tolerance)
        return jnp.all(at_rest | (to_go <= tolerance) | ~active)

    def result(self, problem: Problem, carry: AcceleratedCarry) -> State:
        """The state to report."""
        del problem
        return _steps.restrict(carry.state, carry.state.active)

    def stalled(self, carry: AcceleratedCarry) -> Bool[Array, ""]:
        """Whether the bound has long stopped rising."""
        return carry.progress.stalled

    def _extrapolate(
        self, start: State, first: State, second: State, trust: Float[Array, ""]
    ) -> Float[Array, " k"]:
        """Log-odds moved on along their course; rates of exactly zero or one stand still."""
        inside = second.active
        for state in (start, first, second):
            inside &= jnp.isfinite(state.log_odds)
        l0, l1, l2 = (jnp.where(inside, s.log_odds, 0) for s in (start, first, second))
        r1, r2 = l1 - l0, l2 - l1
        # A move within rounding says nothing of the course, whatever it is multiplied by.
        noise = 4 * jnp.finfo(l2.dtype).eps * (1 + jnp.abs(l2))
        moving = inside & (jnp.abs(r1) > noise) & (jnp.abs(r2) > noise)
        rho = r2 / jnp.where(moving, r1, 1)
        slowing = rho < 1
        factor = jnp.where(slowing, rho / jnp.where(slowing, 1 - rho, 1), trust)
        factor = jnp.where(rho > -1, jnp.minimum(factor, trust), 0)
        move = jnp.where(moving, jnp.clip(r2 * factor, -self.max_move, self.max_move), 0)
        return jnp.where(inside, l2 + move, second.log_odds)


def _log_inclusion_moves(start: State, first: State, second: State) -> Float[Array, "2 k"]:
    """Absolute changes of log inclusion from one state to the next; zero where pruned."""
    u0, u1, u2 = (
        jnp.where(second.active, jax.nn.log_sigmoid(s.log_odds), 0) for s in (start, first, second)
    )
    return jnp.stack([jnp.abs(u1 - u0), jnp.abs(u2 - u1)])
