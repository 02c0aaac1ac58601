"""Measurements of the default fit, one table for each section."""

import itertools
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import bmjax
from benchmarks import estimators
from benchmarks.optimum import designs
from benchmarks.optimum.designs import Batch
from bmjax import metrics

Row = dict[str, Any]
REPORTED, CHOOSING = 101, 7  # seeds of the reported tables, and of those the default was chosen on

# The candidates for the default; the paper makes one fit from all features.
CANDIDATES: dict[str, dict[str, Any]] = {
    "one start, 0.1": {"initial_inclusion": 0.1},
    "one start, 0.5": {"initial_inclusion": 0.5},
    "one start, 0.99": {"initial_inclusion": 0.99},
    "guided, no moves": {"moves": 0},
    "guided (default)": {},
    "guided and dense": {"starts": 5},
    "guided, held": {"criterion": "held"},
    "guided, paper": {"criterion": "paper"},
}


def _f1(kept: np.ndarray, coef: np.ndarray) -> np.ndarray:
    return np.asarray(metrics.pruning(kept, coef).f1)


def _abess(batch: Batch) -> np.ndarray:
    return estimators.one_by_one(estimators.abess, batch.X, batch.y) != 0


def _paired(a: np.ndarray, b: np.ndarray) -> Row:
    return {"minus abess": (a - b).mean(), "its error": (a - b).std(ddof=1) / np.sqrt(len(a))}


def _counts(kept: np.ndarray, coef: np.ndarray) -> Row:
    return {
        "false": (kept & (coef == 0)).sum(axis=1).mean(),
        "missed": (~kept & (coef != 0)).sum(axis=1).mean(),
        "exact": (kept == (coef != 0)).all(axis=1).mean(),
    }


def paper(quick: bool) -> list[Row]:
    """The paper's designs, compared with abess by BIC on the same datasets."""
    rows = []
    for k, b in [(10, 20)] if quick else [(10, 200), (30, 60), (50, 40), (100, 20)]:
        batch = designs.uniform(b, k, REPORTED)
        rival = _f1(_abess(batch), batch.coef)
        for name in ("one start, 0.5", "guided (default)", "guided and dense", "guided, paper"):
            r = bmjax.fit_batch(batch.X, batch.y, **CANDIDATES[name])
            kept = np.asarray(r.support)
            f1 = _f1(kept, batch.coef)
            averaged = _f1(np.asarray(r.starts.averaged_support) > 0.5, batch.coef)
            rows.append(
                {"k": k, "datasets": b, "fit": name, "F1": f1.mean(), "abess F1": rival.mean()}
                | _paired(f1, rival)
                | _counts(kept, batch.coef)
                | {"F1 averaged": averaged.mean()}
            )
    return rows


def strong(quick: bool) -> list[Row]:
    """With weak to no noise: does the default find the true support and noise?"""
    rows = []
    for noise in (1, 0.1, 0.01, 0.001, 0):
        batch = designs.six(20 if quick else 100, noise, REPORTED)
        for name in ("one start, 0.5", "guided (default)"):
            r = bmjax.fit_batch(batch.X, batch.y, **CANDIDATES[name])
            deviation = np.asarray(r.noise_precision) ** -0.5
            off = np.abs(deviation / noise - 1) if noise else np.full(len(deviation), np.nan)
            rows.append(
                {"noise": noise, "fit": name}
                | _counts(np.asarray(r.support), batch.coef)
                | {
                    "median noise": np.median(deviation),
                    "within 15 %": np.mean(off < 0.15) if noise else np.nan,
                    "abess exact": _counts(_abess(batch), batch.coef)["exact"],
                }
            )
    return rows


def wide(quick: bool) -> list[Row]:
    """Three times as many features as samples, five of them real."""
    batch = designs.wide(5 if quick else 50, REPORTED)
    lasso = [estimators.lasso_cv(X, y) for X, y in zip(batch.X, batch.y, strict=True)]
    found = {
        "guided (default)": np.asarray(bmjax.fit_batch(batch.X, batch.y).support),
        "one start, 0.5": np.asarray(
            bmjax.fit_batch(batch.X, batch.y, initial_inclusion=0.5).support
        ),
        "abess (BIC)": _abess(batch),
        "LassoCV": np.stack(lasso) != 0,
    }
    large = np.abs(batch.coef) >= 1
    return [
        {"fit": name, "four largest kept": (kept | ~large).all(axis=1).mean()}
        | _counts(kept, batch.coef)
        for name, kept in found.items()
    ]


def chain(quick: bool) -> list[Row]:
    """One true feature in a chain of correlated columns: is it kept, rather than its neighbour?"""
    rows = []
    for correlation, effect in itertools.product((0.85, 0.95), (0.5, 1.0)):
        batch = designs.chain(20 if quick else 100, correlation, REPORTED, effect)
        for name in ("one start, 0.5", "guided (default)"):
            kept = np.asarray(bmjax.fit_batch(batch.X, batch.y, **CANDIDATES[name]).support)
            rows.append(
                {
                    "correlation": correlation,
                    "effect": effect,
                    "fit": name,
                    "true feature": kept[:, 6].mean(),
                    "without neighbours": (kept[:, 6] & ~kept[:, 5] & ~kept[:, 7]).mean(),
                    "abess true feature": _abess(batch)[:, 6].mean(),
                }
            )
    return rows


def permuted(quick: bool) -> list[Row]:
    """Is the support the same if columns are permuted and their signs flipped?"""
    rng, rows = np.random.default_rng(REPORTED), []
    cases = {
        "paper, k = 10": designs.uniform(20 if quick else 200, 10, REPORTED + 1),
        "paper, k = 30": designs.uniform(5 if quick else 60, 30, REPORTED + 1),
        "chain 0.95": designs.chain(20 if quick else 100, 0.95, REPORTED + 1, 0.5),
    }
    for case, batch in cases.items():
        k = batch.X.shape[2]
        order, sign = rng.permutation(k), rng.choice([-1.0, 1.0], size=k)
        for name in ("one start, 0.5", "guided (default)"):
            one = np.asarray(bmjax.fit_batch(batch.X, batch.y, **CANDIDATES[name]).support)
            turned = (batch.X * sign)[:, :, order]
            other = np.asarray(bmjax.fit_batch(turned, batch.y, **CANDIDATES[name]).support)
            rows.append(
                {"case": case, "fit": name, "same": (one[:, order] == other).all(axis=1).mean()}
            )
    return rows


def enumeration(quick: bool) -> list[Row]:
    """Fits from every subset of the features, at 0.99 and 0.5: is the best one found?"""
    rows = []
    cases = {
        "paper, k = 6": designs.uniform(10 if quick else 50, 6, REPORTED),
        "paper, k = 8": designs.uniform(5 if quick else 50, 8, REPORTED),
        "six, noise 0.1": designs.six(10 if quick else 50, 0.1, REPORTED),
        "correlated 0.9, k = 8": designs.general(
            5 if quick else 50, 60, 8, REPORTED, ratio=2, correlation=0.9, real=0.4, kind="centred"
        ),
    }
    for case, batch in cases.items():
        k = batch.X.shape[2]
        subsets = np.array(list(itertools.product([0.0, 1.0], repeat=k)))
        rates = np.concatenate([0.99 * subsets, 0.5 * subsets])
        whole = bmjax.fit_batch(batch.X, batch.y, starts=rates, moves=0)
        best = np.asarray(jnp.max(whole.starts.score, axis=1))
        for name in ("one start, 0.5", "guided, no moves", "guided (default)"):
            r = bmjax.fit_batch(batch.X, batch.y, **CANDIDATES[name])
            short = best - np.asarray(jnp.max(r.starts.score, axis=1))
            same = (np.asarray(r.support) == np.asarray(whole.support)).all(axis=1)
            rows.append(
                {
                    "case": case,
                    "datasets": len(batch.y),
                    "fit": name,
                    "best support": same.mean(),
                    "best score": (short < 0.05).mean(),
                    "mean short of it, nats": np.maximum(short, 0).mean(),
                }
            )
    return rows


def cost(quick: bool) -> list[Row]:
    """Time of the default and of one plain fit from 0.5, in a batch, taking turns."""
    from benchmarks.speed import clock

    rows = []
    cases = {
        "two features": designs.general(
            500, 40, 2, REPORTED, ratio=10, correlation=0.4, real=0.5, kind="centred"
        ),
        "paper, k = 10": designs.uniform(100, 10, REPORTED),
        "paper, k = 30": designs.uniform(40, 30, REPORTED),
        "paper, k = 50": designs.uniform(20, 50, REPORTED),
        "paper, k = 100": designs.uniform(8, 100, REPORTED),
    }
    for case, batch in itertools.islice(cases.items(), 2 if quick else None):
        plain, default = (
            lambda options=options, batch=batch: bmjax.fit_batch(batch.X, batch.y, **options)
            for options in ({"initial_inclusion": 0.5}, {})
        )
        times = clock.in_turn([plain, default], 3)
        ratio = clock.spread(times[:, 1] / times[:, 0])
        rows.append(
            {
                "case": case,
                "datasets": len(batch.y),
                "plain ms": 1e3 * np.median(times[:, 0]) / len(batch.y),
                "default ms": 1e3 * np.median(times[:, 1]) / len(batch.y),
                "ratio": ratio[0],
                "lowest": ratio[1],
                "highest": ratio[2],
            }
        )
    return rows


def grid(quick: bool) -> list[Row]:
    """The designs and seeds on which the default was chosen, separate from those reported."""
    cells = [
        (n, k, ratio, correlation, real, kind)
        for (n, k) in ((30, 100), (100, 20), (400, 20), (1000, 10))
        for ratio in (0.1, 1, 10, 100)
        for correlation, real, kind in (
            (0, 0.05, "centred"),
            (0, 0.5, "nonnegative"),
            (0.5, 0.3, "centred"),
            (0.9, 0.2, "centred"),
            (0.95, 0.1, "nonnegative"),
            (0, 0.9, "centred"),
        )
    ]
    rows = []
    for n, k, ratio, correlation, real, kind in cells[::17] if quick else cells:
        batch = designs.general(
            4 if quick else 24,
            n,
            k,
            CHOOSING,
            ratio=ratio,
            correlation=correlation,
            real=real,
            kind=kind,
        )
        row: Row = {
            "n": n,
            "k": k,
            "signal/noise": ratio,
            "correlation": correlation,
            "real": real,
            "columns": kind,
            "abess (BIC) F1": _f1(_abess(batch), batch.coef).mean(),
        }
        for name, options in CANDIDATES.items():
            begin = time.perf_counter()
            r = jax.block_until_ready(bmjax.fit_batch(batch.X, batch.y, **options))
            kept = np.asarray(r.support)
            row[f"{name} F1"] = _f1(kept, batch.coef).mean()
            row[f"{name} false"] = _counts(kept, batch.coef)["false"]
            row[f"{name} iterations"] = float(jnp.median(r.num_steps))
            row[f"{name} s"] = time.perf_counter() - begin
        rows.append(row)
    return rows
