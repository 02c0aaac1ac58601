"""Matrix products in the precision of their factors, on every device."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import ParamSpec, TypeVar

import jax

P = ParamSpec("P")
T = TypeVar("T")


def full_products() -> AbstractContextManager[None]:
    """A context in which products of float32 are made in float32.

    On recent GPUs and on TPUs JAX rounds the factors to eleven bits or fewer unless told otherwise,
    and the residuals of a good fit are lost. A precision that the user has set is kept.
    """
    asked = jax.config.jax_default_matmul_precision  # pyright: ignore[reportAttributeAccessIssue]
    return jax.default_matmul_precision(asked or "highest")


def full_precision(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function to make products of float32 in float32; see `full_products`."""

    @functools.wraps(function)
    def in_full(*args: P.args, **kwargs: P.kwargs) -> T:
        with full_products():
            return function(*args, **kwargs)

    return in_full
