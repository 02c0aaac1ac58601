"""Switches by which JAX raises wherever NaN or infinity appears."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import jax

_Function = TypeVar("_Function", bound=Callable[..., Any])


def unwatched(function: _Function) -> _Function:
    """A function in which `jax.debug_nans` and `jax.debug_infs` are off.

    A fit means the NaN and infinity that it holds: moves that were not made, errors of pruned
    features, the log-odds of a rate of exactly one. What is wrong with data has a status.
    """

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        with jax.debug_nans(False), jax.debug_infs(False):
            return function(*args, **options)

    return cast(_Function, call)
