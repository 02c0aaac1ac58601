"""The objective: the lower bound of the factorized information criterion, equation (10)."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bmjax._types import Problem, State


def lower_bound(problem: Problem, state: State) -> Float[Array, ""]:
    """The lower bound G of FIC at a state, over its active features.

        G = E[log p(y | X, Z)] + E[log p(Z)] + H(Z) - (K + 1)/2 log n
            - 1/2 sum_k (log(n pi_k) + (mean_n mu_nk - pi_k) / pi_k)

    with K the number of active features. Equation (10) of the paper (`FIClowerbound`).
    The last term rises without limit as an unpruned inclusion falls to zero, and a constant
    goes when a feature is pruned: compare values only between states with the same active set
    or between finished fits.

    Args:
        problem: The dataset.
        state: Where to evaluate. Inclusion exactly one, or a mask exactly zero or one, is exact:
            0 log 0 is 0. A mask below one under an inclusion of one gives -inf.

    Returns:
        The bound, in nats. Differentiable in the data and in every field of the state; at a mask
        of exactly zero or one the slope of the entropy is taken as zero.
    """
    active = state.active
    mask = jnp.where(active[:, None], state.mask_mean, 0)
    effects = problem.X * jnp.where(active, state.weights, 0)[:, None]
    residual = problem.y - jnp.sum(mask * effects, axis=0)
    sum_squares = jnp.sum(residual**2) + jnp.sum((mask - mask**2) * effects**2)
    return bound_given(problem, state, sum_squares)


def bound_given(problem: Problem, state: State, sum_squares: Float[Array, ""]) -> Float[Array, ""]:
    """The bound from E||y - (X o Z) weights||^2 already at hand."""
    n = problem.num_samples
    active = state.active
    mask = jnp.where(active[:, None], state.mask_mean, 0)
    log_likelihood = 0.5 * n * jnp.log(state.noise_precision / (2 * jnp.pi))
    log_likelihood -= 0.5 * state.noise_precision * sum_squares

    kept = jnp.mean(mask, axis=1)
    left_out = jnp.mean(1 - mask, axis=1)  # not 1 - kept, which float32 rounds away
    log_prior = _expected_log_bernoulli(kept, left_out, state.log_odds)
    log_odds = jnp.where(active, state.log_odds, 0)
    inclusion = jax.nn.sigmoid(log_odds)
    penalty = jnp.log(n * inclusion) + (kept - inclusion) / inclusion
    per_feature = jnp.where(active, n * log_prior - 0.5 * penalty, 0)

    return (
        log_likelihood
        + jnp.sum(per_feature)
        + jnp.sum(_entropy(mask))
        - 0.5 * (jnp.sum(active, dtype=mask.dtype) + 1) * math.log(n)
    )


def bound_slack(problem: Problem, bound: Float[Array, ""]) -> Float[Array, ""]:
    """How far two evaluations of the bound may differ by rounding alone.

    The bound is a sum of about n k terms whose partial sums are of the order of n; XLA adds them
    pairwise, so a few units of rounding of that size cover it.
    """
    return 4 * jnp.finfo(bound.dtype).eps * (problem.num_samples + jnp.abs(bound))


def _expected_log_bernoulli(
    kept: Float[Array, " k"], left_out: Float[Array, " k"], log_odds: Float[Array, " k"]
) -> Float[Array, " k"]:
    """The sum kept * log(pi) + left_out * log(1 - pi), 0 log 0 = 0 in value and in gradient."""
    finite = jnp.isfinite(log_odds)
    inside = jnp.where(finite, log_odds, 0)  # keeps infinities out of the differentiated branch
    value = kept * jax.nn.log_sigmoid(inside) + left_out * jax.nn.log_sigmoid(-inside)
    contradicted = jnp.where(log_odds > 0, left_out, kept)
    at_the_end = jnp.where(contradicted > 0, -jnp.inf, 0)
    return jnp.where(finite, value, at_the_end)


def _entropy(mask_mean: Float[Array, "k n"]) -> Float[Array, "k n"]:
    """Entropy of Bernoulli variables, with 0 log 0 = 0 in value and in gradient."""
    inside = (mask_mean > 0) & (mask_mean < 1)
    p = jnp.where(inside, mask_mean, 0.5)
    # log(1 - p), not log1p(-p): as accurate where it counts, and log1p is slow in float64.
    return jnp.where(inside, -p * jnp.log(p) - (1 - p) * jnp.log(1 - p), 0)
