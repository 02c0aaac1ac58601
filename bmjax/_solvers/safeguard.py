"""The course of the bound, which a safeguard compares with and which shows that steps are idle."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


class Progress(NamedTuple):
    """The bound's course over the steps of a solver.

    Attributes:
        bound: The highest bound so far for the present active set.
        level: The bound when it last rose by more than rounding.
        rose_at: The step at which it did.
        num_steps: Number of steps done.
    """

    bound: Float[Array, ""]
    level: Float[Array, ""]
    rose_at: Int[Array, ""]
    num_steps: Int[Array, ""]

    def after_step(
        self, bound: Float[Array, ""], slack: Float[Array, ""], pruned: Bool[Array, ""]
    ) -> "Progress":
        """The progress after one more step.

        Args:
            bound: The bound of the state that was kept.
            slack: The largest difference of two evaluations of the bound that may be rounding.
            pruned: Whether a feature was pruned, after which the comparison of bounds starts again.
        """
        num_steps = self.num_steps + 1
        rose = pruned | (bound > self.level + slack)
        return Progress(
            bound=jnp.where(pruned, bound, jnp.maximum(bound, self.bound)),
            level=jnp.where(rose, bound, self.level),
            rose_at=jnp.where(rose, num_steps, self.rose_at),
            num_steps=num_steps,
        )

    @property
    def idle(self) -> Int[Array, ""]:
        """Number of steps since the bound last rose."""
        return self.num_steps - self.rose_at

    @property
    def stalled(self) -> Bool[Array, ""]:
        """Whether the bound has not risen for 200 steps and a third of all steps."""
        return (self.idle > 200) & (3 * self.idle > self.num_steps)


def begin(bound: Float[Array, ""]) -> Progress:
    """The progress before the first step."""
    zero = jnp.zeros((), jnp.int32)
    return Progress(bound=bound, level=bound, rose_at=zero, num_steps=zero)
