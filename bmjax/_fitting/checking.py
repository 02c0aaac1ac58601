"""The check of the options of a fit: arrays of the right type, with defaults filled in."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bmjax._checks import validate
from bmjax._checks.groups import Label, group_labels, same_in_group
from bmjax._fitting.options import OPTIONS, FitOptions
from bmjax._model.distributions import FAMILIES, Logistic, Student
from bmjax._model.family import Family
from bmjax._model.groups import Groups, groups_of
from bmjax._model.options import SPARSE_RATES, Frame, Options, Plan
from bmjax._runtime import threads
from bmjax._selection.criterion import CRITERIA
from bmjax._solvers.accelerated import Accelerated
from bmjax._solvers.paper import EG, Solver

_DEFAULT_STARTS, _MOVES = 2, 5
_MOST_MOVES = 10_000  # each is a row of the table of fits, made or not
# In the order in which they help: low rates weak signals, high rates strong ones.
_DENSE_RATES = (0.1, 0.5, 0.99, 0.05, 0.2, 0.9, 0.02, 0.3)


class Checked(NamedTuple):
    """The checked options of a fit, with its solver, plan and frame.

    Attributes:
        options: The options that are numbers or arrays.
        solver: The solver, which makes the steps.
        plan: The number of starts and moves, and the criterion that ranks fits.
        frame: Whether to add an intercept and whether to scale.
        labels: The label of each column's group, or None.
    """

    options: Options
    solver: Solver
    plan: Plan
    frame: Frame
    labels: tuple[Label, ...] | None = None


def checked(k: int, dtype: Any, options: FitOptions) -> Checked:
    """The options as arrays of the right type, defaults filled in.

    Args:
        k: Number of features.
        dtype: Floating-point type of the fit.
        options: The options that were given.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a shape does not fit or a value is out of range.
    """
    asked: dict[str, Any] = {name: option.default for name, option in OPTIONS.items()} | {**options}
    threads.enter()
    plan, rates = _plan(k, dtype, asked)
    precision, start, unmasked, threshold = (
        asked[name]
        for name in ("noise_precision", "initial_weights", "unmasked", "prune_threshold")
    )
    if precision is not None:
        precision = validate.number("noise_precision", precision, dtype, low=0, open_low=True)
    if start is not None:
        start = validate.per_feature("initial_weights", start, k, dtype)
    if unmasked is not None:
        unmasked = validate.chosen_features("unmasked", unmasked, k)
    if threshold is None:
        threshold = float(jnp.finfo(dtype).eps)
    family = family_of(asked["family"], precision, dtype)
    if family is not None and not family.has_units:
        precision = jnp.ones((), dtype)
    solver, labels = _solver(asked["solver"]), asked["groups"]
    if labels is not None:
        labels = group_labels("groups", labels, k)
    intercept = validate.flag("intercept", asked["intercept"])
    numbers = Options(
        noise_precision=precision,
        initial_weights=start,
        rates=rates,
        unmasked=unmasked,
        prune_threshold=validate.number(
            "prune_threshold", threshold, dtype, low=0, high=1, open_low=False
        ),
        tolerance=validate.number("tolerance", asked["tolerance"], dtype, low=0, open_low=False),
        max_steps=jnp.asarray(validate.steps("max_steps", asked["max_steps"]), jnp.int32),
        family=family,
    )
    numbers = numbers._replace(groups=_groups(labels, solver, asked, intercept=intercept))
    frame = Frame(intercept, validate.flag("standardize", asked["standardize"]))
    return Checked(numbers, solver, plan, frame, labels)


def _groups(
    labels: tuple[Label, ...] | None, solver: Solver, asked: dict[str, Any], *, intercept: bool
) -> Groups | None:
    """The groups of columns, with the feature of ones alone; None if every column is alone."""
    groups = None if labels is None else groups_of(labels + (None,) * intercept)
    if labels is None or groups is None:
        return None
    assert groups.members is not None
    if isinstance(solver, EG):
        raise ValueError(
            f"solver is {solver!r}, which steps in one weight and one rate at a time; with groups "
            "give bmjax.Accelerated() or bmjax.EM()."
        )
    for name in ("unmasked", "initial_inclusion", "starts"):
        same_in_group(name, asked[name], labels, groups.members)
    return groups


def family_of(family: Any, precision: Any, dtype: Any) -> Family | None:
    """The requested family, its parameters in the type of the fit; None for the Gaussian.

    Args:
        family: The name of a family, or a family.
        precision: The known noise precision, or None.
        dtype: Floating-point type of the fit.

    Raises:
        TypeError: If it is neither a name nor a family.
        ValueError: If there is no family of that name, a parameter is out of range, or a noise
            precision is given to a family without noise.
    """
    if family is None or (isinstance(family, str) and family == "gaussian"):
        return None
    if isinstance(family, str):
        family = FAMILIES[validate.choice("family", family, ("gaussian", *FAMILIES))]
    if not isinstance(family, Logistic | Student):
        raise TypeError(
            f"family is {family!r}; give one of {['gaussian', *FAMILIES]}, or bmjax.Student(...)."
        )
    if isinstance(family, Student) and family.degrees is not None:
        degrees = validate.number("degrees", family.degrees, dtype, low=0, open_low=True)
        return Student(degrees)
    if precision is not None and not family.has_units:
        raise ValueError(
            f"noise_precision is given, but family={family.name!r} has no noise to be known; leave "
            "it out."
        )
    return family


def _solver(solver: Any) -> Solver:
    """The solver, checked; `Accelerated()` if none was given."""
    if solver is None:
        return Accelerated()
    if isinstance(solver, type) or not isinstance(solver, Solver):
        raise TypeError(
            f"solver is {solver!r}; give bmjax.Accelerated(), bmjax.EM(), bmjax.EG() or "
            "bmjax.Hybrid()."
        )
    return solver


def _plan(k: int, dtype: Any, asked: dict[str, Any]) -> tuple[Plan, Array]:
    """The plan of a dataset's fits, and the inclusion rates of the starts from all features."""
    one_start = asked["initial_inclusion"], asked["initial_weights"]
    sparse, rates = _starts(k, dtype, *one_start, asked["starts"])
    moves = asked["moves"]
    if moves is None:
        moves = _MOVES if all(given is None for given in one_start) else 0
    plan = Plan(
        sparse=sparse,
        dense=len(rates),
        moves=validate.count("moves", moves, low=0, high=_MOST_MOVES),
        criterion=validate.choice("criterion", asked["criterion"], CRITERIA),
    )
    return plan, rates


def _starts(
    k: int, dtype: Any, initial_inclusion: Any, initial_weights: Any, starts: Any
) -> tuple[int, Array]:
    """The number of starts from the best subset, and the rates of those from all features."""
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
