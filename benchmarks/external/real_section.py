"""Real data: error and log score on left-out rows, in the units of the data."""

import time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

from benchmarks.external import methods, predictors, real_data
from benchmarks.external.ledger import Ledger, Options, Row
from benchmarks.external.predictors import Predictor
from benchmarks.practice.datasets import Real

_FOLDS = 5
_BASE = "LassoCV"
_SCORES = {"root mean squared error": 1, "log score": -1}  # whether lower or higher is better


def real(options: Options) -> dict[str, pd.DataFrame]:
    """Five folds of each dataset, drawn anew for each repeat, the same for all methods."""
    ledger = Ledger("external_real", options)
    repeats = 1 if options.quick else options.number(10)
    compared = predictors.all_of_them()
    names = list(real_data.DATASETS)[: 2 if options.quick else None]
    keys: list[Row] = []
    for repeat in range(repeats):  # outer loop, so that a run ended early is balanced
        for name in names:
            key = {"dataset": name, "repeat": repeat}
            keys.append(key)
            data = real_data.DATASETS[name]()
            for method in ledger.lacking(key, compared):
                if not options.late():
                    rows = _measure(data, repeat, compared[method])
                    ledger.add([{**key, "method": method, **row} for row in rows])
    table = ledger.table(keys)
    summary = _summary(table)
    return {"real": table, "real_summary": summary, "real_claims": _claims(summary)}


def _measure(data: Real, repeat: int, predictor: Predictor) -> list[Row]:
    """One row for each fold."""
    rows = []
    folds = KFold(_FOLDS, shuffle=True, random_state=repeat).split(data.X)
    for fold, (train, test) in enumerate(folds):
        varies = np.ptp(data.X[train], axis=0) > 0
        X, y = data.X[:, varies], data.y
        begin = time.perf_counter()
        found = predictor(X[train], y[train], X[test])
        spent = time.perf_counter() - begin
        off = y[test] - found.mean
        density = -np.log(found.std) - np.log(2 * np.pi) / 2 - (off / found.std) ** 2 / 2
        rows.append(
            {
                "fold": fold,
                "rows": len(test),
                "root mean squared error": np.sqrt(np.mean(off**2)),
                "log score": density.mean(),
                "features": found.features,
                "seconds": spent,
            }
        )
    return rows


def _summary(table: pd.DataFrame) -> pd.DataFrame:
    """One row per dataset and method: means over folds and repeats, and the gap to `LassoCV`."""
    rows = []
    for name, folds in table.groupby("dataset", sort=False):
        wide: Any = folds.pivot(index=["repeat", "fold"], columns="method")
        if _BASE not in wide["rows"]:
            continue  # the run was ended before
        wide = wide.dropna()
        for method in folds["method"].unique():
            row: Row = {"dataset": name, "method": method, "folds": len(wide)}
            for score in _SCORES:
                values = wide[score]
                gap = (values[method] - values[_BASE]).to_numpy()
                row[score] = values[method].mean()
                row[f"{score} minus {_BASE}'s"] = gap.mean()
                row[f"error of that {score}"] = _spread(gap)
            row["features"] = wide["features"][method].mean()
            row["seconds"] = wide["seconds"][method].median()
            rows.append(row)
    found = pd.DataFrame(rows)
    for score, sign in _SCORES.items():
        ranked = (sign * found[score]).groupby(found["dataset"]).rank()
        found[f"rank by {score}"] = ranked
    return found


def _spread(gap: np.ndarray) -> float:
    """The standard error of a mean over repeated folds, which share most of their rows.

    It is corrected for that by Nadeau & Bengio (2003): one over the folds, plus test over training.
    """
    return float(gap.std(ddof=1) * np.sqrt(1 / len(gap) + 1 / (_FOLDS - 1)))


def _claims(summary: Any) -> pd.DataFrame:
    """Mean ranks over the datasets common to all, and losses to `LassoCV` of a standard error."""
    there = summary.groupby("dataset")["method"].transform("size")
    summary = summary[there == there.max()]
    rows = []
    for method, found in summary.groupby("method", sort=False):
        row: Row = {"method": method, "datasets": len(found)}
        for score, sign in _SCORES.items():
            row[f"mean rank by {score}"] = found[f"rank by {score}"].mean()
            gap = sign * found[f"{score} minus {_BASE}'s"]
            behind = gap > found[f"error of that {score}"]
            row[f"behind {_BASE} by {score}"] = " ".join(found["dataset"][behind]) or "nowhere"
        row["ours"] = method in (methods.DEFAULT, methods.POSTERIOR)
        rows.append(row)
    return pd.DataFrame(rows).sort_values("mean rank by log score")
