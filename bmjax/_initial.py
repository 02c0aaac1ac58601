"""Where a fit starts. The paper says nothing of initial values; these choices are ours."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from bmjax._steps import noise_floor, restrict, solve_normal_equations
from bmjax._types import Problem, State


def initialise(
    problem: Problem,
    inclusion: Float[Array, " k"],
    weights: Float[Array, " k"] | None = None,
) -> State:
    """The state before the first step.

    Masks and inclusion rates start at the given rates, the weights at least squares, the noise
    precision at n / ||y - X weights||^2 unless it is known. Where n <= k least squares leaves no
    residual, so weights and noise come from the ridge regression of highest evidence instead.
    A feature that is zero in every row, or any feature if y is zero in every row, can explain
    nothing and starts out pruned.

    Args:
        problem: The dataset.
        inclusion: Initial inclusion rates, in (0, 1].
        weights: Initial weights in place of the least-squares ones.

    Returns:
        The initial state.
    """
    k, n = problem.X.shape
    noise_variance = None
    if weights is None:
        if n > k:
            gram = problem.X @ problem.X.T
            everything = jnp.ones(k, bool)
            weights = solve_normal_equations(gram, problem.X @ problem.y, everything)
        else:
            weights, noise_variance = _evidence_ridge(problem.X, problem.y)
    if problem.noise_precision is not None:
        noise_precision = problem.noise_precision
    else:
        if noise_variance is None:
            noise_variance = jnp.mean((problem.y - weights @ problem.X) ** 2)
        noise_precision = 1 / jnp.maximum(noise_variance, noise_floor(problem.y))
    state = State(
        mask_mean=jnp.broadcast_to(inclusion[:, None], (k, n)),
        weights=weights,
        log_odds=jnp.log(inclusion) - jnp.log1p(-inclusion),
        noise_precision=noise_precision,
        active=jnp.ones(k, bool),
    )
    can_explain = jnp.any(problem.X != 0, axis=1) & jnp.any(problem.y != 0)
    return restrict(state, can_explain)


def _evidence_ridge(
    X: Float[Array, "k n"], y: Float[Array, " n"]
) -> tuple[Float[Array, " k"], Float[Array, ""]]:
    """Weights and noise variance of the ridge regression that maximises the marginal likelihood.

    y ~ N(0, s (I + t Z'Z)) with Z the columns of X scaled to unit length, s in closed form and t
    the best of a logarithmic grid. Finite for any rank, and equivariant to the scale of a column.
    """
    norms = jnp.sqrt(jnp.sum(X**2, axis=1))
    scale = jnp.where(norms > 0, 1 / jnp.where(norms > 0, norms, 1), 0)
    Z = X * scale[:, None]
    eigenvalues, vectors = jnp.linalg.eigh(Z.T @ Z)
    eigenvalues = jnp.maximum(eigenvalues, 0)
    rotated = vectors.T @ y
    ratios = jnp.logspace(-3, 3, 61, dtype=X.dtype)
    spread = 1 + ratios[:, None] * eigenvalues[None, :]
    variances = jnp.maximum(jnp.mean(rotated[None, :] ** 2 / spread, axis=1), noise_floor(y))
    evidence = -len(y) * jnp.log(variances) - jnp.sum(jnp.log(spread), axis=1)
    best = jnp.argmax(evidence)
    weights = ratios[best] * scale * (Z @ (vectors @ (rotated / spread[best])))
    return weights, variances[best]
