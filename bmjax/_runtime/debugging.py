"""Protection from the switches by which JAX raises wherever NaN or infinity appears."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import jax

_Function = TypeVar("_Function", bound=Callable[..., Any])


def unwatched(function: _Function) -> _Function:
    """Decorate a function to run with `jax.debug_nans` and `jax.debug_infs` off.

    The NaN and infinity in a fit are meant: moves that were not made, errors of pruned features,
    the log-odds of a rate of exactly one. Errors in the data are reported by a status.
    """

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        with jax.debug_nans(False), jax.debug_infs(False):
            return function(*args, **options)

    return cast(_Function, call)
