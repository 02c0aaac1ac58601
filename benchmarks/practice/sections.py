"""The measurements, one function per section; each returns its tables by name."""

import time
from typing import Any

import jax
import numpy as np
import pandas as pd

import bmjax
from benchmarks import estimators
from benchmarks.optimum.designs import Batch
from benchmarks.practice import datasets, designs, intervals
from benchmarks.practice.enumeration import Exact, enumerate_models, least_squares
from benchmarks.practice.intervals import Intervals

Row = dict[str, Any]
Tables = dict[str, pd.DataFrame]


def real(quick: bool) -> Tables:
    """Real datasets: the features a fit keeps, and exact probabilities of all 2^k models."""
    features, summary = [], []
    for name, load in list(datasets.DATASETS.items())[: 2 if quick else None]:
        X, y, names = load()
        exact = enumerate_models(X, y)
        r = bmjax.fit(X, y, intercept=True)
        kept = np.asarray(r.support)
        columns = {
            "dataset": [name] * len(names),
            "feature": names,
            "exact probability": exact.inclusion,
            "in best": exact.best,
            "kept": kept,
            "inclusion": np.asarray(r.inclusion),
            "coef": np.asarray(r.coef),
            "standard error": np.asarray(r.standard_errors),
            "least squares on best": least_squares(X, y, exact.best),
            "least squares on kept": least_squares(X, y, kept),
        }
        features.append(pd.DataFrame(columns))
        rival = estimators.abess(X - X.mean(axis=0), y - y.mean()) != 0
        summary.append({"dataset": name, "n": len(y)} | _summary(exact, kept, rival, names))
    return {"real": pd.concat(features), "real_summary": pd.DataFrame(summary)}


def coverage(quick: bool) -> Tables:
    """Coverage of 95 % intervals: those of the fit, of least squares and of the bootstrap."""
    rows = []
    drawn = designs.draw(20 if quick else 1000)
    for name, batch in drawn.items():
        rows += _coverage(name, batch, _closed(batch))
    few = Batch(*(array[: 5 if quick else 100] for array in next(iter(drawn.values()))))
    found = _closed(few)
    found["bootstrap"] = intervals.bootstrap(
        few, found["fit"].kept, 20 if quick else 200, jax.random.key(designs.SEED)
    )
    rows += _coverage(f"{next(iter(drawn))}, some", few, found)
    return {"coverage": pd.DataFrame(rows)}


def stability(quick: bool) -> Tables:
    """Stability selection on the diabetes data, with the exact probabilities; and its time."""
    X, y, names = datasets.diabetes()
    resamples = 50 if quick else 1000

    def select() -> tuple[Any, float]:
        begin = time.perf_counter()
        r = bmjax.stability_selection(X, y, jax.random.key(0), resamples=resamples, intercept=True)
        jax.block_until_ready(r.frequencies)
        return r, time.perf_counter() - begin

    jax.clear_caches()
    _, first = select()
    r, again = select()
    exact = enumerate_models(X, y)
    columns = {
        "feature": names,
        "exact probability": exact.inclusion,
        "in best": exact.best,
        "frequency": np.asarray(r.frequencies),
        "its error": np.asarray(r.standard_errors),
        "kept": np.asarray(bmjax.fit(X, y, intercept=True).support),
    }
    times = {"resamples": [resamples], "first call s": [first], "next call s": [again]}
    return {"stability": pd.DataFrame(columns), "stability_time": pd.DataFrame(times)}


def _summary(exact: Exact, kept: np.ndarray, rival: np.ndarray, names: list[str]) -> Row:
    """One row per dataset: the features kept by the fit and by abess, ranked among all models."""

    def listed(features: np.ndarray) -> str:
        return " ".join(np.array(names)[features]) or "none"

    return {
        "k": len(names),
        "size of best": int(exact.best.sum()),
        "size of fit": int(kept.sum()),
        "same": bool((kept == exact.best).all()),
        "BIC above best": exact.above(kept),
        "rank by BIC": exact.rank(kept),
        "abess BIC above best": exact.above(rival),
        "abess rank": exact.rank(rival),
        "probability of best": exact.probability.max(),
        "dropped above .95": listed(~kept & (exact.inclusion > 0.95)),
        "kept below .5": listed(kept & (exact.inclusion < 0.5)),
        "best": listed(exact.best),
        "fit": listed(kept),
    }


def _closed(batch: Batch) -> dict[str, Intervals]:
    """Intervals that need no resampling, by method."""
    fit = intervals.masking(batch)
    return {
        "fit": fit,
        "least squares on kept": intervals.least_squares(batch, fit.kept),
        "least squares on truth": intervals.least_squares(batch, batch.coef != 0),
    }


def _coverage(design: str, batch: Batch, found: dict[str, Intervals]) -> list[Row]:
    """One row for each method and group of features."""
    return [
        {"design": design, "datasets": len(batch.y), "effects": group, "intervals": method}
        | intervals.score(given, batch.coef, features)
        for group, features in intervals.groups(batch.coef, found["fit"].kept).items()
        if features.any()
        for method, given in found.items()
    ]
