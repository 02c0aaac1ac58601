"""Many targets on one design, compared with as many designs and with abess one by one."""

from typing import Any

import numpy as np

import bmjax
from benchmarks import estimators
from benchmarks.speed import contest, data


def shared_design(quick: bool) -> list[dict[str, Any]]:
    """A batch that shares X, as many datasets with their own X, and abess on a sample."""
    b, sample = (10, 5) if quick else (1000, 50)
    n, k = (60, 10) if quick else (200, 60)
    names = ["shared X", "an X each", "abess (BIC)"]
    runs = contest.together(
        __name__, "case", (b, n, k, sample), names, 1 if quick else 3, limit=60 if quick else 600
    )
    return [{"k": k, "n": n, "targets": b, "abess on": sample, **contest.row(runs, ("F1",))}]


def case(b: int, n: int, k: int, sample: int) -> contest.Case:
    """The three sides; abess fits the first targets of the shared design."""

    def draw(turn: int):
        X, Y, effects = data.normal_design((n, k), turn, targets=b)
        rng = np.random.default_rng([turn, 1])
        Xs = rng.standard_normal((b, n, k))
        ys = (Xs @ effects[..., None])[..., 0] + rng.standard_normal((b, n))
        return (X, Y, Xs, ys), effects

    sides = {
        "shared X": lambda X, Y, Xs, ys: bmjax.fit_batch(X, Y),
        "an X each": lambda X, Y, Xs, ys: bmjax.fit_batch(Xs, ys),
        "abess (BIC)": lambda X, Y, Xs, ys: np.stack([estimators.abess(X, y) for y in Y[:sample]]),
    }
    compiled = ["shared X", "an X each"]
    return contest.Case(draw, sides, contest.selection, compiled, {"abess (BIC)": sample / b})
