"""The exact one-feature estimators, and the bias of the FAB estimator for any number of features.

With one feature every estimator of the paper has a closed form (sections 3.1 and 4.3), which shows
how it shrinks: the Lasso by a constant, ARD by less for larger effects, FAB not at all. They serve
as oracles for the general solvers and as the curves of figure 1 of the paper.

All are pure functions, in the floating-point type of their input; use `jax.vmap` for many inputs.
"""

from __future__ import annotations

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bmjax._checks import inputs, validate
from bmjax._checks.arrays import floating_array
from bmjax._model.linalg import solve_normal_equations
from bmjax._runtime.precision import full_precision

__all__ = [
    "ard",
    "fab",
    "fab_bias",
    "lasso",
    "least_squares",
]


def __dir__() -> list[str]:
    return __all__


@full_precision
def least_squares(x: ArrayLike, y: ArrayLike) -> Float[Array, ""]:
    """Least squares, x'y / x'x: equation (6) of the paper; 0 if x is all zero.

    Args:
        x: (n,) the feature.
        y: (n,) the target.

    Returns:
        The estimated effect.

    Raises:
        TypeError: If an argument is not an array of real numbers.
        ValueError: If a shape does not fit or a value is not finite.

    Example:
        >>> import numpy as np
        >>> from bmjax import shrinkage
        >>> x = np.array([1.0, 2.0, 3.0, 4.0])
        >>> float(shrinkage.least_squares(x, 2 * x))
        2.0
    """
    x, y = _one_feature(x, y)
    return _ratio(x @ y, x @ x)


@full_precision
def lasso(
    x: ArrayLike, y: ArrayLike, alpha: ArrayLike, noise_precision: ArrayLike = 1.0
) -> Float[Array, ""]:
    """The Lasso: least squares moved towards zero by alpha / (noise_precision * x'x).

    This is the minimum of noise_precision / 2 ||y - x b||^2 + alpha |b|, equation (3). The paper's
    closed form, equation (7) (`lasso-1d`), moves by twice that, its text by alpha / x'x: both
    errata.

    Args:
        x: (n,) the feature.
        y: (n,) the target.
        alpha: Regularisation constant, at least 0.
        noise_precision: One over the noise variance.

    Returns:
        The estimated effect, exactly zero below the threshold.

    Raises:
        TypeError: If an argument is not real.
        ValueError: If a shape does not fit, a value is not finite, or a number is out of range.

    Example:
        >>> import numpy as np
        >>> from bmjax import shrinkage
        >>> x = np.array([1.0, 2.0, 3.0, 4.0])
        >>> float(shrinkage.lasso(x, 2 * x, alpha=30.0))  # moved by 30 / x'x
        1.0
    """
    x, y = _one_feature(x, y)
    alpha = validate.number("alpha", alpha, x.dtype, low=0, open_low=False)
    precision = validate.number("noise_precision", noise_precision, x.dtype, low=0, open_low=True)
    return _shrink(_ratio(x @ y, x @ x), _ratio(alpha, precision * (x @ x)))


@full_precision
def ard(x: ArrayLike, y: ArrayLike, noise_precision: ArrayLike) -> Float[Array, ""]:
    """ARD: least squares moved towards zero by 1 / (noise_precision * |x'y|).

    This is equation (8) of the paper (`ard-1d`), derived in its appendix A: the posterior mean
    under the prior variance of highest marginal likelihood.

    Args:
        x: (n,) the feature.
        y: (n,) the target.
        noise_precision: One over the noise variance.

    Returns:
        The estimated effect, exactly zero below the threshold.

    Raises:
        TypeError: If an argument is not real.
        ValueError: If a shape does not fit, a value is not finite, or a number is out of range.

    Example:
        >>> import numpy as np
        >>> from bmjax import shrinkage
        >>> x = np.array([1.0, 2.0, 3.0, 4.0])
        >>> round(float(shrinkage.ard(x, 2 * x, noise_precision=1.0)), 3)  # moved by 1 / |x'y|
        1.983
    """
    x, y = _one_feature(x, y)
    precision = validate.number("noise_precision", noise_precision, x.dtype, low=0, open_low=True)
    return _shrink(_ratio(x @ y, x @ x), _ratio(jnp.ones((), x.dtype), precision * jnp.abs(x @ y)))


@full_precision
def fab(x: ArrayLike, y: ArrayLike, mask_mean: ArrayLike) -> Float[Array, ""]:
    """FAB: (x o mu)'y / (x o mu)'x, the weight at given mask means, equation (16) (section 4.3).

    It is unbiased for any mask means, and equals least squares if they are all one; 0 if the
    feature is masked in every row.

    Args:
        x: (n,) the feature.
        y: (n,) the target.
        mask_mean: Posterior means of the masks in [0, 1], (n,) or one number for all.

    Returns:
        The estimated weight.

    Raises:
        TypeError: If an argument is not real.
        ValueError: If a shape does not fit, a value is not finite, or a mask mean is outside
            [0, 1].

    Example:
        >>> import numpy as np
        >>> from bmjax import shrinkage
        >>> x = np.array([1.0, 2.0, 3.0, 4.0])
        >>> float(shrinkage.fab(x, 2 * x, mask_mean=[1.0, 1.0, 0.5, 0.5]))
        2.0
    """
    x, y = _one_feature(x, y)
    masked = x * _masks(validate.per_feature("mask_mean", mask_mean, len(x), x.dtype))
    return _ratio(masked @ y, masked @ x)


def fab_bias(X: ArrayLike, mask_mean: ArrayLike, true_weights: ArrayLike) -> Float[Array, " k"]:
    """The bias of the FAB weights at fixed mask means, Omega^-1 b, equation (15) (`fab-bias`).

    b_k = (x_k o mu_k)' sum_{l != k} w_l (x_l o (1 - mu_l)): a feature explains the effect of others
    in rows where they are masked and it is not. The bias is zero with one feature or without masks.

    Args:
        X: (n, k) features.
        mask_mean: (k, n) posterior means of the masks, feature-major as in `State.mask_mean`.
        true_weights: (k,) the weights behind y = X @ true_weights + noise.

    Returns:
        The mean, over the noise, of the weights of `m_step` minus the true ones. A feature that is
        masked in every row has weight zero there, so its bias is minus its true weight.

    Raises:
        TypeError: If an argument is not real.
        ValueError: If a shape does not fit, a value is not finite, or a mask mean is outside
            [0, 1].

    Example:
        >>> import numpy as np
        >>> from bmjax import shrinkage
        >>> x = np.array([1.0, 2.0, 3.0, 4.0])
        >>> X = np.stack([x, x[::-1]], axis=1)
        >>> mask_mean = np.ones((2, 4))
        >>> bias = shrinkage.fab_bias(X, mask_mean, true_weights=[1.0, 1.0])  # nothing is masked
        >>> [round(float(b), 3) + 0.0 for b in bias]
        [0.0, 0.0]
    """
    features, masks = floating_array("X", X), floating_array("mask_mean", mask_mean)
    if features.ndim != 2 or masks.shape != features.shape[::-1]:
        raise ValueError(
            f"X has shape {features.shape} and mask_mean {masks.shape}; wanted (n, k) and (k, n)."
        )
    features, _ = inputs.data(features, np.zeros(len(features), features.dtype))
    n, k = features.shape
    dtype = features.dtype
    flat = validate.per_feature("mask_mean", masks.ravel(), n * k, dtype)
    return _fab_bias(
        features.T,
        _masks(flat).reshape(k, n),
        validate.per_feature("true_weights", true_weights, k, dtype),
    )


@jax.jit
@full_precision
def _fab_bias(
    X: Float[Array, "k n"], mask_mean: Float[Array, "k n"], true_weights: Float[Array, " k"]
) -> Float[Array, " k"]:
    masked = X * mask_mean
    left_out = X * (1 - mask_mean)
    omega = masked @ masked.T + jnp.diag(jnp.sum(masked * left_out, axis=1))
    cross = masked @ left_out.T
    b = cross @ true_weights - jnp.diagonal(cross) * true_weights
    seen = jnp.diagonal(omega) > 0
    return jnp.where(seen, solve_normal_equations(omega, b, seen), -true_weights)


def _one_feature(x: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    """Both arrays as (n,), of one floating-point type."""
    feature, target = floating_array("x", x), floating_array("y", y)
    if feature.ndim != 1 or feature.shape != target.shape or feature.size == 0:
        raise ValueError(f"x has shape {feature.shape} and y {target.shape}; wanted (n,) and (n,).")
    n = len(feature)
    dtype = np.promote_types(np.promote_types(feature.dtype, target.dtype), np.float32)
    return (
        validate.per_feature("x", feature, n, dtype),
        validate.per_feature("y", target, n, dtype),
    )


def _masks(mask_mean: Array) -> Array:
    if not isinstance(mask_mean, jax.core.Tracer) and not bool(
        ((mask_mean >= 0) & (mask_mean <= 1)).all()
    ):
        raise ValueError("mask_mean holds values outside [0, 1].")
    return mask_mean


def _ratio(numerator: Array, denominator: Array) -> Array:
    """A quotient that is 0 if the denominator is, as are its derivatives."""
    nothing = denominator == 0
    return jnp.where(nothing, 0, numerator / jnp.where(nothing, 1, denominator))


def _shrink(estimate: Array, by: Array) -> Array:
    """Soft thresholding: the estimate moved towards zero, but not beyond."""
    return jnp.sign(estimate) * jnp.maximum(jnp.abs(estimate) - by, 0)
