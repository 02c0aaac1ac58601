"""`fit`: one dataset, one call."""

import jax
from jax.sharding import Mesh
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bmjax import _devices, _lane, _loop, _validate
from bmjax._derivative import implicit_coef
from bmjax._frame import Frame, enter, leave
from bmjax._optimum import Climb, Plan, begin, next_fit, points, report
from bmjax._options import checked
from bmjax._precision import full_precision
from bmjax._result import History, Result
from bmjax._solvers import Solver
from bmjax._types import select
from bmjax._uncertainty import uncertainty as uncertainty_at


def fit(
    X: ArrayLike,
    y: ArrayLike,
    *,
    intercept: bool = False,
    unmasked: ArrayLike | None = None,
    sample_weights: ArrayLike | None = None,
    standardize: bool = False,
    solver: Solver | None = None,
    noise_precision: ArrayLike | None = None,
    initial_weights: ArrayLike | None = None,
    initial_inclusion: ArrayLike | None = None,
    starts: ArrayLike | None = None,
    moves: int | None = None,
    criterion: str = "learned",
    prune_threshold: ArrayLike | None = None,
    tolerance: ArrayLike = 1e-3,
    max_steps: int = 20_000,
    uncertainty: bool = True,
    history: bool = False,
    differentiable: bool = False,
    mesh: Mesh | None = None,
) -> Result:
    """Fit Bayesian masking, y = (X o Z) weights + noise, by factorized asymptotic inference.

    By default the model of the paper, without an intercept. Runs in the floating-point type of
    the input as JAX sees it: float32 unless float64 is enabled. Works unchanged inside `jax.jit`
    and `jax.vmap`, where values cannot be checked and a bad dataset is reported by its `status`.
    Compiled once for each shape, type, solver and set of arguments given; other numbers compile
    nothing.

    Args:
        X: (n, k) features, samples in rows.
        y: (n,) target; (n, 1) is taken as (n,).
        intercept: Whether to fit the level of y, a feature of ones that is never masked. Columns
            and y are centred first, so that the fit does not depend on where a column has its
            zero. Default: no, as in the paper.
        unmasked: Features that are always in, never masked and never pruned: (k,) booleans, or
            their numbers.
        sample_weights: (n,) how often each row counts, >= 0: with 0 the row is absent, and an
            integer is the same as the row repeated, in every n of the bound too (where distinct
            rows are no more than the features, it is they that limit the support). A fraction
            counts as that part of an observation; so their sum says how much data there is, and
            weights that are only relative should be scaled to a mean of one.
        standardize: Whether to divide every column and y by its root mean square before the fit.
            Results are in the user's units either way. Of use with `EG` and `Hybrid`, whose
            learning rate is absolute; the other solvers do not depend on units.
        solver: `Accelerated()` (the default), or the paper's `EM()`, `EG(...)`, `Hybrid(...)`.
        noise_precision: One over the noise variance where it is known; it is then held fixed.
        initial_weights: (k,) weights to start from, instead of least squares. One fit, from all
            features, as with `initial_inclusion` (0.5 if that is not given).
        initial_inclusion: Inclusion rate(s) to start from, in (0, 1], a number or (k,): one fit,
            to the local optimum next to this start, as the paper has it. The bound has many and
            this decides which one is found: low rates serve weak signals, rates near one strong
            signals; the paper does not say what it used. Default: see `starts`.
        starts: Several starts, of which the one of the highest score is returned. A number: that
            many of the guided ones, which are the best subset of features, as far as a search by
            the score of features that are never masked finds it, at inclusion 0.99 and at 0.5,
            and then all features at 0.1, 0.5, 0.99, 0.05, 0.2, 0.9, 0.02 and 0.3. Or the rates,
            (s,) for all features or (s, k), where a feature at 0 starts out pruned. Default: 2.
        moves: Most moves tried after the starts: the best fit with a feature dropped, added or
            exchanged, fitted again and kept if the score is higher. Default: 5, or 0 if
            `initial_inclusion` or `initial_weights` is given.
        criterion: What ranks finished fits: `"learned"`, `"held"` or `"paper"`, by what each
            charges a kept feature at inclusion 1: log(n)/2 + log(tau)/2 with tau >= 1 the
            spread of the weights, and a charge for the number of features looked at; log(n)/2,
            which is BIC; or log(n), which is the bound itself.
        prune_threshold: A feature whose mean mask falls below this is pruned (delta). Default:
            the machine epsilon, as in the paper's first experiment.
        tolerance: Predicted distance to the fixed point that counts as converged, for log
            inclusion, for coefficients relative to the larger of effect and noise, and for the
            log noise level. Free of the scale of X and y and of n.
        max_steps: Most iterations (E steps), over all starts and moves.
        uncertainty: Whether to find the covariance of the effects, for `standard_errors` and
            `predict(..., return_std=True)`.
        history: Whether to record each step of the solver in the fit that is returned: each
            iteration, for `Accelerated` each cycle of three. Takes that many rows of memory.
        differentiable: Whether `coef` and `intercept` have a derivative with respect to y and to
            a known `noise_precision`, in forward and reverse mode, such as by
            `jax.jacobian(lambda y: fit(X, y, differentiable=True).coef)(y)`. It is that of the
            optimum found, by the implicit function theorem, and holds while the support stays
            and no other fit comes out ahead: where either changes, `coef` jumps. Zero where
            pruned. As exact as the fit: give a small `tolerance`, such as 1e-6 in float64. Where
            a rate is not at rest, as after `MAX_STEPS`, it is held; where the optimum is flat
            (columns that are nearly the same, say) the derivative is large, and it may be NaN
            if the fit is at no maximum. X, `sample_weights` and starting values count as
            constants, as does every other field of the result. First derivatives only. Without
            this there is forward mode alone, which goes through every iteration.
        mesh: Devices to spread the rows over, whatever its axes: each works on its own, and only
            sums over rows cross. With several processes each makes the same call and has the
            whole result; where none can hold all rows, give X and y as arrays that are already
            spread, such as from `jax.make_array_from_process_local_data`. Default: one device.

    Returns:
        The fitted model. `status` says how it ended; a fit never raises once it has begun.

    Raises:
        TypeError: If an argument has the wrong type, such as strings or complex numbers.
        ValueError: If a shape does not fit, a value is not finite, or an option is out of range.

    Reference:
        Kondo, Maeda, Hayashi, "Bayesian Masking: Sparse Bayesian Estimation with Weaker
        Shrinkage Bias", ACML 2015.
    """
    X, y, sample_weights = _validate.weighted_data(X, y, sample_weights)
    options, solver, plan, frame = checked(
        X.shape[1],
        X.dtype,
        intercept=intercept,
        unmasked=unmasked,
        standardize=standardize,
        solver=solver,
        noise_precision=noise_precision,
        initial_weights=initial_weights,
        initial_inclusion=initial_inclusion,
        starts=starts,
        moves=moves,
        criterion=criterion,
        prune_threshold=prune_threshold,
        tolerance=tolerance,
        max_steps=max_steps,
    )
    over = _devices.checked(mesh)
    if over is not None:
        X, y, sample_weights = _devices.rows_split(over, X, y, sample_weights)
        options = _devices.everywhere(over, options)
    result = _fit(
        X,
        y,
        sample_weights,
        options,
        solver=solver,
        plan=plan,
        frame=frame,
        with_uncertainty=_validate.flag("uncertainty", uncertainty),
        history_length=max_steps // solver.iterations if history else None,
        differentiable=_validate.flag("differentiable", differentiable),
    )
    return result if over is None else _devices.local(result)


@full_precision
def run(
    X: Float[Array, "n k"],
    y: Float[Array, " n"],
    sample_weights: Float[Array, " n"] | None,
    options: _lane.Options,
    *,
    solver: Solver,
    plan: Plan,
    frame: Frame,
    with_uncertainty: bool,
    history_length: int | None = None,
    differentiable: bool = False,
) -> Result:
    """The fit of checked arguments, a pure function to be compiled."""
    if differentiable:
        X, sample_weights = jax.lax.stop_gradient((X, sample_weights))
    problem, options, units = enter(frame, options, X, y, sample_weights)
    data = problem  # with its dependence on y, which the loops below cannot carry
    if differentiable:
        problem, options = jax.lax.stop_gradient((problem, options))
    climb = begin(problem, options, solver, plan, points(problem, options, plan))

    def advance(lane: _loop.Lane) -> _loop.Lane:
        return _lane.advance(problem, options, solver, lane)

    def record(lane: _loop.Lane) -> History:
        return _lane.record(problem, lane)

    def one_fit(best: tuple[Climb, History | None]) -> tuple[Climb, History | None]:
        climb, course = best
        if history_length is None:
            lane, own = _loop.run(advance, climb.lane), None
        else:
            lane, own = _loop.run_recorded(advance, climb.lane, record, history_length)
        climb = next_fit(problem, options, solver, plan, climb._replace(lane=lane))
        return climb, select(climb.improved, own, course)

    blank = None
    if history_length is not None:
        blank = _loop.blank_record(record, climb.lane, history_length)
    climb, course = jax.lax.while_loop(lambda best: ~best[0].done, one_fit, (climb, blank))
    certain = uncertainty_at(problem, climb.best.state) if with_uncertainty else None
    result = report(climb.best, climb.starts, certain, course)
    if not differentiable:
        return leave(frame, units, result)
    # The way back to the user's units depends on y as well.
    coef = implicit_coef(data, climb.best.state)
    result = leave(frame, units, result._replace(coef=coef))
    fixed = jax.lax.stop_gradient(result)
    return fixed._replace(coef=result.coef, intercept=result.intercept)


_fit = jax.jit(
    run,
    static_argnames=(
        "solver",
        "plan",
        "frame",
        "with_uncertainty",
        "history_length",
        "differentiable",
    ),
)
