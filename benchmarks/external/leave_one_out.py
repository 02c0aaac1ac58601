"""The real data of Tian, Hurvich & Simonoff, each row left out in turn, and their figures."""

import time
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.external import boss, predictors, published, real_data
from benchmarks.external.boss_sections import THEIRS
from benchmarks.external.ledger import Ledger, Options, Row
from benchmarks.external.predictors import Prediction, Predictor
from benchmarks.practice.datasets import Real

_DATASETS = {
    "Boston": real_data.boston,
    "Hitters": real_data.hitters,
    "Auto": real_data.auto,
    "College": real_data.college,
}
_ERRORS = ["mean absolute error", "root mean squared error"]
_QUICK = 20  # rows left out in a quick run


def left_out(options: Options) -> dict[str, pd.DataFrame]:
    """Every row predicted from all others; the lasso figures are published, as fits are slow."""
    ledger = Ledger("external_left_out", options)
    compared = predictors.all_of_them() | {THEIRS: _boss}
    for slow in ("LassoCV", "ElasticNetCV", "abess CV"):
        del compared[slow]
    keys = [{"dataset": name} for name in _DATASETS]
    for key in keys:
        data = _DATASETS[key["dataset"]]()
        for method in [] if options.late() else ledger.lacking(key, compared):
            row = _measure(data, compared[method], options)
            if row is not None:
                ledger.add([{**key, "method": method, **row}])
    return {"left_out_summary": _beside(ledger.table(keys))}


def _boss(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Prediction:
    """BOSS by AICc, with an intercept: the link to published figures. Its spread is not used."""
    centre, level = X.mean(axis=0), y.mean()
    scale = np.sqrt(((X - centre) ** 2).sum(axis=0))
    path = boss.path((X - centre) / scale, y - level)
    size = boss.by_aicc(path, y - level, intercept=True)
    coef = path.coef((X - centre) / scale, size)
    return Prediction(level + (new - centre) / scale @ coef, np.full(len(new), np.nan), size)


def _measure(data: Real, predictor: Predictor, options: Options) -> Row | None:
    """The errors of a method, or None if time ran out before all rows had been left out."""
    rows = _QUICK if options.quick else len(data.y)
    begin = time.perf_counter()
    off, density, features = [], [], []
    for i in range(rows):
        if options.late():
            return None
        rest = np.arange(len(data.y)) != i
        found = predictor(data.X[rest], data.y[rest], data.X[i : i + 1])
        error = data.y[i] - found.mean[0]
        off.append(error)
        spread = found.std[0]
        density.append(-np.log(spread) - np.log(2 * np.pi) / 2 - (error / spread) ** 2 / 2)
        features.append(found.features)
    absolute = np.abs(off)
    return {
        "rows": rows,
        "mean absolute error": absolute.mean(),
        "its standard error": absolute.std(ddof=1) / np.sqrt(rows),
        "root mean squared error": np.sqrt(np.mean(absolute**2)),
        "log score": np.mean(density),
        "features": np.mean(features),
        "seconds": (time.perf_counter() - begin) / rows,
    }


def _beside(table: pd.DataFrame) -> pd.DataFrame:
    """Ours and published, sorted by error in each dataset."""
    theirs = published.leave_one_out().assign(source="published")
    theirs["features"] -= 1  # the published counts include the intercept
    both: Any = pd.concat([table.assign(source="measured here"), theirs])
    both["above the least published, %"] = 0.0
    for name, found in both.groupby("dataset"):
        least = found.loc[found["source"] == "published", _ERRORS[0]].min()
        chosen = both["dataset"] == name
        both.loc[chosen, "above the least published, %"] = 100 * (found[_ERRORS[0]] / least - 1)
    front = ["dataset", "method", "source", *_ERRORS, "above the least published, %"]
    rest = [column for column in both.columns if column not in front]
    return both[front + rest].sort_values(["dataset", _ERRORS[0]])
