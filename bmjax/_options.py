"""The arguments that `fit` and `fit_batch` share, checked in one place."""

from typing import Any

import jax.numpy as jnp

from bmjax import _validate
from bmjax._accelerated import Accelerated
from bmjax._lane import Options
from bmjax._solvers import Solver


def checked(
    k: int,
    dtype: Any,
    *,
    solver: Any,
    noise_precision: Any,
    initial_weights: Any,
    initial_inclusion: Any,
    prune_threshold: Any,
    tolerance: Any,
    max_steps: Any,
) -> tuple[Options, Solver]:
    """The arguments as arrays of the right type, and the solver, defaults filled in.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a shape does not fit or a value is out of range.
    """
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
    options = Options(
        noise_precision=noise_precision,
        initial_weights=initial_weights,
        initial_inclusion=_validate.rates("initial_inclusion", initial_inclusion, k, dtype),
        prune_threshold=_validate.number(
            "prune_threshold", prune_threshold, dtype, low=0, high=1, open_low=False
        ),
        tolerance=_validate.number("tolerance", tolerance, dtype, low=0, open_low=False),
        max_steps=jnp.asarray(max_steps, jnp.int32),
    )
    return options, solver
