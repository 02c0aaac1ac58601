"""The posterior over supports as a scikit-learn estimator; see `bmjax.sklearn`."""

import warnings
from typing import Any, Self

import jax
import numpy as np
from jax.typing import ArrayLike
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from bmjax._checks import arrays, inputs, validate
from bmjax._model.problem import Status
from bmjax._posterior.posterior import posterior
from bmjax._posterior.result import Posterior


class SupportPosteriorRegressor(SelectorMixin, RegressorMixin, BaseEstimator):
    """Linear regression averaged over all choices of features, by their probabilities.

    `bmjax.posterior` with scikit-learn's manners; see there for what the parameters do. As a
    transformer it passes on the features of `select(fdr)`. Results are in the type of X, float32
    or float64 (all other types), whatever the setting `jax_enable_x64`.

    Args:
        fit_intercept: Whether the level of y is free.
        fdr: Share of the selected features that may be expected not to act.
        unmasked: Features that are always in: (k,) booleans, or their numbers.
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
        unmasked: ArrayLike | None = None,
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
        arrays.refuse_disguised("X", X)
        arrays.refuse_disguised("y", y)
        X, y = validate_data(
            self, X, y, dtype=(np.float64, np.float32), y_numeric=True, ensure_min_samples=2
        )
        y = check_array(y, dtype=X.dtype, ensure_2d=False, input_name="y")
        seed = validate.count("random_state", self.random_state, low=0)
        # Rows that say the same as one that counts more, in a fixed order: so weights and repeated
        # rows give the same, draws included.
        if sample_weight is not None:
            sample_weight = np.asarray(inputs.weights_of_samples(sample_weight, len(X), X.dtype))
        rows, place = np.unique(np.column_stack([X, y]), axis=0, return_inverse=True)
        counts = np.bincount(place.ravel(), sample_weight, len(rows))
        rows, counts = rows[counts > 0], counts[counts > 0]
        if len(rows) < 2:
            raise ValueError(
                f"X and y hold {len(rows)} distinct rows of sample_weight above zero; at least 2 "
                "are needed to see any noise."
            )
        with jax.enable_x64(True):  # JAX would take float64 for float32
            found = posterior(
                rows[:, :-1],
                rows[:, -1],
                jax.random.key(seed),
                sample_weights=counts,
                intercept=self.fit_intercept,
                unmasked=self.unmasked,
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
        check_is_fitted(self)
        arrays.refuse_disguised("X", X)
        X = validate_data(self, X, dtype=self.coef_.dtype, reset=False)
        # In NumPy, since JAX would compile for every number of rows.
        mean = self.intercept_ + X @ self.coef_
        if not return_std:
            return mean
        with jax.enable_x64(True):
            return mean, np.asarray(self.posterior_.predict(X, return_std=True)[1])

    def _get_support_mask(self) -> Any:
        check_is_fitted(self)
        return self.support_
