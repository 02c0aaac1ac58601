"""What is read off a fit: standard errors, intervals, the refit and the summary."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from bmjax._results.names import feature_names, in_order
from bmjax._results.prediction import Predictions
from bmjax._results.refit import RefitResult, half_width, refit
from bmjax._results.summarised import summary_of
from bmjax._results.summary import Summary
from bmjax._runtime.backend import Array
from bmjax._runtime.debugging import unwatched


class Readings(Predictions):
    """What is read off a fit without new samples, a base of `Result`, which has the fields."""

    support: Bool[Array, "*b k"]
    with_intercept: Bool[Array, "*b"] | None

    @property
    def standard_errors(self) -> Float[Array, "*b k"]:
        """Standard errors of `coef`, with the support taken as known, NaN where pruned.

        See `Uncertainty`.

        Raises:
            ValueError: If the fit was made without uncertainty.
        """
        return self._uncertain("standard_errors").standard_errors

    @property
    @unwatched
    def intercept_standard_error(self) -> Float[Array, "*b"]:
        """Standard error of `intercept`, with the support taken as known, NaN if not fitted.

        Raises:
            ValueError: If the fit was made without uncertainty.
        """
        uncertainty = self._uncertain("intercept_standard_error")
        if not uncertainty.has_level:
            return jnp.full_like(self.intercept, jnp.nan)
        # The intercept is the level at the mean of X minus the effect of moving there from zero.
        away = jnp.concatenate([-self.center, jnp.ones_like(self.center[..., :1])], axis=-1)
        return jnp.sqrt(uncertainty.variance_along(away[..., None, :])[..., 0])

    @property
    def standardized(self) -> Float[Array, "*b k"]:
        """Effects in standard deviations of y per standard deviation of the feature.

        They have no units, so features can be compared; for a logistic fit they are log-odds per
        standard deviation of the feature. Without an intercept, root mean squares replace standard
        deviations.

        Raises:
            ValueError: If the fit was made without uncertainty.
        """
        return self.coef * self._uncertain("standardized").relative_sizes

    @property
    def r_squared(self) -> Float[Array, "*b"]:
        """The share of the variance of y that the effects explain, on the data of the fit.

        Without an intercept it is the share of the square of y around zero, not around its mean. It
        rises with every feature; judge the fit on new samples by predicting them. For a logistic
        fit it is the share of the deviance explained, relative to a constant probability
        (McFadden); for Student's t, rows count by their weights.

        Raises:
            ValueError: If the fit was made without uncertainty.
        """
        return self._uncertain("r_squared").r_squared

    @unwatched
    def conf_int(self, level: float = 0.95) -> Float[Array, "*b k 2"]:
        """Intervals of the effects, `coef` -+ t `standard_errors`, with the support taken as known.

        t is a quantile of Student's t with n - p degrees of freedom, or of the normal distribution
        if the noise is known. The support was chosen from the same data, so the intervals are too
        short; those of `bmjax.bootstrap` include the choice.

        Args:
            level: Probability of the intervals, between 0 and 1.

        Returns:
            (k, 2) lower and upper ends, NaN where pruned; (b, k, 2) for a batch.

        Raises:
            TypeError: If the level is not a number.
            ValueError: If the level is out of range, or the fit was made without uncertainty.
        """
        uncertainty = self._uncertain("conf_int")
        half = half_width(level, np.asarray(uncertainty.freedom)).astype(self.coef.dtype)
        away = half[..., None] * np.asarray(uncertainty.standard_errors)
        coef = np.asarray(self.coef)
        return jnp.asarray(np.stack([coef - away, coef + away], axis=-1))

    def refit(self, X: Any, y: Any, sample_weights: Any = None) -> RefitResult:
        """Refit by least squares on the support: unbiased noise, standard errors, t and p-values.

        Args:
            X: (n, k) features, those of the fit or, better, of samples that it has not seen. If the
                fit was made from a frame, columns of a frame are matched by name.
            y: (n,) target.
            sample_weights: (n,) how often each row counts.

        Returns:
            The refit, in float64 on the host. Its standard errors and p-values take the support as
            known in advance, as its `note` explains.

        Raises:
            TypeError: If an argument is not an array of real numbers.
            ValueError: If a shape does not fit, a value is not finite, this is a batch, or y is not
                Gaussian.
        """
        self._one_fit("refit")
        if self.family is not None:
            raise ValueError(
                f"refit is by least squares, which is not for family={self.family.name!r}: a kept "
                "feature of inclusion 1 has its coef and standard error of highest likelihood "
                "already."
            )
        return refit(
            in_order(X, self.names),
            y,
            np.asarray(self.support),
            intercept=self.has_intercept,
            sample_weights=sample_weights,
            names=self.names,
        )

    def summary(self, names: Sequence[str] | None = None) -> Summary:
        """The fit as a table to print, with notes on convergence and collinearity.

        Args:
            names: Names of the k features. Default: those of the data, or else x0, x1, ...

        Returns:
            The summary; `print` it, or take its `to_pandas()`.

        Raises:
            ValueError: If there are not k names, or this is a batch.
        """
        self._one_fit("summary")
        return summary_of(self, self.feature_names(names))

    def to_pandas(self, names: Sequence[str] | None = None) -> Any:
        """The features as a `pandas.DataFrame`; see `summary`.

        Raises:
            ModuleNotFoundError: If pandas is not installed.
            ValueError: If there are not k names, or this is a batch.
        """
        return self.summary(names).to_pandas()

    def feature_names(self, names: Sequence[str] | None = None) -> tuple[str, ...]:
        """Names of the k features: those given, those of the data, or x0, x1, ...

        Raises:
            ValueError: If there are not k names.
        """
        return feature_names(names, self.coef.shape[-1], self.names)

    @property
    def has_intercept(self) -> bool:
        """Whether the level of y was fitted."""
        return self.with_intercept is not None and bool(np.all(self.with_intercept))

    def _one_fit(self, name: str) -> None:
        if self.coef.ndim != 1:
            raise ValueError(
                f"{name} is of one fit, this is a batch of shape {self.coef.shape[:-1]}: take one, "
                "such as result[0]."
            )
