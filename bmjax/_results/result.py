"""`Result`, which a fit returns, and its parts."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, overload

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from bmjax._checks import validate
from bmjax._model.problem import Status
from bmjax._results.refit import RefitResult, refit
from bmjax._results.summary import Summary, collinearity_notes, feature_names, level_notes
from bmjax._runtime.backend import Array
from bmjax._runtime.precision import full_precision


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
    """The record of every fit of a dataset: one row for each start, then one for each move.

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
        next_rise: The certificate, in nats: by how much the best of all single moves that has
            not been tried, over all k features, would raise the score, judged with the masks of
            the other features as they are. Not above zero: no drop, addition or exchange of a
            feature leads to a better fit, and the best one falls short by that much. NaN where no
            move was looked at (`moves=0`).
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


class Uncertainty(NamedTuple):
    """How well the data determine the effects, if the support is taken as known.

    Held for the features that a fit has worked on, by slot; `covariance` and
    `covariance_given_masks` are of all k effects, zero where pruned, and last, with an intercept,
    of the level of y at the mean of X.

    Attributes:
        features: The feature in each slot; k or more in an empty one.
        by_slot: Covariance of the effects with the masks summed out: that of least squares on the
            support, with the noise variance ||y - X coef||^2 / (n - p). With an intercept the
            level of y comes after the slots.
        by_slot_given_masks: Given the fitted masks: the inverse of the observed information of
            the weights there, lambda Omega (equation (12) of the paper), each times its inclusion
            rate. Too small where masks have been fitted to noise.
        correlation: Of the column in each slot with every column; 0 for a constant one.
        support: The features that the covariances are of.
    """

    features: Int[Array, "*b m"]
    by_slot: Float[Array, "*b q q"]
    by_slot_given_masks: Float[Array, "*b q q"]
    correlation: Float[Array, "*b m k"]
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
    def standard_errors(self) -> Float[Array, "*b k"]:
        """Standard errors of `coef`, NaN where pruned: of an effect left out nothing is known."""
        return self._roots(self.by_slot)

    @property
    def standard_errors_given_masks(self) -> Float[Array, "*b k"]:
        """Standard errors of `coef` given the masks, NaN where pruned."""
        return self._roots(self.by_slot_given_masks)

    def variance_along(self, directions: Float[Array, "*b n p"]) -> Float[Array, "*b n"]:
        """The variance of directions @ effects, the level of y last if it was fitted."""
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

    def _roots(self, by_slot: Float[Array, "*b q q"]) -> Float[Array, "*b k"]:
        m = self.features.shape[-1]
        roots = jnp.sqrt(jnp.diagonal(by_slot, axis1=-2, axis2=-1)[..., :m])
        places = self._places(self.correlation.shape[-1])
        roots = jnp.einsum("...m,...mk->...k", roots, places)
        if self.support is None:
            return roots
        with jax.debug_nans(False):  # this NaN is meant
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
    """Means and spreads of the data of a fit without an intercept: whether it misses one.

    Attributes:
        samples: Number of samples n; 0 after `fit_stream`, which does not find out the rest.
        mean: Mean of each column.
        spread: Standard deviation of each column, 0 for a constant one.
        y_mean: Mean of y.
        y_spread: Standard deviation of y.
        y_correlation: Correlation of each column with y.
    """

    samples: Float[Array, "*b"]
    mean: Float[Array, "*b k"]
    spread: Float[Array, "*b k"]
    y_mean: Float[Array, "*b"]
    y_spread: Float[Array, "*b"]
    y_correlation: Float[Array, "*b k"]


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
        intercept: Mean of y where every feature is zero, in units of y; 0 if it is not fitted.
        center: Mean of each column that was taken off before the fit with an intercept, else 0.
            Masks hide the part of a feature beyond this.
        noise_precision: One over the noise variance (lambda), in one over squared units of y.
            Masks explain part of the noise, so it is biased upwards.
        bound: Lower bound of FIC (G), in nats, over the kept features.
        num_steps: Iterations (E steps) run, over all starts and moves, at most `max_steps`.
        status: How the returned fit ended, a code of `Status`.
        starts: The record of every start and move, the returned fit among them.
        uncertainty: Covariance of the effects, unless it was not asked for.
        history: The course of the fit if asked for, else None.
        lane_steps: After `fit_batch`, what the batch cost, else None.
        with_intercept: Whether an intercept was fitted, be it zero.
        moments: Of the data, after a fit without an intercept and with uncertainty, else None.
    """

    coef: Float[Array, "*b k"]
    weights: Float[Array, "*b k"]
    inclusion: Float[Array, "*b k"]
    support: Bool[Array, "*b k"]
    intercept: Float[Array, "*b"]
    center: Float[Array, "*b k"]
    noise_precision: Float[Array, "*b"]
    bound: Float[Array, "*b"]
    num_steps: Int[Array, "*b"]
    status: Int[Array, "*b"]
    starts: Starts
    uncertainty: Uncertainty | None = None
    history: History | None = None
    lane_steps: LaneSteps | None = None
    with_intercept: Bool[Array, "*b"] | None = None
    moments: Moments | None = None

    @property
    def converged(self) -> Bool[Array, "*b"]:
        """Whether the fit ended at its fixed point (`Status.CONVERGED`)."""
        return self.status == Status.CONVERGED

    @property
    def standard_errors(self) -> Float[Array, "*b k"]:
        """Standard errors of `coef`, the support taken as known, NaN where pruned.

        See `Uncertainty`.

        Raises:
            ValueError: If the fit was made without.
        """
        return self._uncertain("standard_errors").standard_errors

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> jax.Array: ...

    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[jax.Array, jax.Array]: ...

    @full_precision
    def predict(self, X: Any, return_std: bool = False) -> jax.Array | tuple[jax.Array, jax.Array]:
        """The mean of y at new samples, intercept + X @ coef.

        Args:
            X: (m, k) new samples; after a batch of fits (b, m, k), or (m, k) for all of them.
            return_std: Whether to return the standard deviation of y there as well. Its variance
                is the sum of three: the noise, the masks', weights^2 inclusion (1 - inclusion)
                times the squared feature, and that of the estimated effects given the masks.

        Returns:
            (m,) predictions, or (b, m); with `return_std` a pair of such.

        Raises:
            TypeError: If X is not an array of real numbers.
            ValueError: If X has not as many columns as there are coefficients, a value is not
                finite (after a batch of fits NaN stays NaN), or the fit was made without
                uncertainty and it is asked for.
        """
        X = _new_samples(X, self.coef)
        X = jnp.broadcast_to(X, (*self.coef.shape[:-1], *X.shape[-2:]))
        away = X - self.center[..., None, :]
        level = self.intercept + jnp.sum(self.center * self.coef, axis=-1)
        mean = level[..., None] + jnp.einsum("...nk,...k->...n", away, self.coef)
        if not validate.flag("return_std", return_std):
            return mean
        uncertainty = self._uncertain("return_std")
        masks = self.weights**2 * self.inclusion * (1 - self.inclusion)
        directions = away
        if uncertainty.has_level:
            directions = jnp.concatenate([away, jnp.ones_like(away[..., :1])], axis=-1)
        variance = 1 / self.noise_precision[..., None]
        variance += jnp.einsum("...nk,...k->...n", away**2, masks)
        variance += uncertainty.variance_along(directions)
        return mean, jnp.sqrt(variance)

    def raise_for_status(self) -> None:
        """Do nothing if every fit ended well, at its fixed point or at an exact fit.

        Raises:
            RuntimeError: Otherwise; the message names the fits, by their place in the batch, and
                the remedies.
        """
        codes = np.asarray(self.status)
        bad = [s for s in Status if s not in (Status.CONVERGED, Status.EXACT_FIT)]
        lines = []
        for status in bad:
            places = np.argwhere(codes == status)
            if len(places):
                lines.append(f"{status.name}{_places(places)}: {status.message}")
        if lines:
            raise RuntimeError("\n".join(lines))

    def refit(self, X: Any, y: Any, sample_weights: Any = None) -> RefitResult:
        """Least squares on the support: unbiased noise, standard errors, t and p.

        Args:
            X: (n, k) features, those of the fit or, better, samples that it has not seen.
            y: (n,) target.
            sample_weights: (n,) how often each row counts.

        Returns:
            The refit, in float64 on the host. Its standard errors and p-values take the support as
            known in advance, which its `note` says.

        Raises:
            TypeError: If an argument is not an array of real numbers.
            ValueError: If a shape does not fit, a value is not finite, or this is a batch.
        """
        self._one_fit("refit")
        return refit(
            X,
            y,
            np.asarray(self.support),
            intercept=self._has_intercept,
            sample_weights=sample_weights,
        )

    def summary(self, names: Sequence[str] | None = None) -> Summary:
        """The fit as a table to print, with notes on convergence and collinearity.

        Args:
            names: Names of the k features. Default: x0, x1, ...

        Returns:
            The summary; `print` it, or take its `to_pandas()`.

        Raises:
            ValueError: If there are not k names, or this is a batch.
        """
        self._one_fit("summary")
        names = feature_names(names, len(self.coef))
        status = Status(int(self.status))
        support = np.asarray(self.support)
        facts = {}
        if self._has_intercept:
            facts["intercept"] = f"{float(self.intercept):.5g}"
        facts |= {
            "noise (standard deviation)": f"{noise_deviation(self.noise_precision):.4g}",
            "bound": f"{float(self.bound):.6g} nats",
            "iterations": f"{int(self.num_steps)}",
            "status": f"{status.name}: {status.message}",
        }
        notes, errors = (), None
        if self.uncertainty is not None:
            errors = np.asarray(self.uncertainty.standard_errors)
            features = np.asarray(self.uncertainty.features)
            correlation = np.asarray(self.uncertainty.correlation, float)
            notes = collinearity_notes(names, support, features, correlation)
            if self.moments is not None:
                notes = level_notes(support, features, correlation, self.moments) + notes
        return Summary(
            names=names,
            coef=np.asarray(self.coef),
            standard_errors=errors,
            inclusion=np.asarray(self.inclusion),
            support=support,
            facts=facts,
            notes=notes,
        )

    def to_pandas(self, names: Sequence[str] | None = None) -> Any:
        """The features as a `pandas.DataFrame`; see `summary`.

        Raises:
            ModuleNotFoundError: If pandas is not installed.
            ValueError: If there are not k names, or this is a batch.
        """
        return self.summary(names).to_pandas()

    @property
    def _has_intercept(self) -> bool:
        return self.with_intercept is not None and bool(np.all(self.with_intercept))

    def _one_fit(self, name: str) -> None:
        if self.coef.ndim != 1:
            raise ValueError(
                f"{name} is of one fit, this is a batch of shape {self.coef.shape[:-1]}: take one, "
                "such as jax.tree.map(lambda leaf: leaf[0], result._replace(lane_steps=None))."
            )

    def _uncertain(self, name: str) -> Uncertainty:
        if self.uncertainty is None:
            raise ValueError(
                f"{name} needs the uncertainty, which this fit was made without: give "
                "uncertainty=True."
            )
        return self.uncertainty


def _places(places: np.ndarray) -> str:
    """Numbers of the first few fits of a batch."""
    if places.shape[1] == 0:
        return ""
    first = [str(p[0] if len(p) == 1 else tuple(p.tolist())) for p in places[:10]]
    rest = f" and {len(places) - 10} more" if len(places) > 10 else ""
    return f" (fit {', '.join(first)}{rest})"


def noise_deviation(precision: Any) -> float:
    """The standard deviation of the noise; infinite or NaN where the fit came to nothing."""
    with np.errstate(all="ignore"):
        return float(1 / np.sqrt(np.asarray(precision, float)))


def _new_samples(X: Any, coef: Float[Array, "*b k"]) -> jax.Array:
    # As in `fit_batch`, one bad dataset of a batch must not keep the others from their results.
    return validate.samples(X, coef.shape[-1], coef.dtype, values=coef.ndim == 1)


@full_precision
def linear_predictor(X: Any, coef: Float[Array, "*b k"]) -> jax.Array:
    """X @ coef, for one set of samples or one a batch member; see `Result.predict`.

    Raises:
        TypeError: If X is not an array of real numbers.
        ValueError: If X has not as many columns as there are coefficients, or a value is not
            finite.
    """
    return jnp.einsum("...nk,...k->...n", _new_samples(X, coef), coef)
