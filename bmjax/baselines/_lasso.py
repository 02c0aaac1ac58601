"""The Lasso by coordinate descent on X'X, for one alpha or for a cross-validated path.

If columns are correlated, descent finds the signs soon and then becomes slow: on the paper's
uniform design with 30 features it took 700 sweeps for each alpha. So each sweep is followed by
leaps to the minimum for the present signs, exact once they are right: 2 steps for each alpha.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from bmjax._checks import inputs, validate
from bmjax._model.linalg import solve_normal_equations
from bmjax._runtime.precision import full_precision
from bmjax._selection.gram import (
    Squares,
    anchored,
    residual_slope,
    residual_square,
    squares,
    unbiased_precision,
)
from bmjax.baselines._estimate import CrossValidation, Estimate, verdict

# The path ends at this fraction of the smallest alpha that selects nothing, as in scikit-learn.
_PATH_LENGTH = 1e-3


def lasso(
    X: ArrayLike,
    y: ArrayLike,
    alpha: ArrayLike,
    noise_precision: ArrayLike = 1.0,
    *,
    tolerance: ArrayLike | None = None,
    max_steps: int = 10_000,
) -> Estimate:
    """Minimise noise_precision / 2 ||y - X coef||^2 + alpha |coef|_1, equation (3) of the paper.

    scikit-learn's `Lasso(fit_intercept=False)` has this minimum at the constant
    alpha / (noise_precision * n).

    Args:
        X: (n, k) features, samples in rows.
        y: (n,) target.
        alpha: Regularisation constant, at least 0.
        noise_precision: One over the noise variance.
        tolerance: Largest allowed subgradient, as a cosine between a column and y. Default: machine
            epsilon to the power 2/3.
        max_steps: Largest number of steps, each a sweep over the features and two leaps.

    Returns:
        The estimate; `num_steps` counts steps, `noise_precision` is the given one.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a shape does not fit, a value is not finite, or a number is out of range.

    Example:
        >>> from bmjax import baselines
        >>> from bmjax.datasets import load_diabetes
        >>> X, y, names = load_diabetes()
        >>> X, y = X - X.mean(axis=0), y - y.mean()
        >>> int(baselines.lasso(X, y, alpha=1e5).support.sum()) < 10
        True
    """
    X, y = inputs.data(X, y)
    return _lasso(
        X,
        y,
        validate.number("alpha", alpha, X.dtype, low=0, open_low=False),
        validate.number("noise_precision", noise_precision, X.dtype, low=0, open_low=True),
        _tolerance(tolerance, X.dtype),
        jnp.asarray(validate.steps("max_steps", max_steps), jnp.int32),
    )


def lasso_cv(
    X: ArrayLike,
    y: ArrayLike,
    folds: int = 5,
    num_alphas: int = 100,
    *,
    tolerance: ArrayLike | None = None,
    max_steps: int = 1_000,
) -> Estimate:
    """The Lasso, equation (3), with alpha chosen by cross-validation as in `LassoCV`.

    The rules are those of scikit-learn's `LassoCV(fit_intercept=False)`. Folds are contiguous, as
    in `KFold` without shuffling; the grid falls geometrically from the smallest alpha that selects
    nothing to a thousandth of it; the chosen alpha has the lowest mean of the folds' mean squared
    errors, and is the largest of equals; and each fold's alpha is in proportion to its number of
    samples.

    All folds descend side by side, together with the fit to all samples, a fold with nothing held
    out, so no further fit is needed at the end.

    Args:
        X: (n, k) features, samples in rows.
        y: (n,) target.
        folds: Number of folds, from 2 to n.
        num_alphas: Length of the grid.
        tolerance: Largest allowed subgradient, as a cosine between a column and y. Default: machine
            epsilon to the power 2/3.
        max_steps: Largest number of steps at each alpha, each a sweep and two leaps.

    Returns:
        The estimate at the chosen `alpha`, in the paper's objective at noise precision 1, which is
        n times scikit-learn's; `num_steps` counts the steps of the slowest fold at each alpha;
        `objective` is the paper's, also at noise precision 1, while `noise_precision` is estimated.
        The status is `MAX_STEPS` if any descent ran out of steps.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a shape does not fit, a value is not finite, or a number is out of range.

    Example:
        >>> from bmjax import baselines
        >>> from bmjax.datasets import load_diabetes
        >>> X, y, names = load_diabetes()
        >>> X, y = X - X.mean(axis=0), y - y.mean()
        >>> baselines.lasso_cv(X, y, num_alphas=10).coef.shape
        (10,)
    """
    X, y = inputs.data(X, y)
    folds = validate.count("folds", folds, low=2)
    if folds > len(y):
        raise ValueError(f"folds is {folds} but there are only {len(y)} samples.")
    return _lasso_cv(
        X,
        y,
        _tolerance(tolerance, X.dtype),
        jnp.asarray(validate.steps("max_steps", max_steps), jnp.int32),
        folds=folds,
        num_alphas=validate.count("num_alphas", num_alphas, low=1),
    )


def descend(
    m: Squares,
    threshold: Float[Array, " k"],
    coef: Float[Array, " k"],
    tolerance: Float[Array, " k"],
    max_steps: Int[Array, ""],
) -> tuple[Float[Array, " k"], Int[Array, ""], Bool[Array, ""]]:
    """Minimise ||y - X coef||^2 / 2 + threshold'|coef| by coordinate descent with leaps.

    Args:
        m: The sums of the dataset.
        threshold: Weight of the absolute value of each coefficient.
        coef: The coefficients to start from.
        tolerance: Largest allowed absolute value of each entry of the subgradient.
        max_steps: Largest number of steps, each a sweep and two leaps.

    Returns:
        The coefficients, the number of steps, and whether the tolerance was met.
    """
    diagonal = jnp.diagonal(m.gram)
    live = diagonal > 0
    divisor = jnp.where(live, diagonal, 1)

    def visit(j, carry):
        coef, slope = carry
        wanted = slope[j] + diagonal[j] * coef[j]
        shrunk = jnp.sign(wanted) * jnp.maximum(jnp.abs(wanted) - threshold[j], 0)
        new = jnp.where(live[j], shrunk / divisor[j], 0)
        return coef.at[j].set(new), slope - m.gram[j] * (new - coef[j])

    def unmet(coef, slope):
        # The subgradient nearest to zero, ignoring columns that are all zero.
        at_zero = jnp.maximum(jnp.abs(slope) - threshold, 0)
        off_zero = jnp.abs(slope - jnp.sign(coef) * threshold)
        return jnp.any(live & (jnp.where(coef == 0, at_zero, off_zero) > tolerance))

    def leap(coef, slope):
        # Leap to the minimum for the present signs, or as far as the signs hold.
        sign = jnp.sign(coef)
        move = solve_normal_equations(m.gram, slope - threshold * sign, sign != 0)
        crosses = sign * (coef + move) < 0
        reach = jnp.where(crosses, coef / jnp.where(crosses, -move, 1), 1)
        step = jnp.min(reach)
        landed = coef + step * move
        landed = jnp.where(crosses & (reach == step), 0, landed)
        return jnp.where(jnp.isfinite(landed).all(), landed, coef)

    def advance(carry):
        coef, slope, steps, _ = carry
        coef, slope = lax.fori_loop(0, len(coef), visit, (coef, slope))
        # A leap often ends where a feature leaves; the second then reaches the minimum, and if n <=
        # k it is needed to exchange features. The slope is recomputed, or the roundings of all
        # updates would add up.
        for _ in range(2):
            coef = leap(coef, residual_slope(m, coef))
        slope = residual_slope(m, coef)
        return coef, slope, steps + 1, unmet(coef, slope)

    slope = residual_slope(m, coef)
    start = coef, slope, jnp.zeros((), jnp.int32), unmet(coef, slope)
    coef, _, steps, going = lax.while_loop(lambda c: c[3] & (c[2] < max_steps), advance, start)
    return coef, steps, ~going


@jax.jit
@full_precision
def _lasso(
    X: Float[Array, "n k"],
    y: Float[Array, " n"],
    alpha: Float[Array, ""],
    noise_precision: Float[Array, ""],
    tolerance: Float[Array, ""],
    max_steps: Int[Array, ""],
) -> Estimate:
    m = anchored(X.T, y)
    threshold = jnp.broadcast_to(alpha / noise_precision, m.slope.shape)
    coef, steps, converged = descend(
        m, threshold, jnp.zeros_like(m.slope), tolerance * _lengths(m, y), max_steps
    )
    objective = noise_precision / 2 * residual_square(m, coef) + alpha * jnp.sum(jnp.abs(coef))
    return Estimate(
        coef=coef,
        support=coef != 0,
        noise_precision=noise_precision,
        objective=objective,
        num_steps=steps,
        status=verdict(coef, objective, converged),
        alpha=alpha,
    )


@full_precision
def _lasso_cv(
    X: Float[Array, "n k"],
    y: Float[Array, " n"],
    tolerance: Float[Array, ""],
    max_steps: Int[Array, ""],
    *,
    folds: int,
    num_alphas: int,
) -> Estimate:
    n, k = X.shape
    everything = anchored(X.T, y)
    # Row f of the weights selects the samples that fold f holds out; the last row selects none. One
    # fold after another, since all at once would need a copy of X for each.
    fold_of = np.repeat(np.arange(folds), [len(rows) for rows in np.array_split(range(n), folds)])
    held_out = jnp.asarray(fold_of == np.arange(folds + 1)[:, None], X.dtype)
    tests = lax.map(lambda rows: squares(X.T, y, everything.anchor, rows), held_out)
    trains = jax.tree.map(lambda whole, part: whole[None] - part, everything, tests)
    trains = trains._replace(anchor=tests.anchor)
    largest = jnp.max(jnp.abs(X.T @ y))
    alphas = largest * jnp.logspace(0, np.log10(_PATH_LENGTH), num_alphas, dtype=X.dtype)
    tolerances = jnp.broadcast_to((tolerance * _lengths(everything, y))[None], (folds + 1, k))

    def at_alpha(coefs, alpha):
        thresholds = jnp.broadcast_to((alpha * trains.samples / n)[:, None], (folds + 1, k))
        coefs, steps, converged = jax.vmap(descend, in_axes=(0, 0, 0, 0, None))(
            trains, thresholds, coefs, tolerances, max_steps
        )
        errors = jax.vmap(residual_square)(tests, coefs)[:-1] / tests.samples[:-1]
        return coefs, (coefs[-1], errors, jnp.max(steps), jnp.all(converged))

    start = jnp.zeros((folds + 1, k), X.dtype)
    _, (path, errors, steps, converged) = lax.scan(at_alpha, start, alphas)
    best = jnp.argmin(jnp.mean(errors, axis=1))
    coef, alpha = path[best], alphas[best]
    square = residual_square(everything, coef)
    objective = square / 2 + alpha * jnp.sum(jnp.abs(coef))
    selected = jnp.sum(coef != 0, dtype=jnp.int32)
    return Estimate(
        coef=coef,
        support=coef != 0,
        noise_precision=unbiased_precision(square, n, selected, y),
        objective=objective,
        num_steps=jnp.sum(steps, dtype=jnp.int32),
        status=verdict(coef, objective + jnp.sum(errors), jnp.all(converged)),
        alpha=alpha,
        cross_validation=CrossValidation(alphas, errors),
    )


_lasso_cv = jax.jit(_lasso_cv, static_argnames=("folds", "num_alphas"))


def _lengths(m: Squares, y: Float[Array, " n"]) -> Float[Array, " k"]:
    """The unit |x_j| |y| of the tolerance: an entry of the subgradient over it is a cosine."""
    return jnp.sqrt(jnp.diagonal(m.gram)) * jnp.sqrt(jnp.sum(y**2))


def _tolerance(value: ArrayLike | None, dtype: jnp.dtype) -> Float[Array, ""]:
    chosen = float(jnp.finfo(dtype).eps) ** (2 / 3) if value is None else value
    return validate.number("tolerance", chosen, dtype, low=0, open_low=False)
