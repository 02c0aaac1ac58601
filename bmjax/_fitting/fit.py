"""`fit`: the fit of one dataset."""

from __future__ import annotations

from functools import partial
from typing import Any, Unpack

import jax
import numpy as np
from jax.sharding import Mesh
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bmjax._checks import inputs, validate
from bmjax._fitting.checking import Checked, checked
from bmjax._fitting.dataset import (
    Outputs,
    Settings,
    always_in,
    best_of_all,
    room_of,
    settings_of,
    slots_to_move,
    told,
    with_room,
)
from bmjax._fitting.host_units import Shape, enter_on_host
from bmjax._fitting.options import FitOptions, takes_options
from bmjax._fitting.units import enter, leave
from bmjax._model.options import Options
from bmjax._model.working_set import gathered, spread
from bmjax._results.implicit import Optimum, optimum
from bmjax._results.names import by_number, names_of
from bmjax._results.result import Result
from bmjax._runtime import ladder, sharding
from bmjax._runtime.debugging import unwatched
from bmjax._runtime.precision import full_precision
from bmjax._runtime.threads import one_blas_thread
from bmjax._selection.multistart import points
from bmjax._selection.starts import room_for


@takes_options()
@unwatched
def fit(
    X: ArrayLike,
    y: ArrayLike,
    *,
    sample_weights: ArrayLike | None = None,
    uncertainty: bool = True,
    history: bool = False,
    mesh: Mesh | None = None,
    **options: Unpack[FitOptions],
) -> Result:
    """Fit Bayesian masking, y = (X o Z) weights + noise, by factorized asymptotic inference.

    By default this is the model of the paper, without an intercept. It runs in the floating-point
    type of the input as JAX sees it: float32 unless float64 is enabled. It works unchanged inside
    `jax.jit` and `jax.vmap`, where values cannot be checked and a bad dataset is reported by its
    `status`. Under `jax.debug_nans` and `jax.debug_infs` let your compiled function return fields
    such as `coef` rather than the whole result: the result and its `standard_errors` hold NaN where
    a value is undefined, and JAX refuses any NaN or infinity that leaves a compiled program. It is
    compiled once for each shape, type, solver and set of arguments given; other values of the
    arguments compile nothing.

    Args:
        X: (n, k) features, samples in rows. The column names of a frame stay with the result.
        y: (n,) target; (n, 1) is taken as (n,). The name of a series stays with the result.
        sample_weights: (n,) how often each row counts, >= 0: with 0 the row is absent, and an
            integer is the same as the row repeated, in every n of the bound too (where there are no
            more distinct rows than features, their number limits the support). A fraction counts as
            that part of an observation, so the sum of the weights is the amount of data, and
            weights that are only relative should be scaled to a mean of one.
        options: Options are given by name.
        uncertainty: Whether to compute the covariance of the effects, for `standard_errors` and
            `predict(..., return_std=True)`.
        history: Whether to record each step of the solver in the fit that is returned: each
            iteration, or each cycle of three for `Accelerated`. The record takes a row of memory
            for each step that `max_steps` allows.
        mesh: Devices to spread the rows over, of any axes: each works on its own rows, and only
            sums over rows cross between devices. With several processes each makes the same call
            and has the whole result; where none can hold all rows, give X and y as arrays that are
            already spread, such as from `jax.make_array_from_process_local_data`. Default: one
            device.

    Returns:
        The fitted model. `status` says how it ended; a fit never raises once it has begun. Its
        `coef`, `weights`, `inclusion`, `intercept`, `noise_precision` and `bound` have first
        derivatives in X, y, `sample_weights` and a known `noise_precision`, in forward and reverse
        mode, as by `jax.jacobian(lambda y: fit(X, y).coef)(y)`: those of the optimum found, by the
        implicit function theorem. They hold while the support stays and no other fit comes out
        ahead: where either changes, `coef` jumps. They are zero where a feature is pruned, and as
        exact as the fit: give a small `tolerance`, such as 1e-6 in float64. An inclusion rate that
        has not converged, as after `MAX_STEPS`, is held fixed; where the optimum is flat (as with
        nearly equal columns) the derivative is large, and it may be NaN if the fit is not at a
        maximum. Starting values do not move the optimum next to them; all other fields count as
        constants.

    Raises:
        TypeError: If an argument has the wrong type, such as strings or complex numbers.
        ValueError: If a shape does not fit, a value is not finite, or an option is out of range.

    Reference:
        Kondo, Maeda, Hayashi, "Bayesian Masking: Sparse Bayesian Estimation with Weaker
        Shrinkage Bias", ACML 2015.

    Example:
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> fit = bmjax.fit(X, y, intercept=True)
        >>> [name for name, kept in zip(names, fit.support) if kept]
        ['sex', 'bmi', 'bp', 's1', 's4', 's5']
        >>> round(float(fit.coef[2]), 1), round(float(fit.standard_errors[2]), 1)
        (5.9, 0.7)
    """
    names = names_of(X, y)
    options = by_number(options, names)
    over = sharding.checked(mesh)
    outputs = partial(
        _outputs,
        uncertainty=validate.flag("uncertainty", uncertainty),
        history=validate.flag("history", history),
    )
    if over is None and inputs.at_hand(X, y, sample_weights, *options.values()):
        host_X, host_y, counts, dtype = inputs.on_host(X, y, sample_weights)
        with jax.ensure_compile_time_eval():
            given = checked(host_X.shape[1], dtype, options)
        inputs.outcomes(given.options.family, host_y, counts)
        # Infinite log-odds are meant, and squares out of range have a status: no reason to warn.
        with np.errstate(all="ignore"), one_blas_thread():
            result = _at_hand(host_X, host_y, counts, given, outputs(given))
        with jax.ensure_compile_time_eval():  # also while the caller's function is traced
            return told(jax.device_put(result), names, given)
    X, y, sample_weights = inputs.weighted_data(X, y, sample_weights)
    given = checked(X.shape[1], X.dtype, options)
    settings = settings_of(given, room_of(len(y), X.shape[1], given), outputs(given))
    if over is None:
        result = compiled(X, y, sample_weights, given.options, settings=settings)
        return told(result, names, given)
    X, y, sample_weights = sharding.rows_split(over, X, y, sample_weights)
    numbers = sharding.everywhere(over, given.options)
    result = compiled(X, y, sample_weights, numbers, settings=settings)
    return told(sharding.local(result), names, given)


def _outputs(given: Checked, uncertainty: bool, history: bool) -> Outputs:
    """The optional outputs of a fit, with the length of its history for the solver."""
    length = int(given.options.max_steps) // given.solver.iterations if history else None
    return Outputs(uncertainty, length)


def _at_hand(
    X: np.ndarray,
    y: np.ndarray,
    sample_weights: np.ndarray | None,
    given: Checked,
    outputs: Outputs,
) -> Result:
    """The fit of known arrays, padded to a rung of the ladder, in as few slots as it needs.

    Units are converted in NumPy, before and after, so that only the fit itself is compiled.
    """
    n, k = X.shape
    frame, plan = given.frame, given.plan
    width = k + int(frame.intercept)
    shape = Shape(*ladder.filled_shape(n, width))
    problem, options, units = enter_on_host(frame, given.options, X, y, sample_weights, shape)
    most = shape.features if n > width else min(n // 2 + always_in(given, k), shape.features)
    room = room_for(
        n, width, ladder.slots(8, most), shape.features, groups=given.labels is not None
    )
    starts, room = with_room(lambda room: points(problem, options, plan, room), room, most)
    if plan.dense == 0 and shape.features > 16:
        size = int(np.sum(np.any(starts.inclusion > 0, axis=0) | ~problem.maskable))
        needed = size + slots_to_move(options, plan)
        room = room._replace(fit=ladder.slots(needed, shape.features))
    _, result = best_of_all(problem, options, settings_of(given, room, outputs), starts)
    result = leave(frame, units, result, np)
    return jax.tree.map(lambda leaf: _as_fitted(leaf, problem.y.dtype), result)


def _as_fitted(leaf: Any, dtype: Any) -> np.ndarray:
    """A field of the result as a NumPy array, floating-point numbers in the type of the fit."""
    leaf = np.asarray(leaf)
    return leaf.astype(dtype) if np.issubdtype(leaf.dtype, np.floating) else leaf


@full_precision
def run(
    X: Float[Array, "n k"],
    y: Float[Array, " n"],
    sample_weights: Float[Array, " n"] | None,
    options: Options,
    *,
    settings: Settings,
) -> Result:
    """The fit of checked arguments, a pure function to be compiled."""
    problem, numbers, units = enter(settings.frame, options, X, y, sample_weights)
    data = problem  # with its tangents, which the loops below cannot carry
    problem, numbers = jax.lax.stop_gradient((problem, numbers))
    starts, _ = points(problem, numbers, settings.plan, settings.room)
    end, result = best_of_all(problem, numbers, settings, starts)
    # The conversion to the user's units depends on the data as well.
    moving = optimum(gathered(data, end.features), end.outcome.state, result.bound)
    by_feature = {
        name: spread(getattr(moving, name), end.features, len(data.X))
        for name in ("coef", "weights", "inclusion")
    }
    result = leave(
        settings.frame,
        units,
        result._replace(noise_precision=moving.noise_precision, bound=moving.bound, **by_feature),
    )
    fixed = jax.lax.stop_gradient(result)
    named = (*Optimum._fields, "intercept", "center")
    return fixed._replace(**{name: getattr(result, name) for name in named})


compiled = jax.jit(run, static_argnames="settings")
