"""The sums over samples that squared error depends on, so that a step costs k^2, not n k.

||y - X b||^2 from X'X, X'y and y'y alone cancels: if the residual is a thousandth of y, float32 has
no digits of it left. The sums here are taken around an anchor close to the answer (least squares),
so that no sum is much larger than that of the residuals.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from bmjax._model.linalg import solve_normal_equations
from bmjax._runtime.backend import Array, namespace, put, take


class Squares(NamedTuple):
    """Weighted sums over samples of a dataset, for squared errors around an anchor.

    Attributes:
        gram: X'X.
        anchor: The coefficients whose residual the other sums are of.
        slope: X'(y - X anchor).
        square: ||y - X anchor||^2.
        samples: Number of samples, the sum of the weights.
    """

    gram: Float[Array, "k k"]
    anchor: Float[Array, " k"]
    slope: Float[Array, " k"]
    square: Float[Array, ""]
    samples: Float[Array, ""]

    @property
    def explains(self) -> Bool[Array, " k"]:
        """Whether each column is not zero."""
        return namespace(self.gram).diagonal(self.gram) > 0

    def row(self, feature: Int[Array, ""]) -> Float[Array, " k"]:
        """The products of one column with all columns."""
        return self.gram[feature]

    def rows(self, features: Int[Array, " c"]) -> Float[Array, "c k"]:
        """The products of some columns with all columns."""
        return self.gram[features]

    def leftover(
        self, features: Int[Array, " m"], coef: Float[Array, " m"]
    ) -> tuple[Float[Array, " k"], Float[Array, ""]]:
        """X'residual and ||residual||^2 at coefficients of some features."""
        xp = namespace(self.gram)
        away = put(xp.zeros_like(self.anchor), features, coef) - self.anchor
        turned = self.gram @ away
        square = self.square - 2 * (away @ self.slope) + away @ turned
        return self.slope - turned, xp.maximum(square, 0)


class Rows(NamedTuple):
    """A dataset with more columns than rows, whose X'X is never formed.

    Attributes:
        X: Features, feature-major.
        y: Target.
        counts: How often each sample counts, None for once each.
        scale: One over the length of each column, 0 for a column of zeros.
    """

    X: Float[Array, "k n"]
    y: Float[Array, " n"]
    counts: Float[Array, " n"] | None
    scale: Float[Array, " k"]

    @property
    def square(self) -> Float[Array, ""]:
        """||y||^2."""
        each = self.y**2 if self.counts is None else self.counts * self.y**2
        return namespace(each).sum(each)

    def row(self, feature: Int[Array, ""]) -> Float[Array, " k"]:
        """The products of one column with all columns, both of unit length."""
        return self._products(self.X[feature]) * self.scale[feature]

    def rows(self, features: Int[Array, " c"]) -> Float[Array, "c k"]:
        """The products of some columns with all columns, all of unit length."""
        own = self.X[features] * self.scale[features][:, None]
        counted = own if self.counts is None else own * self.counts[None, :]
        return (counted @ self.X.T) * self.scale[None, :]

    def leftover(
        self, features: Int[Array, " m"], coef: Float[Array, " m"]
    ) -> tuple[Float[Array, " k"], Float[Array, ""]]:
        """X'residual and ||residual||^2 at coefficients of some features."""
        weights = coef * take(self.scale, features)
        residual = self.y - weights @ take(self.X, features)
        square = residual**2 if self.counts is None else self.counts * residual**2
        return self._products(residual), namespace(square).sum(square)

    def _products(self, values: Float[Array, " n"]) -> Float[Array, " k"]:
        counted = values if self.counts is None else self.counts * values
        return (self.X @ counted) * self.scale


def squares(
    X: Float[Array, "k n"],
    y: Float[Array, " n"],
    anchor: Float[Array, " k"],
    sample_weights: Float[Array, " n"] | None = None,
) -> Squares:
    """The sums of a dataset around an anchor, with each sample counted by its weight."""
    xp = namespace(X, y, anchor)
    residual = y - anchor @ X
    weighted = X if sample_weights is None else X * sample_weights[None, :]
    counted = residual if sample_weights is None else sample_weights * residual
    samples = len(y) if sample_weights is None else xp.sum(sample_weights)
    return Squares(
        gram=weighted @ X.T,
        anchor=anchor,
        slope=X @ counted,
        square=residual @ counted,
        samples=xp.asarray(samples, X.dtype),
    )


def anchored(
    X: Float[Array, "k n"],
    y: Float[Array, " n"],
    sample_weights: Float[Array, " n"] | None = None,
    *,
    tall: bool | None = None,
) -> Squares:
    """The sums of a dataset around least squares, or around zero if n <= k.

    If n <= k, least squares is far from any sparse answer, so it would not help.

    Args:
        X: Features, feature-major.
        y: Target.
        sample_weights: How often each sample counts.
        tall: Whether there are more samples than features. Default: by the shape of X.
    """
    xp = namespace(X, y)
    zero = xp.zeros(len(X), X.dtype)
    around_zero = squares(X, y, zero, sample_weights)
    if not (X.shape[1] > len(X) if tall is None else tall):
        return around_zero
    every = xp.ones(len(X), bool)
    anchor = solve_normal_equations(around_zero.gram, around_zero.slope, every)
    residual = y - anchor @ X
    counted = residual if sample_weights is None else sample_weights * residual
    return around_zero._replace(anchor=anchor, slope=X @ counted, square=residual @ counted)


def residual_slope(m: Squares, coef: Float[Array, " k"]) -> Float[Array, " k"]:
    """X'(y - X coef)."""
    return m.slope - m.gram @ (coef - m.anchor)


def residual_square(m: Squares, coef: Float[Array, " k"]) -> Float[Array, ""]:
    """||y - X coef||^2."""
    away = coef - m.anchor
    return namespace(away).maximum(m.square - 2 * (away @ m.slope) + away @ (m.gram @ away), 0)


def unit_columns(m: Squares) -> tuple[Squares, Float[Array, " k"]]:
    """Rescale the sums to columns of unit length, so that one threshold of rank serves all."""
    xp = namespace(m)
    scale = unit_scale(xp.diagonal(m.gram))
    anchor = xp.where(scale > 0, m.anchor / xp.where(scale > 0, scale, 1), 0)
    gram = m.gram * scale[:, None] * scale[None, :]
    return m._replace(gram=gram, anchor=anchor, slope=m.slope * scale), scale


def unit_scale(squares: Float[Array, " k"]) -> Float[Array, " k"]:
    """One over the length of columns, given their sums of squares; 0 for a column of zeros."""
    xp = namespace(squares)
    return xp.where(squares > 0, 1 / xp.sqrt(xp.where(squares > 0, squares, 1)), 0)


def smallest_square(y: Float[Array, " n"]) -> Float[Array, ""]:
    """The sum of squared residuals of y below which it is rounding, and the fit counts as exact."""
    info = jnp.finfo(y.dtype)
    return jnp.maximum((8 * info.eps) ** 2 * jnp.sum(y**2), 1e4 * len(y) * info.tiny)


def unbiased_precision(
    square: Float[Array, ""], count: int, selected: Array, y: Float[Array, " n"]
) -> Float[Array, ""]:
    """The noise precision (n - selected) / ||residual||^2, capped if the residual is rounding."""
    freedom = jnp.maximum(count - selected, 1).astype(square.dtype)
    return freedom / jnp.maximum(square, smallest_square(y))
