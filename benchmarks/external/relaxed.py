"""The relaxed lasso as Hastie, Tibshirani & Tibshirani simplify it, tuned by cross-validation."""

from typing import Any

import numpy as np
from sklearn.linear_model import lasso_path
from sklearn.model_selection import KFold

_PENALTIES, _BLENDS, _FOLDS = 50, np.linspace(0, 1, 10), 10


def relaxed_lasso_cv(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Blend of the lasso and least squares on its support, both chosen by ten folds, (k,).

    Args:
        X: Features (n, k).
        y: Target (n,); no intercept is fitted.
    """
    ratio = 1e-2 if X.shape[0] < X.shape[1] else 1e-4
    largest = np.abs(X.T @ y).max() / len(y)
    penalties = largest * np.geomspace(1, ratio, _PENALTIES)
    squares = np.zeros((len(_BLENDS), _PENALTIES))
    for train, test in KFold(_FOLDS, shuffle=True, random_state=0).split(X):
        lasso, refit = _paths(X[train], y[train], penalties)
        shrunk, free = X[test] @ lasso, X[test] @ refit
        for i, blend in enumerate(_BLENDS):
            off = y[test][:, None] - blend * shrunk - (1 - blend) * free
            squares[i] += (off**2).sum(axis=0)
    blend, penalty = np.unravel_index(squares.argmin(), squares.shape)
    lasso, refit = _paths(X, y, penalties[: penalty + 1])
    return _BLENDS[blend] * lasso[:, -1] + (1 - _BLENDS[blend]) * refit[:, -1]


def _paths(X: np.ndarray, y: np.ndarray, penalties: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lasso for each penalty, and least squares on its support, (k, penalties) each."""
    options: dict[str, Any] = {"alphas": penalties, "tol": 1e-3}
    lasso = np.asarray(lasso_path(X, y, **options)[1])
    refit = np.zeros_like(lasso)
    for i in range(lasso.shape[1]):
        support = np.flatnonzero(lasso[:, i])[: len(y)]
        if i and np.array_equal(support, np.flatnonzero(lasso[:, i - 1])[: len(y)]):
            refit[:, i] = refit[:, i - 1]
        elif len(support):
            refit[support, i] = np.linalg.lstsq(X[:, support], y, rcond=None)[0]
    return lasso, refit
