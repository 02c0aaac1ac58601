"""Cores and threads: their number, the settings that threads share, and the refusal of forks.

JAX has settings of a single thread, which are passed on to the threads that work for it.
"""

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, NamedTuple

import jax
from threadpoolctl import ThreadpoolController


def cores() -> int:
    """The number of cores that this process may use, as far as the system tells."""
    allowed = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    return len(allowed(0)) if allowed else os.cpu_count() or 1


# The process whose threads JAX works with; a fork inherits this number but not the threads.
_at_work: int | None = None


def enter() -> None:
    """Record that JAX is about to work in this process, and refuse it in a fork, where it may hang.

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
    """The caller's settings of its own thread, as by `with jax.enable_x64(True):`."""

    x64: bool
    device: Any
    precision: str | None

    @classmethod
    def here(cls) -> "Settings":
        """The settings of this thread."""
        return cls(
            jax.config.jax_enable_x64,  # pyright: ignore[reportAttributeAccessIssue]
            jax.config.jax_default_device,  # pyright: ignore[reportAttributeAccessIssue]
            jax.config.jax_default_matmul_precision,  # pyright: ignore[reportAttributeAccessIssue]
        )

    @contextmanager
    def in_this_thread(self) -> Iterator[None]:
        """A context that applies these settings in another thread."""
        with (
            jax.enable_x64(self.x64),
            jax.default_device(self.device),
            jax.default_matmul_precision(self.precision),
            jax.debug_nans(False),  # as in the caller's thread; see `debugging.unwatched`
            jax.debug_infs(False),
        ):
            yield


_limiting = Lock()
# The number of calls that now want one thread, and the limits before the first of them.
_wanting, _before = 0, None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context in which the products and factorisations of NumPy, SciPy and XLA run on one thread.

    They are small. Spread over threads, each waits for all of them: beside other work a product
    took 8 ms instead of 0.2, and a batch of 200 x 180 twice as long (OpenBLAS, two cores). The
    setting is that of the process, so the last of several threads to leave restores it.
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
    # XLA factorises by SciPy's BLAS, which JAX loads only when it compiles the first factorisation;
    # a controller knows the libraries that are loaded when it is made.
    importlib.import_module("scipy.linalg.cython_lapack")
    return ThreadpoolController()
