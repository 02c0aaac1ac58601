"""Predictions of a fit, and their parts: the variance due to the masks, the rounding."""

from collections.abc import Sequence
from typing import Any, Literal, overload

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bmjax._checks import inputs, validate
from bmjax._checks.arrays import floating_array
from bmjax._checks.groups import Label
from bmjax._model.groups import groups_of
from bmjax._results.names import Names, in_order
from bmjax._results.parts import Uncertainty
from bmjax._runtime.backend import Array, namespace
from bmjax._runtime.precision import full_precision


def noise_deviation(precision: Any) -> float:
    """The standard deviation of the noise; infinite or NaN if the fit failed."""
    with np.errstate(all="ignore"):
        return float(1 / np.sqrt(np.asarray(precision, float)))


def new_samples(X: Any, coef: Float[Array, "*b k"]) -> jax.Array:
    # As in `fit_batch`, one bad dataset of a batch must not keep the others from their results.
    return inputs.samples(X, coef.shape[-1], coef.dtype, values=coef.ndim == 1)


def centred_predictor(fit: Any, X: Any) -> tuple[jax.Array, jax.Array]:
    """New samples minus the center of a `Result` or `Posterior`, and their linear predictor."""
    coef = jnp.asarray(fit.coef)
    X = new_samples(in_order(X, fit.names), coef)
    X = jnp.broadcast_to(X, (*coef.shape[:-1], *X.shape[-2:]))
    away = X - fit.center[..., None, :]
    level = fit.intercept + jnp.sum(fit.center * coef, axis=-1)
    return away, level[..., None] + jnp.einsum("...nk,...k->...n", away, coef)


def mask_variance_at(
    away: Float[Array, "*b n k"],
    weights: Float[Array, "*b k"],
    inclusion: Float[Array, "*b k"],
    labels: Sequence[object] | None,
) -> Float[Array, "*b n"]:
    """The variance of the predictor due to the masks, at given samples.

    Args:
        away: Samples minus the center.
        weights: Weights.
        inclusion: Inclusion rates.
        labels: The label of each column's group, or None.
    """
    xp = namespace(away, weights)
    rate, groups = inclusion * (1 - inclusion), None if labels is None else groups_of(labels)
    if groups is None:
        return xp.einsum("...nk,...k->...n", away**2, weights**2 * rate)
    together = (groups.same & groups.first[None, :]).astype(away.dtype)
    effects = (away * weights[..., None, :]) @ together
    return xp.einsum("...ng,...g->...n", effects**2, rate)


def unit(array: Any) -> float:
    """The largest relative error of rounding in the type of an array."""
    return float(jnp.finfo(array.dtype).eps) / 2


def check_digits(what: str, rounding: Any, size: float, noise: float, dtype: Any) -> None:
    """Refuse numbers that are lost in rounding, because the data lie far from zero.

    Args:
        what: Name of the numbers, in the plural, for the message.
        rounding: Largest possible rounding error of the numbers.
        size: An error that hardly matters, whatever the noise.
        noise: The standard deviation of the noise; zero for an exact fit.
        dtype: The type of the fit.

    Raises:
        ValueError: If the rounding is larger than both.
    """
    if rounding > max(size, noise):
        raise ValueError(
            f"{what} would be off by up to {rounding:.2g}, where the noise has the standard "
            f"deviation {noise:.2g}: the data lie too far from zero for {dtype}. Fit in float64, "
            'after jax.config.update("jax_enable_x64", True), or take a constant off first.'
        )


@full_precision
def linear_predictor(X: Any, coef: Float[Array, "*b k"]) -> jax.Array:
    """X @ coef, for one set of samples or one for each fit of a batch; see `Result.predict`.

    Raises:
        TypeError: If X is not an array of real numbers.
        ValueError: If X does not have one column for each coefficient, or a value is not finite.
    """
    return jnp.einsum("...nk,...k->...n", new_samples(X, coef), coef)


class Predictions:
    """What a fit says of new samples, a base of `Result`, which has the fields."""

    coef: Float[Array, "*b k"]
    weights: Float[Array, "*b k"]
    inclusion: Float[Array, "*b k"]
    intercept: Float[Array, "*b"]
    center: Float[Array, "*b k"]
    noise_precision: Float[Array, "*b"]
    uncertainty: Uncertainty | None
    family: Any
    names: Names | None
    groups: tuple[Label, ...] | None

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> jax.Array: ...

    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[jax.Array, jax.Array]: ...

    @full_precision
    def predict(self, X: Any, return_std: bool = False) -> jax.Array | tuple[jax.Array, jax.Array]:
        """The mean of y at new samples, intercept + X @ coef; for a logistic fit P(y = 1).

        The probability is the mean over the masks, by the approximation of MacKay ("The evidence
        framework applied to classification networks", 1992): sigmoid(eta / sqrt(1 + pi v / 8)) with
        v the variance of the log-odds eta due to the masks.

        Args:
            X: (m, k) new samples; after a batch of fits (b, m, k), or (m, k) for all of them. If
                the fit was made from a frame, columns of a frame are matched by name.
            return_std: Whether to return the standard deviation of y there as well. Its square is
                the sum of three variances: that of the noise, that of the masks, weights^2
                inclusion (1 - inclusion) times the squared feature (for a group, inclusion (1 -
                inclusion) times the square of its effect), and that of the estimated effects. The
                noise of Student's t with no more than two degrees of freedom has infinite variance;
                an outcome of probability p has the variance p (1 - p).

        Returns:
            (m,) predictions, or (b, m); with `return_std` also their standard deviations.

        Raises:
            TypeError: If X is not an array of real numbers.
            ValueError: If X does not have one column for each coefficient, a value is not finite
                (after a batch of fits NaN stays NaN), `return_std` is given to a fit without
                uncertainty, or the columns lie so far from zero that a prediction is lost in
                rounding.
        """
        away, mean = self._at(X)
        family: Any = self.family
        if not self.has_units:
            mean = family.mean(mean, self._by_masks(away))
        if not validate.flag("return_std", return_std):
            return mean
        uncertainty = self._uncertain("return_std")
        if not self.has_units:
            return mean, jnp.sqrt(mean * (1 - mean))
        directions = away
        if uncertainty.has_level:
            directions = jnp.concatenate([away, jnp.ones_like(away[..., :1])], axis=-1)
        spread = 1 if family is None else family.spread
        variance = (spread / self.noise_precision)[..., None]
        variance += self._by_masks(away) + uncertainty.variance_along(directions)
        return mean, jnp.sqrt(variance)

    @full_precision
    def linear_predictor(self, X: Any) -> jax.Array:
        """The linear predictor intercept + X @ coef at new samples: the mean of y, or its log-odds.

        Args:
            X: (m, k) new samples, as for `predict`.

        Returns:
            (m,) values, or (b, m).

        Raises:
            TypeError: If X is not an array of real numbers.
            ValueError: As for `predict`.
        """
        return self._at(X)[1]

    def residuals(self, X: Any, y: Any) -> jax.Array:
        """The residuals y - `predict(X)`.

        Args:
            X: (m, k) samples; after a batch of fits (b, m, k), or (m, k) for all of them.
            y: (m,) their target; after a batch (b, m), or (m,) for all of them.

        Returns:
            (m,) residuals, or (b, m).

        Raises:
            TypeError: If an argument is not an array of real numbers.
            ValueError: If a shape does not fit, a value of X is not finite, or the data lie so far
                from zero that a residual is lost in rounding.
        """
        predicted = self.predict(X)
        target = floating_array("y", y)
        if target.ndim < 1 or target.shape not in (predicted.shape, predicted.shape[-1:]):
            raise ValueError(
                f"y has shape {target.shape}, wanted {predicted.shape}: one target for each row."
            )
        if predicted.ndim == 1 and len(predicted) and inputs.at_hand(predicted, target):
            values = np.asarray(target, float)
            rounding = self._rounding() + unit(self.coef) * np.abs(values).max()
            size = 0.1 * np.ptp(values) or np.inf  # a single sample is never refused
            check_digits("residuals", rounding, size, self._noise(), self.coef.dtype)
        return jnp.asarray(target, predicted.dtype) - predicted

    def row_weights(self, X: Any, y: Any) -> jax.Array:
        """The weight of each sample in a fit with `family="student"`; 1 for any other family.

        (d + 1) / (d + E[(y - prediction)^2] noise precision), by Lange, Little and Taylor (1989):
        near (d + 1) / d for samples that are well predicted, near 0 for outliers.

        Args:
            X: (m, k) samples, as for `predict`.
            y: (m,) their target; after a batch (b, m), or (m,) for all of them.

        Returns:
            (m,) weights, or (b, m).

        Raises:
            TypeError: If an argument is not an array of real numbers.
            ValueError: If a shape does not fit or a value of X is not finite.
        """
        left = self.residuals(X, y)
        if self.family is None or not self.has_units:
            return jnp.ones_like(left)
        by_masks = self._by_masks(self._at(X)[0])
        square = self.noise_precision[..., None] * (left**2 + by_masks)
        degrees = jnp.asarray(self.family.degrees)[..., None]
        return (degrees + 1) / (degrees + square)

    @property
    def has_units(self) -> bool:
        """Whether y is a measurement, with noise, and not one of two outcomes."""
        return self.family is None or self.family.has_units

    def _at(self, X: Any) -> tuple[jax.Array, jax.Array]:
        """New samples minus the center, and their linear predictor."""
        away, mean = centred_predictor(self, X)
        if mean.ndim == 1 and inputs.at_hand(mean):
            size = 1e-3 * float(jnp.max(jnp.abs(mean), initial=0))
            check_digits("predictions", self._rounding(), size, self._noise(), self.coef.dtype)
        return away, mean

    def _rounding(self) -> float:
        """The largest rounding error of the level of a fit, a sum of large numbers that cancel."""
        large = jnp.abs(self.intercept) + jnp.sum(jnp.abs(self.center * self.coef))
        return unit(self.coef) * float(large)

    def _noise(self) -> float:
        """The standard deviation of the noise; 1 for log-odds, which have no noise."""
        return noise_deviation(self.noise_precision) if self.has_units else 1.0

    def _by_masks(self, away: jax.Array) -> jax.Array:
        """The variance of the linear predictor due to the masks, at samples minus the center."""
        return mask_variance_at(away, self.weights, self.inclusion, self.groups)

    def _uncertain(self, name: str) -> Uncertainty:
        if self.uncertainty is None:
            raise ValueError(
                f"{name} needs the uncertainty, which this fit was made without: give "
                "uncertainty=True."
            )
        return self.uncertainty
