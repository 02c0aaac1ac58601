"""The options that every kind of fit takes: their names, defaults and meanings, and their check."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import wraps
from typing import Any, NamedTuple, TypedDict, TypeVar, cast

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from bmjax._checks import validate
from bmjax._checks.groups import Label, group_labels, same_in_group
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


class FitOptions(TypedDict, total=False):
    """The options that every kind of fit takes as keywords; `OPTIONS` describes them."""

    family: str | Family | None
    intercept: bool
    unmasked: ArrayLike | None
    groups: Sequence[Label] | None
    standardize: bool
    solver: Solver | None
    noise_precision: ArrayLike | None
    initial_weights: ArrayLike | None
    initial_inclusion: ArrayLike | None
    starts: ArrayLike | None
    moves: int | None
    criterion: str
    prune_threshold: ArrayLike | None
    tolerance: ArrayLike
    max_steps: int


class _Option(NamedTuple):
    """An option of a fit.

    Attributes:
        default: The default value.
        meaning: The description that docstrings give.
    """

    default: Any
    meaning: str


OPTIONS = {
    "family": _Option(
        "gaussian",
        'The distribution of y given its predictor: `"gaussian"`; `"logistic"`, for y of 0 and 1; '
        '`"student"`, for noise with outliers, Student\'s t with 4 degrees of freedom, or '
        "`Student(degrees)` with others, `Student(None)` to learn them.",
    ),
    "intercept": _Option(
        False,
        "Whether to fit the level of y, a feature of ones that is never masked. Columns and y "
        "are centred first, so that the fit does not depend on where a column has its zero. "
        "Default: no, as in the paper.",
    ),
    "unmasked": _Option(
        None,
        "Features that are always in, never masked and never pruned: (k,) booleans, their "
        'numbers, or of a frame the names of its columns, such as `["age", "sex"]`.',
    ),
    "groups": _Option(
        None,
        "Columns that are kept or pruned together, with one mask and one inclusion rate, such as "
        "the dummies of a categorical variable: (k,) labels, integers or strings, the same for all "
        "columns of a group; one with None is by itself. A group of d columns is charged for d "
        "weights, log(n tau / d)/2 each, and one rate. How its columns are coded does not matter, "
        "but leave out one level of a categorical variable.",
    ),
    "standardize": _Option(
        False,
        "Whether to divide every column and y by its root mean square before the fit. Results "
        "are in the user's units either way. Of use with `EG` and `Hybrid`, whose learning rate "
        "is absolute; the other solvers do not depend on units.",
    ),
    "solver": _Option(
        None,
        "`Accelerated()` (the default), or the paper's `EM()`, `EG(...)`, `Hybrid(...)`.",
    ),
    "noise_precision": _Option(
        None,
        "One over the noise variance where it is known; it is then held fixed.",
    ),
    "initial_weights": _Option(
        None,
        "(k,) weights to start from, instead of least squares. One fit, from all features, as "
        "with `initial_inclusion` (0.5 if that is not given).",
    ),
    "initial_inclusion": _Option(
        None,
        "Inclusion rate(s) to start from, in (0, 1], a number or (k,): one fit, to the local "
        "optimum next to this start, as the paper has it. The bound has many and this decides "
        "which one is found: low rates serve weak signals, rates near one strong signals; the "
        "paper does not say what it used. Default: see `starts`.",
    ),
    "starts": _Option(
        None,
        "Several starts, of which the one of the highest score is returned. A number: that many "
        "of the guided ones, which are the best subset of features, as far as a search by the "
        "score of features that are never masked finds it, at inclusion 0.99 and at 0.5, and "
        "then all features at 0.1, 0.5, 0.99, 0.05, 0.2, 0.9, 0.02 and 0.3. Or the rates, (s,) "
        "for all features or (s, k), where a feature at 0 starts out pruned. Default: 2.",
    ),
    "moves": _Option(
        None,
        "Most moves tried after the starts: the best fit with a feature dropped, added or "
        "exchanged, fitted again and kept if the score is higher. Default: 5, or 0 if "
        "`initial_inclusion` or `initial_weights` is given.",
    ),
    "criterion": _Option(
        "learned",
        'What ranks finished fits: `"learned"`, `"held"` or `"paper"`, by what each charges a '
        "kept feature at inclusion 1: log(n)/2 + log(tau)/2 with tau >= 1 the spread of the "
        "weights, and a charge for the number of features looked at; log(n)/2, which is BIC; or "
        "log(n), which is the bound itself.",
    ),
    "prune_threshold": _Option(
        None,
        "A feature whose mean mask falls below this is pruned (delta). Default: the machine "
        "epsilon, as in the paper's first experiment.",
    ),
    "tolerance": _Option(
        1e-3,
        "Predicted distance to the fixed point that counts as converged, for log inclusion, for "
        "coefficients relative to the larger of effect and noise, and for the log noise level. "
        "Free of the scale of X and y and of n.",
    ),
    "max_steps": _Option(
        20_000,
        "Most iterations (E steps), over all starts and moves.",
    ),
}

_Function = TypeVar("_Function", bound=Callable[..., Any])


def takes_options(*without: str) -> Callable[[_Function], _Function]:
    """Spell the options of a fit in the signature and docstring of a function that passes them on.

    The function takes them as `**options: Unpack[FitOptions]`, and documents them in one entry,
    `options:`; both are written out for `help`, with the text of the entry as a paragraph before
    `Args:`. An unknown keyword is refused, and the error names the closest known one.

    Args:
        without: Options that this function does not take.
    """
    options = {name: option for name, option in OPTIONS.items() if name not in without}

    def decorator(function: _Function) -> _Function:
        own = inspect.signature(function)
        named = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        known = {p.name for p in named} | set(options)

        @wraps(function)
        def call(*args: Any, **given: Any) -> Any:
            for name in given:
                if name in without:
                    raise TypeError(
                        f"{function.__name__} has no argument {name!r}; bmjax.fit takes it."
                    )
                if name not in known:
                    close = get_close_matches(name, known, 1)
                    remedy = (
                        f"did you mean {close[0]!r}?" if close else f"there are {sorted(known)}."
                    )
                    raise TypeError(f"{function.__name__} has no argument {name!r}; {remedy}")
            return function(*args, **given)

        annotations = FitOptions.__annotations__
        spelt = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=annotations[name].__forward_arg__,
            )
            for name, (default, _) in options.items()
        ]
        first = [p for p in named if p.kind is not inspect.Parameter.KEYWORD_ONLY]
        call.__signature__ = own.replace(parameters=first + spelt + named[len(first) :])  # type: ignore[attr-defined]
        call.__doc__ = _documented(function.__doc__ or "", options)
        return cast(_Function, call)

    return decorator


def _documented(doc: str, options: dict[str, _Option]) -> str:
    """The docstring with an entry for each option, and the text of `options:` before `Args:`."""
    own = re.search(r"^( *)options:(.*\n(?:\1 {4}.*\n)*)", doc, flags=re.M)
    if own is None:  # python -OO
        return doc
    indent, outer = own[1], own[1][4:]
    entries = "".join(
        _filled(f"{name}: {option.meaning}", indent, indent + " " * 4)
        for name, option in options.items()
    )
    args = f"{outer}Args:\n"
    above, _, before = doc[: own.start()].rpartition(args)
    said = _filled(own[2].strip(), outer, outer)
    return f"{above}{said}\n{args}{before}{entries}{doc[own.end() :]}"


def _filled(text: str, first: str, rest: str) -> str:
    """The text in lines of at most 100 characters, with the indents of the first and the others."""
    return (
        textwrap.fill(
            " ".join(text.split()),
            width=100,
            initial_indent=first,
            subsequent_indent=rest,
            break_on_hyphens=False,
        )
        + "\n"
    )


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
