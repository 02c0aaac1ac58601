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
_PAIRS, _FEW, _MANY = 2**17, 8, 256


def with_best_pair(source: Source, slab: Slab) -> tuple[Slab, Bool[Array, ""]]:
    """The slab with the two further features that explain the most together, to be refreshed.

    Of what the kept columns leave of two others, at unit length, let c be the product with each
    other and z, w those with the residual. Then adding both subtracts (z^2 + w^2 - 2 c z w) / (1 -
    c^2) from ||residual||^2.

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
    scale = xp.where(may, 1 / xp.sqrt(xp.where(may, free, 1)), 0)
    z, least = slab.slope * scale, xp.where(may, rank * scale**2, 1)
    first = xp.arange(k, dtype=xp.int32)
    if count < k:
        first = xp.argsort(-(z**2), stable=True)[:count].astype(xp.int32)
    cross = source.rows(first) - slab.gram[:, first].T @ slab.reach
    cross = cross * (scale[first][:, None] * scale[None, :])
    left, own = 1 - cross**2, z[first][:, None]
    gain = (own**2 + z[None, :] ** 2 - cross * (2 * own * z[None, :])) / xp.where(left > 0, left, 1)
    both = left > xp.maximum(least[first][:, None], least[None, :])
    both = both & (first[:, None] != xp.arange(k, dtype=xp.int32)[None, :])
    best = xp.argmax(xp.where(both, gain, -xp.inf))
    at = best // k, best % k
    pair = xp.stack([first[at[0]], at[1].astype(xp.int32)])
    turned = z[pair] - cross[at] * z[pair[::-1]]
    coefs = scale[pair] * turned / xp.where(left[at] > 0, left[at], 1)
    one = xp.argmin(slab.used)
    spare = xp.stack([one, xp.argmin(put(slab.used, one, True))])
    more = slab._replace(
        features=put(slab.features, spare, pair),
        gram=put(slab.gram, spare, source.rows(pair)),
        coef=put(slab.coef - slab.reach[:, pair] @ coefs, spare, coefs),
        square=xp.maximum(slab.square - gain[at], 0),
    )
    return more, both[at] & (slab.size + 2 <= m)
