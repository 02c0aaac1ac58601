"""The mean of y at new samples."""

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
    """The standard deviation of the noise; infinite or NaN where the fit came to nothing."""
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
    """The variance that masks give the predictor at samples less the center.

    Args:
        away: The samples.
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


@full_precision
def linear_predictor(X: Any, coef: Float[Array, "*b k"]) -> jax.Array:
    """X @ coef, for one set of samples or one a batch member; see `Result.predict`.

    Raises:
        TypeError: If X is not an array of real numbers.
        ValueError: If X has not as many columns as there are coefficients, or a value is not
            finite.
    """
    return jnp.einsum("...nk,...k->...n", new_samples(X, coef), coef)
