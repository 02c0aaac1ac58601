"""Least squares on a support that has been chosen, with the textbook's standard errors.

On the host in float64, whatever the fit ran in: it is one small factorisation.
"""

from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float
from scipy import special

from bmjax._checks import validate

NOTE = (
    "Standard errors, t and p take the support as given in advance. It was chosen from the same "
    "data, so the p-values of kept features are too small and the intervals too short: use them "
    "to compare features, or refit on data that the selection has not seen."
)


class RefitResult(NamedTuple):
    """Least squares on the support of a fit.

    Attributes:
        coef: Effects, in units of y per unit of the feature; zero off the support.
        intercept: Intercept, 0 without one.
        standard_errors: Of `coef`; NaN off the support and where no degree of freedom is left.
        intercept_standard_error: Of `intercept`; NaN without one.
        t: coef / standard_errors.
        p_values: Two-sided, by Student's t with `degrees_of_freedom`.
        noise_variance: ||residual||^2 / degrees_of_freedom, free of bias if the support is right.
        degrees_of_freedom: Sum of the sample weights less the number of coefficients.
        note: What to beware of.
    """

    coef: Float[np.ndarray, " k"]
    intercept: float
    standard_errors: Float[np.ndarray, " k"]
    intercept_standard_error: float
    t: Float[np.ndarray, " k"]
    p_values: Float[np.ndarray, " k"]
    noise_variance: float
    degrees_of_freedom: float
    note: str = NOTE


def refit(
    X: ArrayLike,
    y: ArrayLike,
    support: np.ndarray,
    *,
    intercept: bool,
    sample_weights: ArrayLike | None = None,
) -> RefitResult:
    """Least squares of y on the columns of the support; see `Result.refit`."""
    features, target, weights = validate.host_data(X, y, sample_weights)
    n, k = features.shape
    if k != len(support):
        raise ValueError(f"X has {k} columns but the fit has {len(support)} features.")
    root = np.sqrt(weights)
    chosen = features[:, support]
    center, level = np.zeros(chosen.shape[1]), 0.0
    if intercept:  # centred, so that years and prices do not spoil the condition
        center = weights @ chosen / weights.sum()
        level = float(weights @ target / weights.sum())
    columns = (chosen - center) * root[:, None]
    size = np.sqrt(np.sum(columns**2, axis=0))
    size = np.where(size > 0, size, 1)
    left, values, right = np.linalg.svd(columns / size, full_matrices=False)
    real = values > max(n, 1) * np.finfo(float).eps * values.max(initial=0)
    inverse = np.where(real, 1 / np.where(real, values, 1), 0)
    coef = right.T @ (inverse * (left.T @ ((target - level) * root))) / size
    residual = target - level - (chosen - center) @ coef
    freedom = float(weights.sum() - real.sum() - intercept)
    variance = float(weights @ residual**2 / freedom) if freedom > 0 else np.nan
    covariance = (right.T * inverse**2) @ right / np.outer(size, size) * variance
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.sqrt(np.diag(covariance))
        t = coef / errors
        p = 2 * special.stdtr(freedom, -np.abs(t)) if freedom > 0 else np.full(len(t), np.nan)
    of_level = np.nan
    if intercept:
        of_level = float(np.sqrt(variance / weights.sum() + center @ covariance @ center))
    return RefitResult(
        coef=_spread(support, coef, 0.0),
        intercept=level - float(center @ coef),
        standard_errors=_spread(support, errors, np.nan),
        intercept_standard_error=of_level,
        t=_spread(support, t, np.nan),
        p_values=_spread(support, p, np.nan),
        noise_variance=variance,
        degrees_of_freedom=freedom,
    )


def _spread(support: np.ndarray, values: np.ndarray, rest: float) -> np.ndarray:
    full = np.full(len(support), rest)
    full[support] = values
    return full
