"""`Result`, which a fit returns."""

import dataclasses
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Bool, Float, Int

from bmjax._checks import inputs, validate
from bmjax._checks.arrays import floating_array
from bmjax._checks.groups import Label
from bmjax._model.problem import Status
from bmjax._results.names import Names, feature_names, in_order
from bmjax._results.parts import History, LaneSteps, Moments, Starts, Uncertainty
from bmjax._results.prediction import (
    check_digits,
    mask_variance_at,
    new_samples,
    noise_deviation,
    unit,
)
from bmjax._results.refit import RefitResult, half_width, refit
from bmjax._results.summarised import summary_of
from bmjax._results.summary import Summary
from bmjax._runtime.backend import Array
from bmjax._runtime.debugging import unwatched
from bmjax._runtime.precision import full_precision


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A fitted Bayesian masking model. Under `vmap` every field has the batch axes in front.

    Read `coef` as the effect of a feature and `inclusion` as the rate at which it acts. `weights`
    is the effect at those samples where the feature is not masked, and can be far larger than
    `coef` when inclusion is small.

    `coef` is that of least squares on the support if every kept feature has inclusion 1. If one has
    less, its masks explain rows one by one, with part of their noise, and the other features are
    fitted to the remainder, so even a feature of inclusion 1 may differ from least squares. The
    difference is small if the rate is low because the feature is weak. It is a standard error or
    more if a strong feature acts in some rows only, and then `coef` is nearer the truth, since the
    effect of the feature in those rows is noise to least squares. `summary()` shows both.

    A result is a pytree of arrays, so it passes through `jax.jit`, `jax.vmap` and `jax.tree.map`. A
    batch of fits has a length, and is indexed and iterated over: `len(batch)`, `batch[3]`,
    `batch[batch.converged]`, `for fit in batch`.

    Attributes:
        coef: Effect of each feature on the mean of y, `weights * inclusion`, in units of y per unit
            of the feature; on the log-odds of y = 1 in a logistic fit. Exactly zero where pruned.
        weights: Effect where a feature is not masked (beta), in the same units. Zero where pruned.
        inclusion: Rate at which a feature is left in (pi), in [0, 1]. Zero where pruned.
        support: Whether each feature is kept.
        intercept: Mean of y where every feature is zero, in units of y (log-odds in a logistic
            fit); 0 if it is not fitted.
        center: Mean of each column, subtracted before a fit with an intercept; 0 without one. Masks
            hide the deviation of a feature from this.
        noise_precision: One over the noise variance (lambda), in one over squared units of y. Masks
            explain part of the noise, so it is biased upwards. For Student's t, one over its
            squared scale; 1 for a logistic fit.
        bound: Lower bound of FIC (G), in nats, over the kept features.
        num_steps: Iterations (E steps) run, over all starts and moves, at most `max_steps`.
        status: The code of `Status` with which the returned fit ended.
        starts: The record of every start and move, including the returned fit.
        uncertainty: Covariance of the effects, or None with `uncertainty=False`.
        history: The course of the fit with `history=True`, else None.
        lane_steps: Iterations of the batch after `fit_batch`, else None. Not in the pytree.
        with_intercept: Whether an intercept was fitted, even if it is zero.
        moments: Moments of the data, of a fit with uncertainty and no intercept, else None.
        family: The distribution of y given its predictor, `Logistic()` or `Student(degrees)` with
            the degrees of freedom, learned or given; None for the Gaussian.
        names: Names of the features and the target, if X was a frame or y a series, else None.
            Static, not an array.
        groups: The label of each feature's group, if `groups` was given, else None. Static as well.

    Example:
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> fit = bmjax.fit(X, y, intercept=True)
        >>> fit
        <bmjax.Result: 5 of 10 features kept, CONVERGED>
        >>> fit.coef.shape, fit.predict(X).shape, round(float(fit.r_squared), 2)
        ((10,), (442,), 0.51)
        >>> [round(float(end), 1) for end in fit.conf_int()[2]]  # of bmi
        [4.3, 7.0]
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
    family: Any = None
    names: Names | None = None
    groups: tuple[Label, ...] | None = None

    def _replace(self, **changes: Any) -> "Result":
        """A copy with other values of some fields."""
        return dataclasses.replace(self, **changes)

    def __repr__(self) -> str:
        """A summary in one line."""
        codes = self.status
        if not isinstance(codes, jax.Array | np.ndarray) or isinstance(codes, Tracer):
            return "<bmjax.Result, traced>"
        shape = np.shape(self.coef)
        if len(shape) == 1:
            kept = int(np.sum(np.asarray(self.support)))
            ended = Status(int(codes)).name
            return f"<bmjax.Result: {kept} of {shape[0]} features kept, {ended}>"
        times = Counter(np.ravel(np.asarray(codes)).tolist())
        ended = ", ".join(f"{count} {Status(code).name}" for code, count in sorted(times.items()))
        fits = " x ".join(map(str, shape[:-1]))
        return f"<bmjax.Result: {fits} fits of {shape[-1]} features, {ended}>"

    def _repr_html_(self) -> str | None:
        """The summary as an HTML table, for notebooks."""
        if isinstance(self.status, Tracer) or self.coef.ndim != 1:
            return None
        return self.summary()._repr_html_()

    def __bool__(self) -> bool:
        """True, even for an empty batch, and for one fit, which has no length."""
        return True

    def __len__(self) -> int:
        """The number of fits in a batch."""
        if self.coef.ndim < 2:
            raise TypeError("this is one fit and no batch, so it has no length.")
        return self.coef.shape[0]

    def __iter__(self) -> Iterator["Result"]:
        """The fits of a batch one after another."""
        for i in range(len(self)):
            yield self[i]

    @unwatched
    def __getitem__(self, index: Any) -> "Result":
        """Fits of a batch, by number, slice, array of numbers or array of booleans.

        Raises:
            IndexError: If a number is out of range.
            TypeError: If this is one fit.
        """
        shape = self.coef.shape[:-1]
        if not shape:
            raise TypeError("this is one fit and no batch, so it cannot be indexed.")
        # NumPy refuses numbers out of range, for which JAX would take the nearest.
        places = np.arange(np.prod(shape)).reshape(shape)[_plain_index(index)]

        def taken(leaf: Any) -> Any:
            whole = leaf.reshape(-1, *leaf.shape[len(shape) :])
            if isinstance(leaf, Tracer) or not isinstance(leaf, jax.Array):
                return whole[places]
            return jnp.asarray(np.asarray(whole)[places])  # so that nothing is compiled

        return jax.tree.map(taken, self)

    @property
    def converged(self) -> Bool[Array, "*b"]:
        """Whether the fit ended at its fixed point (`Status.CONVERGED`)."""
        return self.status == Status.CONVERGED

    @property
    def standard_errors(self) -> Float[Array, "*b k"]:
        """Standard errors of `coef`, with the support taken as known, NaN where pruned.

        See `Uncertainty`.

        Raises:
            ValueError: If the fit was made without uncertainty.
        """
        return self._uncertain("standard_errors").standard_errors

    @property
    @unwatched
    def intercept_standard_error(self) -> Float[Array, "*b"]:
        """Standard error of `intercept`, with the support taken as known, NaN if not fitted.

        Raises:
            ValueError: If the fit was made without uncertainty.
        """
        uncertainty = self._uncertain("intercept_standard_error")
        if not uncertainty.has_level:
            return jnp.full_like(self.intercept, jnp.nan)
        # The intercept is the level at the mean of X minus the effect of moving there from zero.
        away = jnp.concatenate([-self.center, jnp.ones_like(self.center[..., :1])], axis=-1)
        return jnp.sqrt(uncertainty.variance_along(away[..., None, :])[..., 0])

    @property
    def standardized(self) -> Float[Array, "*b k"]:
        """Effects in standard deviations of y per standard deviation of the feature.

        They have no units, so features can be compared; for a logistic fit they are log-odds per
        standard deviation of the feature. Without an intercept, root mean squares replace standard
        deviations.

        Raises:
            ValueError: If the fit was made without uncertainty.
        """
        return self.coef * self._uncertain("standardized").relative_sizes

    @property
    def r_squared(self) -> Float[Array, "*b"]:
        """The share of the variance of y that the effects explain, on the data of the fit.

        Without an intercept it is the share of the square of y around zero, not around its mean. It
        rises with every feature; judge the fit on new samples by predicting them. For a logistic
        fit it is the share of the deviance explained, relative to a constant probability
        (McFadden); for Student's t, rows count by their weights.

        Raises:
            ValueError: If the fit was made without uncertainty.
        """
        return self._uncertain("r_squared").r_squared

    @unwatched
    def conf_int(self, level: float = 0.95) -> Float[Array, "*b k 2"]:
        """Intervals of the effects, `coef` -+ t `standard_errors`, with the support taken as known.

        t is a quantile of Student's t with n - p degrees of freedom, or of the normal distribution
        if the noise is known. The support was chosen from the same data, so the intervals are too
        short; those of `bmjax.bootstrap` include the choice.

        Args:
            level: Probability of the intervals, between 0 and 1.

        Returns:
            (k, 2) lower and upper ends, NaN where pruned; (b, k, 2) for a batch.

        Raises:
            TypeError: If the level is not a number.
            ValueError: If the level is out of range, or the fit was made without uncertainty.
        """
        uncertainty = self._uncertain("conf_int")
        half = half_width(level, np.asarray(uncertainty.freedom)).astype(self.coef.dtype)
        away = half[..., None] * np.asarray(uncertainty.standard_errors)
        coef = np.asarray(self.coef)
        return jnp.asarray(np.stack([coef - away, coef + away], axis=-1))

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
        X = new_samples(in_order(X, self.names), self.coef)
        X = jnp.broadcast_to(X, (*self.coef.shape[:-1], *X.shape[-2:]))
        away = X - self.center[..., None, :]
        level = self.intercept + jnp.sum(self.center * self.coef, axis=-1)
        mean = level[..., None] + jnp.einsum("...nk,...k->...n", away, self.coef)
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

    def raise_for_status(self) -> None:
        """Raise unless every fit ended well, at its fixed point or at an exact fit.

        Raises:
            RuntimeError: If a fit ended otherwise; the message names the fits, by their place in
                the batch, and the remedies.
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
        """Refit by least squares on the support: unbiased noise, standard errors, t and p-values.

        Args:
            X: (n, k) features, those of the fit or, better, of samples that it has not seen. If the
                fit was made from a frame, columns of a frame are matched by name.
            y: (n,) target.
            sample_weights: (n,) how often each row counts.

        Returns:
            The refit, in float64 on the host. Its standard errors and p-values take the support as
            known in advance, as its `note` explains.

        Raises:
            TypeError: If an argument is not an array of real numbers.
            ValueError: If a shape does not fit, a value is not finite, this is a batch, or y is not
                Gaussian.
        """
        self._one_fit("refit")
        if self.family is not None:
            raise ValueError(
                f"refit is by least squares, which is not for family={self.family.name!r}: a kept "
                "feature of inclusion 1 has its coef and standard error of highest likelihood "
                "already."
            )
        return refit(
            in_order(X, self.names),
            y,
            np.asarray(self.support),
            intercept=self.has_intercept,
            sample_weights=sample_weights,
            names=self.names,
        )

    def summary(self, names: Sequence[str] | None = None) -> Summary:
        """The fit as a table to print, with notes on convergence and collinearity.

        Args:
            names: Names of the k features. Default: those of the data, or else x0, x1, ...

        Returns:
            The summary; `print` it, or take its `to_pandas()`.

        Raises:
            ValueError: If there are not k names, or this is a batch.
        """
        self._one_fit("summary")
        return summary_of(self, self.feature_names(names))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to a file, for `bmjax.load` and `python -m bmjax predict`.

        Args:
            path: The file, whose name ends in `.json` (text) or `.npz` (for very many features).

        Raises:
            ValueError: If the name has another ending.
            OSError: If the file cannot be written; an existing file is then unchanged.
        """
        from bmjax._results.saved import save  # here, since it imports this module

        save(self, path)

    def to_pandas(self, names: Sequence[str] | None = None) -> Any:
        """The features as a `pandas.DataFrame`; see `summary`.

        Raises:
            ModuleNotFoundError: If pandas is not installed.
            ValueError: If there are not k names, or this is a batch.
        """
        return self.summary(names).to_pandas()

    def feature_names(self, names: Sequence[str] | None = None) -> tuple[str, ...]:
        """Names of the k features: those given, those of the data, or x0, x1, ...

        Raises:
            ValueError: If there are not k names.
        """
        if names is None and self.names is not None:
            names = self.names.features
        return feature_names(names, self.coef.shape[-1])

    @property
    def has_intercept(self) -> bool:
        """Whether the level of y was fitted."""
        return self.with_intercept is not None and bool(np.all(self.with_intercept))

    def _one_fit(self, name: str) -> None:
        if self.coef.ndim != 1:
            raise ValueError(
                f"{name} is of one fit, this is a batch of shape {self.coef.shape[:-1]}: take one, "
                "such as result[0]."
            )

    def _uncertain(self, name: str) -> Uncertainty:
        if self.uncertainty is None:
            raise ValueError(
                f"{name} needs the uncertainty, which this fit was made without: give "
                "uncertainty=True."
            )
        return self.uncertainty


_ASIDE = ("lane_steps", "names", "groups")
_LEAVES = tuple(f.name for f in dataclasses.fields(Result) if f.name not in _ASIDE)


_Static = tuple[Names | None, tuple[Label, ...] | None]


def _flatten(result: Result) -> tuple[tuple[Any, ...], _Static]:
    return tuple(getattr(result, name) for name in _LEAVES), (result.names, result.groups)


def _flatten_with_keys(result: Result) -> tuple[tuple[Any, ...], _Static]:
    pairs = ((jax.tree_util.GetAttrKey(name), getattr(result, name)) for name in _LEAVES)
    return tuple(pairs), (result.names, result.groups)


def _unflatten(static: _Static, leaves: Iterable[Any]) -> Result:
    # Without `__init__`, since JAX fills pytrees with placeholders.
    result = object.__new__(Result)
    names, groups = static
    result.__dict__.update(zip(_LEAVES, leaves, strict=True), names=names, groups=groups)
    result.__dict__.update(lane_steps=None)
    return result


jax.tree_util.register_pytree_with_keys(Result, _flatten_with_keys, _unflatten, _flatten)


def named(result: Result, names: Names | None) -> Result:
    """The result with names for its features and its target."""
    return result if names is None else result._replace(names=names)


def _plain_index(index: Any) -> Any:
    """An index that NumPy accepts."""
    return np.asarray(index) if isinstance(index, jax.Array | list) else index


def _places(places: np.ndarray) -> str:
    """The places of the first few fits in a batch, for a message."""
    if places.shape[1] == 0:
        return ""
    first = [str(p[0] if len(p) == 1 else tuple(p.tolist())) for p in places[:10]]
    rest = f" and {len(places) - 10} more" if len(places) > 10 else ""
    return f" (fit {', '.join(first)}{rest})"
