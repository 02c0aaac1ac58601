"""The few sizes that arrays are filled up to, so that one compiled program serves many shapes."""

# Beyond this many numbers a fit takes longer than its compilation, and spare rows would cost more.
_MOST_FILLED = 2**22


def rung(size: int, *, least: int, doubling: int) -> int:
    """The lowest rung of a ladder with room for a size.

    Rungs double up to `doubling`; from there each is at most a quarter above the one below.
    """
    if size <= least:
        return least
    if size <= doubling:
        return 1 << (size - 1).bit_length()
    step = 1 << ((size - 1).bit_length() - 3)
    return size + -size % step


def rows(n: int) -> int:
    """Rows that n rows are filled up to."""
    return rung(n, least=32, doubling=512)


def features(k: int) -> int:
    """Features that k features are filled up to."""
    return rung(k, least=8, doubling=64)


def filled_shape(n: int, k: int) -> tuple[int, int]:
    """Rows and features that a dataset is filled up to; a large dataset is not filled up."""
    if n * k > _MOST_FILLED:
        return n, k
    return rows(n), features(k)


def slots(size: int, most: int) -> int:
    """Slots for a working set of some size, at most `most`: 16, 24, 32, 48, 64, 96, 128, ..."""
    if size <= 16:
        return min(16, most)
    above = 1 << (size - 1).bit_length()
    return min(above if 4 * size > 3 * above else 3 * above // 4, most)
