"""The designs of Hastie, Tibshirani & Tibshirani (2017), arXiv 1707.08692: their `sim.xy`.

The features are normal with covariance rho^|i - j|, there are five types of effects, and the noise
gives a set ratio of signal to noise variance. Each dataset has n rows, and n more for tuning the
published methods.
"""

import itertools
from typing import NamedTuple

import numpy as np

SETTINGS = {"low": (100, 10, 5), "medium": (500, 100, 5), "high-5": (50, 1000, 5)}
SETTINGS["high-10"] = (100, 1000, 10)
TYPES, CORRELATIONS = (1, 2, 3, 5), (0.0, 0.35, 0.7)
RATIOS = (0.05, 0.0851, 0.1449, 0.2466, 0.4198, 0.7146, 1.2164, 2.0707, 3.5248, 6.0)
_SEED = 1707


class Cell(NamedTuple):
    """A cell: n rows, p features of which s act, the type of effects, correlation and ratio."""

    n: int
    p: int
    s: int
    beta: int
    rho: float
    snr: float


class Drawn(NamedTuple):
    """Datasets of a cell: X (b, 2n, p) and y (b, 2n), of which the first n rows are the data.

    Attributes:
        X: Features.
        y: Targets.
        coef: True effects, (p,).
        covariance: Of the features, (p, p).
        noise: Variance of the noise.
    """

    X: np.ndarray
    y: np.ndarray
    coef: np.ndarray
    covariance: np.ndarray
    noise: float


def cells(setting: str) -> list[Cell]:
    """The cells of a setting."""
    grid = itertools.product(TYPES, CORRELATIONS, RATIOS)
    return [Cell(*SETTINGS[setting], *rest) for rest in grid]


def draw(cell: Cell, draws: int) -> Drawn:
    """Datasets of a cell; the first ones do not depend on their number."""
    coef = effects(cell)
    at = np.arange(cell.p)
    covariance = cell.rho ** np.abs(at[:, None] - at)
    noise = float(coef @ covariance @ coef / cell.snr)
    seed = [_SEED, cell.n, cell.p, cell.beta, round(100 * cell.rho), round(1e4 * cell.snr)]
    rng = np.random.default_rng(seed)
    X = np.empty((draws, 2 * cell.n, cell.p))
    y = np.empty(X.shape[:2])
    for i in range(draws):
        X[i] = rng.normal(size=X.shape[1:])
        for j in range(1, cell.p if cell.rho else 0):  # the chain has covariance rho^|i - j|
            X[i, :, j] = cell.rho * X[i, :, j - 1] + np.sqrt(1 - cell.rho**2) * X[i, :, j]
        y[i] = X[i] @ coef + np.sqrt(noise) * rng.normal(size=X.shape[1])
    return Drawn(X, y, coef, covariance, noise)


def effects(cell: Cell) -> np.ndarray:
    """The true effects of a cell, (p,)."""
    coef = np.zeros(cell.p)
    if cell.beta == 1:  # spread evenly
        coef[np.round(np.linspace(1, cell.p, cell.s)).astype(int) - 1] = 1
    elif cell.beta == 2:
        coef[: cell.s] = 1
    elif cell.beta == 3:
        coef[: cell.s] = np.linspace(10, 0.5, cell.s)
    else:  # weak effects behind the strong ones
        coef[: cell.s] = 1
        coef[cell.s :] = 0.5 ** np.arange(1, cell.p - cell.s + 1)
    return coef
