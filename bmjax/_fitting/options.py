"""The options that every kind of fit takes: their names, defaults and meanings."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import wraps
from typing import Any, NamedTuple, TypedDict, TypeVar, cast

from jax.typing import ArrayLike

from bmjax._checks.groups import Label
from bmjax._model.family import Family
from bmjax._solvers.paper import Solver


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
