"""Running a method on a chunk of datasets, on one device or spread over a mesh."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from bmjax._runtime import sharding
from bmjax._runtime.programs import PROGRAMS
from bmjax._solvers.loop import one_by_one
from bmjax._study.methods import Method, as_dataset
from bmjax._study.timing import Spent
from bmjax.simulate import Dataset


class Found(NamedTuple):
    """The fields of a result that are kept."""

    coef: Any
    support: Any
    status: Any


class Chunk(NamedTuple):
    """The record of a chunk of datasets: true effects, and each method's outcomes and times."""

    truth: np.ndarray
    found: dict[str, Found]
    seconds: dict[str, Spent]


# A function of the rows of a chunk and the number of real ones; it returns their outcomes.
OverRows = Callable[[Any, int], Any]
# A method on a chunk of datasets, given the number of the first and the number of real ones.
Run = Callable[[Dataset, int, int], Found]


class Spread:
    """The distribution of the datasets of a chunk over the devices of a mesh, or on one device."""

    def __init__(self, mesh: Mesh | None, size: int):
        devices = 1 if mesh is None else mesh.size
        self.deal = sharding.Deal(-(-size // devices), devices)
        self._mesh = mesh

    def over_rows(self, function: Callable[..., Any], shared: Any = None) -> OverRows:
        """Turn a function of one dataset into one of a chunk whose first `count` rows are real.

        Args:
            function: A function from the shared arrays and a row to a pytree of arrays. Equal
                functions are compiled once, even in different studies.
            shared: Arrays that all rows share.
        """
        static = {"function": function, "size": self.deal.slots}
        mesh = self._mesh
        if mesh is None:

            def on_one(rows: Any, count: int) -> Any:
                number = np.asarray(count, np.int32)
                return PROGRAMS.call(_each_row, rows, shared, number, static=static)

            return on_one

        def on_all(rows: Any, count: int) -> Any:
            rows = jax.tree.map(lambda leaf: sharding.split(mesh, leaf), rows)
            counts = sharding.split(mesh, self.deal.counts(count))
            whole = sharding.everywhere(mesh, shared)
            return PROGRAMS.call(
                _each_row_spread, rows, whole, counts, static={**static, "mesh": mesh}
            )

        return on_all

    def in_order(self, tree: Any, count: int) -> Any:
        """The real rows of a chunk in order of their numbers, on the host."""
        at = self.deal.places(count)
        return jax.tree.map(lambda leaf: leaf[at], sharding.to_host(tree))

    def on_device(self, tree: Any, count: int) -> Any:
        """Bring the arrays to one device, where they already are without a mesh."""
        if self._mesh is None:
            return jax.tree.map(lambda leaf: leaf[:count], tree)
        return jax.tree.map(jnp.asarray, self.in_order(tree, count))


def runner(name: str, method: Method, shapes: Dataset, spread: Spread) -> Run:
    """A function that applies a method to a chunk; a traced method is first tried on shapes."""
    k = shapes.X.shape[-1]
    function = method.function

    one = partial(_Estimate(function, k), None)

    if method.takes == "a traced dataset":
        with naming(name):
            jax.eval_shape(one, shapes.X, shapes.y)
        every = spread.over_rows(_Estimate(function, k))

        def run(data: Dataset, begin: int, count: int) -> Found:
            del begin
            with naming(name):
                return spread.in_order(every((data.X, data.y), count), count)

    elif method.takes == "a batch":

        def run(data: Dataset, begin: int, count: int) -> Found:
            del begin
            X, y = spread.on_device((data.X, data.y), count)
            with naming(name):
                found = _read(function(X, y), (count, k))
                return jax.tree.map(np.asarray, found)

    else:

        def run(data: Dataset, begin: int, count: int) -> Found:
            X, y = spread.in_order((data.X, data.y), count)
            rows = []
            for i in range(count):
                with naming(name, f" on dataset {begin + i}"):
                    rows.append(one(X[i], y[i]))
            return rowwise(np.stack, rows)

    return run


def _each_row(
    rows: Any, shared: Any, count: Any, *, function: Callable[..., Any], size: int
) -> Any:
    """Apply a function to each of the first `count` of `size` rows of its arguments.

    The count is traced, so that a last chunk that is not full costs only its real rows, and so that
    the loop is compiled, and rounds, in the same way for every size.
    """
    if jax.default_backend() != "cpu":
        return jax.vmap(partial(function, shared))(*rows)

    def one(i):
        return function(shared, *(jax.tree.map(lambda leaf: leaf[i], row) for row in rows))

    return one_by_one(one, size, count)


def _each_row_spread(
    rows: Any, shared: Any, counts: Any, *, function: Callable[..., Any], size: int, mesh: Mesh
) -> Any:
    """`_each_row` with the rows spread over the devices of a mesh."""

    def local(rows: Any, shared: Any, count: Any) -> Any:
        return _each_row(rows, shared, count, function=function, size=size)

    return sharding.spread(local, mesh)(rows, shared, counts)


class Draw(NamedTuple):
    """The function that draws the dataset of a given number; equal for equal simulations."""

    simulate: Callable[[jax.Array], Dataset]

    def __call__(self, key: jax.Array, number: jax.Array) -> Dataset:
        """Draw the dataset of a number."""
        return as_dataset(self.simulate(jax.random.fold_in(key, number)))


class _Estimate(NamedTuple):
    """A method applied to a dataset of k features; equal for equal functions."""

    function: Callable[..., Any]
    k: int

    def __call__(self, shared: None, X: Any, y: Any) -> Found:
        """The kept fields of the result on one dataset."""
        del shared
        return _read(self.function(X, y), (self.k,))


def _read(result: Any, shape: tuple[int, ...]) -> Found:
    """The kept fields of a result, or of coefficients alone, with their shapes checked."""
    fields = hasattr(result, "coef") and hasattr(result, "support")
    coef = _array(result.coef if fields else result)
    if coef.dtype == object:
        raise ValueError(f"it returned {result!r}; wanted fields coef and support, or an array.")
    support = _array(result.support) if fields else coef != 0
    status = getattr(result, "status", None) if fields else None
    status = None if status is None else _array(status)
    for field, array, wanted in (
        ("coef", coef, shape),
        ("support", support, shape),
        ("status", status, shape[:-1]),
    ):
        if array is not None and array.shape != wanted:
            raise ValueError(f"it returned {field} of shape {array.shape}; wanted {wanted}.")
    return Found(coef, support.astype(bool), status)


def _array(value: Any) -> Any:
    return value if isinstance(value, jax.Array) else np.asarray(value)


def rowwise(join: Callable[[Any], np.ndarray], parts: list[Found]) -> Found:
    return jax.tree.map(lambda *leaves: join(leaves), *parts)


@contextmanager
def naming(name: str, place: str = "") -> Iterator[None]:
    """Turn errors of a method into errors that name it."""
    try:
        yield
    except Exception as error:
        remedy = ""
        if isinstance(error, jax.errors.JAXTypeError):
            remedy = (
                " If it takes NumPy arrays wrap it with bmjax.on_host, if a whole batch with "
                "bmjax.batched."
            )
        raise RuntimeError(
            f"method {name!r} failed{place}: {type(error).__name__}: {error}{remedy}"
        ) from error
