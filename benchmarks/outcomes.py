"""Outcomes that are not Gaussian, beside the rivals that users have: two tables.

python -m benchmarks.outcomes [--quick] [SECTION ...]

`logistic`: designs of correlated columns, balanced and with few ones, beside abess
(`LogisticRegression` under BIC and EBIC) and scikit-learn's L1 `LogisticRegressionCV`. `student`:
designs with outliers and without, beside the Gaussian fit and Huber's loss with an L1 penalty. All
methods get the same data and run in turn in one process, each once before it is timed.
"""

import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import scipy.optimize  # noqa: E402
import scipy.special  # noqa: E402

import bmjax  # noqa: E402
from benchmarks import command, report  # noqa: E402

_FRESH = 5000  # rows that the log loss is taken on
_DRAWS = 10
_ACTIVE = 5


class Found(NamedTuple):
    """What a method has found: effects of the columns, and the level."""

    coef: np.ndarray
    intercept: float


Method = Callable[[np.ndarray, np.ndarray], Found]


def columns(rng: np.random.Generator, n: int, k: int, rho: float) -> np.ndarray:
    """Normal columns, each correlated by rho with the one before."""
    X = rng.normal(size=(n, k))
    for j in range(1, k):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1 - rho**2) * X[:, j]
    return X


def effects(rng: np.random.Generator, k: int) -> np.ndarray:
    """Five columns that act, of either sign, by .5 to 1.5."""
    coef = np.zeros(k)
    chosen = rng.choice(k, _ACTIVE, replace=False)
    coef[chosen] = rng.choice([-1, 1], _ACTIVE) * rng.uniform(0.5, 1.5, _ACTIVE)
    return coef


def level_for(eta: np.ndarray, share: float) -> float:
    """The intercept at which the mean probability is a share."""
    away: float = scipy.optimize.brentq(
        lambda level: scipy.special.expit(eta + level).mean() - share, -30, 30
    )  # type: ignore[assignment]
    return away


def _bmjax(family: str) -> Method:
    def method(X: np.ndarray, y: np.ndarray) -> Found:
        fit = bmjax.fit(X, y, family=family, intercept=True)
        return Found(np.asarray(fit.coef), float(fit.intercept))

    return method


def _abess(rule: str) -> Method:
    from abess import LogisticRegression

    def method(X: np.ndarray, y: np.ndarray) -> Found:
        model = LogisticRegression(ic_type=rule)
        model.fit(X, y)
        level = np.ravel(np.asarray(model.intercept_))
        return Found(np.ravel(np.asarray(model.coef_)), float(level[0]))

    return method


def _lasso(X: np.ndarray, y: np.ndarray) -> Found:
    from sklearn.linear_model import LogisticRegressionCV

    model = LogisticRegressionCV(
        Cs=10, cv=5, penalty="l1", solver="liblinear", scoring="neg_log_loss", max_iter=1000
    ).fit(X, y)
    return Found(model.coef_[0], float(model.intercept_[0]))


def _huber(X: np.ndarray, y: np.ndarray) -> Found:
    from sklearn.linear_model import SGDRegressor
    from sklearn.model_selection import GridSearchCV

    search = GridSearchCV(
        SGDRegressor(loss="huber", penalty="l1", epsilon=1.35, max_iter=5000, random_state=0),
        {"alpha": np.logspace(-3, 0, 10)},
        scoring="neg_median_absolute_error",
    ).fit(X, y)
    return Found(search.best_estimator_.coef_, float(search.best_estimator_.intercept_[0]))


def f1(found: np.ndarray, truth: np.ndarray) -> float:
    """Harmonic mean of precision and recall of the columns kept."""
    kept, acts = found != 0, truth != 0
    return 2 * np.sum(kept & acts) / (kept.sum() + acts.sum())


def _timed(method: Method, X: np.ndarray, y: np.ndarray) -> tuple[Found, float]:
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = method(X, y)
    return found, time.perf_counter() - begun


def logistic(quick: bool) -> pd.DataFrame:
    """Designs of two outcomes: medians and means over draws."""
    methods = {
        "bmjax": _bmjax("logistic"),
        "abess BIC": _abess("bic"),
        "abess EBIC": _abess("ebic"),
        "L1 cross-validated": _lasso,
    }
    designs = [
        (n, k, rho, share)
        for n, k in ((200, 10), (500, 100), (2000, 100), (500, 1000))
        for rho in (0.0, 0.5)
        for share in (0.5, 0.05)
    ]
    rows = []
    for n, k, rho, share in designs[:2] if quick else designs:
        for draw in range(2 if quick else _DRAWS):
            rng = np.random.default_rng((n, k, int(10 * rho), int(100 * share), draw))
            X, coef = columns(rng, n + _FRESH, k, rho), effects(rng, k)
            eta = X @ coef
            eta += level_for(eta, share)
            y = (rng.random(len(eta)) < scipy.special.expit(eta)).astype(float)
            for name, method in methods.items():
                if draw == 0:
                    _timed(method, X[:n], y[:n])
                found, seconds = _timed(method, X[:n], y[:n])
                fresh = X[n:] @ found.coef + found.intercept
                both = (found.coef != 0) & (coef != 0)
                rows.append(
                    {
                        "n": n,
                        "k": k,
                        "rho": rho,
                        "ones": share,
                        "method": name,
                        "F1": f1(found.coef, coef),
                        "log loss": -np.mean(scipy.special.log_expit((2 * y[n:] - 1) * fresh)),
                        "effect / truth": np.median(found.coef[both] / coef[both])
                        if both.any()
                        else np.nan,
                        "seconds": seconds,
                    }
                )
    by = ["n", "k", "rho", "ones", "method"]
    rules = {"F1": "mean", "log loss": "mean", "effect / truth": "median", "seconds": "median"}
    return pd.DataFrame(rows).groupby(by, sort=False).agg(rules).reset_index()


def student(quick: bool) -> pd.DataFrame:
    """Designs with outliers, heavy tails and clean noise: means over draws."""
    methods = {"student": _bmjax("student"), "gaussian": _bmjax("gaussian"), "L1 Huber": _huber}

    def contaminated(rng: np.random.Generator, n: int, share: float) -> np.ndarray:
        off = rng.random(n) < share
        return rng.normal(size=n) + np.where(off, 10 * rng.choice([-1, 1], n), 0)

    noises = {
        "clean": lambda rng, n: rng.normal(size=n),
        "5 % at 10 sd": lambda rng, n: contaminated(rng, n, 0.05),
        "10 % at 10 sd": lambda rng, n: contaminated(rng, n, 0.1),
        "t with 2 degrees": lambda rng, n: rng.standard_t(2, n),
    }
    rows = []
    shapes = ((100, 20), (300, 50))
    for n, k in shapes[:1] if quick else shapes:
        for number, (noise, drawn) in enumerate(noises.items()):
            for draw in range(2 if quick else 5 * _DRAWS):
                rng = np.random.default_rng((n, k, number, draw))
                X, coef = columns(rng, n, k, 0.5), effects(rng, k) / 2
                y = X @ coef + drawn(rng, n)
                for name, method in methods.items():
                    found, seconds = _timed(method, X, y)
                    error = np.sum((found.coef - coef) ** 2)
                    rows.append((n, k, noise, name, f1(found.coef, coef), error, seconds))
    names = ["n", "k", "noise", "method", "F1", "squared error", "seconds"]
    table = pd.DataFrame(rows, columns=pd.Index(names))
    rules = {"F1": "mean", "squared error": "mean", "seconds": "median"}
    by = ["n", "k", "noise", "method"]
    return table.groupby(by, sort=False).agg(rules).reset_index()


def main() -> None:
    """Run, print, save."""
    made = command.sections("outcomes", __doc__, {"logistic": logistic, "student": student})
    for name, table, line, quick in made:
        report.publish(f"outcomes_{name}", table, line, quick)


if __name__ == "__main__":
    main()
