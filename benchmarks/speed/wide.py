"""The default fit with more features than samples, compared with abess and the Lasso."""

from functools import partial
from typing import Any

import numpy as np

import bmjax
from benchmarks import estimators
from benchmarks.speed import contest, data

SCORES = ("F1", "false", "missed")
LIMIT = 300.0


def wide(quick: bool) -> list[dict[str, Any]]:
    """Three datasets of each size in turn, float64, and a batch against its datasets one by one."""
    shapes = [(100, 1_000), (200, 2_000), (200, 10_000), (500, 100_000), (60, 200, 180)]
    if quick:
        shapes = [(60, 90), (3, 60, 40)]
    rows = []
    for shape in shapes:
        names = ["default", "abess (EBIC)", "LassoCV(cv=10)"]
        if shape[-1] > 10_000:
            names.pop()  # the path of ten folds takes an hour
        runs = contest.together(
            __name__, "case", shape, names, 1 if quick else 3, limit=60 if quick else LIMIT
        )
        rows.append({"datasets": 1, **_sizes(shape), **contest.row(runs, SCORES)})
    return rows


def wide_memory(quick: bool) -> list[dict[str, Any]]:
    """Peak memory of the default call in float32, compared with a process that only makes X."""
    rows = []
    for shape in [(60, 90), (3, 60, 40)] if quick else [(500, 100_000), (20, 500, 10_000)]:
        names = ["X alone", "default"]
        runs = contest.apart(
            __name__, "case", (*shape, "float32"), names, 1, limit=2 * LIMIT, double=False
        )
        rows.append(
            {
                "datasets": 1,
                **_sizes(shape),
                **contest.memory(runs, 4e-6 * np.prod(shape)),
                **contest.row({"default": runs["default"]}, SCORES),
            }
        )
    return rows


def case(*arguments: Any) -> contest.Case:
    """A dataset (n, k), or a batch (b, n, k), by `fit` or `fit_batch`; a type may follow."""
    shape = tuple(size for size in arguments if isinstance(size, int))
    dtype = np.dtype(arguments[-1] if isinstance(arguments[-1], str) else float)

    def draw(turn: int):
        X, y, effects = data.normal_design(shape, turn, dtype)
        return (X, y), effects

    def each(estimate):
        if len(shape) == 2:
            return estimate
        return lambda X, y: np.stack([estimate(a, t) for a, t in zip(X, y, strict=True)])

    ours = bmjax.fit if len(shape) == 2 else bmjax.fit_batch
    abess = partial(estimators.abess, criterion="ebic", intercept=True, s_max=40)
    sides = {
        "default": partial(ours, intercept=True),
        "abess (EBIC)": each(abess),
        "LassoCV(cv=10)": each(partial(estimators.lasso_cv, intercept=True)),
        "X alone": lambda X, y: np.zeros((*X.shape[:-2], X.shape[-1])),
    }
    return contest.Case(draw, sides, contest.selection, compiled=["default"])


def _sizes(shape: tuple[int, ...]) -> dict[str, int]:
    return dict(zip(("k", "n", "datasets"), shape[::-1], strict=False))
