"""The methods compared, each a function of X and y, and the measures used."""

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.special

import bmjax


class Found(NamedTuple):
    """The result of a method.

    Attributes:
        coef: Effects of the columns.
        intercept: The level.
        posterior: The posterior, if effects are averaged over supports.
    """

    coef: np.ndarray
    intercept: float
    posterior: bmjax.Posterior | None = None

    @property
    def kept(self) -> np.ndarray:
        """The columns that the method says are active."""
        if self.posterior is None:
            return self.coef != 0
        return np.asarray(self.posterior.probability) > 0.5

    def log_odds(self, X: np.ndarray) -> np.ndarray:
        """Log-odds of outcome 1 at new samples, from the averaged probability if there is one."""
        if self.posterior is None:
            return X @ self.coef + self.intercept
        chance = np.asarray(self.posterior.predict(X), float)
        return scipy.special.logit(np.clip(chance, 1e-7, 1 - 1e-7))  # it is in float32


Method = Callable[[np.ndarray, np.ndarray], Found]


def masked(**options: Any) -> Method:
    """`bmjax.fit` with an intercept."""

    def method(X: np.ndarray, y: np.ndarray) -> Found:
        fit = bmjax.fit(X, y, intercept=True, **options)
        return Found(np.asarray(fit.coef), float(fit.intercept))

    return method


def averaged(**options: Any) -> Method:
    """`bmjax.posterior` with an intercept."""

    def method(X: np.ndarray, y: np.ndarray) -> Found:
        found = bmjax.posterior(X, y, intercept=True, progress=False, **options)
        return Found(np.asarray(found.coef), float(found.intercept), found)

    return method


def best_subset(model: str, rule: str, **options: Any) -> Method:
    """A model of abess under an information criterion."""
    import abess

    def method(X: np.ndarray, y: np.ndarray) -> Found:
        fitted = getattr(abess, model)(ic_type=rule, **options)
        fitted.fit(X, y)
        level = np.ravel(np.asarray(fitted.intercept_))
        return Found(np.ravel(np.asarray(fitted.coef_)), float(level[0]))

    return method


def lasso(X: np.ndarray, y: np.ndarray) -> Found:
    """The Lasso, its penalty by cross-validation."""
    from sklearn.linear_model import LassoCV

    model = LassoCV(cv=5).fit(X, y)
    return Found(model.coef_, float(model.intercept_))


def logistic_lasso(X: np.ndarray, y: np.ndarray) -> Found:
    """Logistic regression with an L1 penalty, by cross-validated log loss.

    C from 1e-3 to 10: above, where scikit-learn's default range goes on, a fit may take minutes.
    """
    from sklearn.linear_model import LogisticRegressionCV

    model = LogisticRegressionCV(
        Cs=np.logspace(-3, 1, 10).tolist(),
        cv=5,
        penalty="l1",
        solver="liblinear",
        scoring="neg_log_loss",
        max_iter=1000,
    ).fit(X, y)
    return Found(model.coef_[0], float(model.intercept_[0]))


def huber_lasso(X: np.ndarray, y: np.ndarray) -> Found:
    """Huber's loss with an L1 penalty, by cross-validated median absolute error."""
    from sklearn.linear_model import SGDRegressor
    from sklearn.model_selection import GridSearchCV

    search = GridSearchCV(
        SGDRegressor(loss="huber", penalty="l1", epsilon=1.35, max_iter=5000, random_state=0),
        {"alpha": np.logspace(-3, 0, 10)},
        scoring="neg_median_absolute_error",
    ).fit(X, y)
    return Found(search.best_estimator_.coef_, float(search.best_estimator_.intercept_[0]))


def of_two() -> dict[str, Method]:
    """The methods for a binary outcome."""
    return {
        "bmjax": masked(family="logistic"),
        "bmjax posterior": averaged(family="logistic"),
        "abess BIC": best_subset("LogisticRegression", "bic"),
        "abess EBIC": best_subset("LogisticRegression", "ebic"),
        "L1 cross-validated": logistic_lasso,
    }


def timed(method: Method, X: np.ndarray, y: np.ndarray) -> tuple[Found, float]:
    """The result of a method, and the seconds it takes."""
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = method(X, y)
    return found, time.perf_counter() - begun


def log_loss(y: np.ndarray, log_odds: np.ndarray) -> float:
    """Minus the mean log probability of outcomes 0 and 1."""
    return -float(np.mean(scipy.special.log_expit((2 * y - 1) * log_odds)))


def f1(kept: np.ndarray, acts: np.ndarray) -> float:
    """Harmonic mean of precision and recall of the kept columns."""
    return 2 * np.sum(kept & acts) / (kept.sum() + acts.sum())


def columns(rng: np.random.Generator, n: int, k: int, rho: float) -> np.ndarray:
    """Normal columns, each correlated by rho with the one before."""
    X = rng.normal(size=(n, k))
    for j in range(1, k):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1 - rho**2) * X[:, j]
    return X


def effects(rng: np.random.Generator, k: int, active: int = 5) -> np.ndarray:
    """Effects of a few active columns, of either sign, from .5 to 1.5."""
    coef = np.zeros(k)
    chosen = rng.choice(k, active, replace=False)
    coef[chosen] = rng.choice([-1, 1], active) * rng.uniform(0.5, 1.5, active)
    return coef
