"""What JAX lets a thread set for itself, carried over to the threads that work for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax


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
