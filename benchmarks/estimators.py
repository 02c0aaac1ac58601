"""Other packages' estimators as functions of (X, y) that return coefficients, 0 where pruned."""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ARDRegression, LassoCV


def one_by_one(
    estimator: Callable[[np.ndarray, np.ndarray], np.ndarray],
    X: Iterable[np.ndarray],
    y: Iterable[np.ndarray],
) -> np.ndarray:
    """The coefficients of an estimator for one dataset after another, (b, k)."""
    return np.stack([estimator(*pair) for pair in zip(X, y, strict=True)])


def lasso_cv(X: np.ndarray, y: np.ndarray, intercept: bool = False) -> np.ndarray:
    """scikit-learn's Lasso with ten-fold cross-validation."""
    return _coef(LassoCV(cv=10, fit_intercept=intercept), X, y)


def ard(X: np.ndarray, y: np.ndarray, threshold: float = 10_000.0) -> np.ndarray:
    """scikit-learn's ARD, which prunes where the prior precision is above a threshold."""
    return _coef(ARDRegression(threshold_lambda=threshold, fit_intercept=False), X, y)


def abess(
    X: np.ndarray, y: np.ndarray, criterion: str = "bic", intercept: bool = False, **options: Any
) -> np.ndarray:
    """Best subset by BIC or another criterion, by the splicing algorithm of abess."""
    from abess.linear import LinearRegression

    model = LinearRegression(ic_type=criterion, fit_intercept=intercept, thread=1, **options)
    return _coef(model, X, y)


def _coef(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(model.fit(X, y).coef_)
