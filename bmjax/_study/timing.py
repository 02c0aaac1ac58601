"""Wall time, split into the compile time of JAX and the rest.

A batched or a host-side function compiles inside itself, out of reach of `jit(...).lower()`, so
the split is taken from the events by which JAX reports each tracing, lowering and compilation.
"""

import time
from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple, TypeVar

from jax import monitoring

T = TypeVar("T")

_COMPILATION = "/jax/core/compile/"
# One list for each call being timed now.
_open: list[list[tuple[float, float]]] = []


class Spent(NamedTuple):
    """Seconds of wall time.

    Attributes:
        compile: Time in which JAX was tracing or compiling.
        run: The rest of the time.
    """

    compile: float = 0.0
    run: float = 0.0

    def plus(self, other: "Spent") -> "Spent":
        """The sum of both."""
        return Spent(self.compile + other.compile, self.run + other.run)


def timed(call: Callable[[], T]) -> tuple[T, Spent]:
    """Call a function and time it.

    Args:
        call: The function to time. It has to wait for the device itself.

    Returns:
        The value of the call and its wall time.
    """
    _listen()
    spans: list[tuple[float, float]] = []
    _open.append(spans)
    begin = time.perf_counter()
    try:
        value = call()
    finally:
        end = time.perf_counter()
        # By identity, since two calls may have equal spans.
        _open[:] = [other for other in _open if other is not spans]
    compiling = _covered(spans)
    return value, Spent(compiling, max(end - begin - compiling, 0.0))


@cache
def _listen() -> None:
    """Register a listener once, since older versions of JAX cannot unregister it."""

    def note(event: str, duration_secs: float, **_: object) -> None:
        if event.startswith(_COMPILATION):
            end = time.perf_counter()
            for spans in tuple(_open):
                spans.append((end - duration_secs, end))

    monitoring.register_event_duration_secs_listener(note)


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """Length of the union of intervals: traces nest, and threads compile side by side."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(end - max(begin, reached), 0.0)
        reached = max(reached, end)
    return total
