"""The mean of y at new samples."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bmjax._checks import inputs
from bmjax._runtime.backend import Array
from bmjax._runtime.precision import full_precision


def noise_deviation(precision: Any) -> float:
    """The standard deviation of the noise; infinite or NaN where the fit came to nothing."""
    with np.errstate(all="ignore"):
        return float(1 / np.sqrt(np.asarray(precision, float)))


def mask_variances(weights: Float[Array, "*b k"], rate: Float[Array, "*b k"]) -> Any:
    """What the mask of each feature gives the variance of a mean, per squared unit: (..., k)."""
    return weights**2 * rate * (1 - rate)


def new_samples(X: Any, coef: Float[Array, "*b k"]) -> jax.Array:
    # As in `fit_batch`, one bad dataset of a batch must not keep the others from their results.
    return inputs.samples(X, coef.shape[-1], coef.dtype, values=coef.ndim == 1)


@full_precision
def linear_predictor(X: Any, coef: Float[Array, "*b k"]) -> jax.Array:
    """X @ coef, for one set of samples or one a batch member; see `Result.predict`.

    Raises:
        TypeError: If X is not an array of real numbers.
        ValueError: If X has not as many columns as there are coefficients, or a value is not
            finite.
    """
    return jnp.einsum("...nk,...k->...n", new_samples(X, coef), coef)
