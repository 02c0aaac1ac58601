"""The few sizes that arrays are padded to, so that one compiled program serves many shapes."""

# Beyond this many numbers a fit takes longer than its compilation, and padding would cost more.
_MOST_FILLED = 2**22


def rung(size: int, *, least: int, doubling: int) -> int:
    """The lowest rung of a ladder that holds a size.

    Rungs double up to `doubling`; from there each is at most a quarter above the one below.
    """
    if size <= least:
        return least
    if size <= doubling:
        return 1 << (size - 1).bit_length()
    step = 1 << ((size - 1).bit_length() - 3)
    return size + -size % step


def rows(n: int) -> int:
    """The number of rows that n rows are padded to."""
    return rung(n, least=32, doubling=512)


def features(k: int) -> int:
    """The number of features that k features are padded to."""
    return rung(k, least=8, doubling=64)


def filled_shape(n: int, k: int) -> tuple[int, int]:
    """The rows and features that a dataset is padded to; a large dataset is not padded."""
    if n * k > _MOST_FILLED:
        return n, k
    return rows(n), features(k)


def slots(size: int, most: int) -> int:
    """The slots for a working set of a given size: 16, 24, 32, 48, 64, 96, ..., at most `most`."""
    if size <= 16:
        return min(16, most)
    above = 1 << (size - 1).bit_length()
    return min(above if 4 * size > 3 * above else 3 * above // 4, most)
