"""Least squares on a subset, and every drop, addition and exchange from it in closed form."""

from typing import NamedTuple, Protocol

from jaxtyping import Bool, Float, Int

from bmjax._model.linalg import inverse_factor
from bmjax._runtime.backend import Array, cond, fori_loop, namespace, put, take


class Source(Protocol):
    """The sums over samples that a search reads, for columns of unit length."""

    def row(self, feature: Int[Array, ""]) -> Float[Array, " k"]:
        """The products of one column with all columns."""
        ...

    def rows(self, features: Int[Array, " c"]) -> Float[Array, "c k"]:
        """The products of some columns with all columns."""
        ...

    def leftover(
        self, features: Int[Array, " m"], coef: Float[Array, " m"]
    ) -> tuple[Float[Array, " k"], Float[Array, ""]]:
        """X'residual and ||residual||^2 at coefficients of some features."""
        ...


class Slab(NamedTuple):
    """Least squares on a subset of unit columns, with the products that a move needs.

    Attributes:
        features: The feature in each slot; k for an empty slot.
        gram: The products of the kept columns with all columns, zero in empty slots.
        inverse: V, the inverse of X'X over the slots, zero in empty ones.
        reach: H = V gram.
        coef: The coefficients, b.
        slope: r = X'residual.
        square: ||residual||^2.
    """

    features: Int[Array, " m"]
    gram: Float[Array, "m k"]
    inverse: Float[Array, "m m"]
    reach: Float[Array, "m k"]
    coef: Float[Array, " m"]
    slope: Float[Array, " k"]
    square: Float[Array, ""]

    @property
    def used(self) -> Bool[Array, " m"]:
        """Whether each slot holds a feature."""
        return self.features < len(self.slope)

    @property
    def kept(self) -> Bool[Array, " k"]:
        """Whether each feature has a slot."""
        return put(namespace(self.slope).zeros(len(self.slope), bool), self.features, True)

    @property
    def size(self) -> Int[Array, ""]:
        """The number of features kept."""
        xp = namespace(self.slope)
        return xp.sum(self.used, dtype=xp.int32)

    @property
    def variances(self) -> Float[Array, " m"]:
        """The diagonal V_ii of the inverse, one in empty slots."""
        xp = namespace(self.gram)
        diagonal = xp.diagonal(self.inverse)
        return xp.where(self.used, xp.maximum(diagonal, xp.finfo(diagonal.dtype).eps), 1)

    @property
    def squares_after_drops(self) -> Float[Array, " m"]:
        """||residual||^2 after emptying each slot, infinite for an empty one."""
        xp = namespace(self.gram)
        return xp.where(self.used, self.square + self.coef**2 / self.variances, xp.inf)

    @property
    def left_over(self) -> Float[Array, " k"]:
        """The squared length of each unit column that the kept columns leave unexplained."""
        return 1 - (self.reach * self.gram).sum(axis=0)


class Move(NamedTuple):
    """A drop, an addition, or an exchange of one feature.

    Attributes:
        slot: The slot that is emptied; m for none.
        feature: The feature that is added; k for none.
        rise: The rise of the score at the present charges, in nats.
        square: ||residual||^2 after the move.
    """

    slot: Int[Array, ""]
    feature: Int[Array, ""]
    rise: Float[Array, ""]
    square: Float[Array, ""]


def refreshed(source: Source, slab: Slab) -> Slab:
    """The slab recomputed from its features and their rows of X'X, free of the errors of updates.

    It is stabilised by a ridge of a few roundings, whose effect two rounds of refinement remove.

    Args:
        source: The sums of the dataset.
        slab: Only its features, rows of X'X and coefficients, as a first approximation, are read.
    """
    xp = namespace(slab.gram)
    features, gram, coef = slab.features, slab.gram, slab.coef
    inverse = _inverse(take(gram.T, features).T, slab.used)
    slope, square = source.leftover(features, coef)

    def refine(_: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        coef, slope, square = carry
        step = inverse @ take(slope, features)
        after = slope - step @ gram
        # ||r - X step||^2, with X'r before and after.
        square = square - step @ (take(slope, features) + take(after, features))
        return coef + step, after, square

    coef, slope, square = fori_loop(2, refine, (coef, slope, square))
    return Slab(features, gram, inverse, inverse @ gram, coef, slope, xp.maximum(square, 0))


def begun(features: Int[Array, " m"], gram: Float[Array, "m k"], coef: Float[Array, " m"]) -> Slab:
    """A slab that holds only its features, their rows of X'X and coefficients, to be refreshed."""
    xp = namespace(gram)
    (m, k), dtype = gram.shape, gram.dtype
    inverse, reach = xp.zeros((m, m), dtype), xp.zeros((m, k), dtype)
    return Slab(features, gram, inverse, reach, coef, xp.zeros(k, dtype), xp.zeros((), dtype))


def empty_slab(X: Float[Array, "k n"], slots: int) -> Slab:
    """A slab of a number of slots that holds no feature yet, to be refreshed."""
    xp, k, dtype = namespace(X), len(X), X.dtype
    empty = xp.full(slots, k, xp.int32)
    return begun(empty, xp.zeros((slots, k), dtype), xp.zeros(slots, dtype))


def _inverse(among: Float[Array, "m m"], used: Bool[Array, " m"]) -> Float[Array, "m m"]:
    """The inverse of the products of the kept unit columns, zero in empty slots."""
    xp, m = namespace(among), len(used)
    both = used[:, None] & used[None, :]
    ridge = 2 * m * xp.finfo(among.dtype).eps
    half = inverse_factor(xp.where(both, among, 0) + xp.diag(xp.where(used, ridge, 1)))
    return xp.where(both, half.T @ half, 0)


def slab_at(  # noqa: PLR0913 - the sums that a slab holds
    omega: Float[Array, "m m"],
    gram: Float[Array, "m k"],
    features: Int[Array, " m"],
    weights: Float[Array, " m"],
    slope: Float[Array, " k"],
    square: Float[Array, ""],
    scale: Float[Array, " k"],
) -> Slab:
    """The slab of a fitted state, for its moves.

    Args:
        omega: Second moments of the masked features in the slots, equation (12).
        gram: The products of the masked features with all columns, unmasked.
        features: The feature in each slot, k for an empty slot.
        weights: The weights, which solve the normal equations of omega.
        slope: X'residual of all columns.
        square: E||residual||^2.
        scale: One over the length of each column, 0 for a column of zeros.
    """
    xp = namespace(omega)
    used = features < len(slope)
    diagonal = xp.diagonal(omega)
    own = xp.where(used & (diagonal > 0), 1 / xp.sqrt(xp.where(diagonal > 0, diagonal, 1)), 0)
    gram = gram * own[:, None] * scale[None, :]
    inverse = _inverse(omega * own[:, None] * own[None, :], used)
    coef = xp.where(own > 0, weights / xp.where(own > 0, own, 1), 0)
    return Slab(features, gram, inverse, inverse @ gram, coef, slope * scale, square)


class _Change(NamedTuple):
    """A move as vectors over the slots, from which every update follows.

    Attributes:
        drop: Column V_i / V_ii of the slot that is emptied; zero if none is.
        reach: V X_S'x of the added column x once that slot is empty; zero if none is added.
        free: The squared length that the others leave of the added column; one if none is.
        at: The slot that is emptied or filled, as a one-hot vector.
        fills: Whether that slot is filled.
        coef: The coefficients after the move.
    """

    drop: Float[Array, " m"]
    reach: Float[Array, " m"]
    free: Float[Array, ""]
    at: Bool[Array, " m"]
    fills: Bool[Array, ""]
    coef: Float[Array, " m"]


def change_of(slab: Slab, move: Move) -> _Change:
    xp = namespace(slab.gram)
    m, k = slab.reach.shape
    empties, fills = move.slot < m, move.feature < k
    out = xp.minimum(move.slot, m - 1)
    feature = xp.minimum(move.feature, k - 1)
    variance = xp.where(empties, slab.variances[out], 1)
    drop = xp.where(empties, slab.inverse[:, out] / variance, 0)
    at = xp.arange(m, dtype=xp.int32) == xp.where(
        empties, out, xp.argmin(slab.used).astype(xp.int32)
    )
    coef = xp.where(empties & at, 0, slab.coef - drop * slab.coef[out])
    reach, gram = slab.reach[:, feature], slab.gram[:, feature]
    then = xp.where(at, 0, reach - drop * reach[out])
    slope = slab.slope[feature] + xp.where(empties, reach[out] * slab.coef[out] / variance, 0)
    free = 1 - then @ gram
    size = xp.where(fills, slope / xp.where(fills, free, 1), 0)
    then = xp.where(fills, then, 0)
    coef = xp.where(at & fills, size, coef - then * size)
    return _Change(drop, then, xp.where(fills, free, 1), at, fills, coef)


def moved(source: Source, slab: Slab, move: Move, change: _Change, go: Array) -> Slab:
    """The slab after a move, by rank-one updates; unchanged if `go` is false."""
    xp = namespace(slab.gram)
    k = slab.reach.shape[1]
    drop, then, free, at, fills, _ = change
    drop, then = xp.where(go, drop, 0), xp.where(go, then, 0)
    out = xp.argmax(at).astype(xp.int32)
    # A drop needs no pass over the samples.
    row = cond(
        fills,
        lambda: source.row(xp.minimum(move.feature, k - 1)),
        lambda: xp.zeros_like(slab.slope),
    )
    own = xp.where(fills, (row - then @ slab.gram) / free, 0)  # row `at` of H after the move
    on = (at & go)[:, None]
    left = slab.inverse - drop[:, None] * slab.inverse[out][None, :]
    left = xp.where(on | on.T, 0, left)
    side = xp.where(go & fills, xp.where(at, -1, then), 0)
    slope = slab.slope + xp.where(go & xp.any(drop != 0), slab.coef[out], 0) * (
        slab.reach[out] / xp.where(xp.any(drop != 0), slab.variances[out], 1)
    )
    size = xp.where(go & fills, change.coef[out], 0)
    feature = xp.where(fills, move.feature, k)
    return Slab(
        features=xp.where(at & go, feature, slab.features),
        gram=put(slab.gram, out, xp.where(go, row, slab.gram[out])),
        inverse=left + side[:, None] * side[None, :] / free,
        reach=xp.where(
            on,
            own[None, :],
            slab.reach - drop[:, None] * slab.reach[out][None, :] - then[:, None] * own[None, :],
        ),
        coef=xp.where(go, change.coef, slab.coef),
        slope=slope - size * free * own,
        square=xp.where(go, move.square, slab.square),
    )
