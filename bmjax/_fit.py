"""`fit`: one dataset, one call."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from bmjax import _loop, _stopping, _validate
from bmjax._accelerated import Accelerated
from bmjax._bound import lower_bound
from bmjax._initial import initialise
from bmjax._result import History, Result
from bmjax._solvers import Solver
from bmjax._steps import noise_floor
from bmjax._types import Problem, State, Status


def fit(
    X: ArrayLike,
    y: ArrayLike,
    *,
    solver: Solver | None = None,
    noise_precision: ArrayLike | None = None,
    initial_weights: ArrayLike | None = None,
    initial_inclusion: ArrayLike = 0.5,
    prune_threshold: ArrayLike | None = None,
    tolerance: ArrayLike = 1e-4,
    max_steps: int = 20_000,
    history: bool = False,
) -> Result:
    """Fit Bayesian masking, y = (X o Z) weights + noise, by factorized asymptotic inference.

    The model of the paper: no intercept and no scaling, so centre the columns of X and y first
    if y has a level. Runs in the floating-point type of the input as JAX sees it: float32 unless
    float64 is enabled. Works unchanged inside `jax.jit` and `jax.vmap`, where values cannot be
    checked and a bad dataset is reported by its `status`. Compiled once for each shape, type,
    solver and set of arguments given; other numbers compile nothing.

    Args:
        X: (n, k) features, samples in rows.
        y: (n,) target; (n, 1) is taken as (n,).
        solver: `Accelerated()` (the default), or the paper's `EM()`, `EG(...)`, `Hybrid(...)`.
        noise_precision: One over the noise variance where it is known; it is then held fixed.
        initial_weights: (k,) weights to start from, instead of least squares.
        initial_inclusion: Inclusion rate(s) to start from, in (0, 1], a number or (k,). The
            bound has many local optima and this decides which one is found. Low rates serve
            weak signals, rates near one strong signals; the paper does not say what it used.
        prune_threshold: A feature whose mean mask falls below this is pruned (delta). Default:
            the machine epsilon, as in the paper's first experiment.
        tolerance: Predicted distance to the fixed point that counts as converged, for log
            inclusion, for coefficients relative to the larger of effect and noise, and for the
            log noise level. Free of the scale of X and y and of n.
        max_steps: Most iterations (E steps) to run.
        history: Whether to record each step of the solver: each iteration, for `Accelerated` each
            cycle of three. Takes that many rows of memory.

    Returns:
        The fitted model. `status` says how it ended; a fit never raises once it has begun.

    Raises:
        TypeError: If an argument has the wrong type, such as strings or complex numbers.
        ValueError: If a shape does not fit, a value is not finite, or an option is out of range.

    Reference:
        Kondo, Maeda, Hayashi, "Bayesian Masking: Sparse Bayesian Estimation with Weaker
        Shrinkage Bias", ACML 2015.
    """
    X, y = _validate.data(X, y)
    k, dtype = X.shape[1], X.dtype
    if solver is None:
        solver = Accelerated()
    if isinstance(solver, type) or not isinstance(solver, Solver):
        raise TypeError(
            f"solver is {solver!r}; give bmjax.Accelerated(), bmjax.EM(), bmjax.EG() or "
            "bmjax.Hybrid()."
        )
    if noise_precision is not None:
        noise_precision = _validate.number(
            "noise_precision", noise_precision, dtype, low=0, open_low=True
        )
    if initial_weights is not None:
        initial_weights = _validate.per_feature("initial_weights", initial_weights, k, dtype)
    if prune_threshold is None:
        prune_threshold = float(jnp.finfo(dtype).eps)
    max_steps = _validate.count("max_steps", max_steps, low=0)
    return _fit(
        X,
        y,
        noise_precision,
        initial_weights,
        _validate.rates("initial_inclusion", initial_inclusion, k, dtype),
        _validate.number("prune_threshold", prune_threshold, dtype, low=0, high=1, open_low=False),
        _validate.number("tolerance", tolerance, dtype, low=0, open_low=False),
        jnp.asarray(max_steps, jnp.int32),
        solver=solver,
        history_length=max_steps // solver.iterations if history else None,
    )


def _fit(
    X: Float[Array, "n k"],
    y: Float[Array, " n"],
    noise_precision: Float[Array, ""] | None,
    initial_weights: Float[Array, " k"] | None,
    initial_inclusion: Float[Array, " k"],
    prune_threshold: Float[Array, ""],
    tolerance: Float[Array, ""],
    max_steps: Int[Array, ""],
    *,
    solver: Solver,
    history_length: int | None,
) -> Result:
    problem = Problem(X.T, y, noise_precision, prune_threshold)
    state = initialise(problem, initial_inclusion, initial_weights)
    carry = solver.init(problem, state), _stopping.start(problem, state)
    most = max_steps // solver.iterations  # a lane counts the solver's steps

    def advance(lane: _loop.Lane) -> _loop.Lane:
        before, monitor = lane.carry
        after = solver.step(problem, before)
        num_steps = lane.num_steps + 1
        monitor, converged = _stopping.observe(
            problem, monitor, before.state, after.state, num_steps, tolerance
        )
        status = _verdict(after.state, converged, solver.stalled(after), num_steps >= most)
        return _loop.Lane((after, monitor), num_steps, status)

    def record(lane: _loop.Lane) -> History:
        state = lane.carry[0].state
        return History(
            weights=state.weights,
            inclusion=state.inclusion,
            noise_precision=state.noise_precision,
            bound=lower_bound(problem, state),
            active_count=jnp.sum(state.active, dtype=jnp.int32),
        )

    lane = _loop.launch(carry)
    at_once = _verdict(carry[0].state, ~jnp.any(state.active), jnp.asarray(False), most == 0)
    lane = lane._replace(status=at_once)
    if history_length is None:
        lane, course = _loop.run(advance, lane)
    else:
        lane, course = _loop.run(advance, lane, record, history_length)
    lane = lane._replace(num_steps=lane.num_steps * solver.iterations)
    return _report(problem, solver.result(lane.carry[0]), lane, course)


_fit = jax.jit(_fit, static_argnames=("solver", "history_length"))


def _verdict(state: State, converged: Array, stalled: Array, out_of_steps: Array) -> Array:
    """The status after a step, the gravest first."""
    status = jnp.where(out_of_steps, Status.MAX_STEPS, Status.RUNNING)
    status = jnp.where(stalled, Status.STALLED, status)
    status = jnp.where(converged, Status.CONVERGED, status)
    return jnp.where(state.finite, status, Status.NON_FINITE).astype(jnp.int32)


def _report(problem: Problem, state: State, lane: _loop.Lane, course: History | None) -> Result:
    bound = lower_bound(problem, state)
    at_floor = state.noise_precision * noise_floor(problem.y) > 0.99  # one, but for rounding
    learned = problem.noise_precision is None
    exact = (lane.status == Status.CONVERGED) & at_floor & jnp.any(state.active) & learned
    status = jnp.where(exact, Status.EXACT_FIT, lane.status).astype(jnp.int32)
    finite = state.finite & jnp.isfinite(bound)
    return Result(
        coef=jnp.where(state.active, state.coef, 0),
        weights=state.weights,
        inclusion=state.inclusion,
        support=state.active,
        noise_precision=state.noise_precision,
        bound=bound,
        num_steps=lane.num_steps,
        status=jnp.where(finite, status, Status.NON_FINITE).astype(jnp.int32),
        history=course,
    )
