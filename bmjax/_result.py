"""What a fit returns."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from bmjax._types import Status


class History(NamedTuple):
    """The course of a fit, a row a step of the solver.

    Rows of steps that were not run hold NaN (count: -1).

    Attributes:
        weights: Weights after each step.
        inclusion: Inclusion rates after each step.
        noise_precision: Noise precision after each step.
        bound: Lower bound of FIC after each step, over the features active then.
        active_count: How many features were not pruned.
    """

    weights: Float[Array, "steps k"]
    inclusion: Float[Array, "steps k"]
    noise_precision: Float[Array, " steps"]
    bound: Float[Array, " steps"]
    active_count: Int[Array, " steps"]


class Starts(NamedTuple):
    """What came of every fit of a dataset: a row a start, then a row a move, in order.

    Rows of moves that were not made hold NaN, a score of -inf, a size of -1 and the status
    `RUNNING`.

    Attributes:
        score: What the fits were ranked by, in nats; -inf for a fit that says nothing.
        bound: Lower bound of FIC, in nats.
        size: How many features were kept.
        status: How the fit ended, a code of `Status`.
        num_steps: Iterations run.
        inclusion: Inclusion rates.
        coef: Effects on the mean of y.
        best: The number of the fit that was returned. A score must be higher by 0.01 nats to
            replace an earlier one, so it need not be the very highest.
    """

    score: Float[Array, "*b f"]
    bound: Float[Array, "*b f"]
    size: Int[Array, "*b f"]
    status: Int[Array, "*b f"]
    num_steps: Int[Array, "*b f"]
    inclusion: Float[Array, "*b f k"]
    coef: Float[Array, "*b f k"]
    best: Int[Array, "*b"]

    @property
    def share(self) -> Float[Array, "*b f"]:
        """The weight of each fit, exp(score) over their sum; fits of one support count once."""
        kept = self.coef != 0
        same = jnp.all(kept[..., :, None, :] == kept[..., None, :, :], axis=-1)
        order = jnp.arange(self.score.shape[-1])
        mine, other = self.score[..., :, None], self.score[..., None, :]
        beaten = (other > mine) | ((other == mine) & (order[None, :] < order[:, None]))
        score = jnp.where(jnp.any(same & beaten, axis=-1), -jnp.inf, self.score)
        score = jnp.where(jnp.isnan(score), -jnp.inf, score)
        none = ~jnp.any(jnp.isfinite(score), axis=-1, keepdims=True)
        return jax.nn.softmax(jnp.where(none & (order == 0), 0, score), axis=-1)

    @property
    def averaged_support(self) -> Float[Array, "*b k"]:
        """Probability of each feature to be kept, over the fits weighted by their share."""
        return jnp.sum(jnp.where(self.coef != 0, self.share[..., None], 0), axis=-2)

    @property
    def averaged_coef(self) -> Float[Array, "*b k"]:
        """Effects averaged over the fits, weighted by their share."""
        return jnp.sum(self.share[..., None] * jnp.nan_to_num(self.coef), axis=-2)


class LaneSteps(NamedTuple):
    """Iterations of a batch: those its datasets needed, and those all its lanes made.

    Attributes:
        useful: Sum of `num_steps` over the datasets.
        total: The same with what lanes made after they had ended.
    """

    useful: int
    total: int


class Result(NamedTuple):
    """A fitted Bayesian masking model. Under `vmap` every field has the batch axes in front.

    Read `coef` as the effect of a feature and `inclusion` as how often it acts. `weights` is the
    effect at those samples where the feature is not masked, and can be far larger than `coef`
    when inclusion is small.

    Attributes:
        coef: Effect of each feature on the mean of y, `weights * inclusion`, in units of y per
            unit of the feature. Exactly zero where pruned.
        weights: Effect where not masked (beta), same units. Zero where pruned.
        inclusion: Rate at which a feature is left in (pi), in [0, 1]. Zero where pruned.
        support: The features kept.
        noise_precision: One over the noise variance (lambda), in one over squared units of y.
            Masks explain part of the noise, so it is biased upwards.
        bound: Lower bound of FIC (G), in nats, over the kept features.
        num_steps: Iterations (E steps) run, over all starts and moves.
        status: How the returned fit ended, a code of `Status`.
        starts: What came of every start and move, the returned one among them.
        history: The course of the fit if asked for, else None.
        lane_steps: After `fit_batch`, what the batch cost, else None.
    """

    coef: Float[Array, "*b k"]
    weights: Float[Array, "*b k"]
    inclusion: Float[Array, "*b k"]
    support: Bool[Array, "*b k"]
    noise_precision: Float[Array, "*b"]
    bound: Float[Array, "*b"]
    num_steps: Int[Array, "*b"]
    status: Int[Array, "*b"]
    starts: Starts
    history: History | None = None
    lane_steps: LaneSteps | None = None

    @property
    def converged(self) -> Bool[Array, "*b"]:
        """Whether the fit ended at its fixed point (`Status.CONVERGED`)."""
        return self.status == Status.CONVERGED

    def predict(self, X: ArrayLike) -> jax.Array:
        """The mean of y at new samples, X @ coef.

        Args:
            X: (m, k) new samples; after a batch of fits (b, m, k), or (m, k) for all of them.

        Returns:
            (m,) predictions, or (b, m).

        Raises:
            ValueError: If X has not as many columns as there are coefficients.
        """
        return linear_predictor(X, self.coef)


def linear_predictor(X: ArrayLike, coef: Float[Array, "*b k"]) -> jax.Array:
    """X @ coef, for one set of samples or one a batch member; see `Result.predict`.

    Raises:
        ValueError: If X has not as many columns as there are coefficients.
    """
    X = jnp.asarray(X)
    if X.ndim < 2 or X.shape[-1] != coef.shape[-1]:
        raise ValueError(
            f"X has shape {X.shape}; predict needs samples in rows and the "
            f"{coef.shape[-1]} features of the fit in columns."
        )
    return jnp.einsum("...nk,...k->...n", X, coef)
