"""The objective: the lower bound of the factorized information criterion, equation (10)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Float

from bmjax._checks import inputs, validate
from bmjax._model.blocks import over_blocks
from bmjax._model.entropy import entropy, entropy_sums
from bmjax._model.family import touching
from bmjax._model.problem import Problem, State, Totals
from bmjax._model.sums import mask_variance, variance_along
from bmjax._runtime.backend import Array, log_sigmoid, namespace, sigmoid
from bmjax._runtime.precision import full_precision


def log_evidence_bound(
    X: "ArrayLike",  # in quotes, since `help` would spell out the whole union
    y: "ArrayLike",
    state: State,
    *,
    sample_weights: "ArrayLike | None" = None,
    unmasked: "ArrayLike | None" = None,
) -> Float[Array, ""]:
    """The lower bound G of FIC, equation (10) of the paper, from arrays as users give them.

    FIC approximates the log evidence log p(y | X) of the model and G bounds it from below.
    `lower_bound` is the same function of a `Problem`.

    Args:
        X: (n, k) features, samples in rows.
        y: (n,) target.
        state: The state to evaluate at, with fields of shape (k,), (k, n) for `mask_mean`, of the
            same floating-point type as X and y.
        sample_weights: (n,) how often each row counts, as for `fit`.
        unmasked: Features that are never masked, (k,) booleans or their numbers, as for `fit`.

    Returns:
        The bound, in nats, a pure function: use it under `jax.jit`, `jax.vmap` and `jax.grad`.
        A pruned feature has no influence, and its derivatives are exactly zero.

    Raises:
        TypeError: If an argument is not an array of real numbers.
        ValueError: If a shape does not fit, or a known value of X, y or `sample_weights` is not
            finite.

    Example:
        >>> import jax.numpy as jnp
        >>> import bmjax
        >>> X, y, _ = bmjax.datasets.load_diabetes()
        >>> X, y = (jnp.asarray(a - a.mean(axis=0)) / a.std(axis=0) for a in (X, y))
        >>> problem = bmjax.Problem(X.T, y, None, prune_threshold=jnp.asarray(1e-6, y.dtype))
        >>> state = bmjax.initialise(problem, jnp.full(10, 0.5, y.dtype))
        >>> bool(bmjax.log_evidence_bound(X, y, state) == bmjax.lower_bound(problem, state))
        True
    """
    features, target, counts = inputs.weighted_data(X, y, sample_weights)
    n, k = features.shape
    for name, value in state._asdict().items():
        wanted = {"mask_mean": (k, n), "noise_precision": ()}.get(name, (k,))
        if jnp.shape(value) != wanted:
            raise ValueError(
                f"state.{name} has shape {jnp.shape(value)}, wanted {wanted} for X of shape "
                f"{(n, k)}."
            )
    if unmasked is not None:
        unmasked = validate.chosen_features("unmasked", unmasked, k)
    # Nothing is fitted, so neither a known noise precision nor a threshold has an effect.
    threshold = jnp.zeros((), features.dtype)
    return lower_bound(Problem(features.T, target, None, threshold, counts, unmasked), state)


@full_precision
def lower_bound(problem: Problem, state: State) -> Float[Array, ""]:
    """The lower bound G of FIC at a state, over its active features.

        G = E[log p(y | X, Z)] + E[log p(Z)] + H(Z) - (K + 1)/2 log n
            - 1/2 sum_k (log(n pi_k) + (mean_n mu_nk - pi_k) / pi_k)

    with K the number of active features that may be masked; an unmasked feature is charged for its
    weight only, log(n)/2. With sample weights every sum over samples is weighted. This is equation
    (10) of the paper (`FIClowerbound`). A group of d columns counts as one feature, with d times
    the last term. The last term rises without limit as an unpruned inclusion rate falls to zero,
    and a constant is lost when a feature is pruned: compare values only between states with the
    same active set or between finished fits.

    Args:
        problem: The dataset.
        state: The state to evaluate at. An inclusion rate of exactly one and a mask mean of exactly
            zero or one are handled exactly: 0 log 0 is 0. A mask mean below one at inclusion rate
            one gives -inf.

    Returns:
        The bound, in nats. It is differentiable in the data and in every field of the state; at a
        mask mean of exactly zero or one, where the entropy has infinite slope, the derivative is
        large but finite.

    Example:
        >>> import jax.numpy as jnp
        >>> import bmjax
        >>> X, y, _ = bmjax.datasets.load_diabetes()
        >>> X, y = (jnp.asarray(a - a.mean(axis=0)) / a.std(axis=0) for a in (X, y))
        >>> problem = bmjax.Problem(X.T, y, None, prune_threshold=jnp.asarray(1e-6, y.dtype))
        >>> state = bmjax.initialise(problem, jnp.full(10, 0.5, y.dtype))
        >>> after = bmjax.m_step(problem, bmjax.e_step(problem, state))
        >>> bool(bmjax.lower_bound(problem, after) > bmjax.lower_bound(problem, state))
        True
    """
    problem = touching(problem, state)
    active = state.active
    weights = jnp.where(active, state.weights, 0)

    def of_block(part: Problem, own: Array, _: Array, total: Any) -> Any:
        mask = jnp.where(active[:, None], own, 0)
        masked = part.X * mask
        residual = part.y - weights @ masked
        kept, left_out = part.total(mask), part.total(1 - mask)  # not n - kept, which rounds away
        masks = Masks(kept, left_out, part.total(entropy(own)))
        sums = part.total(residual**2), mask_variance(part, mask, masked), masks
        return sums if total is None else jax.tree.map(jnp.add, total, sums)

    square, variance, masks = over_blocks(problem, state.mask_mean, of_block, None)
    sum_squares, n = square + variance_along(weights, variance), problem.num_samples
    masks = masks._replace(kept=masks.kept / n, left_out=masks.left_out / n)
    return bound_of(problem, state, sum_squares, masks)


def bound_after_m_step(
    problem: Problem, state: State, sum_squares: Float[Array, ""]
) -> Float[Array, ""]:
    """The bound after an M step, where the rates are the mean masks, given E||residual||^2.

    Only the entropy then needs a pass over the masks. It has no reverse-mode derivative.
    """
    left_out = sigmoid(-state.log_odds)
    masks = Masks(state.inclusion, left_out, entropy_sums(problem, state))
    return bound_of(problem, state, sum_squares, masks)


class Masks(NamedTuple):
    """The sums over samples of the masks of each feature that the bound needs.

    Attributes:
        kept: Mean over samples of the mask means.
        left_out: Mean over samples of one minus the mask means.
        entropy: Sum over samples of the entropies of the masks.
    """

    kept: Float[Array, " k"]
    left_out: Float[Array, " k"]
    entropy: Float[Array, " k"]


def bound_of(
    problem: Problem | Totals, state: State, sum_squares: Float[Array, ""], masks: Masks
) -> Float[Array, ""]:
    """The bound from the sums over samples that it depends on."""
    xp = namespace(state)
    n = problem.num_samples
    active = state.active
    log_likelihood = 0.5 * n * xp.log(state.noise_precision / (2 * xp.pi))
    log_likelihood -= 0.5 * state.noise_precision * sum_squares
    if problem.log_base is not None:
        log_likelihood += problem.log_base

    per_feature = _feature_terms(problem, state, masks)
    if problem.groups is not None:
        active = active & problem.groups.first
    return (
        log_likelihood
        + xp.sum(xp.where(active, per_feature, 0))
        - 0.5
        * (xp.sum(active & problem.maskable, dtype=sum_squares.dtype) + 1)
        * problem.log_samples
    )


def masking_cost(problem: Problem | Totals, state: State, masks: Masks) -> Float[Array, " k"]:
    """The cost of the masks and the inclusion rate of each feature in the bound, in nats.

    It is log(n) / 2 for a feature that is never masked. That of a group is in the entry of its
    first column.
    """
    return -_feature_terms(problem, state, masks)


def _feature_terms(problem: Problem | Totals, state: State, masks: Masks) -> Float[Array, " k"]:
    """E[log p(z)] + H(z) - (log(n pi) + (mean mask - pi) / pi) / 2 of every feature."""
    xp = namespace(state)
    n = problem.num_samples
    kept, left_out, entropies = masks
    log_prior = _expected_log_bernoulli(kept, left_out, state.log_odds)
    log_odds = xp.where(state.active, state.log_odds, 0)
    inclusion = sigmoid(log_odds)
    penalty = xp.log(n * inclusion) + (kept - inclusion) / inclusion
    if problem.groups is not None:
        penalty = problem.groups.size.astype(penalty.dtype) * penalty
    return n * log_prior - 0.5 * penalty + entropies


def bound_slack(problem: Problem | Totals, bound: Float[Array, ""]) -> Float[Array, ""]:
    """The largest difference of two evaluations of the bound that may be rounding.

    The bound is a sum of about n k terms whose partial sums are of the order of n; XLA adds them
    pairwise, so a few units of rounding of that size cover it.
    """
    return 4 * jnp.finfo(bound.dtype).eps * (problem.num_samples + abs(bound))


def _expected_log_bernoulli(
    kept: Float[Array, " k"], left_out: Float[Array, " k"], log_odds: Float[Array, " k"]
) -> Float[Array, " k"]:
    """The sum kept * log(pi) + left_out * log(1 - pi), with 0 log 0 = 0 in value and gradient."""
    xp = namespace(kept, log_odds)
    finite = xp.isfinite(log_odds)
    inside = xp.where(finite, log_odds, 0)  # keeps infinities out of the differentiated branch
    value = kept * log_sigmoid(inside) + left_out * log_sigmoid(-inside)
    contradicted = xp.where(log_odds > 0, left_out, kept)
    at_the_end = xp.where(contradicted > 0, xp.full_like(value, -xp.inf), 0)
    return xp.where(finite, value, at_the_end)
