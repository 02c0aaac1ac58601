"""Automatic relevance determination by a reweighted Lasso, whose zeros are exact."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from bmjax._checks import inputs, validate
from bmjax._model.linalg import inverse_factor
from bmjax._runtime.precision import full_precision
from bmjax._selection.gram import (
    Squares,
    anchored,
    residual_square,
    smallest_square,
    unbiased_precision,
)
from bmjax.baselines._estimate import Estimate, verdict
from bmjax.baselines._lasso import descend

# Tolerance of each weighted Lasso, relative to that of the reweighting.
_INNER = 0.1
_INNER_STEPS = 100


def ard(
    X: ArrayLike,
    y: ArrayLike,
    noise_precision: ArrayLike | None = None,
    *,
    tolerance: ArrayLike | None = None,
    max_steps: int = 1_000,
) -> Estimate:
    """ARD: the posterior mean under the prior variances of highest marginal likelihood.

    Equation (5) of the paper (`ard`), by the update of Wipf & Nagarajan ("A new view of automatic
    relevance determination", 2008). With C = I / lambda + X diag(gamma) X',

        z = diag(X' C^-1 X)
        coef = argmin lambda / 2 ||y - X coef||^2 + sum_j sqrt(z_j) |coef_j|
        gamma = |coef| / sqrt(z)

    Each round lowers log|C| + y' C^-1 y, and a feature that the Lasso drops has gamma and coef
    exactly zero. It may come back. The start, which the paper does not specify, is gamma = (least
    squares)^2, or if n <= k the square of least squares on each feature alone, so that the result
    is equivariant to the scale of each column. On the paper's designs other starts, gamma from 1e-3
    to 1e6 for all features, ended in the same optimum.

    Args:
        X: (n, k) features, samples in rows.
        y: (n,) target.
        noise_precision: One over the noise variance, held fixed. Default: the unbiased estimate
            from least squares, as in the paper; it needs n > k.
        tolerance: Largest predicted distance of a coefficient to its limit, in standard errors.
            Default: square root of the machine epsilon.
        max_steps: Largest number of rounds.

    Returns:
        The estimate; `objective` is log|C| + y' C^-1 y, `num_steps` counts rounds.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a shape does not fit, a value is not finite, a number is out of range, or n
            <= k and the noise precision is not given.

    Example:
        >>> from bmjax import baselines
        >>> from bmjax.datasets import load_diabetes
        >>> X, y, names = load_diabetes()
        >>> X, y = X - X.mean(axis=0), y - y.mean()
        >>> baselines.ard(X, y).coef.shape
        (10,)
    """
    X, y = inputs.data(X, y)
    n, k = X.shape
    if noise_precision is not None:
        noise_precision = validate.number(
            "noise_precision", noise_precision, X.dtype, low=0, open_low=True
        )
    elif n <= k:
        raise ValueError(
            f"X has {n} rows and {k} columns: least squares leaves no residual to estimate the "
            "noise from. Give noise_precision."
        )
    wanted = float(jnp.finfo(X.dtype).eps) ** 0.5 if tolerance is None else tolerance
    return _ard(
        X,
        y,
        noise_precision,
        validate.number("tolerance", wanted, X.dtype, low=0, open_low=False),
        jnp.asarray(validate.steps("max_steps", max_steps), jnp.int32),
    )


class _Round(NamedTuple):
    coef: Float[Array, " k"]
    variances: Float[Array, " k"]
    moved: Float[Array, ""]
    steps: Int[Array, ""]
    converged: Bool[Array, ""]


@jax.jit
@full_precision
def _ard(
    X: Float[Array, "n k"],
    y: Float[Array, " n"],
    noise_precision: Float[Array, ""] | None,
    tolerance: Float[Array, ""],
    max_steps: Int[Array, ""],
) -> Estimate:
    n, k = X.shape
    m = anchored(X.T, y)
    exact = jnp.asarray(False)
    if noise_precision is None:
        exact = m.square <= smallest_square(y)
        noise_precision = unbiased_precision(m.square, n, jnp.asarray(k), y)
    precision = noise_precision
    assert precision is not None
    diagonal = jnp.diagonal(m.gram)
    live = diagonal > 0
    standard_error = lax.rsqrt(jnp.where(live, precision * diagonal, 1))
    inner = jnp.where(live, _INNER * tolerance * diagonal * standard_error, jnp.inf)

    def advance(last: _Round) -> _Round:
        root = jnp.sqrt(_relevance(m, precision, last.variances))
        coef, _, _ = descend(m, root / precision, last.coef, inner, jnp.asarray(_INNER_STEPS))
        variances = jnp.where(live, jnp.abs(coef) / jnp.where(live, root, 1), 0)
        # If a round moves by d and the one before it by d', a linear sequence has a distance of d r
        # / (1 - r) left, r = d / d'.
        moved = jnp.max(jnp.abs(coef - last.coef) / standard_error)
        to_go = moved * jnp.maximum(moved / jnp.maximum(last.moved - moved, 0), 1)
        converged = (moved == 0) | (to_go <= tolerance)
        return _Round(coef, variances, moved, last.steps + 1, converged)

    if n > k:
        start = m.anchor
    else:
        start = jnp.where(live, X.T @ y / jnp.where(live, diagonal, 1), 0)
    first = _Round(
        start,
        start**2,
        jnp.asarray(jnp.inf, X.dtype),
        jnp.zeros((), jnp.int32),
        jnp.asarray(False),
    )
    last = lax.while_loop(
        lambda r: ~r.converged & (r.steps < max_steps) & jnp.isfinite(r.coef).all(),
        advance,
        first,
    )
    objective = _minus_evidence(m, precision, last.variances, n)
    return Estimate(
        coef=last.coef,
        support=last.coef != 0,
        noise_precision=precision,
        objective=objective,
        num_steps=last.steps,
        status=verdict(last.coef, objective, last.converged, exact),
    )


def _relevance(
    m: Squares, precision: Float[Array, ""], variances: Float[Array, " k"]
) -> Float[Array, " k"]:
    """The diagonal of X' C^-1 X, by a k x k factor.

    With A = I + lambda G^.5 X'X G^.5, G = diag(gamma), it is lambda (X'X)_jj - lambda^2 |row|^2,
    which cancels for a large gamma, or (1 - (A^-1)_jj) / gamma_j, which does for a small one.
    """
    deviations, half = _half(m, precision, variances)
    explained = jnp.sum((half @ (deviations[:, None] * m.gram)) ** 2, axis=0)
    shrunk = jnp.sum(half**2, axis=0)
    small = precision * jnp.diagonal(m.gram) - precision**2 * explained
    large = (1 - shrunk) / jnp.where(variances > 0, variances, 1)
    return jnp.maximum(jnp.where(shrunk < 0.5, large, small), 0)


def _minus_evidence(
    m: Squares, precision: Float[Array, ""], variances: Float[Array, " k"], n: int
) -> Float[Array, ""]:
    """log|C| + y' C^-1 y = minimum over b of lambda ||y - X b||^2 + sum b^2 / gamma + log|C|."""
    deviations, half = _half(m, precision, variances)
    cross = m.slope + m.gram @ m.anchor
    scaled = half.T @ (half @ (precision * deviations * cross))
    fit = precision * residual_square(m, deviations * scaled) + jnp.sum(scaled**2)
    return fit - 2 * jnp.sum(jnp.log(jnp.diagonal(half))) - n * jnp.log(precision)


def _half(
    m: Squares, precision: Float[Array, ""], variances: Float[Array, " k"]
) -> tuple[Float[Array, " k"], Float[Array, "k k"]]:
    """The roots gamma^.5, and W with W'W the inverse of I + lambda gamma^.5 X'X gamma^.5."""
    deviations = jnp.sqrt(variances)
    inner = precision * deviations[:, None] * m.gram * deviations[None, :]
    return deviations, inverse_factor(inner + jnp.eye(len(variances), dtype=inner.dtype))
