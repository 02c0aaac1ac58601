"""Cores and threads: how many there are, what they share, and where there are none left.

JAX lets a thread set some things for itself; they are carried over to the threads that work for it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, NamedTuple

import jax
from threadpoolctl import ThreadpoolController


def cores() -> int:
    """How many cores this process may use, as far as the system tells."""
    allowed = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    return len(allowed(0)) if allowed else os.cpu_count() or 1


# The process whose threads JAX works with; a fork inherits the number and not the threads.
_at_work: int | None = None


def enter() -> None:
    """Take note that JAX is about to work here, and refuse it in a fork, where it may hang.

    Raises:
        RuntimeError: If this process was forked from one in which JAX was at work.
    """
    global _at_work
    if _at_work not in (None, os.getpid()):
        raise RuntimeError(
            "bmjax was used before this process was forked, and a fork has none of the threads "
            "that JAX works with, so that a call here may wait for ever. Start processes afresh, "
            "with multiprocessing.get_context('spawn'), or fork before the first call."
        )
    _at_work = os.getpid()


class Settings(NamedTuple):
    """What the caller has set for its own thread alone, as by `with jax.enable_x64(True):`."""

    x64: bool
    device: Any
    precision: str | None

    @classmethod
    def here(cls) -> "Settings":
        """Those of this thread."""
        return cls(
            jax.config.jax_enable_x64,  # pyright: ignore[reportAttributeAccessIssue]
            jax.config.jax_default_device,  # pyright: ignore[reportAttributeAccessIssue]
            jax.config.jax_default_matmul_precision,  # pyright: ignore[reportAttributeAccessIssue]
        )

    @contextmanager
    def in_this_thread(self) -> Iterator[None]:
        """Apply these settings in another thread."""
        with (
            jax.enable_x64(self.x64),
            jax.default_device(self.device),
            jax.default_matmul_precision(self.precision),
        ):
            yield


_limiting = Lock()
# How many calls now want one thread, and what the libraries had before the first of them.
_wanting, _before = 0, None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context in which NumPy's and SciPy's products run on one thread.

    Theirs are small here. Spread over threads each of them waits for all, and beside other work
    that took 8 ms in the place of 0.2 (OpenBLAS, two cores). The setting is one of the process, so
    the last of several threads that leave gives it back.
    """
    global _wanting, _before
    with _limiting:
        if _wanting == 0:
            _before = _controller().limit(limits=1, user_api="blas")
        _wanting += 1
    try:
        yield
    finally:
        with _limiting:
            _wanting -= 1
            if _wanting == 0 and _before is not None:
                _before.restore_original_limits()


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
