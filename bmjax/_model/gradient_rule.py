"""The G step's update rule as a chain of optax transformations (section 4.4 and appendix C)."""

from typing import NamedTuple

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float


class Parameters(NamedTuple):
    """The parameters that a G step moves."""

    weights: Float[Array, " k"]
    inclusion: Float[Array, " k"]


def precondition_by_reparametrization() -> optax.GradientTransformation:
    """Turn a gradient in (weights, inclusion) into the ascent direction of (weights, coef).

    For each feature it is multiplied by the inverse of J'J, with J the Jacobian of (beta, pi) ->
    (beta, beta pi): the matrix of equation (20), [[1, -pi/beta], [-pi/beta, (1 + pi^2)/beta^2]].
    This speeds up the inclusion of a feature whose weight is small. If inclusion is one, only the
    weight moves, as in the paper; if the weight is exactly zero, the matrix does not exist and the
    inclusion stays (our choice; the paper does not say).
    """

    def update(updates, state, params=None):
        assert params is not None
        movable = (params.inclusion > 0) & (params.inclusion < 1) & (params.weights != 0)
        beta = jnp.where(movable, params.weights, 1)
        pi = params.inclusion
        by_weight, by_inclusion = updates
        direction = Parameters(
            weights=by_weight - jnp.where(movable, pi / beta * by_inclusion, 0),
            inclusion=jnp.where(
                movable, ((1 + pi**2) / beta * by_inclusion - pi * by_weight) / beta, 0
            ),
        )
        return direction, state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def cap_inclusion_update(largest: float) -> optax.GradientTransformation:
    """Shrink the whole step so that no inclusion moves by more than `largest` (appendix C)."""

    def update(updates, state, params=None):
        del params
        widest = jnp.max(jnp.abs(updates.inclusion))
        factor = jnp.minimum(1, largest / jnp.where(widest > 0, widest, 1))
        return Parameters(updates.weights * factor, updates.inclusion * factor), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def paper_optimizer(
    learning_rate: optax.ScalarOrSchedule,
    *,
    reparametrize: bool = True,
    cap: float | None = 0.05,
    optimizer: optax.GradientTransformation | None = None,
) -> optax.GradientTransformation:
    """The chain of optax transformations of section 4.4: preconditioner, learning rate, cap.

    Args:
        learning_rate: eta of equation (20), in squared units of weight: a number or optax schedule.
        reparametrize: Whether to precondition; False for the plain gradient of section 5.2.2.
        cap: Largest update of an inclusion, or None.
        optimizer: Another optax optimiser to use in place of the learning rate.
    """
    chain = [optimizer or optax.scale_by_learning_rate(learning_rate)]
    if reparametrize:
        chain.insert(0, precondition_by_reparametrization())
    if cap is not None:
        chain.append(cap_inclusion_update(cap))
    return optax.chain(*chain)
