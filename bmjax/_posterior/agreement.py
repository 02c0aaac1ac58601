"""The rounds of several chains: their sums, their supports, and the agreement between chains."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bmjax._posterior.chains import Tally, Visits

_MOST_CONTROLS = 96  # features, above which the regression costs more than it saves
_PARTS = 4  # of the chains: the drift of each is weighed by what the others show
_RIDGE = 0.5  # relative to the sum of squares of a drift; with less, errors are too hopeful
_SPLIT_R_HAT = 1.1  # chains with a split R-hat below this count as mixed


class Agreement(NamedTuple):
    """The estimates from chains, and their errors.

    Attributes:
        probability: (k,) probability of each feature.
        error: (k,) Monte Carlo standard error of the probability, from the spread between chains.
        coef: (k,) mean of the effects.
        square: (k,) mean of the squares of the effects.
        r_hat: R-hat of the log posterior, from the variance between and within halves of chains.
    """

    probability: np.ndarray
    error: np.ndarray
    coef: np.ndarray
    square: np.ndarray
    r_hat: float

    def agreed(self, tolerance: float) -> bool:
        """Whether no Monte Carlo error exceeds a tolerance, and the chains have mixed."""
        return bool(np.nanmax(self.error, initial=0) <= tolerance) and self.r_hat < _SPLIT_R_HAT


class Kept:
    """The record of the rounds of a dataset's chains.

    Args:
        sizes: Number of possible sizes of a support, from 0 on.
        mark: A random number for each feature; the sum over a support identifies it.
    """

    def __init__(self, sizes: int, mark: np.ndarray):
        self.sizes, self.mark = sizes, mark
        self.tallies: list[Tally] = []
        self.visits: list[Visits] = []
        self.sets: list[np.ndarray] = []

    def add(self, tally: Tally, visits: Visits, inside: np.ndarray, sets: np.ndarray) -> None:
        """Add a round: sums by chain and feature, visits, and the features in each working set."""
        self.tallies.append(tally)
        self.visits.append(visits._replace(inside=inside))
        self.sets.append(sets)

    def supports(
        self, burn: int, count: int
    ) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
        """Distinct supports after the first rounds, and their shares of the time.

        Args:
            burn: Number of first rounds to leave out.
            count: Largest number of supports. If there are more, these are the most frequent ones
                and a systematic sample that represents the others.

        Returns:
            The features of each support, its share of the time, its share of the time of each
            chain, and the share of each size.
        """
        visits, sets = self.visits[burn:], self.sets[burn:]
        marks = [
            np.einsum("ctw,cw->ct", a.inside, self.mark[b]).ravel()
            for a, b in zip(visits, sets, strict=True)
        ]
        size = np.concatenate([a.inside.sum(axis=2).ravel() for a in visits])
        hold = np.concatenate([a.hold.ravel() for a in visits])
        by_size = np.bincount(size, hold, self.sizes)[: self.sizes] / hold.sum()
        _, where, which = np.unique(np.concatenate(marks), return_index=True, return_inverse=True)
        chains, steps = visits[0].hold.shape
        chain = np.tile(np.repeat(np.arange(chains), steps), len(visits))
        by_chain = np.bincount(which.ravel() * chains + chain, hold, len(where) * chains)
        by_chain = by_chain.reshape(len(where), chains) / hold.sum()
        weight = by_chain.sum(axis=1)
        order = np.argsort(-weight, kind="stable")
        where, weight, by_chain = where[order], weight[order], by_chain[order]
        before = weight
        log = np.concatenate([a.log.ravel() for a in visits])[where]
        chosen, weight = few_of(weight, count)
        # The ratios between supports that represent only themselves are known exactly.
        alone = (
            len(weight) if len(where) <= count else int(np.sum(weight > weight[-1] * (1 + 1e-9)))
        )
        share = np.exp(log[:alone] - np.max(log[:alone], initial=-np.inf))
        weight[:alone] = weight[:alone].sum() * share / max(share.sum(), 1e-300)
        order = np.argsort(-weight, kind="stable")
        chosen, weight = chosen[order], weight[order]
        features = []
        for place in where[chosen]:
            r, rest = divmod(int(place), chains * steps)
            c, t = divmod(rest, steps)
            features.append(sets[r][c][visits[r].inside[c, t]])
        scale = chains * weight / before[chosen]
        return features, weight, by_chain[chosen] * scale[:, None], by_size


def few_of(weight: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """A few of many weights in falling order that represent all: their places and new weights.

    Weights above a threshold are kept. Of the others, a systematic sample along their cumulative
    sum is taken, and each of its members gets the threshold as weight.
    """
    if len(weight) <= count:
        return np.arange(len(weight)), weight
    rest = np.cumsum(weight[::-1])[::-1]  # sum of each weight and all after it
    # The first place whose weight, times the number still free, is no more than the rest.
    room = count - np.arange(count)
    large = int(np.argmax(weight[:count] * room <= rest[:count]))
    step = rest[large] / (count - large)
    sums = np.cumsum(weight[large:])
    places = np.searchsorted(sums, (np.arange(count - large) + 0.5) * step)
    places = large + np.minimum(places, len(sums) - 1)
    chosen = np.concatenate([np.arange(large), places])
    kept, times = np.unique(chosen, return_counts=True)
    return kept, np.where(kept < large, weight[kept], times * step)


def agreement(kept: Kept, burn: int) -> Agreement:
    """The estimates from the chains after the first rounds.

    Args:
        kept: The rounds.
        burn: Number of first rounds to leave out.
    """
    time, probability, coef, square, drift = (
        np.stack(leaves) for leaves in zip(*kept.tallies[burn:], strict=True)
    )
    total = np.sum(time, axis=(0, 1))
    mean = np.sum(probability, axis=(0, 1)) / total
    chains = time.shape[1]
    own = total / chains  # the time of a chain
    away = (probability - mean * time) / own
    if len(mean) <= _MOST_CONTROLS:
        away = without_drift(away, drift / own)
    by_chain = np.sum(away, axis=0)
    shift = np.mean(by_chain, axis=0)
    error = np.sqrt(np.sum((by_chain - shift) ** 2, axis=0) / (chains * (chains - 1)))
    coef, square = (np.sum(a, axis=(0, 1)) / total for a in (coef, square))
    return Agreement(np.clip(mean + shift, 0, 1), error, coef, square, _r_hat(kept, burn))


def without_drift(
    away: Float[np.ndarray, "r c f"], drift: Float[np.ndarray, "r c f"]
) -> Float[np.ndarray, "r c f"]:
    """Deviations of rounds and chains from the mean, less what their drift explains.

    In the posterior as many flips lead into a support as out of it, so the mean drift is zero: it
    is noise that can be seen, and most noise of a probability is a linear function of it (control
    variates for reversible chains: Dellaportas and Kontoyiannis, 2012). The function is found by
    ridge regression on the rounds of other chains, so that errors are what they say.
    """
    chains, f = away.shape[1:]
    part = np.arange(chains) % _PARTS
    left = np.empty_like(away)
    for i in range(_PARTS):
        mine = part == i
        x, z = (a[:, ~mine].reshape(-1, f) for a in (drift, away))
        products = x.T @ x
        own = np.diagonal(products)
        products = products + np.diag(_RIDGE * own + max(1e-9 * own.sum(), 1e-200))
        left[:, mine] = away[:, mine] - drift[:, mine] @ np.linalg.solve(products, x.T @ z)
    return left


def _r_hat(kept: Kept, burn: int) -> float:
    """The split R-hat of Gelman and Rubin of the log posterior, from the halves of each chain."""
    log = np.concatenate([visits.log for visits in kept.visits[burn:]], axis=1)
    hold = np.concatenate([visits.hold for visits in kept.visits[burn:]], axis=1)
    half = log.shape[1] // 2
    log = np.concatenate([log[:, :half], log[:, half : 2 * half]])
    hold = np.concatenate([hold[:, :half], hold[:, half : 2 * half]])
    weight = hold / hold.sum(axis=1, keepdims=True)
    mean = np.sum(weight * log, axis=1)
    within = np.mean(np.sum(weight * (log - mean[:, None]) ** 2, axis=1))
    between = np.var(mean, ddof=1)
    return float(np.sqrt(1 + between / within)) if within > 0 else 1.0
