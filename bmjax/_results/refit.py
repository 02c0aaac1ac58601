"""Least squares on a chosen support, with the textbook's standard errors.

It runs on the host in float64, whatever the type of the fit: it is one small factorisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float
from scipy import special

from bmjax._checks import inputs
from bmjax._results.names import Names, feature_names
from bmjax._results.summary import RefitSummary, figure

NOTE = (
    "Standard errors, t and p take the support as given in advance. It was chosen from the same "
    "data, so the p-values of kept features are too small and the intervals too short: use them "
    "to compare features, or refit on data that the selection has not seen."
)


@dataclass(frozen=True)
class RefitResult:
    """Least squares on the support of a fit. `print` its `summary()`.

    Attributes:
        coef: Effects, in units of y per unit of the feature; zero off the support.
        intercept: Intercept, 0 if none was fitted.
        standard_errors: Standard errors of `coef`; NaN off the support or without degrees of
            freedom.
        intercept_standard_error: Standard error of `intercept`; NaN without one.
        t: The t statistics, coef / standard_errors.
        p_values: Two-sided p-values by Student's t with `degrees_of_freedom`.
        noise_variance: ||residual||^2 / degrees_of_freedom, unbiased if the support is right.
        degrees_of_freedom: Sum of the sample weights minus the number of coefficients.
        r_squared: Share of the variance of y explained; of its mean square without an intercept.
        samples: Number of samples n, the sum of the sample weights.
        log_likelihood: Logarithm of the maximum likelihood under normal noise.
        names: Names of the features and the target, if the data had any.
        note: A sentence on the limits of the standard errors and p-values.

    Example:
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> fit = bmjax.fit(X, y, intercept=True)
        >>> refit = fit.refit(X, y)
        >>> round(float(refit.coef[2]), 1), round(refit.r_squared, 2), round(refit.bic)
        (5.9, 0.51, 4825)
    """

    coef: Float[np.ndarray, " k"]
    intercept: float
    standard_errors: Float[np.ndarray, " k"]
    intercept_standard_error: float
    t: Float[np.ndarray, " k"]
    p_values: Float[np.ndarray, " k"]
    noise_variance: float
    degrees_of_freedom: float
    r_squared: float
    samples: float
    log_likelihood: float
    names: Names | None = None
    note: str = NOTE

    @property
    def _parameters(self) -> float:
        return self.samples - self.degrees_of_freedom + 1  # the noise variance is one too

    @property
    def aic(self) -> float:
        """Akaike's criterion, -2 log likelihood + 2 p; p counts the noise variance, as in R."""
        return -2 * self.log_likelihood + 2 * self._parameters

    @property
    def bic(self) -> float:
        """The Bayesian criterion, -2 log likelihood + p log n; p counts the noise variance."""
        return -2 * self.log_likelihood + self._parameters * float(np.log(self.samples))

    def conf_int(self, level: float = 0.95) -> Float[np.ndarray, "k 2"]:
        """Intervals of the effects by Student's t, (k, 2), NaN off the support.

        Args:
            level: Probability of the intervals, between 0 and 1.

        Raises:
            TypeError: If the level is not a number.
            ValueError: If the level is out of range.
        """
        # If no degree of freedom is left the errors are NaN already.
        away = half_width(level, np.asarray(self.degrees_of_freedom)) * self.standard_errors
        return np.stack([self.coef - away, self.coef + away], axis=-1)

    def _repr_html_(self) -> str:
        """The summary as an HTML table, for notebooks."""
        return self.summary()._repr_html_()

    def summary(self, names: Sequence[str] | None = None) -> RefitSummary:
        """The refit as a table to print.

        Args:
            names: Names of the k features. Default: those of the data, or else x0, x1, ...

        Raises:
            ValueError: If there are not k names.
        """
        facts = {}
        if self.names is not None and self.names.target is not None:
            facts["target"] = self.names.target
        if np.isfinite(self.intercept_standard_error):
            facts["intercept"] = figure(self.intercept, self.intercept_standard_error)
            facts["standard error of it"] = f"{self.intercept_standard_error:.4g}"
        around = "" if np.isfinite(self.intercept_standard_error) else " (around zero)"
        facts |= {
            f"R squared{around}": f"{self.r_squared:.4f}",
            "noise (standard deviation)": f"{np.sqrt(self.noise_variance):.4g}",
            "degrees of freedom": f"{self.degrees_of_freedom:g}",
            "AIC, BIC": f"{self.aic:.6g}, {self.bic:.6g}",
        }
        return RefitSummary(
            names=feature_names(names, len(self.coef), self.names),
            coef=self.coef,
            standard_errors=self.standard_errors,
            t=self.t,
            p_values=self.p_values,
            intervals=self.conf_int(),
            facts=facts,
            notes=(self.note,),
        )

    def to_pandas(self, names: Sequence[str] | None = None) -> Any:
        """The features as a `pandas.DataFrame`; see `summary`.

        Raises:
            ModuleNotFoundError: If pandas is not installed.
            ValueError: If there are not k names.
        """
        return self.summary(names).to_pandas()


def refit(
    X: ArrayLike,
    y: ArrayLike,
    support: np.ndarray,
    *,
    intercept: bool,
    sample_weights: ArrayLike | None = None,
    names: Names | None = None,
) -> RefitResult:
    """Least squares of y on the columns of the support; see `Result.refit`."""
    features, target, weights = inputs.host_data(X, y, sample_weights)
    n, k = features.shape
    if k != len(support):
        raise ValueError(f"X has {k} columns but the fit has {len(support)} features.")
    root = np.sqrt(weights)
    chosen = features[:, support]
    center, level = np.zeros(chosen.shape[1]), 0.0
    if intercept:  # centred, since years and prices would spoil the condition number
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
    samples, square = float(weights.sum()), float(weights @ residual**2)
    freedom = samples - float(real.sum()) - intercept
    variance = square / freedom if freedom > 0 else np.nan
    whole = float(weights @ (target - level) ** 2)
    with np.errstate(divide="ignore"):
        likelihood = -samples / 2 * float(np.log(2 * np.pi * square / samples) + 1)
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
        r_squared=1 - square / whole if whole > 0 else 0.0,
        samples=samples,
        log_likelihood=likelihood,
        names=names,
    )


def half_width(level: Any, freedom: np.ndarray) -> np.ndarray:
    """Half the width of an interval in standard errors, by Student's t.

    Args:
        level: Probability of the interval.
        freedom: Degrees of freedom; 0 for the normal distribution.

    Raises:
        TypeError: If the level is not a number.
        ValueError: If it is not between 0 and 1.
    """
    if isinstance(level, bool) or not isinstance(level, int | float | np.floating):
        raise TypeError(f"level is {level!r}; give a number between 0 and 1, such as 0.95.")
    if not 0 < level < 1:
        raise ValueError(f"level is {level!r}; give a number between 0 and 1, such as 0.95.")
    share = (1 + float(level)) / 2
    known = freedom > 0
    return np.where(
        known, special.stdtrit(np.where(known, freedom, 1), share), special.ndtri(share)
    )


def _spread(support: np.ndarray, values: np.ndarray, rest: float) -> np.ndarray:
    full = np.full(len(support), rest)
    full[support] = values
    return full
