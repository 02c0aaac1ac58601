"""`fit`: one dataset, one call."""

import jax
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bmjax import _lane, _loop, _validate
from bmjax._options import checked
from bmjax._result import Result
from bmjax._solvers import Solver


def fit(
    X: ArrayLike,
    y: ArrayLike,
    *,
    solver: Solver | None = None,
    noise_precision: ArrayLike | None = None,
    initial_weights: ArrayLike | None = None,
    initial_inclusion: ArrayLike = 0.5,
    prune_threshold: ArrayLike | None = None,
    tolerance: ArrayLike = 1e-3,
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
    options, solver = checked(
        X.shape[1],
        X.dtype,
        solver=solver,
        noise_precision=noise_precision,
        initial_weights=initial_weights,
        initial_inclusion=initial_inclusion,
        prune_threshold=prune_threshold,
        tolerance=tolerance,
        max_steps=max_steps,
    )
    return _fit(
        X,
        y,
        options,
        solver=solver,
        history_length=max_steps // solver.iterations if history else None,
    )


def run(
    X: Float[Array, "n k"],
    y: Float[Array, " n"],
    options: _lane.Options,
    *,
    solver: Solver,
    history_length: int | None = None,
) -> Result:
    """The fit of checked arguments, a pure function to be compiled."""
    problem = options.problem(X.T, y)
    lane = _lane.start(problem, options, solver)

    def advance(lane: _loop.Lane) -> _loop.Lane:
        return _lane.advance(problem, options, solver, lane)

    if history_length is None:
        return _lane.report(problem, solver, _loop.run(advance, lane))
    lane, course = _loop.run_recorded(
        advance, lane, lambda lane: _lane.record(problem, lane), history_length
    )
    return _lane.report(problem, solver, lane, course)


_fit = jax.jit(run, static_argnames=("solver", "history_length"))
