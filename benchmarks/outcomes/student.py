"""Simulated outcomes with and without outliers and heavy tails: columns found, error of effects."""

import numpy as np
import pandas as pd

import bmjax
from benchmarks.outcomes.methods import columns, effects, f1, huber_lasso, masked, timed

_DRAWS = 50


def student(quick: bool) -> pd.DataFrame:
    """Designs with outliers, heavy tails and clean noise: means over draws."""
    methods = {
        "student": masked(family="student"),
        "student, degrees learned": masked(family=bmjax.Student(None)),
        "gaussian": masked(family="gaussian"),
        "L1 Huber": huber_lasso,
    }
    noises = {
        "clean": lambda rng, n: rng.normal(size=n),
        "5 % at 10 sd": lambda rng, n: _contaminated(rng, n, 0.05),
        "10 % at 10 sd": lambda rng, n: _contaminated(rng, n, 0.1),
        "t with 2 degrees": lambda rng, n: rng.standard_t(2, n),
    }
    rows = []
    shapes = ((100, 20), (300, 50))
    for n, k in shapes[:1] if quick else shapes:
        for number, (noise, drawn) in enumerate(noises.items()):
            for draw in range(2 if quick else _DRAWS):
                rng = np.random.default_rng((n, k, number, draw))
                X, coef = columns(rng, n, k, 0.5), effects(rng, k) / 2
                y = X @ coef + drawn(rng, n)
                for name, method in methods.items():
                    found, seconds = timed(method, X, y)
                    error = np.sum((found.coef - coef) ** 2)
                    kept = f1(found.coef != 0, coef != 0)
                    rows.append((n, k, noise, name, kept, error, seconds))
    names = ["n", "k", "noise", "method", "F1", "squared error", "seconds"]
    table = pd.DataFrame(rows, columns=pd.Index(names))
    rules = {"F1": "mean", "squared error": "mean", "seconds": "median"}
    by = ["n", "k", "noise", "method"]
    return table.groupby(by, sort=False).agg(rules).reset_index()


def _contaminated(rng: np.random.Generator, n: int, share: float) -> np.ndarray:
    off = rng.random(n) < share
    return rng.normal(size=n) + np.where(off, 10 * rng.choice([-1, 1], n), 0)
