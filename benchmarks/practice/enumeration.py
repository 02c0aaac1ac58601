"""The exact answer on a small dataset: every subset of the features, weighted by BIC."""

from typing import NamedTuple

import numpy as np


class Exact(NamedTuple):
    """All 2^k models with an intercept, under weights exp(-BIC / 2).

    Bit j of a model's number says whether feature j is in it.

    Attributes:
        bic: n log(RSS / n) + size log(n) of each model, (2^k,).
        probability: Weight of each model over the sum of all, (2^k,).
        inclusion: Probability of each feature, (k,).
        best: The features of the model of the lowest BIC, (k,).
    """

    bic: np.ndarray
    probability: np.ndarray
    inclusion: np.ndarray
    best: np.ndarray

    def above(self, support: np.ndarray) -> float:
        """By how much the BIC of the model with these features is above the lowest."""
        return float(self.bic[number(support)] - self.bic.min())

    def rank(self, support: np.ndarray) -> int:
        """Number of models with a lower BIC than the one with these features, plus one."""
        return 1 + int(np.sum(self.bic < self.bic[number(support)]))


def enumerate_models(X: np.ndarray, y: np.ndarray) -> Exact:
    """Score every subset of the columns of X.

    Args:
        X: Features (n, k); some hundred bytes are held for each subset.
        y: Target (n,).

    Returns:
        The models and their probabilities.
    """
    n, k = X.shape
    squares = residual_squares(X, y)
    bic = n * np.log(squares / n) + np.log(n) * sum((np.arange(2**k) >> j) & 1 for j in range(k))
    weights = np.exp((bic.min() - bic) / 2)
    probability = weights / weights.sum()
    # In row-major order the last bit comes first.
    cube = probability.reshape((2,) * k)
    inclusion = [cube.take(1, axis=k - 1 - j).sum() for j in range(k)]
    best = (int(bic.argmin()) >> np.arange(k)) & 1
    return Exact(bic, probability, np.array(inclusion), best.astype(bool))


def residual_squares(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The residual sum of squares of y on an intercept and each subset of columns, (2^k,).

    Feature by feature, the remaining cross-products either lose its row and column (feature out),
    or are swept by it first (feature in), so that all subsets share their work. This takes a few
    dozen operations per subset, whatever k.

    Args:
        X: Features (n, k), linearly independent of each other and of the intercept.
        y: Target (n,).

    Returns:
        The sums; bit j of the index says whether column j is in.
    """
    columns = np.column_stack([X, y]).astype(np.float64)
    columns -= columns.mean(axis=0)
    scale = np.linalg.norm(columns, axis=0)
    columns /= scale
    left = (columns.T @ columns)[None]
    for _ in range(X.shape[1]):
        row, rest = left[:, :1, 1:], left[:, 1:, 1:]
        swept = rest - left[:, 1:, :1] * (row / left[:, :1, :1])
        left = np.concatenate([rest, swept])
    return left[:, 0, 0] * scale[-1] ** 2


def least_squares(X: np.ndarray, y: np.ndarray, support: np.ndarray) -> np.ndarray:
    """Coefficients (k,) of least squares with an intercept on some columns, 0 elsewhere."""
    coef = np.zeros(X.shape[1])
    centred = X[:, support] - X[:, support].mean(axis=0)
    scale = np.linalg.norm(centred, axis=0)
    coef[support] = np.linalg.lstsq(centred / scale, y - y.mean())[0] / scale
    return coef


def number(support: np.ndarray) -> int:
    """The index of a subset in the output of `residual_squares`."""
    return int(np.sum(np.asarray(support, dtype=np.int64) << np.arange(len(support))))
