"""The arguments that `fit` and `fit_batch` share, checked in one place."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bmjax._checks import validate
from bmjax._model.options import SPARSE_RATES, Frame, Options, Plan
from bmjax._runtime import threads
from bmjax._selection.criterion import CRITERIA
from bmjax._solvers.accelerated import Accelerated
from bmjax._solvers.paper import Solver

_DEFAULT_STARTS, _MOVES = 2, 5
_MOST_MOVES = 10_000  # each is a row of the table of fits, made or not
# In the order in which they help: low rates weak signals, high rates strong ones.
_DENSE_RATES = (0.1, 0.5, 0.99, 0.05, 0.2, 0.9, 0.02, 0.3)


class Checked(NamedTuple):
    """Checked arguments.

    Attributes:
        options: Those that are numbers.
        solver: The solver.
        plan: How many fits a dataset gets.
        frame: How a dataset is brought into the form that is fitted.
    """

    options: Options
    solver: Solver
    plan: Plan
    frame: Frame


def checked(
    k: int,
    dtype: Any,
    *,
    intercept: Any,
    unmasked: Any,
    standardize: Any,
    solver: Any,
    noise_precision: Any,
    initial_weights: Any,
    initial_inclusion: Any,
    starts: Any,
    moves: Any,
    criterion: Any,
    prune_threshold: Any,
    tolerance: Any,
    max_steps: Any,
) -> Checked:
    """The arguments as arrays of the right type, defaults filled in.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a shape does not fit or a value is out of range.
    """
    threads.enter()
    if solver is None:
        solver = Accelerated()
    if isinstance(solver, type) or not isinstance(solver, Solver):
        raise TypeError(
            f"solver is {solver!r}; give bmjax.Accelerated(), bmjax.EM(), bmjax.EG() or "
            "bmjax.Hybrid()."
        )
    if noise_precision is not None:
        noise_precision = validate.number(
            "noise_precision", noise_precision, dtype, low=0, open_low=True
        )
    if initial_weights is not None:
        initial_weights = validate.per_feature("initial_weights", initial_weights, k, dtype)
    sparse, rates = _starts(k, dtype, initial_inclusion, initial_weights, starts)
    alone = initial_inclusion is not None or initial_weights is not None
    if moves is None:
        moves = 0 if alone else _MOVES
    moves = validate.count("moves", moves, low=0, high=_MOST_MOVES)
    criterion = validate.choice("criterion", criterion, CRITERIA)
    plan = Plan(sparse=sparse, dense=len(rates), moves=moves, criterion=criterion)
    if unmasked is not None:
        unmasked = validate.chosen_features("unmasked", unmasked, k)
    if prune_threshold is None:
        prune_threshold = float(jnp.finfo(dtype).eps)
    max_steps = validate.steps("max_steps", max_steps)
    options = Options(
        noise_precision=noise_precision,
        initial_weights=initial_weights,
        rates=rates,
        unmasked=unmasked,
        prune_threshold=validate.number(
            "prune_threshold", prune_threshold, dtype, low=0, high=1, open_low=False
        ),
        tolerance=validate.number("tolerance", tolerance, dtype, low=0, open_low=False),
        max_steps=jnp.asarray(max_steps, jnp.int32),
    )
    frame = Frame(
        intercept=validate.flag("intercept", intercept),
        standardize=validate.flag("standardize", standardize),
    )
    return Checked(options, solver, plan, frame)


def _starts(
    k: int, dtype: Any, initial_inclusion: Any, initial_weights: Any, starts: Any
) -> tuple[int, Array]:
    """How many starts come from the best subset, and the rates of those from all features."""
    if initial_inclusion is not None or initial_weights is not None:
        if starts is not None:
            raise ValueError(
                "starts is given beside initial_inclusion or initial_weights, which mean one fit "
                "from one start; give the rates of several as starts=[0.1, 0.5]."
            )
        rate = 0.5 if initial_inclusion is None else initial_inclusion
        return 0, validate.rates("initial_inclusion", rate, k, dtype)[None]
    starts = _DEFAULT_STARTS if starts is None else starts
    if isinstance(starts, str) or not hasattr(starts, "__len__"):
        number = validate.count("starts", starts, low=1)
        most = len(SPARSE_RATES) + len(_DENSE_RATES)
        if number > most:
            raise ValueError(
                f"starts is {number}; there are {most} built-in starts, so give the rates of more."
            )
        sparse = min(number, len(SPARSE_RATES))
        rates = np.asarray(_DENSE_RATES[: number - sparse], dtype).reshape(-1, 1)
        return sparse, jnp.asarray(np.broadcast_to(rates, (len(rates), k)))
    return 0, validate.rate_rows("starts", starts, k, dtype)
