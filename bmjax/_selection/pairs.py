"""The addition of two features at once, where neither alone is worth its charge.

Two features that are alike and act with opposite signs cancel: each alone explains next to nothing,
so no single move leads to them, but together they may explain most of y.
"""

from jaxtyping import Bool

from bmjax._runtime import ladder
from bmjax._runtime.backend import Array, namespace, put
from bmjax._selection.slab import Slab, Source

# One of the two is among some that alone explain the most, the other is any feature: so many pairs,
# or those of a few features if there are very many.
_PAIRS, _FEW, _MANY = 2**18, 8, 256


def with_best_pair(source: Source, slab: Slab) -> tuple[Slab, Bool[Array, ""]]:
    """The slab with the two further features that explain the most together, to be refreshed.

    With r = X'residual and P the products of what the kept columns leave of the others, adding i
    and j subtracts (r_i, r_j) P_ij^-1 (r_i, r_j)' from ||residual||^2, where P_ij is the 2 x 2 part
    of P.

    Args:
        source: The sums of the dataset.
        slab: The present subset.

    Returns:
        The slab, with its coefficients and ||residual||^2, and whether there are slots for two more
        features and two that are not combinations of the others.
    """
    xp = namespace(slab.gram)
    m, k = slab.gram.shape
    # By the rung of k, so that features of zeros that only fill it up do not matter.
    count = min(max(_PAIRS // ladder.features(k), _FEW), _MANY, k)
    rank = 100 * m * xp.finfo(slab.gram.dtype).eps  # as in `squares_after`
    free = slab.left_over
    may = ~slab.kept & (free > rank)
    first = xp.arange(k, dtype=xp.int32)
    if count < k:
        alone = xp.where(may, slab.slope**2 / xp.where(may, free, 1), -1)
        first = xp.argsort(-alone, stable=True)[:count].astype(xp.int32)
    own, other = free[first][:, None], free[None, :]
    slope, slope_of_other = slab.slope[first][:, None], slab.slope[None, :]
    cross = source.rows(first) - slab.gram[:, first].T @ slab.reach
    determinant = own * other - cross**2
    same = first[:, None] == xp.arange(k, dtype=xp.int32)[None, :]
    both = may[first][:, None] & may[None, :] & ~same
    both = both & (determinant > rank * xp.maximum(own, other))
    determinant = xp.where(both, determinant, 1)
    coef = (slope * other - slope_of_other * cross) / determinant
    coef_of_other = (slope_of_other * own - slope * cross) / determinant
    gain = xp.where(both, slope * coef + slope_of_other * coef_of_other, -xp.inf)
    best = xp.argmax(gain)
    at = best // k, best % k
    pair = xp.stack([first[at[0]], at[1].astype(xp.int32)])
    coefs = xp.stack([coef[at], coef_of_other[at]])
    one = xp.argmin(slab.used)
    spare = xp.stack([one, xp.argmin(put(slab.used, one, True))])
    more = slab._replace(
        features=put(slab.features, spare, pair),
        gram=put(slab.gram, spare, source.rows(pair)),
        coef=put(slab.coef - slab.reach[:, pair] @ coefs, spare, coefs),
        square=xp.maximum(slab.square - gain[at], 0),
    )
    return more, xp.isfinite(gain[at]) & (slab.size + 2 <= m)
