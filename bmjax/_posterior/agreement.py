"""What the rounds of some chains come to, and how far the chains agree."""

from typing import NamedTuple

import numpy as np

from bmjax._posterior.chains import Tally, Visits

_SPLIT_R_HAT = 1.1  # chains that agree by less than this are said to have mixed


class Agreement(NamedTuple):
    """What the chains say.

    Attributes:
        probability: Of each feature.
        error: Its Monte Carlo standard error, from the spread between chains.
        coef: Mean of the effects.
        square: Mean of their squares.
        r_hat: Of the log posterior, between and within halves of chains.
    """

    probability: np.ndarray
    error: np.ndarray
    coef: np.ndarray
    square: np.ndarray
    r_hat: float

    def agreed(self, tolerance: float) -> bool:
        """Whether no probability is off by more than a tolerance, as far as the chains tell."""
        return bool(np.nanmax(self.error, initial=0) <= tolerance) and self.r_hat < _SPLIT_R_HAT


class Kept:
    """The rounds of the chains of a dataset.

    Args:
        sizes: How many sizes a support may have, from none on.
        mark: A random number for each feature; their sum tells a support from another.
    """

    def __init__(self, sizes: int, mark: np.ndarray):
        self.sizes, self.mark = sizes, mark
        self.tallies: list[Tally] = []
        self.visits: list[Visits] = []
        self.sets: list[np.ndarray] = []

    def add(self, tally: Tally, visits: Visits, inside: np.ndarray, sets: np.ndarray) -> None:
        """One round: sums by chain and feature, visits, and the features that these speak of."""
        self.tallies.append(tally)
        self.visits.append(visits._replace(inside=inside))
        self.sets.append(sets)

    def supports(
        self, burn: int, count: int
    ) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
        """Distinct supports after some rounds, their share of the time, in all and by chain.

        Args:
            burn: How many rounds to leave out.
            count: Most supports. Where there are more, the most frequent ones and a systematic
                sample of the others, which stand for all of them.

        Returns:
            The features of each support, its share, how that divides among the chains (the share
            of a support in each chain's time), and the share of each size.
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
        # How those that stand for themselves share what they have in all is known exactly.
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
    """Some of many weights, in falling order, that stand for all: their places, and new weights.

    Those above a threshold stay as they are; of the rest as many are taken, evenly along their
    sums, as the threshold goes into them, and each gets the threshold.
    """
    if len(weight) <= count:
        return np.arange(len(weight)), weight
    rest = np.cumsum(weight[::-1])[::-1]  # of each and all after it
    # The first place from which on the others are no more than the room that is left for them.
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
    """What the chains say after the first rounds.

    Args:
        kept: The rounds.
        burn: How many to leave out.
    """
    time, probability, coef, square = (
        np.sum(np.stack(leaves), axis=0) for leaves in zip(*kept.tallies[burn:], strict=True)
    )
    total = np.sum(time, axis=0)
    mean = np.sum(probability, axis=0) / total
    chains = len(time)
    away = (probability - mean[None] * time) / (total[None] / chains)
    error = np.sqrt(np.sum(away**2, axis=0) / (chains * (chains - 1)))
    coef, square = np.sum(coef, axis=0) / total, np.sum(square, axis=0) / total
    return Agreement(mean, error, coef, square, _r_hat(kept, burn))


def _r_hat(kept: Kept, burn: int) -> float:
    """Of the log posterior, from the halves of each chain (Gelman and Rubin, split)."""
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
