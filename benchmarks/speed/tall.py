"""The default fit with many samples, and the memory that it and its rivals need."""

from typing import Any

import numpy as np

import bmjax
from benchmarks import estimators
from benchmarks.speed import contest, data

K = 50


def tall(quick: bool) -> list[dict[str, Any]]:
    """Each side in its own process, one after another, in both precisions."""
    names = ["X alone", "default", "abess (BIC)", "LassoCV(cv=10)"]
    rows = []
    for n in (2_000,) if quick else (100_000, 1_000_000):
        for dtype in ("float32", "float64"):
            runs = contest.apart(
                __name__,
                "case",
                (n, dtype),
                names,
                1 if quick or n > 100_000 else 2,
                limit=60 if quick else 600,
                double=dtype == "float64",
            )
            idle, ours, *_ = runs.values()
            rivals = {name: run for name, run in runs.items() if run is not idle}
            rows.append(
                {
                    "k": K,
                    "n": n,
                    "type": dtype,
                    "steps": np.median(ours.values("steps")),
                    **contest.row(rivals, ("F1", "false", "missed")),
                    **contest.memory(runs, 1e-6 * n * K * np.dtype(dtype).itemsize),
                }
            )
    return rows


def case(n: int, dtype: str) -> contest.Case:
    """A dataset of 50 features."""

    def draw(turn: int):
        X, y, effects = data.normal_design((n, K), turn, dtype)
        return (X, y), effects

    sides = {
        "X alone": lambda X, y: np.zeros(K),
        "default": bmjax.fit,
        "abess (BIC)": estimators.abess,
        "LassoCV(cv=10)": estimators.lasso_cv,
    }
    return contest.Case(draw, sides, contest.selection, compiled=["default"])
