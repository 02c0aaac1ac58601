"""Least squares on a support as a swept matrix, with closed forms of every flip and pair.

The products of all columns and y, swept on the columns of a support S (Goodnight, 1979), form a
matrix A that has all that a move needs: with V = (X_S'X_S)^-1 the block of S is -V, the other
entries of its rows are V X_S'X and the coefficients, and the rest are the products of the parts of
the other columns and of y that S leaves unexplained. Whether features are in or out, a flip of j
lowers ||residual||^2 by a_j^2 / A_jj, with a the column of y; a flip of j and l lowers it by (a_j,
a_l) B^-1 (a_j, a_l)', with B the two by two block of A. So two additions, two drops and an exchange
have one formula, and one update of rank two.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Bool, Float, Int

from bmjax._posterior.enumeration import RANK
from bmjax._runtime.backend import Array


class Edge(NamedTuple):
    """The entries of a swept matrix that are read most: its diagonal and its column of y.

    Attributes:
        own: The diagonal: unexplained squared length of a column that is out, -V_jj of one that is
            in.
        slope: The column of y: X'residual of a column that is out, the effect of one that is in.
        square: ||residual||^2.
        inside: Whether each feature is in.
        size: Number of features that are in.
    """

    own: Float[Array, " w"]
    slope: Float[Array, " w"]
    square: Float[Array, ""]
    inside: Bool[Array, " w"]
    size: Int[Array, ""]


class Moves(NamedTuple):
    """The outcomes of a move at each of w features.

    Attributes:
        square: ||residual||^2 after the move.
        possible: Whether the move leads to a support of full rank that is not too large.
        size: The number of features after the move; that before it if the move is not possible.
    """

    square: Float[Array, " w"]
    possible: Bool[Array, " w"]
    size: Int[Array, " w"]


class Update(NamedTuple):
    """A flip of one or two features, as a scaling and four rank-one terms of the matrix.

    Attributes:
        keep: Zero for a flipped feature, else one; scales rows and columns.
        left: Left vectors of the rank-one terms.
        right: Right vectors of the rank-one terms.
        inside: Whether each feature is in after the flip.
    """

    keep: Float[Array, " v"]
    left: Float[Array, "4 v"]
    right: Float[Array, "4 v"]
    inside: Bool[Array, " w"]

    def row(self, matrix: Float[Array, "v v"], i: Int[Array, ""]) -> Float[Array, " v"]:
        """One row of the matrix after the flip."""
        return self.keep[i] * self.keep * matrix[i] + self.left[:, i] @ self.right

    def matrix(self, matrix: Float[Array, "v v"]) -> Float[Array, "v v"]:
        """The matrix after the flip."""
        new = self.keep[:, None] * self.keep[None, :] * matrix
        for left, right in zip(self.left, self.right, strict=True):
            new = new + left[:, None] * right[None, :]
        return new

    def edge(self, edge: Edge) -> Edge:
        """The edge of the matrix after the flip."""
        w = len(self.inside)
        own = self.keep[:w] ** 2 * edge.own + jnp.sum(self.left * self.right, axis=0)[:w]
        last = self.left[:, w] @ self.right
        return Edge(
            own=own,
            slope=self.keep[:w] * edge.slope + last[:w],
            square=edge.square + last[w],
            inside=self.inside,
            size=jnp.sum(self.inside, dtype=jnp.int32),
        )


def augmented(gram: Float[Array, "w w"], slope: Float[Array, " w"]) -> Float[Array, "v v"]:
    """The matrix of the products of columns and a unit-length y, not yet swept."""
    one = jnp.ones((1, 1), gram.dtype)
    return jnp.block([[gram, slope[:, None]], [slope[None, :], one]])


def edge_of(matrix: Float[Array, "v v"], inside: Bool[Array, " w"]) -> Edge:
    """The edge of a swept matrix."""
    w = len(inside)
    size = jnp.sum(inside, dtype=jnp.int32)
    return Edge(jnp.diagonal(matrix)[:w], matrix[w, :w], matrix[w, w], inside, size)


def update(
    matrix: Float[Array, "v v"],
    inside: Bool[Array, " w"],
    first: Int[Array, ""],
    second: Int[Array, ""],
    both: Array,
    go: Array,
) -> Update:
    """The update for the flip of one feature, or of two.

    With P the features flipped, R the rows of the matrix at P, B its block and s = 1 for a feature
    that goes in and -1 for one that goes out: the rows become s B^-1 R, the block becomes -s B^-1
    s, and R'B^-1 R is subtracted from the rest.

    Args:
        matrix: The swept matrix.
        inside: Whether each feature is in.
        first: The number of a feature.
        second: The number of another feature.
        both: Whether to flip the second as well.
        go: Whether to flip any.
    """
    v, dtype = len(matrix), matrix.dtype
    index = jnp.arange(v, dtype=jnp.int32)
    at_1, at_2 = (index == first) & go, (index == second) & both & go
    row_1, row_2 = matrix[first], jnp.where(both, matrix[second], 0)
    own_1, cross = row_1[first], jnp.where(both, row_1[second], 0)
    own_2 = jnp.where(both, row_2[second], 1)
    det = own_1 * own_2 - cross**2
    det = jnp.where(go, det, 1)
    inv_1, inv_x, inv_2 = own_2 / det, -cross / det, jnp.where(both, own_1 / det, 0)
    sign_1 = jnp.where(inside[first], -1, 1).astype(dtype)
    sign_2 = jnp.where(inside[second], -1, 1).astype(dtype)
    keep = jnp.where(at_1 | at_2 | ~go, 0, 1).astype(dtype)
    one_1, one_2 = at_1.astype(dtype), at_2.astype(dtype)
    row_1, row_2 = keep * row_1, keep * row_2
    into_1, into_2 = inv_1 * row_1 + inv_x * row_2, inv_x * row_1 + inv_2 * row_2
    block_x = -sign_1 * sign_2 * inv_x
    return Update(
        keep=jnp.where(go, keep, 1),
        left=jnp.stack(
            [
                sign_1 * one_1 - row_1,
                sign_2 * one_2 - row_2,
                sign_1 * into_1 - inv_1 * one_1 + block_x * one_2,
                sign_2 * into_2 - inv_2 * one_2 + block_x * one_1,
            ]
        ),
        right=jnp.stack([into_1, into_2, one_1, one_2]),
        inside=inside ^ (at_1 | at_2)[:-1],
    )


def no_update(inside: Bool[Array, " w"], dtype: Any) -> Update:
    """The update that changes nothing."""
    v = len(inside) + 1
    nothing = jnp.zeros((4, v), dtype)
    return Update(jnp.ones(v, dtype), nothing, nothing, inside)


def swept_to(
    matrix: Float[Array, "v v"], wanted: Bool[Array, " w"]
) -> tuple[Float[Array, "v v"], Bool[Array, " w"]]:
    """The matrix swept on a support, and whether each feature has entered.

    A feature that is a combination of those before it is left out.
    """
    no = jnp.asarray(False)

    def flip(j: Int[Array, ""], carry: tuple[Array, Array]) -> tuple[Array, Array]:
        matrix, inside = carry
        j = j.astype(jnp.int32)
        go = wanted[j] & (matrix[j, j] > RANK)
        change = update(matrix, inside, j, j, no, go)
        return change.matrix(matrix), change.inside

    return lax.fori_loop(0, len(wanted), flip, (matrix, jnp.zeros_like(wanted)))


def after_flip(edge: Edge, most: Array) -> Moves:
    """The outcomes of every single flip."""
    possible = edge.inside | ((edge.own > RANK) & (edge.size < most))
    gone = edge.slope**2 / jnp.where(possible, edge.own, 1)
    size = edge.size + jnp.where(edge.inside, -1, 1)
    return Moves(edge.square - gone, possible, jnp.where(possible, size, edge.size))


def after_pair(edge: Edge, row: Float[Array, " w"], most: Array, anchor: Int[Array, ""]) -> Moves:
    """The outcomes of a flip of one feature, the anchor, together with each other feature.

    Args:
        edge: The edge of the swept matrix.
        row: The row of the anchor in the swept matrix.
        most: Size of the largest support.
        anchor: The number of the anchor.
    """
    own, slope, inside = edge.own, edge.slope, edge.inside
    own_a, slope_a, in_a = own[anchor], slope[anchor], inside[anchor]
    det = own_a * own - row**2
    # The unexplained squared length of the column that enters last, once the other is flipped.
    last = det / jnp.where(in_a, own_a, jnp.where(own == 0, 1, own))
    free = jnp.where(in_a ^ inside, last, jnp.minimum(jnp.minimum(own, own_a), last))
    possible = jnp.where(in_a & inside, det > 0, free > RANK)
    size = edge.size + jnp.where(inside, -1, 1) + jnp.where(in_a, -1, 1)
    possible &= (jnp.arange(len(own), dtype=jnp.int32) != anchor) & (size <= most)
    gone = own * slope_a**2 - 2 * row * slope * slope_a + own_a * slope**2
    square = edge.square - gone / jnp.where(possible, det, 1)
    return Moves(square, possible, jnp.where(possible, size, edge.size))
