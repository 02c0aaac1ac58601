"""The start of the chains: the best support that a search by single moves finds."""

import math

import numpy as np

from bmjax._posterior.prior import LEAST_SHARE, Evidence
from bmjax._posterior.sums import Sums
from bmjax._runtime import ladder
from bmjax._selection.climb import Rules
from bmjax._selection.gram import Rows
from bmjax._selection.neighbours import Noise
from bmjax._selection.subset import Stages, flat, from_nothing

_MOST_MOVES = 500


def starting_support(sums: Sums, evidence: Evidence, most: int) -> tuple[np.ndarray, float]:
    """A good support, and a lower limit of the share of y'y that any support leaves.

    Args:
        sums: The sums of the dataset.
        evidence: The evidence that judges supports; only its known noise is used.
        most: Size of the largest support.
    """
    f, n = sums.columns.shape
    if most == 0:
        return np.zeros(f, bool), LEAST_SHARE
    explains = np.einsum("kn,kn->k", sums.columns, sums.columns) > 0.5
    rows = Rows(sums.columns, sums.target, None, explains.astype(float))
    charge = 0.5 * math.log(max(sums.freedom, 2)) + math.log(max(f / max(n, 1), 1))
    known = None if evidence.precision is None else np.asarray(evidence.precision)
    noise = Noise(max(int(sums.freedom), 1), known, np.asarray(LEAST_SHARE))
    stages = Stages(lambda _: Rules(flat(charge, f, noise), noise, most, _MOST_MOVES))
    slots = ladder.slots(8, most)
    while True:
        with np.errstate(all="ignore"):
            end = from_nothing(rows, slots, stages)
        if not end.full or slots >= most:
            break
        slots = ladder.slots(4 * slots, most)
    least = LEAST_SHARE
    if sums.rows > f:
        fitted, *_ = np.linalg.lstsq(sums.columns.T, sums.target, rcond=None)
        least = float(np.sum((sums.target - fitted @ sums.columns) ** 2))
    return np.asarray(end.support), least
