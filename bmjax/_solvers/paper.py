"""The paper's algorithms as small immutable values that define a step, not the loop.

A solver implements the protocol `Solver`; a user's own class can do so too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float

from bmjax._checks import validate
from bmjax._model import steps, sweep
from bmjax._model.bound import bound_slack, lower_bound
from bmjax._model.gradient_rule import Parameters, paper_optimizer
from bmjax._model.problem import Problem, State
from bmjax._runtime.backend import select
from bmjax._solvers.safeguard import Progress, begin


@runtime_checkable
class Solver(Protocol):
    """The steps of a fit. A hashable, immutable value, since it is a static argument of the fit.

    The carry that `init` and `step` return is a pytree of arrays that keeps its structure, shapes
    and types, with the current `State` in a field `state`. `iterations` is the number of E steps in
    one step; `num_steps` and `max_steps` count E steps.

    If y is not Gaussian, each step gets the Gaussian problem that touches the likelihood at the
    present state. A field `residual` of the carry, y - (X o M) weights, is recomputed before.
    """

    iterations: ClassVar[int]

    def init(self, problem: Problem, state: State) -> Any:
        """The carry before the first step."""
        ...

    def step(self, problem: Problem, carry: Any) -> Any:
        """The carry after one step."""
        ...

    def result(self, problem: Problem, carry: Any) -> State:
        """The state to report if the fit ends now."""
        ...

    def settled(self, problem: Problem, carry: Any, tolerance: Float[Array, ""]) -> Bool[Array, ""]:
        """Whether the fit may count as converged; False overrules the verdict from its states."""
        ...

    def stalled(self, carry: Any) -> Bool[Array, ""]:
        """Whether further steps are known not to help."""
        ...


class EMCarry(NamedTuple):
    """The carry of `EM`.

    Attributes:
        state: The state.
        residual: y - (X o M) weights at this state, from the M step, for the next E step.
    """

    state: State
    residual: Float[Array, " n"]


@dataclass(frozen=True)
class EM:
    """FAB-EM, Algorithm 1 of the paper: E step, pruning, M step.

    The bound never falls while no feature is pruned. The log-odds of an idle feature drift by about
    1 / (2 n) a step, so thousands of steps are usual.

    Attributes:
        sweeps: Number of coordinate sweeps in each E step.

    Example:
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> bmjax.fit(X, y, solver=bmjax.EM(), initial_inclusion=0.5)  # doctest: +SKIP
        >>> bmjax.EM().iterations
        1
    """

    sweeps: int = 1
    iterations: ClassVar[int] = 1

    def __post_init__(self):
        """Refuse options that are out of range."""
        validate.count("sweeps", self.sweeps, low=1)

    def init(self, problem: Problem, state: State) -> EMCarry:
        """The carry before the first step."""
        return EMCarry(state, sweep.residual(problem, state))

    def step(self, problem: Problem, carry: EMCarry) -> EMCarry:
        """The carry after one iteration."""
        state, left = steps.em_iteration(problem, carry.state, carry.residual, self.sweeps)
        return EMCarry(state, left.residual)

    def settled(
        self, problem: Problem, carry: EMCarry, tolerance: Float[Array, ""]
    ) -> Bool[Array, ""]:
        """True, since the states of EM show its convergence."""
        del problem, carry, tolerance
        return jnp.asarray(True)

    def result(self, problem: Problem, carry: EMCarry) -> State:
        """The state to report."""
        del problem
        return steps.restrict(carry.state, carry.state.active)

    def stalled(self, carry: EMCarry) -> Bool[Array, ""]:
        """False, since the bound rises until EM is at rest."""
        del carry
        return jnp.asarray(False)


class EGCarry(NamedTuple):
    """The carry of `EG` and `Hybrid`.

    Attributes:
        state: The parameters, and the mask means of the E step at these.
        progress: The course of the bound; with the safeguard its highest bound is that of `state`.
        optimizer: The state of the optax chain.
        best: Without a safeguard, the best state so far for this active set, and its bound.
    """

    state: State
    progress: Progress
    optimizer: Any
    best: tuple[State, Float[Array, ""]] | None


@dataclass(frozen=True)
class EG:
    """FAB-EG: the G step, a gradient step in (weights, inclusion), in place of the M step.

    With the paper's constant learning rate the G step overshoots where noise precision times mean
    squared feature is large, and it can cycle for ever. So the bound is compared after each E step:
    if it fell and no feature was pruned, the step is undone and an M step is made from the masks
    before it. The learning rate is absolute, so unlike `EM` this solver is not equivariant to the
    scale of a column. A weight of the wrong sign does not change its sign: its inclusion rate falls
    to zero instead, so start from weights near least squares (the default).

    Attributes:
        learning_rate: eta of equation (20): a number, an optax schedule, or None for the paper's
            2e-2 / n (appendix C).
        reparametrize: Whether to precondition; False for the plain gradient of section 5.2.2.
        cap: Largest update of an inclusion, by shrinking the whole step (appendix C), or None.
        optimizer: Another optax optimiser in place of the learning rate. Each new object is
            compiled again, so build it once.
        safeguard: Whether to undo steps that lower the bound; False runs the paper's algorithm as
            printed and returns the best state met.
        sweeps: Number of coordinate sweeps in each E step.

    Example:
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> solver = bmjax.EG(learning_rate=0.1)
        >>> bmjax.fit(X, y, standardize=True, solver=solver)  # doctest: +SKIP
        >>> solver.safeguard
        True
    """

    learning_rate: float | optax.Schedule | None = None
    reparametrize: bool = True
    cap: float | None = 0.05
    optimizer: optax.GradientTransformation | None = None
    safeguard: bool = True
    sweeps: int = 1
    iterations: ClassVar[int] = 1

    def __post_init__(self):
        """Refuse options that are out of range."""
        validate.count("sweeps", self.sweeps, low=1)
        validate.flag("reparametrize", self.reparametrize)
        validate.flag("safeguard", self.safeguard)
        if self.cap is not None:
            validate.option("cap", self.cap)
        if self.learning_rate is not None and not callable(self.learning_rate):
            validate.option("learning_rate", self.learning_rate)
        if self.optimizer is not None:
            if not isinstance(self.optimizer, optax.GradientTransformation):
                raise TypeError(
                    f"optimizer is {self.optimizer!r}; give an optax gradient transformation."
                )
            if self.learning_rate is not None:
                raise ValueError(
                    "both learning_rate and optimizer are given; the optimizer stands in the "
                    "place of the learning rate, so give it its own."
                )

    def _chain(self, problem: Problem) -> optax.GradientTransformation:
        rate = self.learning_rate
        return paper_optimizer(
            2e-2 / problem.num_samples if rate is None else rate,
            reparametrize=self.reparametrize,
            cap=self.cap,
            optimizer=self.optimizer,
        )

    def _takes_m_step(self, carry: EGCarry) -> Bool[Array, ""]:
        del carry
        return jnp.asarray(False)

    def init(self, problem: Problem, state: State) -> EGCarry:
        """The carry before the first step: an E step at the initial parameters."""
        state = self._estimate_masks(problem, state)
        bound = lower_bound(problem, state)
        return EGCarry(
            state=state,
            progress=begin(bound),
            optimizer=self._chain(problem).init(Parameters(state.weights, state.inclusion)),
            best=None if self.safeguard else (state, bound),
        )

    def step(self, problem: Problem, carry: EGCarry) -> EGCarry:
        """The carry after one iteration: G (or M) step, E step, pruning, and the safeguard.

        This is the paper's order with the first E step moved into `init`, so that the masks of a
        state always belong to its parameters and its bound is meaningful: the paper's own order
        pairs new parameters with old masks, and once an inclusion is clipped at one that bound is
        -inf.
        """
        before = carry.state
        left = sweep.residual(problem, before)
        by_m, _ = steps.maximise(problem, before, before.active)
        by_g, optimizer = steps.ascend(problem, before, left, self._chain(problem), carry.optimizer)
        m_turn = self._takes_m_step(carry)
        after = self._estimate_masks(problem, select(m_turn, by_m, by_g))
        bound = lower_bound(problem, after)

        pruned = jnp.any(before.active != after.active)
        highest = carry.progress.bound
        slack = bound_slack(problem, highest)
        best = carry.best
        if best is None:
            accepted = m_turn | pruned | (bound >= highest - slack)
            after = select(accepted, after, by_m)
            bound = jnp.where(accepted, bound, highest)
        else:
            best = select(pruned | (bound >= best[1]), (after, bound), best)
        return EGCarry(
            state=after,
            progress=carry.progress.after_step(bound, slack, pruned),
            optimizer=select(m_turn, carry.optimizer, optimizer),
            best=best,
        )

    def settled(
        self, problem: Problem, carry: EGCarry, tolerance: Float[Array, ""]
    ) -> Bool[Array, ""]:
        """True, since the states show convergence."""
        del problem, carry, tolerance
        return jnp.asarray(True)

    def result(self, problem: Problem, carry: EGCarry) -> State:
        """The state to report: an M step, which cannot lower the bound, at the best masks met."""
        return steps.m_step(problem, carry.state if carry.best is None else carry.best[0])

    def stalled(self, carry: EGCarry) -> Bool[Array, ""]:
        """Whether the bound stopped rising long ago."""
        return carry.progress.stalled

    def _estimate_masks(self, problem: Problem, state: State) -> State:
        residual = sweep.residual(problem, state)
        state = sweep.over_features(problem, state, residual, self.sweeps, skip_pruned=True)
        return steps.prune(problem, state)


@dataclass(frozen=True)
class Hybrid(EG):
    """Hybrid FAB-EM-EG, Algorithm 2 of the paper: M steps at first, G steps later.

    Attributes:
        switch: T, the number of M steps before the first G step.

    Example:
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> solver = bmjax.Hybrid(switch=100)  # gradient steps, then EM
        >>> bmjax.fit(X, y, standardize=True, solver=solver)  # doctest: +SKIP
        >>> solver.safeguard
        True
    """

    switch: int = 500

    def __post_init__(self):
        """Refuse options that are out of range."""
        super().__post_init__()
        validate.count("switch", self.switch, low=0)

    def _takes_m_step(self, carry: EGCarry) -> Bool[Array, ""]:
        return carry.progress.num_steps < self.switch
