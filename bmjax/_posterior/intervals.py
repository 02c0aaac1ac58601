"""Quantiles of a mixture of Student's t distributions and a mass at zero."""

from typing import Any

import numpy as np
import scipy.special

_HALVINGS = 60


def quantiles(at: float, posterior: Any) -> np.ndarray:
    """The quantile of the effect of each feature, (k,).

    Args:
        at: Probability of the quantile, between 0 and 1.
        posterior: The `Posterior` of one dataset, in NumPy arrays.
    """
    found = np.zeros(len(posterior.coef))
    mixture, freedom = posterior.mixture, float(posterior.mixture.freedom)
    real = mixture.features < len(found)
    features = mixture.features[real]
    share = np.where(mixture.inside[:, real], mixture.probability[:, None], 0)
    total, probability = share.sum(axis=0), posterior.probability[features]
    some = (total > 0) & (probability > 0)
    if not some.any():
        return found
    share, p = share[:, some] / total[some], probability[some]
    mean, deviation = (a[:, real][:, some] for a in (mixture.mean, mixture.deviation))
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
    found[features[some]] = np.where(moved, (low + high) / 2, 0)
    return found
