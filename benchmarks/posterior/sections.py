"""Measurements of `posterior`, one table for each section."""

import time
from typing import Any

import jax
import numpy as np

import bmjax
from benchmarks import estimators
from benchmarks.optimum import designs
from benchmarks.optimum.designs import Batch
from benchmarks.optimum.sections import REPORTED
from benchmarks.speed import data
from bmjax import metrics

Row = dict[str, Any]


def _posterior(batch: Batch) -> bmjax.Posterior:
    return bmjax.posterior(batch.X, batch.y, jax.random.key(REPORTED))


def _covered(found: bmjax.Posterior, coef: np.ndarray) -> float:
    lower, upper = (np.asarray(end) for end in found.interval(0.95))
    return float(((lower <= coef) & (coef <= upper)).mean())


def _names(found: bmjax.Posterior) -> str:
    """The statuses, each once."""
    return " ".join(bmjax.Status(code).name for code in np.unique(np.asarray(found.status)))


def paper(quick: bool) -> list[Row]:
    """The paper's designs: squared error of the effects, and F1 of the features called real.

    A feature is called real by a posterior if its probability is above a half, else if it is kept.
    """
    rivals = {
        "ARD": estimators.ard,
        "LassoCV": estimators.lasso_cv,
        "abess BIC": estimators.abess,
    }
    rows = []
    for k, b in [(10, 20)] if quick else [(10, 200), (30, 60), (50, 40), (100, 20)]:
        batch = designs.uniform(b, k, REPORTED)
        found = _posterior(batch)
        covered = _covered(found, batch.coef)
        chosen = np.asarray(bmjax.fit_batch(batch.X, batch.y).coef)
        coefs = {"posterior": np.asarray(found.coef), "default fit": chosen}
        for name, rival in rivals.items():
            coefs[name] = estimators.one_by_one(rival, batch.X, batch.y)
        reference = ((chosen - batch.coef) ** 2).sum(axis=1)
        for name, coef in coefs.items():
            averaged = name == "posterior"
            kept = np.asarray(found.probability) > 0.5 if averaged else coef != 0
            errors = ((coef - batch.coef) ** 2).sum(axis=1)
            gap = errors - reference
            rows.append(
                {
                    "k": k,
                    "datasets": b,
                    "method": name,
                    "squared error": errors.mean(),
                    "minus the default fit's": gap.mean(),
                    "its error": gap.std(ddof=1) / np.sqrt(b),
                    "F1": np.asarray(metrics.pruning(kept, batch.coef).f1).mean(),
                    "coverage of interval(.95)": covered if averaged else np.nan,
                }
            )
    return rows


def _of_the_prior(b: int, n: int, k: int, seed: int) -> Batch:
    """Datasets whose rate, width and effects are drawn from the prior of `posterior`; noise 1."""
    rng = np.random.default_rng([seed, n, k])
    X, coef = rng.normal(size=(b, n, k)), np.zeros((b, k))
    for features, effects in zip(X, coef, strict=True):
        rate = rng.uniform(0, 0.5) if rng.uniform() < 0.97 else rng.uniform(0.5, 1)
        chosen = np.flatnonzero(rng.uniform(size=k) < rate)
        g = 10 * (rng.uniform() ** -2 - 1)  # the inverse of its distribution function
        root = np.linalg.cholesky(np.linalg.inv(features[:, chosen].T @ features[:, chosen]))
        effects[chosen] = np.sqrt(g) * root @ rng.normal(size=len(chosen))
    y = np.einsum("bnk,bk->bn", X, coef) + rng.normal(size=(b, n))
    return Batch(X, y, coef)


def calibration(quick: bool) -> list[Row]:
    """Probabilities beside the frequency with which the feature is real, in ten bins."""
    b = 60 if quick else 5000
    cases = {
        "the prior, k = 12 (enumerated)": _of_the_prior(b, 100, 12, REPORTED),
        "the prior, k = 20 (chains)": _of_the_prior(b // 10, 100, 20, REPORTED),
        "the paper's design, k = 10": designs.uniform(b // 5, 10, REPORTED + 2),
    }
    rows = []
    for name, batch in cases.items():
        found = _posterior(batch)
        p, real = np.asarray(found.probability).ravel(), (batch.coef != 0).ravel()
        covered = _covered(found, batch.coef)
        low = np.minimum(np.floor(10 * p), 9).astype(int)
        for tenth in range(10):
            inside = low == tenth
            count, observed = max(inside.sum(), 1), real[inside].mean() if inside.any() else np.nan
            rows.append(
                {
                    "design": name,
                    "from": tenth / 10,
                    "features": int(inside.sum()),
                    "predicted": p[inside].mean() if inside.any() else np.nan,
                    "observed": observed,
                    "its error": np.sqrt(observed * (1 - observed) / count),
                    "coverage of interval(.95)": covered,
                }
            )
    return rows


def chains(quick: bool) -> list[Row]:
    """Chains beside all supports enumerated, five keys: the largest error of a probability."""
    rows = []
    for k, correlation in [(10, 0.9)] if quick else [(10, 0.0), (10, 0.9), (15, 0.0), (15, 0.9)]:
        options = {"ratio": 1.0, "correlation": correlation, "real": 0.4, "kind": "centred"}
        batch = designs.general(3, 100, k, REPORTED, **options)
        exact = np.asarray(_posterior(batch).probability)
        for key in range(2 if quick else 5):
            found = bmjax.posterior(batch.X, batch.y, jax.random.key(key), enumerate_up_to=0)
            away = np.abs(np.asarray(found.probability) - exact)
            rows.append(
                {
                    "k": k,
                    "correlation": correlation,
                    "key": key,
                    "largest error": away.max(),
                    "largest standard error": np.asarray(found.probability_error).max(),
                    "statuses": _names(found),
                }
            )
    return rows


def _squares_and_products(X: np.ndarray) -> np.ndarray:
    """The columns, standardised, with their squares and products, but for that of two values."""
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    pairs = [Z[:, i] * Z[:, j] for i in range(Z.shape[1]) for j in range(i, Z.shape[1])]
    pairs = [pair for pair in pairs if len(np.unique(np.round(pair, 9))) > 2]
    return np.column_stack([Z, *pairs])


def seconds(quick: bool) -> list[Row]:
    """Wall-clock time of a call, the first one and the median of three more."""
    X, y, _ = bmjax.datasets.load_diabetes()
    cases: dict[str, tuple[np.ndarray, np.ndarray]] = {
        "k = 10, batch of 100": data.uniform_design(100, 10, seed=REPORTED)[:2],
        "diabetes, k = 10": (X, y),
        "diabetes, squares and products, k = 64": (_squares_and_products(X), y),
    }
    for correlation in (0.0, 0.5, 0.9):
        options = {"ratio": 1.0, "correlation": correlation, "real": 0.2, "kind": "centred"}
        one = designs.general(1, 200, 30, REPORTED, **options)
        cases[f"n = 200, k = 30, correlation {correlation}"] = one.X[0], one.y[0]
    cases["n = 200, k = 2000"] = data.normal_design((200, 2000), REPORTED)[:2]
    rows = []
    for name, (features, target) in list(cases.items())[: 2 if quick else None]:
        times, found = [], None
        while found is None or len(times) < (2 if quick else 4):
            begin = time.perf_counter()
            found = bmjax.posterior(features, target, intercept=True)
            jax.block_until_ready(found.probability)
            times.append(time.perf_counter() - begin)
        datasets = len(features) if features.ndim == 3 else 1
        rows.append(
            {
                "call": name,
                "first, s": times[0],
                "s a dataset": np.median(times[1:]) / datasets,
                "steps": int(np.max(found.num_steps)),
                "largest standard error": float(np.max(found.probability_error)),
                "status": _names(found),
            }
        )
    return rows
