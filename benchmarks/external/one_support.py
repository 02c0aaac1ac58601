"""How near to the best any single support can come, whatever the charge for a feature.

This is measured on the eight cells of p = 30, with the best subset of every size, and least squares
on the one that a rule chooses. The rules are constant charges, the evidence under a g-prior, and
oracles that know the errors. An oracle is not a method, but no choice of a size among best subsets
can have a smaller error than it has.
"""

import numpy as np
import pandas as pd
from scipy.special import gammaln, logsumexp

from benchmarks import estimators
from benchmarks.external import boss, tian
from benchmarks.external.ledger import Options
from benchmarks.external.methods import default_fit

_MOST = 16  # features of the largest subset; six act
_CHARGES = np.arange(0.5, 6.05, 0.1)
_WIDTHS = np.exp(np.linspace(np.log(0.05), np.log(1e5), 60))


def one_support(options: Options) -> dict[str, pd.DataFrame]:
    """One row per rule: percent worse than the best possible BOSS, by cell and on average."""
    draws = options.number(30)
    cells = [
        tian.Cell(design, 200, 30, rho, ratio)
        for design in ("Sparse-Ex3", "Sparse-Ex4")
        for rho in (0.5, 0.9)
        for ratio in (7.0, 0.2)
    ]
    cells = cells[: 2 if options.quick else None]
    found = [_of_cell(cell, draws) for cell in cells]
    table = pd.DataFrame(found, index=[f"{c.design[-3:]} {c.rho} {c.snr}" for c in cells]).T
    return {"one_support": table.assign(mean=table.mean(axis=1)).rename_axis("rule").reset_index()}


def _of_cell(cell: tian.Cell, draws: int) -> dict[str, float]:
    """Percent by which each rule is worse."""
    data = tian.draw(cell, draws)
    best = np.array([boss.errors(boss.path(data.X, y), data.mean).min() for y in data.y])
    squares, errors = (np.array(a) for a in zip(*(_sizes(data, y) for y in data.y), strict=True))

    def worse(sizes: np.ndarray) -> float:
        mean = np.take_along_axis(errors, sizes[:, None], axis=1).mean()
        return float(100 * (mean / best.mean() - 1))

    size, deviance = np.arange(_MOST + 1), cell.n / 2 * np.log(squares)
    supports = gammaln(cell.p + 1) - gammaln(size + 1) - gammaln(cell.p - size + 1)
    constant = {c: worse((deviance + c * size).argmin(axis=1)) for c in _CHARGES}
    evidence = _evidence(squares, cell.n)
    missed = (default_fit(data.X, data.y).coef - data.coef) @ data.X.T
    return {
        "fit": float(100 * (np.sqrt((missed**2).mean(axis=1)).mean() / best.mean() - 1)),
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
    for size in range(1, _MOST + 1):
        coef = estimators.abess(data.X, y, support_size=[size], exchange_num=5, max_iter=50)
        chosen = np.flatnonzero(coef)
        fitted = data.X[:, chosen] @ np.linalg.lstsq(data.X[:, chosen], y, rcond=None)[0]
        squares.append(((y - fitted) ** 2).sum())
        errors.append(np.sqrt(((fitted - data.mean) ** 2).mean()))
    return np.array(squares), np.array(errors)


def _evidence(squares: np.ndarray, n: int) -> np.ndarray:
    """Log evidence of the sizes, (b, sizes), g integrated out under the hyper-g/n prior.

    Liang, Paulo, Molina, Clyde and Berger, "Mixtures of g priors for Bayesian variable selection",
    Journal of the American Statistical Association, 2008, equation (6) for a given g.
    """
    size, left = np.arange(squares.shape[1]), squares / squares[:, :1]
    g = _WIDTHS[:, None, None]
    given = (n - size) / 2 * np.log1p(g) - n / 2 * np.log1p(g * left)
    return np.asarray(logsumexp(given - 1.5 * np.log1p(g / n) + np.log(g), axis=0))
