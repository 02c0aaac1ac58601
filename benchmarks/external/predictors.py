"""Predictions with their spread for real data, fitted on some rows and made for others."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ARDRegression, BayesianRidge, ElasticNetCV, LassoCV
from sklearn.preprocessing import StandardScaler

import bmjax
from benchmarks import estimators
from benchmarks.external.methods import DEFAULT, POSTERIOR

# Shares of the absolute penalty in the elastic net's; on the absorbances of the meats, which are
# all but collinear, each takes ten seconds a fold and does not converge.
_SHARES = (0.5, 0.9, 1.0)
_FOLDS = 5


class Prediction(NamedTuple):
    """The prediction for some rows: mean and standard deviation (m,), and number of features."""

    mean: np.ndarray
    std: np.ndarray
    features: int


# Rows to learn from, their targets, and the rows to predict.
Predictor = Callable[[np.ndarray, np.ndarray, np.ndarray], Prediction]


def default_fit(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Prediction:
    """`bmjax.fit` with its defaults, in the columns' own units."""
    r = bmjax.fit(X, y, intercept=True)
    return _told(r.predict(new, return_std=True), int(np.sum(r.support)))


def posterior(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Prediction:
    """`bmjax.posterior` with its defaults; its features are those with probability above a half."""
    r = bmjax.posterior(X, y, jax.random.key(0), intercept=True)  # pyright: ignore[reportAttributeAccessIssue]
    return _told(r.predict(new, return_std=True), int(np.sum(np.asarray(r.probability) > 0.5)))


def bayesian(model: Any) -> Predictor:
    """A scikit-learn model that returns a standard deviation itself."""

    def predictor(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Prediction:
        scaler = StandardScaler().fit(X)
        model.fit(scaler.transform(X), y)
        found = model.predict(scaler.transform(new), return_std=True)
        return _told(found, int(np.sum(model.coef_ != 0)))

    return predictor


def plugged_in(estimator: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Predictor:
    """Predict by coefficients of standardised columns; noise from residuals and nonzero count."""

    def predictor(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Prediction:
        scaler, level = StandardScaler().fit(X), y.mean()
        scaled = np.asarray(scaler.transform(X))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            coef = estimator(scaled, y - level)
        kept = int(np.sum(coef != 0))
        noise = np.sum((y - level - scaled @ coef) ** 2) / max(len(y) - kept - 1, 1)
        mean = level + scaler.transform(new) @ coef
        return Prediction(mean, np.full(len(new), np.sqrt(noise)), kept)

    return predictor


def all_of_them() -> dict[str, Predictor]:
    """The methods compared, by name, with the posterior only if it is available."""
    penalised: dict[str, Any] = {"cv": _FOLDS, "fit_intercept": False}
    mixed: dict[str, Any] = penalised | {"l1_ratio": _SHARES}
    ours: dict[str, Predictor] = {DEFAULT: default_fit}
    if hasattr(bmjax, "posterior"):
        ours[POSTERIOR] = posterior
    return {
        **ours,
        "LassoCV": plugged_in(lambda X, y: LassoCV(**penalised).fit(X, y).coef_),
        "ElasticNetCV": plugged_in(lambda X, y: ElasticNetCV(**mixed).fit(X, y).coef_),
        "ARDRegression": bayesian(ARDRegression()),
        "BayesianRidge": bayesian(BayesianRidge()),
        "abess BIC": plugged_in(lambda X, y: estimators.abess(X, y)),
        "abess CV": plugged_in(lambda X, y: estimators.abess(X, y, cv=_FOLDS)),
    }


def _told(found: Any, features: int) -> Prediction:
    mean, std = (np.asarray(part, dtype=np.float64) for part in found)
    return Prediction(mean, std, features)
