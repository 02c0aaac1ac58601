"""Simulated categorical variables among numeric ones: variables found, error of means."""

import numpy as np
import pandas as pd

from benchmarks.outcomes.methods import (
    Found,
    best_subset,
    columns,
    effects,
    f1,
    lasso,
    masked,
    timed,
)

_DRAWS = 20
_VARIABLES, _LEVELS, _NUMBERS = 12, 8, 20
_ACTIVE = 3  # of each kind
_FRESH = 2000
_ABESS = 200  # largest number of rows for abess


def groups(quick: bool) -> pd.DataFrame:
    """Designs with dummies, each variable's levels a group: means over draws.

    A method that judges each column alone has found a variable if it keeps one of its columns.
    abess 0.4.11 crashes the process (`bad_alloc`) at 500 rows of these designs, whatever its
    options, so it is compared with the others at 200 rows only.
    """
    dummies = _LEVELS - 1
    labels = [*np.repeat(np.arange(_VARIABLES), dummies), *range(_VARIABLES, _VARIABLES + _NUMBERS)]
    group = np.array(labels)
    methods = {
        "bmjax, groups": masked(groups=group),
        "bmjax, columns": masked(),
        "abess BIC, groups": best_subset("LinearRegression", "bic", group=group),
        "abess EBIC, groups": best_subset("LinearRegression", "ebic", group=group),
        "Lasso, columns": lasso,
    }
    designs = [(n, size) for n in (200, 500) for size in (0.5, 1.0)]
    rows = []
    for n, size in designs[:1] if quick else designs:
        for draw in range(2 if quick else _DRAWS):
            rng = np.random.default_rng((1, n, int(10 * size), draw))
            levels = rng.integers(_LEVELS, size=(n + _FRESH, _VARIABLES))
            own = levels[:, :, None] == np.arange(1, _LEVELS)
            X = np.hstack([own.reshape(len(levels), -1), columns(rng, len(levels), _NUMBERS, 0.5)])
            coef = np.zeros((_VARIABLES, dummies))
            coef[rng.choice(_VARIABLES, _ACTIVE, replace=False)] = size * rng.normal(
                size=(_ACTIVE, dummies)
            )
            coef = np.append(coef, effects(rng, _NUMBERS, _ACTIVE) * size)
            mean = X @ coef
            y = mean[:n] + rng.normal(size=n)
            acts = _by_group(coef, group)
            for name, method in methods.items():
                if name.startswith("abess") and n > _ABESS:
                    continue
                if draw == 0:
                    timed(method, X[:n], y)
                found, seconds = timed(method, X[:n], y)
                rows.append(
                    {
                        "n": n,
                        "effects": size,
                        "method": name,
                        "F1": f1(_by_group(found.coef, group), acts),
                        "squared error": _error(found, X[n:], mean[n:]),
                        "seconds": seconds,
                    }
                )
    rules = {"F1": "mean", "squared error": "mean", "seconds": "median"}
    return (
        pd.DataFrame(rows).groupby(["n", "effects", "method"], sort=False).agg(rules).reset_index()
    )


def _by_group(coef: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Whether any column of each group is kept."""
    return np.bincount(group, coef != 0) > 0


def _error(found: Found, X: np.ndarray, mean: np.ndarray) -> float:
    return float(np.mean((X @ found.coef + found.intercept - mean) ** 2))
