"""How near to the best any single support can come, whatever the charge for a feature.

This is measured on the eight cells of p = 30, with the best subset of every size, and least squares
on the one that a rule chooses. The rules are constant charges, the evidence under a g-prior, and
oracles that know the errors. An oracle is not a method, but no choice of a size among best subsets
can have a smaller error than it has.
"""

import numpy as np
import pandas as pd
from scipy.special import gammaln, logsumexp

from benchmarks.external import boss, tian
from benchmarks.external.ledger import Options
from benchmarks.external.methods import default_fit

_MOST = 16  # features of the largest subset; six act
_CHARGES = np.arange(0.5, 6.05, 0.1)
_WIDTHS = np.exp(np.linspace(np.log(0.05), np.log(1e5), 60))


def one_support(options: Options) -> dict[str, pd.DataFrame]:
    """One row per rule: percent worse than the best possible BOSS, by cell and on average."""
    draws = options.number(30)
    cells = tian.EIGHT[: 2 if options.quick else None]
    found = [_of_cell(cell, draws) for cell in cells]
    table = pd.DataFrame(found, index=[f"{c.design[-3:]} {c.rho} {c.snr}" for c in cells]).T
    return {"one_support": table.assign(mean=table.mean(axis=1)).rename_axis("rule").reset_index()}


def _of_cell(cell: tian.Cell, draws: int) -> dict[str, float]:
    """Percent by which each rule is worse."""
    data = tian.draw(cell, draws)
    best = np.array([boss.errors(boss.path(data.X, y), data.mean).min() for y in data.y])
    squares, errors = (np.array(a) for a in zip(*(_sizes(data, y) for y in data.y), strict=True))

    def percent(rmse: np.ndarray) -> float:
        return float(100 * (rmse.mean() / best.mean() - 1))

    def worse(sizes: np.ndarray) -> float:
        return percent(np.take_along_axis(errors, sizes[:, None], axis=1))

    size, deviance = np.arange(_MOST + 1), cell.n / 2 * np.log(squares)
    supports = gammaln(cell.p + 1) - gammaln(size + 1) - gammaln(cell.p - size + 1)
    constant = {c: worse((deviance + c * size).argmin(axis=1)) for c in _CHARGES}
    evidence = _evidence(squares, cell.n)
    missed = (default_fit(data.X, data.y).coef - data.coef) @ data.X.T
    return {
        "fit": percent(np.sqrt((missed**2).mean(axis=1))),
        **{f"{c:.1f} nats": constant[c] for c in _CHARGES[5::5]},
        "BIC": worse((deviance + np.log(cell.n) / 2 * size).argmin(axis=1)),
        "AICc": worse((deviance + cell.n * (size + 1) / (cell.n - size - 2)).argmin(axis=1)),
        "g-prior, every support alike": worse(evidence.argmax(axis=1)),
        "g-prior, half the charge of the size": worse((evidence - supports / 2).argmax(axis=1)),
        "g-prior, every size alike": worse((evidence - supports).argmax(axis=1)),
        "oracle: the cell's best charge": min(constant.values()),
        "oracle: the cell's best size": min(worse(np.full(draws, m)) for m in size),
        "oracle: the dataset's best size": worse(errors.argmin(axis=1)),
    }


def _sizes(data: tian.Drawn, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum of squares and error of the fitted mean of the best subset of sizes 0 to the largest."""
    squares, errors = [y @ y], [np.sqrt((data.mean**2).mean())]
    for chosen in _best_subsets(data.X, y):
        fitted = data.X[:, chosen] @ np.linalg.lstsq(data.X[:, chosen], y, rcond=None)[0]
        squares.append(((y - fitted) ** 2).sum())
        errors.append(np.sqrt(((fitted - data.mean) ** 2).mean()))
    return np.array(squares), np.array(errors)


def _best_subsets(X: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """The best subset of each size from 1 that no exchange of a feature betters.

    Each is the better of two: from the best one of a feature less, and from the features that are
    left when all but so many have been dropped one by one.
    """
    gram, cross, p = X.T @ X, X.T @ y, X.shape[1]

    def best(subsets: np.ndarray) -> np.ndarray:
        matrices = gram[subsets[:, :, None], subsets[:, None, :]]
        coefs = np.linalg.solve(matrices, cross[subsets][..., None])[..., 0]
        return subsets[(cross[subsets] * coefs).sum(axis=1).argmax()]

    def exchanged(chosen: np.ndarray) -> np.ndarray:
        others = np.setdiff1d(np.arange(p), chosen)
        moves = np.repeat(chosen[None], len(chosen) * len(others) + 1, axis=0)
        places = np.repeat(np.arange(len(chosen)), len(others))
        moves[np.arange(len(places)), places] = np.tile(others, len(chosen))
        after = best(moves)
        return chosen if set(after) == set(chosen) else exchanged(after)

    left, dropped = np.arange(p), {}
    while len(left) > 1:
        dropped[len(left)] = left
        left = best(np.stack([np.delete(left, i) for i in range(len(left))]))
    dropped[1], subsets, last = left, [], np.zeros(0, int)
    for size in range(1, _MOST + 1):
        others = np.setdiff1d(np.arange(p), last)
        grown = best(np.stack([np.append(last, feature) for feature in others]))
        last = best(np.stack([exchanged(grown), exchanged(dropped[size])]))
        subsets.append(last)
    return subsets


def _evidence(squares: np.ndarray, n: int) -> np.ndarray:
    """Log evidence of the sizes, (b, sizes), g integrated out under the hyper-g/n prior.

    Liang, Paulo, Molina, Clyde and Berger, "Mixtures of g priors for Bayesian variable selection",
    Journal of the American Statistical Association, 2008, equation (6) for a given g.
    """
    size, left = np.arange(squares.shape[1]), squares / squares[:, :1]
    g = _WIDTHS[:, None, None]
    given = (n - size) / 2 * np.log1p(g) - n / 2 * np.log1p(g * left)
    return np.asarray(logsumexp(given - 1.5 * np.log1p(g / n) + np.log(g), axis=0))
