"""The rows of a dataset too large for memory, read block by block in every pass."""

import mmap
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmjax._checks import inputs
from bmjax._results.names import names_of

# Size of a block, so that it and its masks fit into the cache of a core.
_BLOCK_BYTES = 2**20


class Block(NamedTuple):
    """Some rows, padded to a fixed number with rows of weight zero.

    Attributes:
        X: Features, samples in rows.
        y: Target.
        counts: How often each row counts.
    """

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    counts: NDArray[np.float64]


class Blocks:
    """A source of rows, checked as it is read, with `k` features whose `names` may be None.

    Args:
        source: The argument `blocks` of `fit_stream`.
        block_rows: Number of rows in a block, or None for 1 MiB of them.

    Raises:
        TypeError: If the source can be read only once, or is of another kind.
        ValueError: If there is no block, or the first is not valid.
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
        """Yield all rows, in blocks of one size.

        Raises:
            TypeError: If a block does not hold arrays of real numbers.
            ValueError: If a block does not match the others or holds a value that is not finite.
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
    """Whether a source can be read only once.

    Raises:
        TypeError: If the source cannot be read at all.
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
    """Release the pages read of a memory map from the process; they stay in the system's cache."""
    pages = getattr(array, "_mmap", None)
    if pages is not None and array.mode in ("r", "r+") and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)


def _checked(given: Any, number: int) -> Block:
    """A block in float64, with rows of weight zero set to zero."""
    if not isinstance(given, tuple | list) or len(given) not in (2, 3):
        raise TypeError(
            f"block {number} is {type(given).__name__}; give pairs (X, y) or triples with "
            "sample_weights."
        )
    try:
        return Block(*inputs.rows(*given))
    except (TypeError, ValueError) as error:
        raise type(error)(f"block {number}: {error}") from None
