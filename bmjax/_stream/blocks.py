"""The rows of a dataset too large for memory, block by block, as often as they are asked for."""

import mmap
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmjax._checks import inputs
from bmjax._results.names import names_of

# A block and its masks fit into the cache of a core.
_BLOCK_BYTES = 2**20


class Block(NamedTuple):
    """Some rows, filled up to a fixed number with rows that count zero times.

    Attributes:
        X: Features, samples in rows.
        y: Target.
        counts: How often each row counts.
    """

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    counts: NDArray[np.float64]


class Blocks:
    """A source, checked as it is read; `k` is its number of features, `names` theirs or None.

    Args:
        source: As for `fit_stream`.
        block_rows: Rows of a block, or None for a few MB of them.

    Raises:
        TypeError: If the source can be read only once, or is of another kind.
        ValueError: If there is no block, or the first does not fit.
    """

    def __init__(self, source: Any, block_rows: int | None):
        self._read: Callable[[], Iterable[Any]]
        if isinstance(source, tuple) and source and all(hasattr(a, "shape") for a in source):
            self._read = lambda: _slices(source, self.block_rows)
            first = tuple(array[:2] for array in source)
        else:
            if _read_once(source):
                raise TypeError(
                    f"blocks is {type(source).__name__}, which can be read only once, but a fit "
                    "reads the rows many times: give a list, or a function that begins anew."
                )
            again: Any = source
            read: Any = again if callable(again) else lambda: again
            self._read = read
            first = next(iter(self._read()), None)
            if first is None:
                raise ValueError("blocks holds no block; at least two rows are needed.")
        self.block_rows = block_rows or 1
        self.names = names_of(*first[:2])
        self.k = _checked(first, 0).X.shape[1]
        if block_rows is None:
            self.block_rows = max(_BLOCK_BYTES // (self.k * 8), 16)

    def __iter__(self) -> Iterator[Block]:
        """All rows, in blocks of one size.

        Raises:
            TypeError: If a block is not one of arrays of real numbers.
            ValueError: If a block does not fit to the others or holds a value that is not finite.
        """
        for number, given in enumerate(self._read()):
            block = _checked(given, number)
            if block.X.shape[1] != self.k:
                raise ValueError(
                    f"block {number} holds {block.X.shape[1]} features; the first held {self.k}."
                )
            for begin in range(0, len(block.y), self.block_rows):
                part = Block(*(a[begin : begin + self.block_rows] for a in block))
                absent = self.block_rows - len(part.y)
                if absent:
                    part = Block(
                        np.pad(part.X, ((0, absent), (0, 0))),
                        np.pad(part.y, (0, absent)),
                        np.pad(part.counts, (0, absent)),
                    )
                yield part


def _read_once(source: Any) -> bool:
    """Whether a source is used up by reading it.

    Raises:
        TypeError: If it cannot be read at all.
    """
    if callable(source):
        return False
    try:
        return iter(source) is source
    except TypeError:
        raise TypeError(
            f"blocks is {source!r}; give (X, y) on disk, a list of such pairs, or a function that "
            "returns an iterator over them."
        ) from None


def _slices(arrays: tuple[Any, ...], rows: int) -> Iterator[tuple[Any, ...]]:
    lengths = {len(array) if hasattr(array, "__len__") else array.shape[0] for array in arrays}
    if len(lengths) > 1:
        raise ValueError(
            f"blocks holds arrays of {sorted(lengths)} rows; X, y and weights have one for each."
        )
    for begin in range(0, lengths.pop(), rows):
        yield tuple(array[begin : begin + rows] for array in arrays)
        for array in arrays:
            _let_go(array)


def _let_go(array: Any) -> None:
    """Take what was read of a memory map out of the process; it stays in the system's cache."""
    pages = getattr(array, "_mmap", None)
    if pages is not None and array.mode in ("r", "r+") and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)


def _checked(given: Any, number: int) -> Block:
    """A block in float64, rows that count zero times cleared."""
    if not isinstance(given, tuple | list) or len(given) not in (2, 3):
        raise TypeError(
            f"block {number} is {type(given).__name__}; give pairs (X, y) or triples with "
            "sample_weights."
        )
    try:
        return Block(*inputs.rows(*given))
    except (TypeError, ValueError) as error:
        raise type(error)(f"block {number}: {error}") from None
