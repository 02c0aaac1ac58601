"""Loops that users run, first in a fresh process and then again."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Self

import jax
import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.linear_model import LassoCV
from sklearn.model_selection import cross_val_score

import bmjax
from benchmarks import estimators
from benchmarks.speed import contest, data
from bmjax.sklearn import BayesianMaskingRegressor

K = 10


class Player(NamedTuple):
    """An estimator in scikit-learn's style, as a function of (X, y), and for `monte_carlo`."""

    estimator: Callable[[], Any]
    fit: Callable[..., Any]
    method: Any


class Abess(RegressorMixin, BaseEstimator):
    """abess by BIC; its own `predict` fails with a single feature."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Fit, with an intercept."""
        from abess.linear import LinearRegression

        model: Any = LinearRegression(ic_type="bic", thread=1).fit(X, y)
        self.coef_, self.intercept_ = np.ravel(model.coef_), np.ravel(model.intercept_)[0]
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Means of y."""
        return X @ self.coef_ + self.intercept_


PLAYERS = {
    "default": Player(BayesianMaskingRegressor, bmjax.fit, bmjax.fit),
    "abess (BIC)": Player(Abess, estimators.abess, bmjax.on_host(estimators.abess)),
    "LassoCV(cv=10)": Player(
        partial(LassoCV, cv=10), estimators.lasso_cv, bmjax.on_host(estimators.lasso_cv)
    ),
}
_simulate = partial(bmjax.simulate.uniform_design, k=K, n=200)


def _folds(player: Player, size: int, seed: int, jobs: int | None = None) -> float:
    X, y, _ = data.uniform_design(1, K, seed=seed)
    scores = cross_val_score(player.estimator(), X[0], y[0], cv=5, scoring="r2", n_jobs=jobs)
    return float(scores.mean())


def _search(player: Player, size: int, seed: int) -> float:
    X, y, weights = data.uniform_design(1, size, 200, seed)
    chosen = SequentialFeatureSelector(player.estimator()).fit(X[0], y[0]).get_support()
    return contest.selection(chosen, weights[0])["F1"]


def _lengths(player: Player, size: int, seed: int) -> float:
    found = []
    for n in np.linspace(100, 400, size).astype(int):
        X, y, weights = data.uniform_design(1, K, int(n), seed)
        found.append(contest.selection(player.fit(X[0], y[0]), weights[0])["F1"])
    return float(np.mean(found))


def _study(player: Player, size: int, seed: int) -> float:
    study = bmjax.monte_carlo(_simulate, {"it": player.method}, jax.random.key(seed), size)
    return float(study.mean("it", "f1").mean)


# The loop, its full and quick sizes, and its measure of quality.
LOOPS: dict[str, tuple[Callable[..., float], int, int, str]] = {
    "cross_val_score, 5 folds": (_folds, 5, 5, "R2"),
    "cross_val_score, n_jobs=2": (partial(_folds, jobs=2), 5, 5, "R2"),
    "SequentialFeatureSelector": (_search, 10, 3, "F1"),
    "fit of so many lengths": (_lengths, 30, 3, "F1"),
    "monte_carlo": (_study, 100, 5, "F1 of pruning"),
}


def loops(quick: bool) -> list[dict[str, Any]]:
    """Each loop by each player in turn, ours first in the fresh process, then all three times."""
    rows = []
    for name, (_, full, small, quality) in LOOPS.items():
        size = small if quick else full
        runs = contest.together(
            __name__, "case", (name, size), list(PLAYERS), 1 if quick else 3, limit=600
        )
        rows.append(
            {"loop": name, "size": size, "quality is": quality, **contest.row(runs, ["quality"])}
        )
    return rows


def case(name: str, size: int) -> contest.Case:
    """A loop of a given size, by every player."""
    loop = LOOPS[name][0]
    sides = {key: partial(loop, player, size) for key, player in PLAYERS.items()}
    return contest.Case(
        lambda turn: ((turn,), None),
        sides,
        lambda result, truth: {"quality": result},
        compiled=["default"],
    )
