"""The base of the estimators of `bmjax.sklearn`: checks of the data, and their distinct rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax.typing import ArrayLike
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bmjax._checks import arrays, inputs
from bmjax._fitting.categories import Encoding, encoding_of
from bmjax._results.names import Names, numbers_of


class LinearSelector(SelectorMixin, BaseEstimator):
    """A linear model that, as a transformer, selects the features of `support_`."""

    coef_: NDArray[np.floating]
    intercept_: float
    support_: NDArray[np.bool_]
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    unmasked: Any
    _encoding: Encoding | None

    def _encoded(self, X: Any) -> Any:
        """X with each category replaced by its number; the encoding is kept for new samples."""
        self._encoding = encoding_of(X)
        return X if self._encoding is None else self._encoding.coded(X)

    def _columns(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """The columns of the fit, from checked data."""
        return X if self._encoding is None else self._encoding.expanded(X)

    def _names(self) -> Names | None:
        """The names of the columns of X, if it had any."""
        own = getattr(self, "feature_names_in_", None)
        return None if own is None else Names(tuple(own))

    def _unmasked(self) -> Any:
        """The parameter `unmasked`, names of features replaced by their numbers."""
        if self.unmasked is None:
            return None
        chosen = numbers_of("unmasked", self.unmasked, self._names())
        return chosen if self._encoding is None else self._encoding.chosen(chosen)

    def _training_data(self, X: Any, y: Any) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """The columns to fit and y, in float32 or float64, as X is."""
        X = self._encoded(X)
        arrays.refuse_disguised("X", X)
        arrays.refuse_disguised("y", y)
        X, y = validate_data(
            self, X, y, dtype=(np.float64, np.float32), y_numeric=True, ensure_min_samples=2
        )
        return self._columns(X), check_array(y, dtype=X.dtype, ensure_2d=False, input_name="y")

    def _labelled_data(
        self, X: Any, y: Any, sample_weight: ArrayLike | None
    ) -> tuple[NDArray[np.floating], NDArray[Any], NDArray[np.floating]]:
        """The columns to fit, in float32 or float64 as X is, the two classes, and y as 0 and 1."""
        X = self._encoded(X)
        arrays.refuse_disguised("X", X)
        X, y = validate_data(self, X, y, dtype=(np.float64, np.float32), ensure_min_samples=2)
        check_classification_targets(y)
        classes, codes = np.unique(column_or_1d(y, warn=True), return_inverse=True)
        present = np.unique(codes)
        if sample_weight is not None:
            weights = np.asarray(inputs.weights_of_samples(sample_weight, len(codes), X.dtype))
            present = np.unique(codes[weights > 0])
        if len(classes) != 2 or len(present) != 2:
            only = "Only binary classification is supported. " if len(classes) > 2 else ""
            raise ValueError(
                f"{only}y holds {len(classes)} class{'es' * (len(classes) != 1)}, of which rows of "
                f"sample_weight above zero have {len(present)}; a logistic fit tells "
                "two apart. For more take sklearn.multiclass.OneVsRestClassifier."
            )
        return self._columns(X), classes, codes.astype(X.dtype)

    def _new_samples(self, X: Any) -> NDArray[np.floating]:
        """The columns of the fit at new samples, in the type of the fit."""
        check_is_fitted(self)
        if self._encoding is not None:
            if not hasattr(X, "iloc"):
                raise ValueError(
                    f"X is {type(X).__name__}; the fit was to a pandas frame with categories, so "
                    "give new samples as a frame with the same columns."
                )
            validate_data(self, X, reset=False, skip_check_array=True)  # the names of the columns
            X = self._encoding.coded(X)
        arrays.refuse_disguised("X", X)
        checked: Any = validate_data(self, X, dtype=self.coef_.dtype, reset=False)
        return self._columns(checked)

    def _get_support_mask(self) -> Any:
        check_is_fitted(self)
        return self.support_


class Measured(RegressorMixin):
    """Predictions of a regressor, a mixin for a `LinearSelector`."""

    def predict(
        self, X: Any, return_std: bool = False
    ) -> NDArray[np.floating] | tuple[NDArray[np.floating], NDArray[np.floating]]:
        """The mean of y at new samples, in the type of the fit.

        Args:
            X: (m, k) new samples.
            return_std: Whether to return the standard deviation of y there as well; see `predict`
                of `bmjax.Result` and `bmjax.Posterior`.

        Returns:
            (m,) predictions; with `return_std` a pair of predictions and standard deviations.

        Raises:
            sklearn.exceptions.NotFittedError: Before `fit`.
            ValueError: If X does not have the columns of the fit.
        """
        own: Any = self
        X = own._new_samples(X)
        mean = own._predictor(X)
        return (mean, own._deviation(X)) if return_std else mean


class TwoClasses(ClassifierMixin):
    """Predictions of a classifier with two classes, a mixin for a `LinearSelector`."""

    classes_: NDArray[Any]

    def decision_function(self, X: Any) -> NDArray[np.floating]:
        """The log-odds of the second class at new samples, (m,), in the type of the fit.

        Args:
            X: (m, k) new samples.

        Raises:
            sklearn.exceptions.NotFittedError: Before `fit`.
            ValueError: If X does not have the columns of the fit.
        """
        own: Any = self
        return own._predictor(own._new_samples(X))

    def predict_proba(self, X: Any) -> NDArray[np.floating]:
        """The probability of each class at new samples, (m, 2).

        Args:
            X: (m, k) new samples.

        Raises:
            sklearn.exceptions.NotFittedError: Before `fit`.
            ValueError: If X does not have the columns of the fit.
        """
        own: Any = self
        p = own._chance(own._new_samples(X))
        return np.column_stack([1 - p, p])

    def predict(self, X: Any) -> NDArray[Any]:
        """The more probable class of new samples, (m,).

        Args:
            X: (m, k) new samples.

        Raises:
            sklearn.exceptions.NotFittedError: Before `fit`.
            ValueError: If X does not have the columns of the fit.
        """
        second = self.decision_function(X) > 0  # first, since it raises if there is no fit yet
        return self.classes_[second.astype(int)]

    def __sklearn_tags__(self) -> Any:
        """The tags of scikit-learn, with classification restricted to two classes."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def distinct_rows(
    X: NDArray[np.floating], y: NDArray[np.floating], sample_weight: ArrayLike | None
) -> tuple[NDArray[np.floating], NDArray[Any]]:
    """The distinct rows of X and y in a fixed order, and the count of each.

    So equivalent data, with weights or with repeated rows in any order, give the same fit to the
    last bit, even where the best fits are tied.

    Args:
        X: (n, k) features.
        y: (n,) target, of the same type.
        sample_weight: (n,) how often each row counts, None for once each.

    Returns:
        (m, k + 1) rows, y in the last column, and (m,) counts above zero.

    Raises:
        TypeError: If the weights are not real numbers.
        ValueError: If the weights do not match X, or leave fewer than two distinct rows.
    """
    if sample_weight is not None:
        sample_weight = np.asarray(inputs.weights_of_samples(sample_weight, len(X), X.dtype))
    rows, place = np.unique(np.column_stack([X, y]), axis=0, return_inverse=True)
    counts = np.bincount(place.ravel(), sample_weight, len(rows))
    rows, counts = rows[counts > 0], counts[counts > 0]
    if len(rows) < 2:
        raise ValueError(
            f"X and y hold {len(rows)} distinct rows of sample_weight above zero; at least 2 are "
            "needed to see any noise."
        )
    return rows, counts
