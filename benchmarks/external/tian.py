"""The designs of Tian, Hurvich & Simonoff (2021), with their datasets drawn again.

On the use of information criteria for subset selection in least squares regression,
arXiv 1911.10191; code and results of every draw are in the repository sentian/BOSSreg. A cell has
one X and many y. If the covariance of X is the identity, or X was made from its symmetric root (the
wide cells), or its eigenvectors are blocks (Ex2-Ex4), the numbers here are exactly the same. If the
signs of eigenvectors depend on LAPACK (Ex1 and Dense, rho > 0), X is another draw from the same
distribution.
"""

import itertools
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from benchmarks.external.rstream import RStream

DESIGNS = ("Sparse-Ex1", "Sparse-Ex2", "Sparse-Ex3", "Sparse-Ex4", "Dense")
CORRELATIONS, RATIOS = (0.0, 0.5, 0.9), (7.0, 1.5, 0.2)
NARROW, WIDE = (14, 30, 60, 180), (250, 500, 1000, 1500)
_REAL = 6  # features with an effect in the sparse designs
_SEED, _WIDE_SEED = 66, 1001


class Cell(NamedTuple):
    """A cell of their tables: n samples of p features, lag or pair correlation, signal to noise."""

    design: str
    n: int
    p: int
    rho: float
    snr: float


# The cells of the plainest summary.
EIGHT = [
    Cell(design, 200, 30, rho, snr)
    for design in ("Sparse-Ex3", "Sparse-Ex4")
    for rho in (0.5, 0.9)
    for snr in (7.0, 0.2)
]


class Drawn(NamedTuple):
    """X (n, p) of a cell, its mean (n,), targets (b, n) and the true effects (p,)."""

    X: np.ndarray
    mean: np.ndarray
    y: np.ndarray
    coef: np.ndarray


def cells(n: int, sizes: tuple[int, ...]) -> list[Cell]:
    """All cells of n samples, sorted by size first, so that compiled programs are reused."""
    grid = itertools.product(sizes, DESIGNS, CORRELATIONS, RATIOS)
    return [Cell(design, n, p, rho, snr) for p, design, rho, snr in grid]


def draw(cell: Cell, draws: int) -> Drawn:
    """The first datasets of a cell, centred, with columns of unit length."""
    n, p = cell.n, cell.p
    covariance, coef = law(cell)
    wide = p > n
    stream = RStream(_WIDE_SEED if wide else _SEED)
    normal = stream.normal(n * p).reshape(p, n).T  # R fills column by column
    X = normal @ (_symmetric_root(covariance) if wide else _spectral_root(covariance))
    X = X - X.mean(axis=0)
    length = np.sqrt((X**2).sum(axis=0))
    X, raw = X / length, coef / length
    noise = np.sqrt(raw @ covariance @ raw / cell.snr)
    if wide:
        errors = np.stack([RStream(1 + i).normal(n) for i in range(draws)])
    else:
        errors = stream.normal(n * draws).reshape(draws, n)
    errors = noise * errors
    mean = X @ coef
    return Drawn(X, mean, mean + errors - errors.mean(axis=1, keepdims=True), coef)


def law(cell: Cell) -> tuple[np.ndarray, np.ndarray]:
    """Covariance of the columns before they are scaled, and the effects after, of a cell."""
    p, at = cell.p, np.arange(cell.p)
    coef = np.zeros(p)
    if cell.design in ("Sparse-Ex1", "Dense"):
        covariance = cell.rho ** np.abs(at[:, None] - at)
        if cell.design == "Dense":
            coef = (-1.0) ** (at + 1) * np.exp(-(at + 1) / 10)
        else:
            coef[np.round(np.linspace(1, p, _REAL)).astype(int) - 1] = 1
        return covariance, coef
    covariance = np.eye(p)
    if cell.design == "Sparse-Ex3":  # each real feature beside an idle one
        pairs = [(j, j + _REAL) for j in range(_REAL)]
        coef[:_REAL] = 1
    else:  # real features in pairs whose effects cancel
        pairs = [(j, j + 1) for j in range(0, _REAL, 2)]
        coef[:_REAL] = [1, -1, 1, -1, 1, -1]
        if cell.design == "Sparse-Ex4":
            coef[:_REAL] *= [1, 1, 5, 5, 10, 10]
    for one, other in pairs:
        covariance[one, other] = covariance[other, one] = cell.rho
    return covariance, coef


def _symmetric_root(covariance: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def _spectral_root(covariance: np.ndarray) -> np.ndarray:
    """The root used by MASS::mvrnorm: eigenvectors by falling eigenvalue, times their roots."""
    if np.array_equal(covariance, np.eye(len(covariance))):
        return covariance[::-1]
    values, vectors = eigh(covariance, driver="evr")
    return (vectors * np.sqrt(np.maximum(values, 0)))[:, ::-1].T
