"""The parts of a result: history, starts, uncertainty, moments of the data, steps of the lanes."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from bmjax._runtime.backend import Array
from bmjax._runtime.debugging import unwatched


class History(NamedTuple):
    """The course of a fit, with one row for each step of the solver.

    Rows of steps that were not run hold NaN, and -1 in `active_count`.

    Attributes:
        weights: Weights after each step.
        inclusion: Inclusion rates after each step.
        noise_precision: Noise precision after each step.
        bound: Lower bound of FIC after each step, in nats, over the features active at that step.
        active_count: Number of features not pruned after each step.

    Example:
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> fit = bmjax.fit(X, y, intercept=True, history=True)
        >>> ran = fit.history.active_count >= 0
        >>> bool(fit.history.bound[ran][-1] > fit.history.bound[ran][0])
        True
    """

    weights: Float[Array, "steps k"]
    inclusion: Float[Array, "steps k"]
    noise_precision: Float[Array, " steps"]
    bound: Float[Array, " steps"]
    active_count: Int[Array, " steps"]


class Starts(NamedTuple):
    """The record of every fit of a dataset: one row for each start, then one for each move.

    Rows of moves that were not made hold NaN, a score of -inf, a size of -1 and the status
    `RUNNING`.

    Attributes:
        score: Score that ranks the fits, in nats; -inf for a fit that cannot be ranked.
        bound: Lower bound of FIC, in nats.
        size: Number of features kept.
        status: The code of `Status` with which the fit ended.
        num_steps: Iterations run.
        inclusion: Inclusion rates.
        coef: Effects on the mean of y.
        best: The number of the fit that was returned. A score must be higher by 0.01 nats to
            replace an earlier one, so it need not be the very highest.
        next_rise: The certificate, in nats: the rise of the score by the best single move, over all
            k features, that has not been tried, judged with the masks of the other features held
            fixed. If it is not above zero, no drop, addition or exchange of a feature leads to a
            better fit, and the best one falls short by that much. NaN if no move was judged
            (`moves=0`).

    Example:
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> fit = bmjax.fit(X, y, intercept=True)
        >>> fit.starts.score.shape  # two starts and five moves
        (7,)
        >>> bool(fit.starts.certified)
        True
    """

    score: Float[Array, "*b f"]
    bound: Float[Array, "*b f"]
    size: Int[Array, "*b f"]
    status: Int[Array, "*b f"]
    num_steps: Int[Array, "*b f"]
    inclusion: Float[Array, "*b f k"]
    coef: Float[Array, "*b f k"]
    best: Int[Array, "*b"]
    next_rise: Float[Array, "*b"]

    @property
    def certified(self) -> Bool[Array, "*b"]:
        """Whether no single drop, addition or exchange, over all features, raises the score."""
        return self.next_rise <= 0

    @property
    def share(self) -> Float[Array, "*b f"]:
        """The weight of each fit, exp(score) over the sum; fits of the same support count once."""
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
        """Probability that each feature is kept, over the fits weighted by their share."""
        return jnp.sum(jnp.where(self.coef != 0, self.share[..., None], 0), axis=-2)

    @property
    def averaged_coef(self) -> Float[Array, "*b k"]:
        """Effects averaged over the fits, weighted by their share."""
        return jnp.sum(self.share[..., None] * jnp.nan_to_num(self.coef), axis=-2)


class Uncertainty(NamedTuple):
    """The covariance of the effects, with the support taken as known.

    It is stored for the features in the working set of the fit, by slot; `covariance` and
    `covariance_given_masks` cover all k effects, zero where pruned, followed, with an intercept, by
    the level of y at the mean of X.

    Attributes:
        features: The feature in each slot; k or more in an empty one.
        by_slot: Covariance of the effects with the masks summed out: that of least squares on the
            support, with the noise variance ||y - X coef||^2 / (n - p). With an intercept, the
            level of y comes after the slots.
        by_slot_given_masks: Covariance given the fitted masks: the inverse of the observed
            information of the weights, lambda Omega (equation (12) of the paper), with each weight
            times its inclusion rate. Too small where masks have been fitted to noise.
        correlation: Correlation of the column in each slot with every column; 0 if one is constant.
        least_squares_by_slot: Effects by least squares on the support, without masks.
        relative_size: Standard deviation of the column in each slot over that of y; root mean
            squares without an intercept.
        r_squared: The share of the variance of y that the effects explain, 1 - ||y - X coef||^2
            over the sum of squares of y around its mean; around zero without an intercept.
        freedom: Degrees of freedom n - p of the noise variance, 0 if that is known.
        support: The features kept, (k,).

    Example:
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> fit = bmjax.fit(X, y, intercept=True)
        >>> fit.uncertainty.covariance.shape  # of ten effects and the level of y
        (11, 11)
    """

    features: Int[Array, "*b m"]
    by_slot: Float[Array, "*b q q"]
    by_slot_given_masks: Float[Array, "*b q q"]
    correlation: Float[Array, "*b m k"]
    least_squares_by_slot: Float[Array, "*b m"]
    relative_size: Float[Array, "*b m"]
    r_squared: Float[Array, "*b"]
    freedom: Float[Array, "*b"]
    support: Bool[Array, "*b k"] | None = None

    @property
    def has_level(self) -> bool:
        """Whether the level of y was fitted."""
        return self.by_slot.shape[-1] > self.features.shape[-1]

    @property
    def covariance(self) -> Float[Array, "*b p p"]:
        """Covariance of all effects with the masks summed out, (p, p): p = k, or k + 1."""
        return self._of_all(self.by_slot)

    @property
    def covariance_given_masks(self) -> Float[Array, "*b p p"]:
        """Covariance of all effects given the masks, (p, p): p = k, or k + 1."""
        return self._of_all(self.by_slot_given_masks)

    @property
    def least_squares(self) -> Float[Array, "*b k"]:
        """Effects by least squares on the support, zero where pruned."""
        return self._of_features(self.least_squares_by_slot)

    @property
    def relative_sizes(self) -> Float[Array, "*b k"]:
        """Standard deviations of the kept columns over that of y, zero where pruned."""
        return self._of_features(self.relative_size)

    @property
    def standard_errors(self) -> Float[Array, "*b k"]:
        """Standard errors of `coef`, NaN where pruned, since nothing is known of those effects."""
        return self._roots(self.by_slot)

    @property
    def standard_errors_given_masks(self) -> Float[Array, "*b k"]:
        """Standard errors of `coef` given the masks, NaN where pruned."""
        return self._roots(self.by_slot_given_masks)

    def variance_along(self, directions: Float[Array, "*b n p"]) -> Float[Array, "*b n"]:
        """The variance of directions @ effects, with the level of y last if it was fitted."""
        k, features = self.correlation.shape[-1], self.features
        index = jnp.broadcast_to(
            features[..., None, :], (*directions.shape[:-1], features.shape[-1])
        )
        here = jnp.where(
            index < k, jnp.take_along_axis(directions, jnp.minimum(index, k - 1), axis=-1), 0
        )
        if self.has_level:
            here = jnp.concatenate([here, directions[..., -1:]], axis=-1)
        return jnp.einsum("...ni,...ij,...nj->...n", here, self.by_slot, here)

    def _of_features(self, by_slot: Float[Array, "*b m"]) -> Float[Array, "*b k"]:
        every = jnp.einsum("...m,...mk->...k", by_slot, self._places(self.correlation.shape[-1]))
        return every if self.support is None else jnp.where(self.support, every, 0)

    @unwatched
    def _roots(self, by_slot: Float[Array, "*b q q"]) -> Float[Array, "*b k"]:
        m = self.features.shape[-1]
        roots = jnp.sqrt(jnp.diagonal(by_slot, axis1=-2, axis2=-1)[..., :m])
        places = self._places(self.correlation.shape[-1])
        roots = jnp.einsum("...m,...mk->...k", roots, places)
        if self.support is None:
            return roots
        return jnp.where(self.support, roots, jnp.nan)

    def _of_all(self, by_slot: Float[Array, "*b q q"]) -> Float[Array, "*b p p"]:
        k = self.correlation.shape[-1]
        if not self.has_level:
            places = self._places(k)
            return jnp.einsum("...mi,...mn,...nj->...ij", places, by_slot, places)
        level = jnp.full((*self.features.shape[:-1], 1), k, self.features.dtype)
        features = jnp.where(self.features < k, self.features, k + 1)
        whole = self._replace(features=jnp.concatenate([features, level], axis=-1))
        places = whole._places(k + 1)
        return jnp.einsum("...mi,...mn,...nj->...ij", places, by_slot, places)

    def _places(self, k: int) -> Float[Array, "*b m k"]:
        return jax.nn.one_hot(self.features, k, dtype=self.by_slot.dtype)


class Moments(NamedTuple):
    """Means and spreads of the data of a fit without an intercept, to judge whether it needs one.

    Attributes:
        samples: Number of samples n; 0 after `fit_stream`, which does not compute the moments.
        mean: Mean of each column.
        spread: Standard deviation of each column, 0 for a constant one.
        y_mean: Mean of y.
        y_spread: Standard deviation of y.
        y_correlation: Correlation of each column with y.

    Example:
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> fit = bmjax.fit(X, y)  # without an intercept; one with it has no moments
        >>> round(float(fit.moments.y_mean), 1)
        152.1
    """

    samples: Float[Array, "*b"]
    mean: Float[Array, "*b k"]
    spread: Float[Array, "*b k"]
    y_mean: Float[Array, "*b"]
    y_spread: Float[Array, "*b"]
    y_correlation: Float[Array, "*b k"]


class LaneSteps(NamedTuple):
    """Iterations of a batch: those that its datasets needed, and those that all lanes made.

    Attributes:
        useful: Sum of `num_steps` over the datasets.
        total: Iterations of all lanes, including those made after a dataset had ended.

    Example:
        >>> import numpy as np
        >>> import bmjax
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5, 40, 3))
        >>> batch = bmjax.fit_batch(X, 2 * X[:, :, 0] + 0.3 * rng.normal(size=(5, 40)))
        >>> batch.lane_steps.useful <= batch.lane_steps.total
        True
    """

    useful: int
    total: int
