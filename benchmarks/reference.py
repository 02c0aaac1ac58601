"""The algorithms of the Bayesian Masking paper, in literal NumPy.

Kondo, Maeda and Hayashi, "Bayesian Masking: Sparse Bayesian Estimation with Weaker Shrinkage
Bias", ACML 2015. Written from the paper's equations alone, so that it can serve as an independent
oracle in tests and as the NumPy rival in speed comparisons: everything is vectorised over samples,
Omega is one BLAS product, and only the E step loops over features.

Throughout, in float64, with n samples and k features:

| paper  | here              | shape  | meaning                                             |
|--------|-------------------|--------|-----------------------------------------------------|
| X, y   | `X`, `y`          | (n, k), (n,) | the data                                      |
| mu_nk  | `mask_mean`       | (n, k) | posterior mean of the mask z_nk                     |
| beta   | `weights`         | (k,)   | effect of a feature where it is not masked          |
| pi     | `inclusion`       | (k,)   | prior rate at which a feature is left in            |
| lambda | `noise_precision` | ()     | 1 / noise variance                                  |
| G      | `bound`           | ()     | lower bound of FIC, over the features that are left |

Any memory order is correct; X in Fortran order (features contiguous) is fastest, and the fitting
functions convert to it themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]  # always float64; NumPy annotates its results no narrower
Parameters = tuple[Array, float, Array]
"""Weights (k,), noise precision (), inclusion (k,)."""

EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Fit:
    """A fitted model; arrays cover every feature, in the caller's order, and are 0 where pruned.

    Attributes:
        coef: (k,) marginal effects, weights * inclusion.
        weights: (k,) effects where not masked.
        inclusion: (k,) rates.
        support: (k,) True where the feature was not pruned.
        noise_precision: 1 / noise variance.
        mask_mean: (n, k) posterior means of the masks.
        bound: Lower bound of FIC over the features in the support.
        num_steps: Steps taken.
        converged: Whether the fit ended by itself, rather than by `max_steps` or divergence.
    """

    coef: Array
    weights: Array
    inclusion: Array
    support: NDArray[np.bool_]
    noise_precision: float
    mask_mean: Array
    bound: float
    num_steps: int
    converged: bool


Callback = Callable[[int, Fit], object]


def bound(
    X: Array,
    y: Array,
    mask_mean: Array,
    weights: Array,
    noise_precision: float,
    inclusion: Array,
) -> float:
    """Lower bound of FIC, eq. (FIClowerbound), over the k features given.

    Exact where a mask mean or an inclusion is 0 or 1, with 0 log 0 = 0. A mask that its inclusion
    rules out (some mask mean below 1 at inclusion 1, or above 0 at inclusion 0) gives -inf; else
    an inclusion of 0 gives +inf, the limit of -log(n pi) / 2. Mask means whose average rounds to 1
    go with an inclusion of 1, as eq. (FAB_Mstep3) itself rounds: else G would be -inf for one step
    on the way to 1.

    Returns:
        G, a scalar.
    """
    n, k = X.shape
    mean = mask_mean.mean(axis=0)
    if np.any((inclusion == 0) & (mean > 0)) or np.any((inclusion == 1) & (mean < 1)):
        return -np.inf
    if np.any(inclusion == 0):
        return np.inf
    left_in = mask_mean.sum(axis=0)
    masked = np.where(inclusion == 1, 0.0, (1 - mask_mean).sum(axis=0))
    masked_X, spread = _masked_moments(X, mask_mean)
    error = _expected_squared_error(y, masked_X, spread, weights)
    log_likelihood = n / 2 * np.log(noise_precision / (2 * np.pi)) - noise_precision / 2 * error
    log_prior = np.sum(_xlogy(left_in, inclusion) + _xlogy(masked, 1 - inclusion))
    penalty = np.sum(np.log(n * inclusion) + (mean - inclusion) / inclusion) / 2
    entropy = -np.sum(_xlogy(mask_mean, mask_mean) + _xlogy(1 - mask_mean, 1 - mask_mean))
    return float(log_likelihood + log_prior - penalty - (k + 1) / 2 * np.log(n) + entropy)


def e_step(
    X: Array,
    y: Array,
    mask_mean: Array,
    weights: Array,
    noise_precision: float,
    inclusion: Array,
    sweeps: int = 1,
) -> Array:
    """FAB E step, eq. (FAB_Estep): sweeps over features 0 .. k-1, each at its exact maximum of G.

    A feature sees the mask means already updated in the same sweep. Inclusion 1 gives mask means
    of exactly 1, and inclusion 0 of exactly 0.

    Returns:
        The new mask_mean, (n, k).
    """
    n, k = X.shape
    mask_mean = np.array(mask_mean, order="F")
    effects = X * weights
    residual = y - np.sum(effects * mask_mean, axis=1)
    # inclusion of 0 or 1: log 0 = -inf; far field: exp overflows to inf, and 1 / (1 + inf) = 0.
    with np.errstate(divide="ignore", over="ignore"):
        prior_logit = np.log(inclusion) - np.log1p(-inclusion) - 1 / (2 * n * inclusion)
        for _ in range(sweeps):
            for j in range(k):
                effect = effects[:, j]
                residual += effect * mask_mean[:, j]
                c = noise_precision * effect * (residual - 0.5 * effect)
                mask_mean[:, j] = 1 / (1 + np.exp(-prior_logit[j] - c))
                residual -= effect * mask_mean[:, j]
    return mask_mean


def m_step(
    X: Array, y: Array, mask_mean: Array, noise_precision: float | None = None
) -> Parameters:
    """FAB M step, eqs. (FAB_Mstep1), (FAB_Mstep2) and (FAB_Mstep3).

    A noise precision that is given is known, and kept. Omega must not be singular: no feature may
    be masked everywhere, and no two unmasked features may be copies of each other.

    Returns:
        Weights (k,), noise precision (), inclusion (k,).
    """
    masked_X, spread = _masked_moments(X, mask_mean)
    omega = masked_X.T @ masked_X + np.diag(spread)
    weights = np.linalg.solve(omega, masked_X.T @ y)
    if noise_precision is None:
        noise_precision = len(y) / _expected_squared_error(y, masked_X, spread, weights)
    return weights, noise_precision, mask_mean.mean(axis=0)


def g_step(
    X: Array,
    y: Array,
    mask_mean: Array,
    weights: Array,
    noise_precision: float,
    inclusion: Array,
    *,
    learning_rate: float | None = None,
    cap: float | None = 0.05,
    reparametrize: bool = True,
    known_noise: bool = False,
) -> Parameters:
    """FAB G step, eq. (FAB_Gstep), with the control of the learning rate of appendix C.

    The noise precision then takes its closed form at the new weights, eq. (FAB_Mstep2); that the
    paper names (FAB_Mstep3) there is an erratum.

    Where inclusion is 1 only the weight moves, by learning_rate * dG/dweights. So it is, where the
    paper is silent, at inclusion 0, and, under the reparametrization, at a weight of 0, for which
    the preconditioner divides by zero (or by a square below the smallest normal number).

    Args:
        X: (n, k).
        y: (n,).
        mask_mean: (n, k).
        weights: (k,).
        noise_precision: Scalar.
        inclusion: (k,).
        learning_rate: eta; 2e-2 / n by default.
        cap: Largest absolute update of an inclusion, before it is clipped to [0, 1]. One that is
            larger shrinks the whole step, of all features, by one factor. None: no cap.
        reparametrize: False takes the plain gradient in (weights, inclusion), section 5.2.2.
        known_noise: Keep the noise precision.

    Returns:
        Weights (k,), noise precision (), inclusion (k,).
    """
    n = len(y)
    masked_X, spread = _masked_moments(X, mask_mean)

    weights_gradient = noise_precision * (masked_X.T @ (y - masked_X @ weights) - spread * weights)
    moves = (inclusion > 0) & (inclusion < 1)
    if reparametrize:
        moves &= weights**2 >= np.finfo(np.float64).tiny
    pi = np.where(moves, inclusion, 0.5)  # any inner value will do where the inclusion stands still
    slope = n / (pi * (1 - pi)) + 1 / (2 * pi**2)
    inclusion_gradient = np.where(moves, (mask_mean.mean(axis=0) - pi) * slope, 0.0)

    if reparametrize:
        beta = np.where(moves, weights, 1.0)
        cross = np.where(moves, -pi / beta, 0.0)
        scale = np.where(moves, (1 + pi**2) / beta**2, 0.0)
        weights_direction = weights_gradient + cross * inclusion_gradient
        inclusion_direction = cross * weights_gradient + scale * inclusion_gradient
    else:
        weights_direction, inclusion_direction = weights_gradient, inclusion_gradient

    rate = 2e-2 / n if learning_rate is None else learning_rate
    largest = rate * np.max(np.abs(inclusion_direction), initial=0.0)
    if cap is not None and largest > cap:
        rate *= cap / largest
    weights = weights + rate * weights_direction
    inclusion = np.clip(inclusion + rate * inclusion_direction, 0.0, 1.0)

    if not known_noise:
        noise_precision = n / _expected_squared_error(y, masked_X, spread, weights)
    return weights, noise_precision, inclusion


def initialise(
    X: Array,
    y: Array,
    inclusion: float | Array = 0.5,
    weights: Array | None = None,
    noise_precision: float | None = None,
) -> tuple[Array, Array, float, Array]:
    """The start of Algorithms 1 and 2; the paper does not give one, and this is our choice.

    Weights are those of least squares unless given, mask means and inclusions all equal the given
    rate (a scalar, or one for each feature), and the noise precision is n / ||y - X weights||^2
    unless known. If n <= k, least squares leaves no residual, so give weights or a known noise
    precision.

    Returns:
        Mask mean (n, k), weights (k,), noise precision (), inclusion (k,).
    """
    n, k = X.shape
    if weights is None:
        weights = np.linalg.lstsq(X, y)[0]
    if noise_precision is None:
        noise_precision = float(n / np.sum((y - X @ weights) ** 2))
    inclusion = np.array(np.broadcast_to(inclusion, k), dtype=np.float64)
    mask_mean = np.array(np.broadcast_to(inclusion, (n, k)), order="F")
    return mask_mean, np.array(weights, dtype=np.float64), noise_precision, inclusion


def fab_em(
    X: Array,
    y: Array,
    *,
    inclusion: float | Array = 0.5,
    weights: Array | None = None,
    noise_precision: float | None = None,
    prune_threshold: float = EPSILON,
    tolerance: float = 1e-5,
    max_steps: int = 20_000,
    sweeps: int = 1,
    callback: Callback | None = None,
) -> Fit:
    """FAB-EM, Algorithm 1.

    Args:
        X: (n, k).
        y: (n,).
        inclusion: Initial inclusion, scalar or (k,).
        weights: Initial weights (k,); least squares by default.
        noise_precision: Known noise precision; estimated if None.
        prune_threshold: delta; a feature whose mask means average less is removed. Above 0.
        tolerance: Ends the fit at a step that prunes nothing and changes no inclusion or weight
            by as much (the paper is silent).
        max_steps: Ends the fit in any case.
        sweeps: Number of sweeps in an E step.
        callback: Called after every step with the number of steps taken and the fit so far.

    Returns:
        The fit. With every feature pruned it ends: no weights, noise precision n / ||y||^2.
    """

    def update(
        step: int, X: Array, mask_mean: Array, weights: Array, precision: float, inclusion: Array
    ) -> Parameters:
        return m_step(X, y, mask_mean, noise_precision)

    start = initialise(X, y, inclusion, weights, noise_precision)
    return _run(update, X, y, start, prune_threshold, tolerance, max_steps, sweeps, callback)


def fab_hybrid(
    X: Array,
    y: Array,
    *,
    switch: int = 500,
    inclusion: float | Array = 0.5,
    weights: Array | None = None,
    noise_precision: float | None = None,
    learning_rate: float | None = None,
    cap: float | None = 0.05,
    reparametrize: bool = True,
    prune_threshold: float = EPSILON,
    tolerance: float = 1e-5,
    max_steps: int = 20_000,
    sweeps: int = 1,
    callback: Callback | None = None,
) -> Fit:
    """Hybrid FAB-EM-EG, Algorithm 2; FAB-EG with switch = 0.

    Args:
        X: (n, k).
        y: (n,).
        switch: T; the steps before it are M steps, the others G steps.
        inclusion: Initial inclusion, scalar or (k,).
        weights: Initial weights (k,); least squares by default.
        noise_precision: Known noise precision; estimated if None.
        learning_rate: As in `g_step`.
        cap: As in `g_step`.
        reparametrize: As in `g_step`.
        prune_threshold: As in `fab_em`.
        tolerance: As in `fab_em`.
        max_steps: As in `fab_em`.
        sweeps: As in `fab_em`.
        callback: As in `fab_em`.

    Returns:
        The fit, as `fab_em` does.
    """

    def update(
        step: int, X: Array, mask_mean: Array, weights: Array, precision: float, inclusion: Array
    ) -> Parameters:
        if step < switch:
            return m_step(X, y, mask_mean, noise_precision)
        return g_step(
            X,
            y,
            mask_mean,
            weights,
            precision,
            inclusion,
            learning_rate=learning_rate,
            cap=cap,
            reparametrize=reparametrize,
            known_noise=noise_precision is not None,
        )

    start = initialise(X, y, inclusion, weights, noise_precision)
    return _run(update, X, y, start, prune_threshold, tolerance, max_steps, sweeps, callback)


def _run(
    update: Callable[[int, Array, Array, Array, float, Array], Parameters],
    X: Array,
    y: Array,
    start: tuple[Array, Array, float, Array],
    prune_threshold: float,
    tolerance: float,
    max_steps: int,
    sweeps: int,
    callback: Callback | None,
) -> Fit:
    """The loop of Algorithms 1 and 2: E step, pruning, update of the parameters."""
    num_features = X.shape[1]
    X = np.asfortranarray(X)
    features = np.arange(num_features)  # the original index of each column that is left
    mask_mean, weights, noise_precision, inclusion = start
    num_steps, converged = 0, False

    def result() -> Fit:
        return Fit(
            coef=_scatter(weights * inclusion, features, num_features),
            weights=_scatter(weights, features, num_features),
            inclusion=_scatter(inclusion, features, num_features),
            support=np.isin(np.arange(num_features), features),
            noise_precision=noise_precision,
            mask_mean=_scatter(mask_mean, features, num_features),
            bound=bound(X, y, mask_mean, weights, noise_precision, inclusion),
            num_steps=num_steps,
            converged=converged,
        )

    while num_steps < max_steps and not converged:
        mask_mean = e_step(X, y, mask_mean, weights, noise_precision, inclusion, sweeps)

        pruned = mask_mean.mean(axis=0) < prune_threshold
        if pruned.any():
            kept = ~pruned
            X, mask_mean = np.asfortranarray(X[:, kept]), mask_mean[:, kept]
            features, weights, inclusion = features[kept], weights[kept], inclusion[kept]

        old_weights, old_inclusion = weights, inclusion
        weights, noise_precision, inclusion = update(
            num_steps, X, mask_mean, weights, noise_precision, inclusion
        )

        changes = np.concatenate([weights - old_weights, inclusion - old_inclusion])
        change = np.max(np.abs(changes), initial=0.0)
        num_steps += 1
        converged = features.size == 0 or bool(change < tolerance and not pruned.any())
        if callback is not None:
            callback(num_steps, result())
        if not np.isfinite(change):  # a G step diverged
            break
    return result()


def _masked_moments(X: Array, mask_mean: Array) -> tuple[Array, Array]:
    """X o M, (n, k), and the part of Omega's diagonal that the variance of the masks adds, (k,)."""
    masked_X = X * mask_mean
    return masked_X, np.sum(masked_X * (X - masked_X), axis=0)


def _expected_squared_error(y: Array, masked_X: Array, spread: Array, weights: Array) -> float:
    """E_q ||y - (X o Z) weights||^2, the numerator of eq. (FAB_Mstep2), free of cancellation."""
    return float(np.sum((y - masked_X @ weights) ** 2) + np.sum(spread * weights**2))


def _xlogy(x: Array, y: Array) -> Array:
    """The product x log y, and 0 where x is 0."""
    return x * np.log(np.where(x == 0, 1.0, y))


def _scatter(values: Array, features: NDArray[np.intp], num_features: int) -> Array:
    """Puts values, (..., len(features)), at those features, and 0 at the others."""
    full = np.zeros((*values.shape[:-1], num_features))
    full[..., features] = values
    return full
