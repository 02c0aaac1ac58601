"""Parts of a prediction: the linear predictor, the variance due to the masks, the rounding."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bmjax._checks import inputs
from bmjax._model.groups import groups_of
from bmjax._runtime.backend import Array, namespace
from bmjax._runtime.precision import full_precision


def noise_deviation(precision: Any) -> float:
    """The standard deviation of the noise; infinite or NaN if the fit failed."""
    with np.errstate(all="ignore"):
        return float(1 / np.sqrt(np.asarray(precision, float)))


def new_samples(X: Any, coef: Float[Array, "*b k"]) -> jax.Array:
    # As in `fit_batch`, one bad dataset of a batch must not keep the others from their results.
    return inputs.samples(X, coef.shape[-1], coef.dtype, values=coef.ndim == 1)


def mask_variance_at(
    away: Float[Array, "*b n k"],
    weights: Float[Array, "*b k"],
    inclusion: Float[Array, "*b k"],
    labels: Sequence[object] | None,
) -> Float[Array, "*b n"]:
    """The variance of the predictor due to the masks, at given samples.

    Args:
        away: Samples minus the center.
        weights: Weights.
        inclusion: Inclusion rates.
        labels: The label of each column's group, or None.
    """
    xp = namespace(away, weights)
    rate, groups = inclusion * (1 - inclusion), None if labels is None else groups_of(labels)
    if groups is None:
        return xp.einsum("...nk,...k->...n", away**2, weights**2 * rate)
    together = (groups.same & groups.first[None, :]).astype(away.dtype)
    effects = (away * weights[..., None, :]) @ together
    return xp.einsum("...ng,...g->...n", effects**2, rate)


def unit(array: Any) -> float:
    """The largest relative error of rounding in the type of an array."""
    return float(jnp.finfo(array.dtype).eps) / 2


def check_digits(what: str, rounding: Any, size: float, noise: float, dtype: Any) -> None:
    """Refuse numbers that are lost in rounding, because the data lie far from zero.

    Args:
        what: Name of the numbers, in the plural, for the message.
        rounding: Largest possible rounding error of the numbers.
        size: An error that hardly matters, whatever the noise.
        noise: The standard deviation of the noise; zero for an exact fit.
        dtype: The type of the fit.

    Raises:
        ValueError: If the rounding is larger than both.
    """
    if rounding > max(size, noise):
        raise ValueError(
            f"{what} would be off by up to {rounding:.2g}, where the noise has the standard "
            f"deviation {noise:.2g}: the data lie too far from zero for {dtype}. Fit in float64, "
            'after jax.config.update("jax_enable_x64", True), or take a constant off first.'
        )


@full_precision
def linear_predictor(X: Any, coef: Float[Array, "*b k"]) -> jax.Array:
    """X @ coef, for one set of samples or one for each fit of a batch; see `Result.predict`.

    Raises:
        TypeError: If X is not an array of real numbers.
        ValueError: If X does not have one column for each coefficient, or a value is not finite.
    """
    return jnp.einsum("...nk,...k->...n", new_samples(X, coef), coef)
