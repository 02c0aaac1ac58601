"""The yardstick of Tian, Hurvich & Simonoff: best orthogonalised subset selection (BOSS).

Features are ordered by forward selection and made orthogonal in that order; the candidate of size m
keeps the m largest of the coefficients on the orthogonal basis. The best possible BOSS is the
candidate whose fitted mean is nearest to the true one, which only an oracle can choose. It is
compared with AICc with the authors' heuristic degrees of freedom, which needs no oracle.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

_HALVINGS = 60


class Path(NamedTuple):
    """The candidates of a dataset.

    Attributes:
        order: Features as forward selection takes them, (m,).
        basis: Orthonormal columns in that order, (n, m).
        scores: Coefficients of y on the basis, (m,).
        ranks: Positions in the basis by falling size of the coefficients, (m,).
    """

    order: np.ndarray
    basis: np.ndarray
    scores: np.ndarray
    ranks: np.ndarray

    def coef(self, X: np.ndarray, size: int) -> np.ndarray:
        """The effects of the candidate of a size, (p,), given the features it was made of."""
        kept = np.zeros(len(self.scores))
        kept[self.ranks[:size]] = self.scores[self.ranks[:size]]
        coef = np.zeros(X.shape[1])
        coef[self.order] = np.linalg.solve(self.basis.T @ X[:, self.order], kept)
        return coef

    def fits(self) -> np.ndarray:
        """The fitted means of sizes 0 to m, (n, m + 1)."""
        steps = self.basis[:, self.ranks] * self.scores[self.ranks]
        return np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)


def path(X: np.ndarray, y: np.ndarray) -> Path:
    """The BOSS path of one dataset, without an intercept.

    Args:
        X: Features (n, p), centred.
        y: Target (n,), centred.

    Returns:
        The path, of min(n - 1, p) steps.
    """
    order = forward_order(X, y, min(len(y) - 1, X.shape[1]))
    basis = np.linalg.qr(X[:, order])[0]
    scores = basis.T @ y
    return Path(order, basis, scores, np.argsort(-(scores**2), kind="stable"))


def forward_order(X: np.ndarray, y: np.ndarray, steps: int) -> np.ndarray:
    """Features in the order in which each lowers the sum of squares most, given the ones before it.

    A Cholesky factor of the cross-products is grown with the best feature as the pivot, so that a
    step costs one product of X with a column.
    """
    p = X.shape[1]
    factor = np.zeros((steps, p))
    left, products = (X**2).sum(axis=0), X.T @ y
    smallest = 1e-12 * left
    free, order = np.ones(p, bool), np.zeros(steps, int)
    for step in range(steps):
        score = np.full(p, -1.0)
        score[free] = products[free] ** 2 / np.maximum(left[free], smallest[free])
        best = int(score.argmax())
        row = X.T @ X[:, best] - factor[:step, best] @ factor[:step]
        row /= np.sqrt(max(left[best], smallest[best]))
        share = products[best] / np.sqrt(max(left[best], smallest[best]))
        factor[step], order[step], free[best] = row, best, False
        left, products = left - row**2, products - share * row
    return order


def errors(path: Path, mean: np.ndarray) -> np.ndarray:
    """Root mean squared error of the fitted mean of each size, (m + 1,)."""
    return np.sqrt(((path.fits() - mean[:, None]) ** 2).mean(axis=0))


def by_aicc(path: Path, y: np.ndarray, intercept: bool = False) -> int:
    """The size that AICc chooses with heuristic degrees of freedom; for p < n only.

    Args:
        path: The path, of all p features.
        y: The target, (n,).
        intercept: Whether a mean was subtracted from the data, which costs a degree of freedom.
    """
    n, squares = len(y), path.scores[path.ranks] ** 2
    rss = y @ y - np.concatenate([[0.0], np.cumsum(squares)])
    freedom = _freedom(path.scores, np.sqrt(rss[-1] / (n - len(squares)))) + intercept
    freedom = np.minimum(freedom, n - 3)
    return int(np.argmin(np.log(rss / n) + 2 * (freedom + 1) / (n - freedom - 2)))


def _freedom(scores: np.ndarray, noise: float) -> np.ndarray:
    """Heuristic degrees of freedom of sizes 0 to p: those of a hard threshold with that mean size.

    The threshold for each size is found by halving, where the estimated coefficients stand for the
    true ones.
    """
    p = len(scores)
    if p == 1:
        return np.array([0.0, 1.0])
    size = np.arange(1, p)
    low, high = np.zeros(p - 1), np.full(p - 1, np.abs(scores).max() + 10 * noise)

    def ends(threshold: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (threshold[:, None] - scores) / noise, (-threshold[:, None] - scores) / noise

    for _ in range(_HALVINGS):
        threshold = (low + high) / 2
        above, below = ends(threshold)
        too_many = (ndtr(-above) + ndtr(below)).sum(axis=1) > size
        low, high = np.where(too_many, threshold, low), np.where(too_many, high, threshold)
    above, below = ends(low)
    density = np.exp(-(above**2) / 2) + np.exp(-(below**2) / 2)
    search = low / noise * density.sum(axis=1) / np.sqrt(2 * np.pi)
    return np.concatenate([[0.0], size + search, [p]])
