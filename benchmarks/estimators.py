"""Other packages' estimators as functions of (X, y) that return coefficients, 0 where pruned."""

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ARDRegression, LassoCV


def lasso_cv(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """scikit-learn's Lasso with ten-fold cross-validation."""
    return _coef(LassoCV(cv=10, fit_intercept=False), X, y)


def ard(X: np.ndarray, y: np.ndarray, threshold: float = 10_000.0) -> np.ndarray:
    """scikit-learn's ARD, which prunes where the prior precision is above a threshold."""
    return _coef(ARDRegression(threshold_lambda=threshold, fit_intercept=False), X, y)


def abess(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Best subset by BIC, by the splicing algorithm of abess."""
    from abess.linear import LinearRegression

    return _coef(LinearRegression(ic_type="bic", fit_intercept=False, thread=1), X, y)


def _coef(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(model.fit(X, y).coef_)
