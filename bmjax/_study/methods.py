"""Checks of the methods of a study and of the datasets that they are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp

from bmjax._checks.arrays import floating_array
from bmjax.simulate import Dataset


@dataclass(frozen=True)
class Method:
    """A function with the form in which it takes data; see `batched` and `on_host`.

    Attributes:
        function: The user's function.
        takes: The data that it is given in one call.
    """

    function: Callable[..., Any]
    takes: Literal["a traced dataset", "a batch", "a dataset on the host"]


def batched(function: Callable[..., Any]) -> Method:
    """A method for `monte_carlo` that takes a whole batch at a time, such as `bmjax.fit_batch`.

    Args:
        function: A function from X (b, n, k) and y (b, n), JAX arrays, to a result whose fields
            have the axis b in front. It is not compiled, but may itself call compiled functions.

    Returns:
        The method.

    Raises:
        TypeError: If `function` is not callable.

    Example:
        >>> import jax
        >>> import bmjax
        >>> methods = {"all": bmjax.batched(jax.vmap(bmjax.baselines.least_squares))}
        >>> study = bmjax.monte_carlo(bmjax.simulate.two_features, methods, jax.random.key(0), 4)
        >>> study.outcomes["all"].coef.shape
        (4, 2)
    """
    return Method(checked_function("function", function), "a batch")


def on_host(function: Callable[..., Any]) -> Method:
    """A method for `monte_carlo` that takes NumPy arrays, such as one of scikit-learn's.

    Args:
        function: A function from X (n, k) and y (n,), NumPy arrays, to a result. It is called for
            one dataset after another.

    Returns:
        The method.

    Raises:
        TypeError: If `function` is not callable.

    Example:
        >>> import jax
        >>> import numpy as np
        >>> import bmjax
        >>> methods = {"NumPy": bmjax.on_host(lambda X, y: np.linalg.lstsq(X, y)[0])}
        >>> study = bmjax.monte_carlo(bmjax.simulate.two_features, methods, jax.random.key(0), 4)
        >>> study.outcomes["NumPy"].coef.shape
        (4, 2)
    """
    return Method(checked_function("function", function), "a dataset on the host")


def checked_methods(methods: Any) -> dict[str, Method]:
    if not isinstance(methods, Mapping):
        raise TypeError(
            f"methods is {type(methods).__name__}; give a dict from names to functions."
        )
    if not methods:
        raise ValueError("methods is empty; give at least one.")
    asked = {}
    for name, method in methods.items():
        if not isinstance(name, str):
            raise TypeError(f"methods has the name {name!r}; names are strings.")
        if not isinstance(method, Method):
            method = Method(checked_function(f"method {name!r}", method), "a traced dataset")
        asked[name] = method
    return asked


def checked_function(name: str, value: Any) -> Callable[..., Any]:
    if not callable(value):
        raise TypeError(f"{name} is {value!r}; it must be a function.")
    return value


def as_dataset(data: Any) -> Dataset:
    """The value that a simulation returned, as a `Dataset`."""
    if isinstance(data, Dataset):
        return data
    if not isinstance(data, tuple | list) or len(data) != 3:
        what = type(data).__name__
        if isinstance(data, tuple | list):
            what += f" of length {len(data)}"
        raise TypeError(
            f"simulate returned {what}; it must return a bmjax.simulate.Dataset, or X (n, k), "
            "y (n,) and the true effects (k,)."
        )
    names = ("X of simulate", "y of simulate", "coef of simulate")
    arrays = (floating_array(name, value) for name, value in zip(names, data, strict=True))
    return Dataset(*map(jnp.asarray, arrays), noise_precision=jnp.zeros(()))  # not used


def dataset_shapes(simulate: Callable[[jax.Array], Dataset], key: jax.Array) -> Dataset:
    """The shapes and types of a dataset, found by tracing."""
    try:
        jax.eval_shape(lambda: jax.random.fold_in(key, 0))
    except (TypeError, ValueError) as error:
        raise TypeError(f"key is {key!r}; give one JAX random key: jax.random.key(0).") from error
    data: Any = jax.eval_shape(lambda: as_dataset(simulate(jax.random.fold_in(key, 0))))
    n, k = (*data.X.shape, 0, 0)[:2]
    if (data.X.shape, data.y.shape, data.coef.shape) != ((n, k), (n,), (k,)):
        raise ValueError(
            f"simulate returned X {data.X.shape}, y {data.y.shape} and coef {data.coef.shape}; "
            "wanted (n, k), (n,) and (k,)."
        )
    return data
