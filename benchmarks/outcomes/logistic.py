"""Simulated binary outcomes: columns found, log loss on fresh rows, size of effects."""

import numpy as np
import pandas as pd
import scipy.optimize
import scipy.special

from benchmarks.outcomes.methods import columns, effects, f1, log_loss, of_two, timed

_FRESH = 5000  # rows on which the log loss is computed
_DRAWS = 10


def logistic(quick: bool) -> pd.DataFrame:
    """Designs with two outcomes: medians and means over draws."""
    methods = of_two()
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
            eta += _level_for(eta, share)
            y = (rng.random(len(eta)) < scipy.special.expit(eta)).astype(float)
            for name, method in methods.items():
                if draw == 0:
                    timed(method, X[:n], y[:n])
                found, seconds = timed(method, X[:n], y[:n])
                both = found.kept & (coef != 0)
                rows.append(
                    {
                        "n": n,
                        "k": k,
                        "rho": rho,
                        "ones": share,
                        "method": name,
                        "F1": f1(found.kept, coef != 0),
                        "log loss": log_loss(y[n:], found.log_odds(X[n:])),
                        "effect / truth": np.median(found.coef[both] / coef[both])
                        if both.any()
                        else np.nan,
                        "seconds": seconds,
                    }
                )
    by = ["n", "k", "rho", "ones", "method"]
    rules = {"F1": "mean", "log loss": "mean", "effect / truth": "median", "seconds": "median"}
    return pd.DataFrame(rows).groupby(by, sort=False).agg(rules).reset_index()


def _level_for(eta: np.ndarray, share: float) -> float:
    """The intercept at which the mean probability equals a share."""
    away: float = scipy.optimize.brentq(
        lambda level: scipy.special.expit(eta + level).mean() - share, -30, 30
    )  # type: ignore[assignment]
    return away
