"""Bayesian masking as scikit-learn estimators: a regressor and a classifier that select features.

This module needs the `sklearn` extra, and is imported only explicitly: `import bmjax.sklearn`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from numpy.typing import NDArray

from bmjax import Result, Student
from bmjax._results.prediction import mask_variance_at
from bmjax._solvers.paper import Solver

__all__ = [
    "BayesianMaskingClassifier",
    "BayesianMaskingRegressor",
    "SupportPosteriorClassifier",
    "SupportPosteriorRegressor",
]


def __dir__() -> list[str]:
    return __all__


try:
    from sklearn.utils.validation import validate_data as validate_data  # from version 1.6 on
except ImportError as error:
    raise ModuleNotFoundError(
        'bmjax.sklearn needs scikit-learn 1.6 or newer: pip install "bmjax[sklearn]"'
    ) from error

# Imported here, after scikit-learn has been found.
from bmjax._fitting.estimator import Measured, TwoClasses  # noqa: E402
from bmjax._fitting.selector import MaskingSelector  # noqa: E402
from bmjax._posterior.estimator import (  # noqa: E402
    SupportPosteriorClassifier as SupportPosteriorClassifier,
)
from bmjax._posterior.estimator import (  # noqa: E402
    SupportPosteriorRegressor as SupportPosteriorRegressor,
)


class BayesianMaskingRegressor(Measured, MaskingSelector):
    """Sparse linear regression that selects features without shrinking those it keeps.

    This is `bmjax.fit` with the interface of scikit-learn; the parameters are described there. As a
    transformer it selects the features kept. Everything is computed in the type of X, float32 or
    float64 (for all other types), whatever the setting `jax_enable_x64`.

    Args:
        family: The distribution of y, `"gaussian"`, or `"student"` for noise with outliers;
            `bmjax.Student(degrees)` for degrees of freedom other than 4.
        fit_intercept: Whether to fit the level of y, a feature of ones that is never masked.
        standardize: Whether to divide every column and y by its root mean square before the fit.
            Results are in the user's units either way.
        unmasked: Features that are never masked and never pruned: (k,) booleans, their numbers,
            or their names if X has string column names.
        groups: (k,) labels of columns that are kept or pruned together, such as the 0/1 columns of
            a category; None for a column in no group.
        solver: A solver of `bmjax`, or `"accelerated"` (the default), `"em"`, `"eg"`, `"hybrid"`.
        noise_precision: One over the noise variance if it is known.
        initial_inclusion: Inclusion rate(s) to start from, a number or (k,): one fit.
        starts: Number of starts, or their inclusion rates, (s,) or (s, k). Default: 2.
        moves: Largest number of moves after the starts. Default: 5, or 0 with `initial_inclusion`.
        criterion: Criterion that ranks finished fits: `"learned"`, `"held"` or `"paper"`.
        prune_threshold: A feature whose mean mask falls below this is pruned. Default: the
            machine epsilon.
        tolerance: Predicted distance to the fixed point that counts as converged.
        max_steps: Largest number of iterations, over all starts and moves.

    Attributes:
        coef_: (k,) effect of each feature on the mean of y, exactly zero where pruned.
        intercept_: Mean of y where every feature is zero; 0 if it is not fitted.
        inclusion_: (k,) inclusion rate of each feature, in [0, 1].
        weights_: (k,) effect of each feature where it is not masked.
        support_: (k,) whether each feature is kept.
        noise_precision_: One over the noise variance.
        bound_: Lower bound of FIC, in nats.
        n_iter_: Number of iterations, over all starts and moves.
        status_: The `bmjax.Status` with which the fit ended.
        result_: The whole `bmjax.Result`, in NumPy arrays.
        n_features_in_: Number of features k.
        feature_names_in_: (k,) names of the columns, if X has string names.

    Example:
        >>> from bmjax.datasets import load_diabetes
        >>> from bmjax.sklearn import BayesianMaskingRegressor
        >>> X, y, names = load_diabetes()
        >>> model = BayesianMaskingRegressor().fit(X, y)
        >>> round(model.score(X, y), 2), model.transform(X).shape
        (0.51, (442, 6))
    """

    noise_precision_: float

    def __init__(  # noqa: PLR0913 - public options
        self,
        *,
        family: str | Student = "gaussian",
        fit_intercept: bool = True,
        standardize: bool = False,
        unmasked: ArrayLike | Sequence[str] | None = None,
        groups: Sequence[int | str | None] | None = None,
        solver: Solver | str | None = None,
        noise_precision: float | None = None,
        initial_inclusion: ArrayLike | None = None,
        starts: ArrayLike | None = None,
        moves: int | None = None,
        criterion: str = "learned",
        prune_threshold: float | None = None,
        tolerance: float = 1e-3,
        max_steps: int = 20_000,
    ) -> None:
        """Store the parameters unchanged; `fit` checks them."""
        super().__init__(
            fit_intercept=fit_intercept,
            standardize=standardize,
            unmasked=unmasked,
            groups=groups,
            solver=solver,
            initial_inclusion=initial_inclusion,
            starts=starts,
            moves=moves,
            criterion=criterion,
            prune_threshold=prune_threshold,
            tolerance=tolerance,
            max_steps=max_steps,
        )
        self.family = family
        self.noise_precision = noise_precision

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Args:
            X: (n, k) features, an array or a data frame. A categorical column of a pandas frame
                becomes a 0/1 column for each level but the first, kept or pruned together: `coef_`,
                `inclusion_` and `weights_` are then over the columns `result_.feature_names()`, and
                `support_` is over those of X.
            y: (n,) target.
            sample_weight: (n,) how often each row counts: a row of weight 0 is absent, and an
                integer is the same as the row repeated.

        Returns:
            The estimator itself.

        Raises:
            TypeError: If a parameter has the wrong type.
            ValueError: If a shape does not fit, a value is not finite, or a parameter is out of
                range.
        """
        if isinstance(self.family, str) and self.family == "logistic":
            raise ValueError(
                "family is 'logistic', which is for two outcomes: take BayesianMaskingClassifier."
            )
        X, y = self._training_data(X, y)
        self._fit(X, y, sample_weight, family=self.family, noise_precision=self.noise_precision)
        self.noise_precision_ = self.result_.noise_precision[()]
        return self

    def _deviation(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """The standard deviation of y at new samples."""
        with jax.enable_x64(True):
            result: Result = jax.tree.map(jnp.asarray, self.result_)
            return np.asarray(result.predict(X, return_std=True)[1])


class BayesianMaskingClassifier(TwoClasses, MaskingSelector):
    """Sparse logistic regression of two classes, without shrinking the features that it keeps.

    This is `bmjax.fit` with `family="logistic"` and the interface of scikit-learn; the parameters
    are described there. As a transformer it selects the features kept. Everything is computed in
    the type of X, float32 or float64 (for all other types), whatever the setting `jax_enable_x64`.
    If the kept features tell the classes apart without error, the likelihood has no maximum: a
    `ConvergenceWarning` says so, and the weights are those at which the fit was stopped.

    Args:
        fit_intercept: Whether to fit the log-odds where every feature is zero, a feature of ones
            that is never masked.
        standardize: Whether to divide every column by its root mean square before the fit. Results
            are in the user's units either way.
        unmasked: Features that are never masked and never pruned: (k,) booleans, their numbers,
            or their names if X has string column names.
        groups: (k,) labels of columns that are kept or pruned together, such as the 0/1 columns of
            a category; None for a column in no group.
        solver: A solver of `bmjax`, or `"accelerated"` (the default), `"em"`, `"eg"`, `"hybrid"`.
        initial_inclusion: Inclusion rate(s) to start from, a number or (k,): one fit.
        starts: Number of starts, or their inclusion rates, (s,) or (s, k). Default: 2.
        moves: Largest number of moves after the starts. Default: 5, or 0 with `initial_inclusion`.
        criterion: Criterion that ranks finished fits: `"learned"`, `"held"` or `"paper"`.
        prune_threshold: A feature whose mean mask falls below this is pruned. Default: the
            machine epsilon.
        tolerance: Predicted distance to the fixed point that counts as converged.
        max_steps: Largest number of iterations, over all starts and moves.

    Attributes:
        classes_: (2,) the two labels; log-odds are those of the second.
        coef_: (k,) effect of each feature on the log-odds, exactly zero where pruned.
        intercept_: Log-odds where every feature is zero; 0 if it is not fitted.
        inclusion_: (k,) inclusion rate of each feature, in [0, 1].
        weights_: (k,) effect of each feature where it is not masked.
        support_: (k,) whether each feature is kept.
        bound_: Lower bound of FIC, in nats.
        n_iter_: Number of iterations, over all starts and moves.
        status_: The `bmjax.Status` with which the fit ended.
        result_: The whole `bmjax.Result`, in NumPy arrays.
        n_features_in_: Number of features k.
        feature_names_in_: (k,) names of the columns, if X has string names.

    Example:
        >>> from bmjax.datasets import load_diabetes
        >>> from bmjax.sklearn import BayesianMaskingClassifier
        >>> X, y, names = load_diabetes()
        >>> model = BayesianMaskingClassifier().fit(X, y > 150)
        >>> round(model.score(X, y > 150), 2), model.predict_proba(X).shape
        (0.75, (442, 2))
    """

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Args:
            X: (n, k) features, an array or a data frame. A categorical column of a pandas frame
                becomes a 0/1 column for each level but the first, kept or pruned together: `coef_`,
                `inclusion_` and `weights_` are then over the columns `result_.feature_names()`, and
                `support_` is over those of X.
            y: (n,) labels of two classes, of any kind that can be sorted.
            sample_weight: (n,) how often each row counts: a row of weight 0 is absent, and an
                integer is the same as the row repeated.

        Returns:
            The estimator itself.

        Raises:
            TypeError: If a parameter has the wrong type.
            ValueError: If a shape does not fit, a value is not finite, there are not two classes,
                or a parameter is out of range.
        """
        X, self.classes_, codes = self._labelled_data(X, y, sample_weight)
        self._fit(X, codes, sample_weight, family="logistic")
        return self

    def _chance(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """The probability of the second class, as `bmjax.Result.predict` gives it."""
        result = self.result_
        by_masks = mask_variance_at(
            X - result.center, result.weights, result.inclusion, result.groups
        )
        return result.family.mean(self._predictor(X), by_masks)
