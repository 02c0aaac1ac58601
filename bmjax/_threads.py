"""What JAX lets a thread set for itself, carried over to those that work for it; BLAS threads."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any, NamedTuple

import jax
from threadpoolctl import ThreadpoolController


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
        """The same in another thread."""
        with (
            jax.enable_x64(self.x64),
            jax.default_device(self.device),
            jax.default_matmul_precision(self.precision),
        ):
            yield


def one_blas_thread() -> AbstractContextManager[Any]:
    """A context in which NumPy's and SciPy's products run on one thread.

    Theirs are small here. Spread over threads each of them waits for all, and beside other work
    that took 8 ms in the place of 0.2 (OpenBLAS, two cores).
    """
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
