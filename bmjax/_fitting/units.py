"""Conversion between the user's units and those of the fit: intercept, scaling, absent rows.

An intercept is a feature of ones that is never masked. The columns and y are centred before it is
added, so that the fit does not depend on where a column has its zero, and so that float32 keeps
the variation of years and prices.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Float

from bmjax._model.options import Frame, Options
from bmjax._model.problem import Problem, centred
from bmjax._results.parts import History, Moments, Starts, Uncertainty
from bmjax._results.result import Result
from bmjax._runtime.backend import Array


class Units(NamedTuple):
    """The centres and scales that convert a fit to the user's units.

    Attributes:
        center: The mean subtracted from each column.
        scale: The divisor of each column.
        y_center: The mean subtracted from y.
        y_scale: The divisor of y.
        num_samples: Number of samples n, the sum of the sample weights.
        moments: Moments of the data if no intercept is fitted, else None.
    """

    center: Float[Array, "*w k"]
    scale: Float[Array, "*w k"]
    y_center: Float[Array, "*w"]
    y_scale: Float[Array, "*w"]
    num_samples: Float[Array, "*w"]
    moments: Moments | None = None


def enter(
    frame: Frame,
    options: Options,
    X: Float[Array, "n k"],
    y: Float[Array, " n"],
    sample_weights: Float[Array, " n"] | None,
) -> tuple[Problem, Options, Units]:
    """The problem that is fitted, the options in its units, and the units to convert back with.

    Args:
        frame: Whether to add an intercept and whether to scale.
        options: Options in the user's units.
        X: Features, samples in rows.
        y: Target.
        sample_weights: How often each row counts. A row of weight zero may hold any values.

    Returns:
        The problem, the options and the units.
    """
    k, dtype = X.shape[1], X.dtype
    columns = X.T
    if sample_weights is not None:
        columns = jnp.where(sample_weights[None] > 0, columns, 0)
        y = jnp.where(sample_weights > 0, y, 0)
    data = Problem(
        columns,
        y,
        options.noise_precision,
        options.prune_threshold,
        sample_weights,
        family=options.family,
    )
    units = Units(
        center=jnp.zeros(k, dtype),
        scale=jnp.ones(k, dtype),
        y_center=jnp.zeros((), dtype),
        y_scale=jnp.ones((), dtype),
        num_samples=jnp.asarray(data.num_samples, dtype),
    )
    if frame.intercept:
        columns, center = centred(data, columns)
        units = units._replace(center=center)
        if options.has_units:
            y, y_center = centred(data, y)
            units = units._replace(y_center=y_center)
    elif options.family is None:
        units = units._replace(moments=_moments(data))
    if frame.standardize:
        units = units._replace(scale=_size(data, columns))
        columns = columns / units.scale[:, None]
        if options.has_units:
            units = units._replace(y_scale=_size(data, y))
            y = y / units.y_scale
    weights, rates, unmasked = options.initial_weights, options.rates, options.unmasked
    if weights is not None:
        weights = weights * units.scale / units.y_scale
    if frame.intercept:
        columns = jnp.concatenate([columns, jnp.ones((1, len(y)), dtype)])
        rates = jnp.concatenate([rates, jnp.ones((len(rates), 1), dtype)], axis=1)
        unmasked = jnp.zeros(k, bool) if unmasked is None else unmasked
        unmasked = jnp.concatenate([unmasked, jnp.ones(1, bool)])
        if weights is not None:
            weights = jnp.concatenate([weights, jnp.zeros(1, dtype)])
    precision = options.noise_precision
    if precision is not None:
        precision = precision * units.y_scale**2
    options = options._replace(
        noise_precision=precision, initial_weights=weights, rates=rates, unmasked=unmasked
    )
    problem = data._replace(
        X=columns, y=y, noise_precision=precision, unmasked=unmasked, groups=options.groups
    )
    return problem, options, units


def leave(frame: Frame, units: Units, result: Result, xp: Any = jnp) -> Result:
    """The result in the user's units, over the user's features.

    Args:
        frame: Whether an intercept was added and whether the data were scaled.
        units: The centres and scales of the fit.
        result: The result in the units of the fit.
        xp: The namespace of its arrays, `jax.numpy` or `numpy`.
    """
    no_level = xp.zeros_like(result.support[0])
    result = result._replace(with_intercept=~no_level if frame.intercept else no_level)
    if result.uncertainty is not None:
        moments = units.moments  # only a result with uncertainty uses them
        if moments is None and not frame.intercept and result.family is None:
            moments = _unknown_moments(units, xp)
        result = result._replace(moments=moments)
    k = units.center.shape[-1]
    if frame.plain and result.coef.shape[-1] == k:
        if result.uncertainty is None:
            return result
        known = result.uncertainty._replace(support=result.support)
        return result._replace(uncertainty=known)
    to_user = units.y_scale / units.scale
    coef = result.coef[:k] * to_user
    intercept = result.intercept
    if frame.intercept:
        level = units.y_center + units.y_scale * result.coef[k]
        intercept = level - units.center @ coef
    lost = units.num_samples * xp.log(units.y_scale)
    count = int(frame.intercept)  # the feature of ones is not the user's

    def sizes(values: Any) -> Any:
        return xp.where(values >= count, values - count, values)

    starts: Starts = result.starts._replace(
        score=result.starts.score - lost,
        bound=result.starts.bound - lost,
        size=sizes(result.starts.size),
        inclusion=result.starts.inclusion[:, :k],
        coef=result.starts.coef[:, :k] * to_user[None],
    )
    history, uncertainty = result.history, result.uncertainty
    if history is not None:
        history = History(
            weights=history.weights[:, :k] * to_user[None],
            inclusion=history.inclusion[:, :k],
            noise_precision=history.noise_precision / units.y_scale**2,
            bound=history.bound - lost,
            active_count=sizes(history.active_count),
        )
    if uncertainty is not None:
        uncertainty = _of_user(frame, units, uncertainty, to_user, xp)
        uncertainty = uncertainty._replace(support=result.support[:k])
    return result._replace(
        coef=coef,
        weights=result.weights[:k] * to_user,
        inclusion=result.inclusion[:k],
        support=result.support[:k],
        intercept=intercept,
        center=units.center,
        noise_precision=result.noise_precision / units.y_scale**2,
        bound=result.bound - lost,
        starts=starts,
        history=history,
        uncertainty=uncertainty,
    )


def _of_user(
    frame: Frame, units: Units, uncertainty: Uncertainty, to_user: Any, xp: Any
) -> Uncertainty:
    """The covariance in the user's units, with the feature of ones last, as the level of y."""
    k = units.center.shape[-1]
    features, level = uncertainty.features, int(frame.intercept)
    # The feature of ones has number k and comes last; slots with larger numbers are empty.
    order = xp.argsort(xp.where(features == k, 2**30, features), stable=True)
    count = min(len(features) - level, k)
    rows = order[:count]
    both = xp.concatenate([rows, order[len(order) - level :]])
    size = xp.where(features < k, to_user[xp.minimum(features, k - 1)], units.y_scale)[both]
    by_size = size[:, None] * size[None, :]
    return Uncertainty(
        features=features[rows],
        by_slot=uncertainty.by_slot[both][:, both] * by_size,
        by_slot_given_masks=uncertainty.by_slot_given_masks[both][:, both] * by_size,
        correlation=uncertainty.correlation[rows, :k],
        least_squares_by_slot=uncertainty.least_squares_by_slot[rows] * size[:count],
        relative_size=uncertainty.relative_size[rows] / size[:count],
        r_squared=uncertainty.r_squared,
        freedom=uncertainty.freedom,
    )


def _moments(data: Problem) -> Moments:
    columns, mean = centred(data, data.X)
    y, y_mean = centred(data, data.y)
    spread = jnp.sqrt(data.mean(columns**2))
    y_spread = jnp.sqrt(data.mean(y**2))
    unit = jnp.where(spread > 0, spread, 1) * jnp.where(y_spread > 0, y_spread, 1)
    return Moments(
        samples=jnp.asarray(data.num_samples, y.dtype),
        mean=mean,
        spread=spread,
        y_mean=y_mean,
        y_spread=y_spread,
        y_correlation=data.mean(columns * y[None, :]) / unit,
    )


def _unknown_moments(units: Units, xp: Any) -> Moments:
    """Moments of zero, so that results have one structure where the moments were not computed."""
    one, each = xp.zeros_like(units.y_center), xp.zeros_like(units.center)
    return Moments(one, each, each, one, one, each)


def _size(data: Problem, values: Float[Array, "*d n"]) -> Float[Array, "*d"]:
    """Root mean square without overflow or underflow; 1 where all values are zero."""
    largest = jnp.max(jnp.abs(values), axis=-1)
    largest = jnp.where(largest > 0, largest, 1)
    square = data.mean((values / largest[..., None]) ** 2)
    varies = square > 0
    # The inner `where` keeps the derivative finite: the root has none at zero.
    return jnp.where(varies, largest * jnp.sqrt(jnp.where(varies, square, 1)), 1)
