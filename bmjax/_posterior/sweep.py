"""Least squares on a support as a swept matrix, in which every flip and every pair has a formula.

The products of all columns and y, swept on the columns of a support S (Goodnight, 1979), hold all
that a move needs: with V = (X_S'X_S)^-1 the block of S is -V, its rows beside it are V X_S'X and
the coefficients, and the rest is what S leaves of the other columns and of y. Whatever is in and
whatever is out, to flip j takes a_j^2 / A_jj off the square of the residual, a being the column of
y; and to flip j and l takes off (a_j, a_l) B^-1 (a_j, a_l)', B the two by two block of A. So two
additions, two drops and an exchange are one formula, and one update of rank two.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Bool, Float, Int

from bmjax._posterior.enumeration import RANK
from bmjax._runtime.backend import Array


class Edge(NamedTuple):
    """What is read most of a swept matrix.

    Attributes:
        own: Its diagonal: what a column that is out has left of its own, or -V of one that is in.
        slope: Its column of y: X'residual of a column that is out, the effect of one that is in.
        square: ||residual||^2.
        inside: The features that are in.
        size: How many.
    """

    own: Float[Array, " w"]
    slope: Float[Array, " w"]
    square: Float[Array, ""]
    inside: Bool[Array, " w"]
    size: Int[Array, ""]


class Moves(NamedTuple):
    """What a move to each of w features leads to.

    Attributes:
        square: ||residual||^2 after the move.
        possible: Whether it leads to a support of full rank that is not too large.
        size: The number of features after it; that before where it is not possible.
    """

    square: Float[Array, " w"]
    possible: Bool[Array, " w"]
    size: Int[Array, " w"]


class Update(NamedTuple):
    """A flip of one or two features as vectors, a matrix of rank four.

    Attributes:
        keep: Zero where a feature is flipped, else one.
        left: Of the rank-one terms, a row each.
        right: The same.
        inside: The features that are in afterwards.
    """

    keep: Float[Array, " v"]
    left: Float[Array, "4 v"]
    right: Float[Array, "4 v"]
    inside: Bool[Array, " w"]

    def row(self, matrix: Float[Array, "v v"], i: Int[Array, ""]) -> Float[Array, " v"]:
        """One row of the matrix after it."""
        return self.keep[i] * self.keep * matrix[i] + self.left[:, i] @ self.right

    def matrix(self, matrix: Float[Array, "v v"]) -> Float[Array, "v v"]:
        """The matrix after it."""
        new = self.keep[:, None] * self.keep[None, :] * matrix
        for left, right in zip(self.left, self.right, strict=True):
            new = new + left[:, None] * right[None, :]
        return new

    def edge(self, edge: Edge) -> Edge:
        """The edge of the matrix after it."""
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
    """The matrix of the products of columns and of a y of unit length, not yet swept."""
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
    """The flip of a feature, or of two.

    With P the features flipped, R the rows of the matrix at P, B its block and s = 1 for a feature
    that goes in and -1 for one that goes out: rows become s B^-1 R, the block -s B^-1 s, and all
    else is less R'B^-1 R.

    Args:
        matrix: The swept matrix.
        inside: The features that are in.
        first: A feature.
        second: Another.
        both: Whether to flip the second too.
        go: Whether to flip any at all.
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
    """The matrix swept on a support, and the features that did go in.

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
    """What every single flip leads to."""
    possible = edge.inside | ((edge.own > RANK) & (edge.size < most))
    gone = edge.slope**2 / jnp.where(possible, edge.own, 1)
    size = edge.size + jnp.where(edge.inside, -1, 1)
    return Moves(edge.square - gone, possible, jnp.where(possible, size, edge.size))


def after_pair(edge: Edge, row: Float[Array, " w"], most: Array, anchor: Int[Array, ""]) -> Moves:
    """What a flip of one feature together with every other leads to.

    Args:
        edge: Of the swept matrix.
        row: The row of the one feature.
        most: Largest support.
        anchor: The one feature.
    """
    own, slope, inside = edge.own, edge.slope, edge.inside
    own_a, slope_a, in_a = own[anchor], slope[anchor], inside[anchor]
    det = own_a * own - row**2
    # What the column that goes in last still has of its own, once the other one is flipped.
    last = det / jnp.where(in_a, own_a, jnp.where(own == 0, 1, own))
    free = jnp.where(in_a ^ inside, last, jnp.minimum(jnp.minimum(own, own_a), last))
    possible = jnp.where(in_a & inside, det > 0, free > RANK)
    size = edge.size + jnp.where(inside, -1, 1) + jnp.where(in_a, -1, 1)
    possible &= (jnp.arange(len(own), dtype=jnp.int32) != anchor) & (size <= most)
    gone = own * slope_a**2 - 2 * row * slope * slope_a + own_a * slope**2
    square = edge.square - gone / jnp.where(possible, det, 1)
    return Moves(square, possible, jnp.where(possible, size, edge.size))
