"""Seeded datasets of the benchmark, with the true effects: X (b, n, k), y (b, n), coef."""

from typing import NamedTuple

import numpy as np


class Batch(NamedTuple):
    """Datasets of one design."""

    X: np.ndarray
    y: np.ndarray
    coef: np.ndarray


def uniform(b: int, k: int, seed: int) -> Batch:
    """Section 5.3 of the paper: non-negative features, half of them real, n = 20 k."""
    rng = np.random.default_rng([seed, k, 1])
    X, coef = rng.uniform(size=(b, 20 * k, k)), rng.uniform(size=(b, k))
    for row in coef:
        row[rng.permutation(k)[: k // 2]] = 0
    return Batch(X, _targets(X, coef, np.sqrt(0.2), rng), coef)


def six(b: int, noise: float, seed: int) -> Batch:
    """Six normal features, n = 200, effects 0, 2, 0, -1, 0.5, 0 and noise of a given deviation."""
    rng = np.random.default_rng([seed, 2])
    X, coef = rng.normal(size=(b, 200, 6)), np.tile([0, 2, 0, -1, 0.5, 0], (b, 1))
    return Batch(X, _targets(X, coef, noise, rng), coef)


def wide(b: int, seed: int) -> Batch:
    """N = 100, k = 300, effects 3, -2, 1.5, 1 and 0.5, noise 1."""
    rng = np.random.default_rng([seed, 3])
    X, coef = rng.normal(size=(b, 100, 300)), np.zeros((b, 300))
    for row in coef:
        row[rng.permutation(300)[:5]] = [3, -2, 1.5, 1, 0.5]
    return Batch(X, _targets(X, coef, 1, rng), coef)


def chain(b: int, correlation: float, seed: int, effect: float = 1.0) -> Batch:
    """Twelve columns in a chain, n = 150, one true feature in the middle, noise 1."""
    X, rng = _correlated(b, 150, 12, correlation, seed)
    coef = np.zeros((b, 12))
    coef[:, 6] = effect
    return Batch(X, _targets(X, coef, 1, rng), coef)


def general(
    b: int, n: int, k: int, seed: int, *, ratio: float, correlation: float, real: float, kind: str
) -> Batch:
    """A cell of the grid on which the default is chosen.

    Args:
        b: Datasets.
        n: Samples.
        k: Features.
        seed: Seed.
        ratio: Signal to noise, as a ratio of variances.
        correlation: Lag-one correlation of the columns.
        real: Share of features with an effect, normally distributed.
        kind: `centred` normal columns, or `nonnegative`, their absolute values.
    """
    X, rng = _correlated(b, n, k, correlation, seed)
    if kind == "nonnegative":
        X = np.abs(X)
    coef = rng.normal(size=(b, k))
    for row in coef:
        row[rng.permutation(k)[: k - max(1, round(real * k))]] = 0
    signal = np.einsum("bnk,bk->bn", X, coef)
    noise = signal.std(axis=1, keepdims=True) / np.sqrt(ratio)
    return Batch(X, signal + noise * rng.normal(size=signal.shape), coef)


def _correlated(
    b: int, n: int, k: int, correlation: float, seed: int
) -> tuple[np.ndarray, np.random.Generator]:
    rng = np.random.default_rng([seed, n, k, round(100 * correlation)])
    X = rng.normal(size=(b, n, k))
    for j in range(1, k):
        X[:, :, j] = correlation * X[:, :, j - 1] + np.sqrt(1 - correlation**2) * X[:, :, j]
    return X, rng


def _targets(X: np.ndarray, coef: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    return np.einsum("bnk,bk->bn", X, coef) + noise * rng.normal(size=X.shape[:2])
