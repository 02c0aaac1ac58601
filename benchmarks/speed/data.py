"""The seeded datasets of the speed benchmark, made on the host, and the F1 of pruning."""

from functools import partial
from typing import Any

import numpy as np

import bmjax
from bmjax import metrics

# One fit from one start, as in the rivals' algorithms.
plain_fit = partial(bmjax.fit, initial_inclusion=0.5)
plain_fit_batch = partial(bmjax.fit_batch, initial_inclusion=0.5)
# The effects in a design with few real features among many, with noise variance 1.
EFFECTS = (3, -2, 1.5, 1, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6)


def two_features(b: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Section 5.2: X (40, 2) shared, y (b, 40); truth (0, 1), noise precision 200."""
    rng = np.random.default_rng(seed)
    X = np.tile([[1.0, 0.0], [0.5, 1.0]], (20, 1))
    return X, X @ [0.0, 1.0] + rng.normal(size=(b, 40)) * np.sqrt(0.005)


def uniform_design(
    b: int, k: int, n: int | None = None, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Section 5.3: X (b, n, k), y (b, n), weights (b, k), half of them zero, n = 20 k."""
    rng = np.random.default_rng([seed, k])
    n = 20 * k if n is None else n
    X = rng.uniform(size=(b, n, k))
    weights = rng.uniform(size=(b, k))
    for row in weights:
        row[rng.permutation(k)[: k // 2]] = 0
    noise = rng.normal(size=(b, n)) * np.sqrt(0.2)
    return X, np.einsum("bnk,bk->bn", X, weights) + noise, weights


def normal_design(
    shape: tuple[int, ...], seed: int, dtype: Any = np.float64, targets: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Normal features, of which ten act, or half if that is fewer; noise 1.

    Args:
        shape: Of X, (n, k) or (b, n, k).
        seed: Seed of the draws.
        dtype: Type of X and y. X is drawn in it, so that no copy adds to the memory used.
        targets: Number of y that share an X (n, k). Default: one, of shape (n,).

    Returns:
        X, y and the effects.
    """
    rng = np.random.default_rng([seed, *shape])
    X = rng.standard_normal(shape, dtype=dtype)
    effects = np.zeros((*(shape[:-2] if targets is None else (targets,)), shape[-1]), dtype)
    some = EFFECTS[: shape[-1] // 2]
    for row in effects.reshape(-1, shape[-1]):
        row[rng.permutation(shape[-1])[: len(some)]] = some
    y = (X @ effects[..., None])[..., 0] if targets is None else effects @ X.T
    return X, y + rng.standard_normal(y.shape, dtype=dtype), effects


def f1_of_pruning(kept: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """F1 on the irrelevant features, one value per dataset."""
    return np.asarray(metrics.pruning(kept, weights).f1)
