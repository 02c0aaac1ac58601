"""`Estimate`, the result of every baseline."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from bmjax._model.status import Status
from bmjax._results.prediction import linear_predictor


class CrossValidation(NamedTuple):
    """The grid and the errors of a cross-validation.

    Attributes:
        alphas: The grid of alphas, from the largest to the smallest.
        errors: Mean squared error on each held-out fold, for each alpha.

    Example:
        >>> from bmjax import baselines
        >>> from bmjax.datasets import load_diabetes
        >>> X, y, names = load_diabetes()
        >>> X, y = X - X.mean(axis=0), y - y.mean()
        >>> estimate = baselines.lasso_cv(X, y, num_alphas=10)
        >>> estimate.cross_validation.errors.shape
        (10, 5)
    """

    alphas: Float[Array, "*b a"]
    errors: Float[Array, "*b a folds"]


class Estimate(NamedTuple):
    """A fitted linear model. Under `vmap` every field has the batch axes in front.

    Attributes:
        coef: Effect of each feature, exactly zero where it is not selected.
        support: Whether each feature is selected.
        noise_precision: One over the noise variance: as given, or else the unbiased estimate
            (n - selected) / ||y - X coef||^2.
        objective: Value of the function that the estimator minimises, at the estimate.
        num_steps: Number of iterations; each estimator documents what it counts.
        status: The code of `bmjax.Status` with which the fit ended.
        alpha: Regularisation constant of the Lasso, in the paper's objective, else None.
        cross_validation: The cross-validation that chose alpha in `lasso_cv`, else None.

    Example:
        >>> from bmjax import baselines
        >>> from bmjax.datasets import load_diabetes
        >>> X, y, names = load_diabetes()
        >>> X, y = X - X.mean(axis=0), y - y.mean()
        >>> estimate = baselines.least_squares(X, y)
        >>> estimate.coef.shape, bool(estimate.support.all())
        ((10,), True)
    """

    coef: Float[Array, "*b k"]
    support: Bool[Array, "*b k"]
    noise_precision: Float[Array, "*b"]
    objective: Float[Array, "*b"]
    num_steps: Int[Array, "*b"]
    status: Int[Array, "*b"]
    alpha: Float[Array, "*b"] | None = None
    cross_validation: CrossValidation | None = None

    @property
    def converged(self) -> Bool[Array, "*b"]:
        """Whether the fit ended at its optimum (`Status.CONVERGED`)."""
        return self.status == Status.CONVERGED

    def predict(self, X: ArrayLike) -> jax.Array:
        """The mean of y at new samples, X @ coef.

        Args:
            X: (m, k) new samples; after a batch of fits (b, m, k), or (m, k) for all of them.

        Returns:
            (m,) predictions, or (b, m).

        Raises:
            ValueError: If X does not have one column for each coefficient.
        """
        return linear_predictor(X, self.coef)


def verdict(
    coef: Float[Array, " k"],
    objective: Float[Array, ""],
    converged: Bool[Array, ""],
    exact: Bool[Array, ""] | bool = False,
) -> Int[Array, ""]:
    """The status of a finished fit; of several that apply, the gravest."""
    status = jnp.where(converged, Status.CONVERGED, Status.MAX_STEPS)
    status = jnp.where(converged & exact, Status.EXACT_FIT, status)
    finite = jnp.isfinite(coef).all() & jnp.isfinite(objective)
    return jnp.where(finite, status, Status.NON_FINITE).astype(jnp.int32)
