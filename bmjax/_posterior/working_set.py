"""Working sets: the few of many features that a chain moves among for a round.

A working set holds the features of the support, the promising features (the core, which is fixed),
and others drawn at random. Given the support, all sets with the same number of random features are
equally likely. So moves within the set, with the set as a part of the state, leave the posterior
invariant if the probability of the set given the support is taken into account, and over time every
feature has its turn. X'X is formed only for the set.
"""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Bool, Float, Int

from bmjax._posterior.chains import Ground, Place, Tally, Visits, advanced, tally_at
from bmjax._posterior.prior import LEAST_SHARE
from bmjax._posterior.sweep import Edge, augmented, swept_to
from bmjax._runtime.backend import Array


def drawn(
    generator: np.random.Generator,
    support: Bool[np.ndarray, " f"],
    core: Bool[np.ndarray, " f"],
    width: int,
) -> np.ndarray:
    """Draw a working set for a support: the numbers of `width` features, in order.

    Args:
        generator: The random generator.
        support: Whether each feature is in the support.
        core: Whether each feature is always in the set.
        width: Number of features in the set.
    """
    certain = support | core
    others = np.flatnonzero(~certain)
    number = min(width - int(certain.sum()), len(others))
    chosen = generator.choice(others, number, replace=False)
    return np.sort(np.concatenate([np.flatnonzero(certain), chosen]))


def log_chance(k: int, core: int, width: int, sizes: int) -> np.ndarray:
    """Log probability of a working set, by the number of features outside the core in the support.

    Args:
        k: Number of features.
        core: Number of features that are always in the set.
        width: Number of features in the set.
        sizes: Number of sizes to list.
    """
    s = np.arange(sizes, dtype=float)
    many, few = k - core - s, np.maximum(width - core - s, 0)
    log = scipy.special.gammaln(many + 1) - scipy.special.gammaln(few + 1)
    log = -(log - scipy.special.gammaln(many - few + 1))
    return np.where(width - core - s >= 0, log, -np.inf)


def round_of_steps(  # noqa: PLR0913 - what differs by chain
    inside: Bool[Array, "c w"],
    elsewhere: Bool[Array, "c w"],
    anchors: Float[Array, "c w"],
    keys: Array,
    gram: Float[Array, "*c w w"],
    slope: Float[Array, "*c w"],
    ground: Ground,
    *,
    steps: int,
) -> tuple[Bool[Array, "c w"], Tally, Visits]:
    """Advance some chains by some steps, after recomputing their matrices from the sums.

    Args:
        inside: The supports of the chains.
        elsewhere: Whether each feature of a working set was drawn at random.
        anchors: Weights that the anchors of pairs are drawn by.
        keys: A random key for each chain.
        gram: X'X of the working sets, or of all features.
        slope: X'y.
        ground: The data that the chains share.
        steps: Number of steps.
    """

    def one(
        inside: Array, elsewhere: Array, anchors: Array, key: Array, gram: Array, slope: Array
    ) -> tuple:
        matrix, inside = swept_to(augmented(gram, slope), inside)
        draws = jax.random.uniform(key, (steps, 4), gram.dtype)
        place, own = (
            Place(matrix, inside),
            ground._replace(elsewhere=elsewhere, anchors=anchors),
        )
        place, tally, visits = advanced(place, own, draws)
        return place.inside, tally, visits

    of_each = 0 if gram.ndim == 3 else None
    return jax.vmap(one, in_axes=(0, 0, 0, 0, of_each, of_each))(
        inside, elsewhere, anchors, keys, gram, slope
    )


def at_large(
    slots: Int[Array, "c m"],
    columns: Float[Array, "f n"],
    target: Float[Array, " n"],
    ground: Ground,
) -> tuple[Tally, Float[Array, "c f"]]:
    """The sums over all features at the supports of some chains, and the gain of each feature.

    Args:
        slots: The support of each chain, f in empty slots.
        columns: The features, of unit length.
        target: y, of unit length.
        ground: The data that the chains share.

    Returns:
        The sums of `advanced`, for a time of one; and for each feature the largest drop of
        ||residual||^2 by its addition or its exchange for one that is in, relative to
        ||residual||^2.
    """
    f = len(columns)

    def one(slots: Int[Array, " m"]) -> tuple[Tally, Array]:
        used = slots < f
        own = jnp.where(used[:, None], columns[jnp.minimum(slots, f - 1)], 0)
        matrix, inside = swept_to(augmented(own @ own.T, own @ target), used)
        m = len(slots)
        both = inside[:, None] & inside[None, :]
        inverse = jnp.where(both, -matrix[:m, :m], 0)
        effect = jnp.where(inside, matrix[m, :m], 0)
        products = columns @ own.T
        reach = products @ inverse
        place = jnp.where(inside, slots, f)
        variance = jnp.diagonal(inverse)
        free = 1 - jnp.sum(reach * products, axis=1)
        slope = columns @ (target - effect @ own)
        edge = Edge(
            own=free.at[place].set(-variance, mode="drop"),
            slope=slope.at[place].set(effect, mode="drop"),
            square=matrix[m, m],
            inside=jnp.zeros(f, bool).at[place].set(True, mode="drop"),
            size=jnp.sum(inside, dtype=jnp.int32),
        )
        # The closed form of an exchange, from the part of the column left once the other is out.
        safe = jnp.where(inside, variance, 1)
        then_free = free[:, None] + reach**2 / safe[None, :]
        then_slope = slope[:, None] + reach * (effect / safe)[None, :]
        gain = then_slope**2 / jnp.maximum(then_free, 1e-6) - (effect**2 / safe)[None, :]
        best = jnp.max(jnp.where(inside[None, :], gain, -jnp.inf), axis=1)
        best = jnp.maximum(best, slope**2 / jnp.maximum(free, 1e-6))
        return tally_at(ground, edge), best / jnp.maximum(edge.square, LEAST_SHARE)

    return jax.lax.map(one, slots)
