"""Quantiles of a mixture of Student's t distributions and a mass at zero."""

import numpy as np
import scipy.special

_HALVINGS = 60


def quantiles(  # noqa: PLR0913 - one posterior, by support and feature
    at: float,
    probability: np.ndarray,
    inside: np.ndarray,
    weight: np.ndarray,
    mean: np.ndarray,
    deviation: np.ndarray,
    freedom: float,
) -> np.ndarray:
    """The quantile of each effect, (u,).

    Args:
        at: Probability of the quantile, between 0 and 1.
        probability: (u,) probability that each feature is in; the rest is the mass at zero.
        inside: (t, u) whether each feature is in each support.
        weight: (t,) probability of each support.
        mean: (t, u) mean of each effect given the support.
        deviation: (t, u) standard deviation of each effect given the support.
        freedom: Degrees of freedom, infinite for normal effects.
    """
    found = np.zeros(len(probability))
    share = np.where(inside, weight[:, None], 0)
    total = share.sum(axis=0)
    some = (total > 0) & (probability > 0)
    if not some.any():
        return found
    share = share[:, some] / total[some]
    mean, deviation, p = mean[:, some], deviation[:, some], probability[some]
    shrink = np.sqrt((freedom - 2) / freedom) if 2 < freedom < np.inf else 1.0
    scale = np.where(deviation > 0, deviation * shrink, 1)

    def below(x: np.ndarray) -> np.ndarray:
        z = (x - mean) / scale
        tail = scipy.special.ndtr(z) if freedom > 1e3 else scipy.special.stdtr(freedom, z)
        return np.sum(share * np.where(deviation > 0, tail, x >= mean), axis=0)

    under = p * below(np.zeros(len(p)))  # without the mass at zero
    wanted = np.where(under >= at, at / p, (at - (1 - p)) / p)
    moved = (under >= at) | (under + 1 - p < at)
    wanted = np.where(moved, np.clip(wanted, 0, 1), 0.5)
    present = share > 0
    low = np.min(np.where(present, mean - 40 * scale, np.inf), axis=0)
    high = np.max(np.where(present, mean + 40 * scale, -np.inf), axis=0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        less = below(middle) < wanted
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    found[some] = np.where(moved, (low + high) / 2, 0)
    return found
