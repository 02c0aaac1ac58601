"""`fit`: one dataset, one call."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bmjax._checks import validate
from bmjax._fitting.host_units import Shape, enter_on_host
from bmjax._fitting.options import Checked, checked
from bmjax._fitting.units import enter, leave
from bmjax._model.options import Frame, Plan
from bmjax._model.working_set import gathered, spread
from bmjax._results.covariance import uncertainty as uncertainty_at
from bmjax._results.implicit import implicit_coef
from bmjax._results.result import Result
from bmjax._runtime import ladder, sharding
from bmjax._runtime.precision import full_precision
from bmjax._runtime.threads import one_blas_thread
from bmjax._selection.in_memory import InMemory, report
from bmjax._selection.multistart import best_fit, points
from bmjax._selection.starts import Room
from bmjax._solvers import one_fit
from bmjax._solvers.paper import Solver


class Outputs(NamedTuple):
    """What is wanted of a fit beside the fit itself, a static argument.

    Attributes:
        uncertainty: Whether to find the covariance of the effects.
        history_length: Steps of the solver to keep a record of, None for no record.
        differentiable: Whether the effects have a derivative.
    """

    uncertainty: bool
    history_length: int | None = None
    differentiable: bool = False


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
    asked = {
        "intercept": intercept,
        "unmasked": unmasked,
        "standardize": standardize,
        "solver": solver,
        "noise_precision": noise_precision,
        "initial_weights": initial_weights,
        "initial_inclusion": initial_inclusion,
        "starts": starts,
        "moves": moves,
        "criterion": criterion,
        "prune_threshold": prune_threshold,
        "tolerance": tolerance,
        "max_steps": max_steps,
    }
    over = sharding.checked(mesh)
    wanted = Outputs(
        uncertainty=validate.flag("uncertainty", uncertainty),
        differentiable=validate.flag("differentiable", differentiable),
    )

    def outputs(given: Checked) -> Outputs:
        length = max_steps // given.solver.iterations if history else None
        return wanted._replace(history_length=length)

    if over is None and validate.at_hand(X, y, sample_weights, *asked.values()):
        host_X, host_y, counts, dtype = validate.on_host(X, y, sample_weights)
        with jax.ensure_compile_time_eval():
            given = checked(host_X.shape[1], dtype, **asked)
        # Infinite log-odds, and squares out of range, which have a status, are no reason to warn.
        with np.errstate(all="ignore"), one_blas_thread():
            result = _at_hand(host_X, host_y, counts, given, outputs(given))
        with jax.ensure_compile_time_eval():  # also while a function of the caller's is traced
            return jax.device_put(result)
    X, y, sample_weights = validate.weighted_data(X, y, sample_weights)
    given = checked(X.shape[1], X.dtype, **asked)
    options = given.options
    room = room_of(len(y), X.shape[1], given)
    if over is not None:
        X, y, sample_weights = sharding.rows_split(over, X, y, sample_weights)
        options = sharding.everywhere(over, options)
    result = _fit(
        X,
        y,
        sample_weights,
        options,
        solver=given.solver,
        plan=given.plan,
        frame=given.frame,
        room=room,
        outputs=outputs(given),
    )
    return result if over is None else sharding.local(result)


def _at_hand(
    X: np.ndarray,
    y: np.ndarray,
    sample_weights: np.ndarray | None,
    given: Checked,
    outputs: Outputs,
) -> Result:
    """The fit of arrays at hand, filled up to a rung of the ladder, in as many slots as it needs.

    Data enter and leave the units of the fit in NumPy, so that only the fit itself is compiled.
    """
    n, k = X.shape
    plan, frame = given.plan, given.frame
    width = k + int(frame.intercept)
    shape = Shape(*ladder.filled_shape(n, width))
    problem, options, units = enter_on_host(frame, given.options, X, y, sample_weights, shape)
    tall = n > width
    most = shape.features if tall else min(n // 2 + _always_in(given, k), shape.features)
    room = Room(tall, most if tall else ladder.slots(8, most), shape.features)
    starts, full = points(problem, options, plan, room)
    while full and room.search < most:
        room = room._replace(search=ladder.slots(4 * room.search, most))
        starts, full = points(problem, options, plan, room)
    if plan.dense == 0 and shape.features > 16:
        size = int(np.sum(np.any(starts.inclusion > 0, axis=0) | ~problem.maskable))
        slots = ladder.slots(size + plan.moves + 1, shape.features)
        room = room._replace(fit=slots)
    fitter = InMemory(problem, options, given.solver, outputs.history_length)
    end, record = best_fit(fitter, plan, starts, room.fit)
    certain = None
    if outputs.uncertainty:
        certain = uncertainty_at(problem, end.outcome.state, end.features)
    result = leave(frame, units, report(end, record, certain), np)
    return jax.tree.map(lambda leaf: _as_fitted(leaf, problem.y.dtype), result)


def _as_fitted(leaf: Any, dtype: Any) -> np.ndarray:
    """A field of the result in the type of the fit."""
    leaf = np.asarray(leaf)
    return leaf.astype(dtype) if np.issubdtype(leaf.dtype, np.floating) else leaf


def _always_in(given: Checked, k: int) -> int:
    """Features that are never masked."""
    unmasked = given.options.unmasked
    chosen = 0 if unmasked is None else int(np.sum(unmasked)) if validate.at_hand(unmasked) else k
    return chosen + int(given.frame.intercept)


def room_of(n: int, k: int, given: Checked) -> Room:
    """The room of a fit whose values cannot be looked at: as much as it may need."""
    width = k + int(given.frame.intercept)
    if n > width or given.plan.dense:
        return Room(n > width, width, width)
    most = min(n // 2 + _always_in(given, k) + 1, width)
    return Room(False, most, most)


@full_precision
def run(
    X: Float[Array, "n k"],
    y: Float[Array, " n"],
    sample_weights: Float[Array, " n"] | None,
    options: one_fit.Options,
    *,
    solver: Solver,
    plan: Plan,
    frame: Frame,
    room: Room,
    outputs: Outputs,
) -> Result:
    """The fit of checked arguments, a pure function to be compiled."""
    if outputs.differentiable:
        X, sample_weights = jax.lax.stop_gradient((X, sample_weights))
    problem, options, units = enter(frame, options, X, y, sample_weights)
    data = problem  # with its dependence on y, which the loops below cannot carry
    if outputs.differentiable:
        problem, options = jax.lax.stop_gradient((problem, options))
    starts = points(problem, options, plan, room)[0]
    fitter = InMemory(problem, options, solver, outputs.history_length)
    end, record = best_fit(fitter, plan, starts, room.fit)
    state, features = end.outcome.state, end.features
    certain = uncertainty_at(problem, state, features) if outputs.uncertainty else None
    result = report(end, record, certain)
    if not outputs.differentiable:
        return leave(frame, units, result)
    # The way back to the user's units depends on y as well.
    coef = implicit_coef(gathered(data, features), state)
    result = leave(frame, units, result._replace(coef=spread(coef, features, len(data.X))))
    fixed = jax.lax.stop_gradient(result)
    return fixed._replace(coef=result.coef, intercept=result.intercept)


_fit = jax.jit(run, static_argnames=("solver", "plan", "frame", "room", "outputs"))
