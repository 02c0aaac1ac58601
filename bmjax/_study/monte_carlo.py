"""`monte_carlo`: several methods on the same synthetic datasets, chunk by chunk.

A chunk of datasets is drawn, every method is run on it, and only the outcomes are kept, on the
host: so memory does not grow with the datasets themselves, however many there are.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from bmjax._checks import validate
from bmjax._io.progress_bar import progress_bar
from bmjax._runtime import sharding
from bmjax._study.checkpoint import open_checkpoint
from bmjax._study.methods import Method, checked_function, checked_methods, dataset_shapes
from bmjax._study.running import Chunk, Draw, Found, Spread, rowwise, runner
from bmjax._study.study import Outcomes, Study
from bmjax._study.timing import Spent, timed
from bmjax.simulate import Dataset

_CHUNK_BYTES = 2**26
_MOST_IN_CHUNK = 1024  # so that progress is visible
_CHUNK_SECONDS, _FIRST = 60.0, 32  # with a checkpoint: time of a chunk, size of the first
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # addresses of functions in the text of a program


def monte_carlo(  # noqa: PLR0913 - public options
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

    Dataset i is `simulate(jax.random.fold_in(key, i))`, so the same key gives the same numbers for
    any chunk size (a batched method or an accelerator may round differently), and any dataset can
    be drawn again on its own. Only the outcomes are kept after each chunk; in float64 they take
    some 9 bytes for each feature, dataset and method.

    A plain function is compiled. On a CPU it runs on one dataset after another, since a batched
    loop would run all of them for as long as the slowest; on an accelerator it runs on a whole
    chunk side by side.

    Args:
        simulate: A function from a key to a `simulate.Dataset`, such as one of the designs with
            given sizes, or to a tuple of X (n, k), y (n,) and the true effects (k,).
        methods: Methods by name: functions of X (n, k) and y (n,) such as `bmjax.fit`, or other
            functions wrapped by `batched` or `on_host`. A result needs the fields `coef` and
            `support`, (k,) each, and may have a `status`; or it is the array of (k,) coefficients,
            0 where a feature is pruned.
        key: A JAX random key.
        repeats: Number of datasets.
        chunk: Number of datasets to hold at a time. Default: as many as fit into 64 MiB, at most
            1024, in chunks of about the same size; with a checkpoint, also no more than take a
            minute.
        checkpoint: A folder in which every finished chunk is stored durably before the next one
            starts. The same call resumes from there, also after Ctrl-C, and gives the same bits.
        progress: Whether to show progress on stderr, which needs rich. Default: if stderr is a
            terminal and rich is installed.
        mesh: Devices to spread the simulation and plain functions over, of any axes; a batched
            method may use it too: `batched(partial(bmjax.fit_batch, mesh=mesh))`. With several
            processes each makes the same call and has the whole study, host-side methods run in all
            of them, and the checkpoint must be a folder that all see. Default: one device.

    Returns:
        The study: outcomes for each dataset, means, paired differences, a table.

    Raises:
        TypeError: If an argument has the wrong type, or `simulate` returns something else.
        ValueError: If a number is out of range, there is no method, or the checkpoint is damaged or
            has other settings; the message names the file or the setting.
        OSError: If the checkpoint cannot be written, such as on a full disk.
        RuntimeError: If a method fails or returns something else; the message names it. Errors that
            tracing can find are raised before anything runs.
        ModuleNotFoundError: If progress is requested and rich is not installed.

    Example:
        >>> import jax
        >>> import bmjax
        >>> methods = {"least squares": bmjax.baselines.least_squares}
        >>> study = bmjax.monte_carlo(bmjax.simulate.two_features, methods, jax.random.key(0), 20)
        >>> study.mean("least squares", "false").mean  # it keeps the irrelevant feature, always
        1.0
    """
    asked = checked_methods(methods)
    repeats = validate.count("repeats", repeats, low=1)
    shapes = dataset_shapes(checked_function("simulate", simulate), key)
    n, k = shapes.X.shape
    if chunk is None:
        size = min(_MOST_IN_CHUNK, max(_CHUNK_BYTES // (n * (k + 1) * shapes.X.dtype.itemsize), 1))
        size = -(-repeats // -(-repeats // size))
    else:
        size = min(validate.count("chunk", chunk, low=1), repeats)
    spread = Spread(sharding.checked(mesh), size)
    draw = spread.over_rows(Draw(simulate), key)
    runners = {name: runner(name, method, shapes, spread) for name, method in asked.items()}

    kept = None
    if checkpoint is not None:
        settings = _settings(simulate, asked, key, repeats, size, shapes)
        kept = open_checkpoint(checkpoint, settings)

    def made(begin: int, count: int, report: Callable[[str, int], None]) -> Chunk:
        index = (begin + spread.deal.datasets(count)).astype(np.int32)
        data = jax.block_until_ready(draw((index,), count))
        part = Chunk(spread.in_order(data.coef, count), {}, {})
        for name, run in runners.items():
            part.found[name], part.seconds[name] = timed(partial(run, data, begin, count))
            report(name, count)
        return part

    chunks: list[Chunk] = []
    begin, pace = 0, _Pace(size, kept is not None and chunk is None)
    with (
        progress_bar("datasets x methods", repeats * len(asked), progress) as report,
        _saying_how_to_go_on(checkpoint),
    ):
        while begin < repeats:
            stored = None if kept is None else kept.load(begin)
            if stored is not None:
                chunks.append(_unpacked(stored, asked))
                for name in asked:
                    report(name, len(chunks[-1].truth))
            else:
                chunks.append(made(begin, min(pace.count, repeats - begin), report))
                if kept is not None:
                    kept.save(begin, _packed(chunks[-1]))
                pace.after(chunks[-1])
            begin += len(chunks[-1].truth)
    outcomes = {}
    for name in asked:
        found = rowwise(np.concatenate, [part.found[name] for part in chunks])
        seconds = Spent()
        for part in chunks:
            seconds = seconds.plus(part.seconds[name])
        outcomes[name] = Outcomes(*found, seconds=seconds)
    return Study(np.concatenate([part.truth for part in chunks]), outcomes)


class _Pace:
    """The number of datasets in the next chunk, so that an interruption loses about a minute.

    The first chunk is short, to measure the time of a dataset. There are few sizes, since a batched
    method may compile for each.
    """

    def __init__(self, size: int, by_time: bool):
        # Not with several processes, which would measure different times and wait for each other.
        self._size, self._by_time = size, by_time and jax.process_count() == 1
        self.count = min(size, _FIRST) if self._by_time else size

    def after(self, chunk: Chunk) -> None:
        """Adapt the size to the time that a chunk took."""
        if not self._by_time:
            return
        each = sum(spent.run for spent in chunk.seconds.values()) / len(chunk.truth)
        self.count = self._size
        while self.count > 1 and self.count * each > _CHUNK_SECONDS:
            self.count = -(-self.count // 2)


@contextmanager
def _saying_how_to_go_on(checkpoint: str | os.PathLike[str] | None) -> Iterator[None]:
    """Make an interrupt say which chunks are kept and how to resume."""
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint is None:
            raise
        raise KeyboardInterrupt(
            f"finished chunks are kept in {os.fspath(checkpoint)}: the same call goes on from there"
        ) from None


def _settings(
    simulate: Callable[[jax.Array], Dataset],
    methods: Mapping[str, Method],
    key: jax.Array,
    repeats: int,
    size: int,
    shapes: Dataset,
) -> dict[str, Any]:
    """Everything that the bits of a study depend on; a function is known by its traced program."""
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
    """A digest of the traced program of a function, including its options and captured arrays."""
    program = jax.make_jaxpr(function)(*arguments)
    digest = hashlib.sha256(_ADDRESS.sub("", str(program)).encode())
    for constant in program.consts:
        digest.update(np.asarray(constant).tobytes())
    return digest.hexdigest()[:16]


def _packed(chunk: Chunk) -> dict[str, np.ndarray]:
    """A chunk as arrays by name."""
    arrays = {"truth": chunk.truth}
    for i, (name, part) in enumerate(chunk.found.items()):
        arrays |= {f"{i} coef": part.coef, f"{i} support": part.support}
        if part.status is not None:
            arrays[f"{i} status"] = part.status
        arrays[f"{i} seconds"] = np.asarray(chunk.seconds[name])
    return arrays


def _unpacked(arrays: Mapping[str, np.ndarray], names: Mapping[str, Any]) -> Chunk:
    """The chunk from its arrays, the inverse of `_packed`."""
    found = {
        name: Found(arrays[f"{i} coef"], arrays[f"{i} support"], arrays.get(f"{i} status"))
        for i, name in enumerate(names)
    }
    seconds = {name: Spent(*map(float, arrays[f"{i} seconds"])) for i, name in enumerate(names)}
    return Chunk(arrays["truth"], found, seconds)
