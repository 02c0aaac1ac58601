"""The posterior over supports as a scikit-learn estimator; see `bmjax.sklearn`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import jax
import numpy as np
from jax.typing import ArrayLike
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning

from bmjax._checks import validate
from bmjax._fitting.categories import encoding_of
from bmjax._fitting.estimator import LinearSelector, distinct_rows
from bmjax._model.problem import Status
from bmjax._posterior.posterior import posterior
from bmjax._posterior.result import Posterior


class SupportPosteriorRegressor(RegressorMixin, LinearSelector):
    """Linear regression averaged over all choices of features, by their probabilities.

    `bmjax.posterior` with scikit-learn's manners; see there for what the parameters do. As a
    transformer it passes on the features of `select(fdr)`. Results are in the type of X, float32
    or float64 (all other types), whatever the setting `jax_enable_x64`.

    Args:
        fit_intercept: Whether the level of y is free.
        fdr: Share of the selected features that may be expected not to act.
        unmasked: Features that are always in: (k,) booleans, their numbers, or their names if X
            has string column names.
        noise_precision: One over the noise variance where it is known.
        enumerate_up_to: Most features of which every support is looked at.
        chains: How many chains, a multiple of 8.
        tolerance: Monte Carlo error of a probability that is small enough.
        max_steps: Most steps of each chain.
        random_state: A whole number, of the chains' draws.

    Attributes:
        coef_: (k,) mean effect of each feature over the whole posterior.
        intercept_: Mean of y where every feature is zero; 0 if it is not fitted.
        probability_: (k,) probability that each feature acts.
        support_: (k,) booleans, the features of `select(fdr)`.
        posterior_: All of the `bmjax.Posterior`, in NumPy arrays.
        n_features_in_: Number of features k.
        feature_names_in_: (k,) names of the columns, if X has such.

    Example:
        >>> from bmjax.datasets import load_diabetes
        >>> from bmjax.sklearn import SupportPosteriorRegressor
        >>> X, y, names = load_diabetes()
        >>> mean, std = SupportPosteriorRegressor(fdr=0.05).fit(X, y).predict(X, return_std=True)
        >>> mean.shape, std.shape
        ((442,), (442,))
    """

    coef_: NDArray[np.floating]
    intercept_: float
    probability_: NDArray[np.floating]
    support_: NDArray[np.bool_]
    posterior_: Posterior
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]

    def __init__(  # noqa: PLR0913 - public options
        self,
        *,
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
        """Store the parameters as they are; `fit` checks them."""
        self.fit_intercept = fit_intercept
        self.fdr = fdr
        self.unmasked = unmasked
        self.noise_precision = noise_precision
        self.enumerate_up_to = enumerate_up_to
        self.chains = chains
        self.tolerance = tolerance
        self.max_steps = max_steps
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Find the posterior.

        Args:
            X: (n, k) features, an array or a data frame.
            y: (n,) target.
            sample_weight: (n,) how often each row counts.

        Returns:
            Itself.

        Raises:
            TypeError: If a parameter has the wrong type.
            ValueError: If a shape does not fit, a value is not finite, or a parameter is out of
                range.
        """
        if encoding_of(X) is not None:
            raise ValueError(
                "X has a column of categories, of which a posterior would judge each level alone. "
                "Give 0/1 columns instead (pandas.get_dummies with drop_first=True), or use "
                "BayesianMaskingRegressor, which keeps all levels or none."
            )
        X, y = self._training_data(X, y)
        seed = validate.count("random_state", self.random_state, low=0)
        # Draws included, rows given once with a weight and rows repeated give the same.
        rows, counts = distinct_rows(X, y, sample_weight)
        with jax.enable_x64(True):  # JAX would take float64 for float32
            found = posterior(
                rows[:, :-1],
                rows[:, -1],
                jax.random.key(seed),
                sample_weights=counts,
                intercept=self.fit_intercept,
                unmasked=self._unmasked(),
                noise_precision=self.noise_precision,
                enumerate_up_to=self.enumerate_up_to,
                chains=self.chains,
                tolerance=self.tolerance,
                max_steps=self.max_steps,
                progress=False,
            )
        self.support_ = found.select(self.fdr)
        self.posterior_ = found = jax.tree.map(np.asarray, found)
        self.coef_ = found.coef
        self.intercept_ = found.intercept[()]
        self.probability_ = found.probability
        if found.status == Status.MAX_STEPS:
            warnings.warn(
                "The chains do not agree: raise max_steps or the tolerance.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def predict(
        self, X: Any, return_std: bool = False
    ) -> NDArray[np.floating] | tuple[NDArray[np.floating], NDArray[np.floating]]:
        """The mean of y at new samples over the whole posterior.

        Args:
            X: (m, k) new samples.
            return_std: Whether to return the standard deviation of y there as well.

        Returns:
            (m,) predictions; with `return_std` a pair of such.

        Raises:
            sklearn.exceptions.NotFittedError: Before `fit`.
            ValueError: If X has not the columns of the fit.
        """
        X = self._new_samples(X)
        # In NumPy, since JAX would compile for every number of rows.
        mean = self.intercept_ + X @ self.coef_
        if not return_std:
            return mean
        with jax.enable_x64(True):
            return mean, np.asarray(self.posterior_.predict(X, return_std=True)[1])
