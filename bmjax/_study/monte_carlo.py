"""`monte_carlo`: any number of methods on the same synthetic datasets, chunk by chunk.

A chunk of datasets is drawn, every method goes over it, and only what was found is kept, on the
host: the datasets themselves never fill the memory, however many there are.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from bmjax._checks import validate
from bmjax._io.progress_bar import progress_bar
from bmjax._runtime import sharding
from bmjax._runtime.programs import PROGRAMS
from bmjax._solvers.loop import one_by_one
from bmjax._study.checkpoint import open_checkpoint
from bmjax._study.study import Outcomes, Study
from bmjax._study.timing import Spent, timed
from bmjax.simulate import Dataset

_CHUNK_BYTES = 2**26
_MOST_IN_CHUNK = 1024  # so that there is progress to see
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of functions, in the text of a program


@dataclass(frozen=True)
class Method:
    """A function that takes data in another way than a plain one; see `batched` and `on_host`.

    Attributes:
        function: The function.
        takes: What it is given at a time.
    """

    function: Callable[..., Any]
    takes: Literal["a traced dataset", "a batch", "a dataset on the host"]


def batched(function: Callable[..., Any]) -> Method:
    """A method for `monte_carlo` that takes a whole batch at a time, such as `bmjax.fit_batch`.

    Args:
        function: From X (b, n, k) and y (b, n), JAX arrays, to a result whose fields have the
            axis b in front. It is not compiled, and may compile what it likes.

    Returns:
        The method.

    Raises:
        TypeError: If it is not a function.
    """
    return Method(_function("function", function), "a batch")


def on_host(function: Callable[..., Any]) -> Method:
    """A method for `monte_carlo` that takes NumPy arrays, such as one of scikit-learn's.

    Args:
        function: From X (n, k) and y (n,), NumPy arrays, to a result. It is called for one
            dataset after another.

    Returns:
        The method.

    Raises:
        TypeError: If it is not a function.
    """
    return Method(_function("function", function), "a dataset on the host")


def monte_carlo(
    simulate: Callable[[jax.Array], Dataset],
    methods: Mapping[str, Callable[..., Any] | Method],
    key: jax.Array,
    repeats: int,
    *,
    chunk: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    mesh: Mesh | None = None,
) -> Study:
    """Run methods on the same synthetic datasets and score them against the truth.

    Dataset i is `simulate(jax.random.fold_in(key, i))`, so the same key gives the same numbers
    whatever the chunks are (a batched method or an accelerator may round differently), and any
    dataset can be drawn again by itself. All but the outcomes is let go chunk by chunk; those
    take some 9 bytes a feature, dataset and method in float64.

    A plain function is compiled. On a CPU it runs for one dataset after another, since a batched
    loop would run all of them as long as the slowest; on an accelerator for a chunk side by side.

    Args:
        simulate: From a key to a `simulate.Dataset`: one of the designs, its sizes filled in.
        methods: Methods by name: functions of X (n, k) and y (n,) such as `bmjax.fit`, or what
            `batched` and `on_host` make of others. A result needs the fields `coef` and
            `support`, (k,) each, may have a `status`, or is simply the (k,) coefficients, 0
            where a feature is pruned.
        key: A JAX random key.
        repeats: How many datasets.
        chunk: How many datasets to hold at a time. Default: as many as fit into 64 MiB, at most
            1024, in chunks of about one size.
        checkpoint: A folder in which every finished chunk is kept, durably, before the next one
            starts. The same call finds it there and goes on, to the same bits as without a pause.
        progress: Whether to show progress on stderr, which needs rich. Default: where stderr is a
            terminal and rich is installed.
        mesh: Devices to spread drawing and plain functions over, whatever its axes; a batched
            method may take it too: `batched(partial(bmjax.fit_batch, mesh=mesh))`. With several
            processes each makes the same call and has the whole study, host-side methods run in
            all of them, and the checkpoint must be a folder that all see. Default: one device.

    Returns:
        The study: outcomes dataset by dataset, means, paired differences, a table.

    Raises:
        TypeError: If an argument has the wrong type, or `simulate` does not return a `Dataset`.
        ValueError: If a number is out of range, there is no method, or the checkpoint is damaged
            or of other settings; the message names the file or the setting.
        OSError: If the checkpoint cannot be written, such as on a full disk.
        RuntimeError: If a method fails or returns something else; the message names it. What can
            be found by tracing is found before anything runs.
        ModuleNotFoundError: If progress is asked for and rich is not installed.
    """
    asked = _checked(methods)
    repeats = validate.count("repeats", repeats, low=1)
    shapes = _dataset_shapes(_function("simulate", simulate), key)
    n, k = shapes.X.shape
    if chunk is None:
        size = min(_MOST_IN_CHUNK, max(_CHUNK_BYTES // (n * (k + 1) * shapes.X.dtype.itemsize), 1))
        size = -(-repeats // -(-repeats // size))
    else:
        size = min(validate.count("chunk", chunk, low=1), repeats)
    spread = _Spread(sharding.checked(mesh), size)
    draw = spread.over_rows(_Draw(simulate), key)
    runners = {name: _runner(name, method, shapes, spread) for name, method in asked.items()}

    kept = None
    if checkpoint is not None:
        settings = _settings(simulate, asked, key, repeats, size, shapes)
        kept = open_checkpoint(checkpoint, settings)

    def made(begin: int, count: int, report: Callable[[str, int], None]) -> _Chunk:
        index = (begin + spread.deal.datasets(count)).astype(np.int32)
        data = jax.block_until_ready(draw((index,), count))
        part = _Chunk(spread.in_order(data.coef, count), {}, {})
        for name, run in runners.items():
            part.found[name], part.seconds[name] = timed(partial(run, data, begin, count))
            report(name, count)
        return part

    chunks: list[_Chunk] = []
    with progress_bar("datasets x methods", repeats * len(asked), progress) as report:
        for begin in range(0, repeats, size):
            count = min(size, repeats - begin)
            stored = None if kept is None else kept.load(begin)
            if stored is not None:
                chunks.append(_unpacked(stored, asked))
                for name in asked:
                    report(name, count)
                continue
            chunks.append(made(begin, count, report))
            if kept is not None:
                kept.save(begin, _packed(chunks[-1]))
    outcomes = {}
    for name in asked:
        found = _rowwise(np.concatenate, [part.found[name] for part in chunks])
        seconds = Spent()
        for part in chunks:
            seconds = seconds.plus(part.seconds[name])
        outcomes[name] = Outcomes(*found, seconds=seconds)
    return Study(np.concatenate([part.truth for part in chunks]), outcomes)


class _Found(NamedTuple):
    """The part of a result that is kept."""

    coef: Any
    support: Any
    status: Any


class _Chunk(NamedTuple):
    """The record of a chunk of datasets: true effects, and each method's findings and times."""

    truth: np.ndarray
    found: dict[str, _Found]
    seconds: dict[str, Spent]


def _settings(
    simulate: Callable[[jax.Array], Dataset],
    methods: Mapping[str, Method],
    key: jax.Array,
    repeats: int,
    size: int,
    shapes: Dataset,
) -> dict[str, Any]:
    """All that the bits of a study depend on. A function is known by what it traces to."""
    settings = {
        "key": validate.key_words(key),
        "repeats": repeats,
        "chunk": size,
        "simulate": _traced_form(simulate, key),
        "methods": list(methods),
        "shape": list(shapes.X.shape),
        "dtype": str(shapes.X.dtype),
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "bmjax": version("bmjax"),
    }
    for name, method in methods.items():
        form = method.takes
        if method.takes == "a traced dataset":
            form = _traced_form(method.function, shapes.X, shapes.y)
        settings[f"method {name}"] = form
    return settings


def _traced_form(function: Callable[..., Any], *arguments: Any) -> str:
    """A digest of the program that a function is, options and captured arrays included."""
    program = jax.make_jaxpr(function)(*arguments)
    digest = hashlib.sha256(_ADDRESS.sub("", str(program)).encode())
    for constant in program.consts:
        digest.update(np.asarray(constant).tobytes())
    return digest.hexdigest()[:16]


def _packed(chunk: _Chunk) -> dict[str, np.ndarray]:
    """A chunk as arrays by name."""
    arrays = {"truth": chunk.truth}
    for i, (name, part) in enumerate(chunk.found.items()):
        arrays |= {f"{i} coef": part.coef, f"{i} support": part.support}
        if part.status is not None:
            arrays[f"{i} status"] = part.status
        arrays[f"{i} seconds"] = np.asarray(chunk.seconds[name])
    return arrays


def _unpacked(arrays: Mapping[str, np.ndarray], names: Mapping[str, Any]) -> _Chunk:
    """The way back."""
    found = {
        name: _Found(arrays[f"{i} coef"], arrays[f"{i} support"], arrays.get(f"{i} status"))
        for i, name in enumerate(names)
    }
    seconds = {name: Spent(*map(float, arrays[f"{i} seconds"])) for i, name in enumerate(names)}
    return _Chunk(arrays["truth"], found, seconds)


_OverRows = Callable[[Any, int], Any]
"""From the rows of a chunk, and how many of them are real, to what a function makes of each."""

_Run = Callable[[Dataset, int, int], _Found]
"""From a chunk of datasets, the number of its first one, and how many of it are real."""


class _Spread:
    """How the datasets of a chunk lie on the devices, or on one where there is no mesh."""

    def __init__(self, mesh: Mesh | None, size: int):
        devices = 1 if mesh is None else mesh.size
        self.deal = sharding.Deal(-(-size // devices), devices)
        self._mesh = mesh

    def over_rows(self, function: Callable[..., Any], shared: Any = None) -> _OverRows:
        """Turn a function of one dataset into one of a chunk, whose first `count` rows are real.

        Args:
            function: From what all rows share and a row to a pytree of arrays. Equal ones are
                compiled once, also by another study.
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
        """The real rows of a chunk, by number, on the host."""
        at = self.deal.places(count)
        return jax.tree.map(lambda leaf: leaf[at], sharding.to_host(tree))

    def on_device(self, tree: Any, count: int) -> Any:
        """Bring the arrays to one device; without a mesh they are there already."""
        if self._mesh is None:
            return jax.tree.map(lambda leaf: leaf[:count], tree)
        return jax.tree.map(jnp.asarray, self.in_order(tree, count))


def _runner(name: str, method: Method, shapes: Dataset, spread: _Spread) -> _Run:
    """How to apply a method to a chunk, tried on shapes where it can be."""
    k = shapes.X.shape[-1]
    function = method.function

    one = partial(_Estimate(function, k), None)

    if method.takes == "a traced dataset":
        with _naming(name):
            jax.eval_shape(one, shapes.X, shapes.y)
        every = spread.over_rows(_Estimate(function, k))

        def run(data: Dataset, begin: int, count: int) -> _Found:
            del begin
            with _naming(name):
                return spread.in_order(every((data.X, data.y), count), count)

    elif method.takes == "a batch":

        def run(data: Dataset, begin: int, count: int) -> _Found:
            del begin
            X, y = spread.on_device((data.X, data.y), count)
            with _naming(name):
                found = _read(function(X, y), (count, k))
                return jax.tree.map(np.asarray, found)

    else:

        def run(data: Dataset, begin: int, count: int) -> _Found:
            X, y = spread.in_order((data.X, data.y), count)
            rows = []
            for i in range(count):
                with _naming(name, f" on dataset {begin + i}"):
                    rows.append(one(X[i], y[i]))
            return _rowwise(np.stack, rows)

    return run


def _each_row(
    rows: Any, shared: Any, count: Any, *, function: Callable[..., Any], size: int
) -> Any:
    """Apply a function to each of the first `count` of `size` rows of its arguments.

    The count is traced, so that a last chunk that is not full costs no more than it holds, and
    so that the loop is compiled alike for every size and rounds alike.
    """
    if jax.default_backend() != "cpu":
        return jax.vmap(partial(function, shared))(*rows)

    def one(i):
        return function(shared, *(jax.tree.map(lambda leaf: leaf[i], row) for row in rows))

    return one_by_one(one, size, count)


def _each_row_spread(
    rows: Any, shared: Any, counts: Any, *, function: Callable[..., Any], size: int, mesh: Mesh
) -> Any:
    """Apply a function row by row, with the rows spread over the devices of a mesh."""

    def local(rows: Any, shared: Any, count: Any) -> Any:
        return _each_row(rows, shared, count, function=function, size=size)

    return sharding.spread(local, mesh)(rows, shared, counts)


class _Draw(NamedTuple):
    """How the dataset of a number is drawn; equal for equal functions."""

    simulate: Callable[[jax.Array], Dataset]

    def __call__(self, key: jax.Array, number: jax.Array) -> Dataset:
        """The dataset."""
        return self.simulate(jax.random.fold_in(key, number))


class _Estimate(NamedTuple):
    """A method applied to a dataset of k features; equal for equal functions."""

    function: Callable[..., Any]
    k: int

    def __call__(self, shared: None, X: Any, y: Any) -> "_Found":
        """The part of its result that is kept."""
        del shared
        return _read(self.function(X, y), (self.k,))


def _read(result: Any, shape: tuple[int, ...]) -> _Found:
    """The fields of a result, or coefficients alone, of the right shapes."""
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
    return _Found(coef, support.astype(bool), status)


def _array(value: Any) -> Any:
    return value if isinstance(value, jax.Array) else np.asarray(value)


def _rowwise(join: Callable[[Any], np.ndarray], parts: list[_Found]) -> _Found:
    return jax.tree.map(lambda *leaves: join(leaves), *parts)


@contextmanager
def _naming(name: str, place: str = "") -> Iterator[None]:
    """Errors of a method as errors that say whose they are."""
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


def _checked(methods: Any) -> dict[str, Method]:
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
            method = Method(_function(f"method {name!r}", method), "a traced dataset")
        asked[name] = method
    return asked


def _function(name: str, value: Any) -> Callable[..., Any]:
    if not callable(value):
        raise TypeError(f"{name} is {value!r}; it must be a function.")
    return value


def _dataset_shapes(simulate: Callable[[jax.Array], Dataset], key: jax.Array) -> Dataset:
    """Shapes and types of a dataset, found by tracing."""
    try:
        jax.eval_shape(lambda: jax.random.fold_in(key, 0))
    except (TypeError, ValueError) as error:
        raise TypeError(f"key is {key!r}; give one JAX random key: jax.random.key(0).") from error
    data: Any = jax.eval_shape(lambda: simulate(jax.random.fold_in(key, 0)))
    if not isinstance(data, Dataset):
        raise TypeError(
            f"simulate returned {type(data).__name__}; it must return a bmjax.simulate.Dataset."
        )
    n, k = (*data.X.shape, 0, 0)[:2]
    if (data.X.shape, data.y.shape, data.coef.shape) != ((n, k), (n,), (k,)):
        raise ValueError(
            f"simulate returned X {data.X.shape}, y {data.y.shape} and coef {data.coef.shape}; "
            "wanted (n, k), (n,) and (k,)."
        )
    return data
