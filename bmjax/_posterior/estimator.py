"""The posterior over supports as scikit-learn estimators; see `bmjax.sklearn`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import jax
import numpy as np
from jax.typing import ArrayLike
from numpy.typing import NDArray

from bmjax._fitting.estimator import Measured, TwoClasses
from bmjax._model.distributions import Student
from bmjax._posterior.selector import PosteriorSelector


class SupportPosteriorRegressor(Measured, PosteriorSelector):
    """Linear regression averaged over all choices of features, by their probabilities.

    This is `bmjax.posterior` with the interface of scikit-learn; the parameters are described
    there. As a transformer it selects the features of `select(fdr)`. Results are in the type of X,
    float32 or float64 (for all other types), whatever the setting `jax_enable_x64`.

    Args:
        family: The distribution of y, `"gaussian"`, or `"student"` for noise with outliers;
            `bmjax.Student(degrees)` for degrees of freedom other than 4.
        fit_intercept: Whether the level of y is free.
        fdr: Largest expected share of selected features that do not act.
        unmasked: Features that are always in: (k,) booleans, their numbers, or their names if X
            has string column names.
        noise_precision: One over the noise variance if it is known.
        enumerate_up_to: Largest number of features for which every support is evaluated.
        chains: Number of chains, a multiple of 8.
        tolerance: Largest allowed Monte Carlo error of a probability.
        max_steps: Largest number of steps of each chain.
        random_state: The seed of the chains' draws, a whole number.

    Attributes:
        coef_: (k,) mean effect of each feature over the whole posterior.
        intercept_: Mean of y where every feature is zero; 0 if it is not fitted.
        probability_: (k,) probability that each feature acts.
        support_: (k,) whether each feature is in `select(fdr)`.
        posterior_: The whole `bmjax.Posterior`, in NumPy arrays.
        n_features_in_: Number of features k.
        feature_names_in_: (k,) names of the columns, if X has string names.

    Example:
        >>> from bmjax.datasets import load_diabetes
        >>> from bmjax.sklearn import SupportPosteriorRegressor
        >>> X, y, names = load_diabetes()
        >>> mean, std = SupportPosteriorRegressor(fdr=0.05).fit(X, y).predict(X, return_std=True)
        >>> mean.shape, std.shape
        ((442,), (442,))
    """

    def __init__(  # noqa: PLR0913 - public options
        self,
        *,
        family: str | Student = "gaussian",
        fit_intercept: bool = True,
        fdr: float = 0.1,
        unmasked: ArrayLike | Sequence[str] | None = None,
        noise_precision: float | None = None,
        enumerate_up_to: int = 15,
        chains: int = 16,
        tolerance: float = 0.01,
        max_steps: int = 20_000,
        random_state: int = 0,
    ) -> None:
        """Store the parameters unchanged; `fit` checks them."""
        super().__init__(
            fit_intercept=fit_intercept,
            fdr=fdr,
            unmasked=unmasked,
            enumerate_up_to=enumerate_up_to,
            chains=chains,
            tolerance=tolerance,
            max_steps=max_steps,
            random_state=random_state,
        )
        self.family = family
        self.noise_precision = noise_precision

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Compute the posterior of the data.

        Args:
            X: (n, k) features, an array or a data frame.
            y: (n,) target.
            sample_weight: (n,) how often each row counts.

        Returns:
            The estimator itself.

        Raises:
            TypeError: If a parameter has the wrong type.
            ValueError: If a shape does not fit, a value is not finite, or a parameter is out of
                range.
        """
        if isinstance(self.family, str) and self.family == "logistic":
            raise ValueError(
                "family is 'logistic', which is for two outcomes: take SupportPosteriorClassifier."
            )
        X, y = self._training_data(X, y)
        self._find(X, y, sample_weight, family=self.family, noise_precision=self.noise_precision)
        return self

    def _deviation(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """The standard deviation of y at new samples."""
        with jax.enable_x64(True):
            return np.asarray(self.posterior_.predict(X, return_std=True)[1])


class SupportPosteriorClassifier(TwoClasses, PosteriorSelector):
    """Logistic regression of two classes averaged over all choices of features.

    This is `bmjax.posterior` with `family="logistic"` and the interface of scikit-learn; the
    parameters are described there. As a transformer it selects the features of `select(fdr)`.
    Results are in the type of X, float32 or float64 (for all other types), whatever the setting
    `jax_enable_x64`.

    Args:
        fit_intercept: Whether the log-odds where every feature is zero are free.
        fdr: Largest expected share of selected features that do not act.
        unmasked: Features that are always in: (k,) booleans, their numbers, or their names if X
            has string column names.
        enumerate_up_to: Largest number of features for which every support is evaluated.
        chains: Number of chains, a multiple of 8.
        tolerance: Largest allowed Monte Carlo error of a probability.
        max_steps: Largest number of steps of each chain.
        random_state: The seed of the chains' draws, a whole number.

    Attributes:
        classes_: (2,) the two labels; log-odds are those of the second.
        coef_: (k,) mean effect of each feature on the log-odds over the whole posterior.
        intercept_: Log-odds where every feature is zero; 0 if they are not fitted.
        probability_: (k,) probability that each feature acts.
        support_: (k,) whether each feature is in `select(fdr)`.
        posterior_: The whole `bmjax.Posterior`, in NumPy arrays.
        n_features_in_: Number of features k.
        feature_names_in_: (k,) names of the columns, if X has string names.

    Example:
        >>> from bmjax.datasets import load_diabetes
        >>> from bmjax.sklearn import SupportPosteriorClassifier
        >>> X, y, names = load_diabetes()
        >>> model = SupportPosteriorClassifier().fit(X, y > 150)
        >>> round(model.score(X, y > 150), 2), model.predict_proba(X).shape
        (0.76, (442, 2))
    """

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Compute the posterior of the data.

        Args:
            X: (n, k) features, an array or a data frame.
            y: (n,) labels of two classes, of any kind that can be sorted.
            sample_weight: (n,) how often each row counts.

        Returns:
            The estimator itself.

        Raises:
            TypeError: If a parameter has the wrong type.
            ValueError: If a shape does not fit, a value is not finite, there are not two classes,
                or a parameter is out of range.
        """
        X, self.classes_, codes = self._labelled_data(X, y, sample_weight)
        self._find(X, codes, sample_weight, family="logistic")
        return self

    def _chance(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """The probability of the second class, as `bmjax.Posterior.predict` gives it."""
        with jax.enable_x64(True):
            return np.asarray(self.posterior_.predict(X))
