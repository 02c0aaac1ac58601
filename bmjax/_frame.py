"""Between the user's units and those a fit is made in: intercept, scaling, rows that are absent.

An intercept is a feature of ones that is never masked. The columns and y are centred before it is
added, so that the fit does not depend on where a column has its zero, and so that float32 keeps
the variation of years and prices.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bmjax._backend import Array, namespace
from bmjax._lane import Options
from bmjax._result import History, Moments, Result, Starts, Uncertainty
from bmjax._types import Problem

# A column that varies by no more than this many roundings of its size is constant.
DUST = 16


class Frame(NamedTuple):
    """How a dataset is brought into the form that is fitted, a static argument.

    Attributes:
        intercept: Centre, and add an unmasked feature of ones, the last one.
        standardize: Divide every column and y by its root mean square (after centring).
    """

    intercept: bool = False
    standardize: bool = False

    @property
    def plain(self) -> bool:
        """Whether X and y are taken as they are."""
        return not (self.intercept or self.standardize)


class Units(NamedTuple):
    """The way back.

    Attributes:
        center: What was taken off each column.
        scale: What each column was divided by.
        y_center: What was taken off y.
        y_scale: What y was divided by.
        num_samples: Number of samples n.
        moments: Of the data, where no intercept is fitted, else None.
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
    """The problem that is fitted, the options in its units, and the way back.

    Args:
        frame: What to do.
        options: Options in the user's units.
        X: Features, samples in rows.
        y: Target.
        sample_weights: How often each row counts. A row that counts zero times may hold anything.

    Returns:
        The problem, options and units.
    """
    k, dtype = X.shape[1], X.dtype
    columns = X.T
    if sample_weights is not None:
        columns = jnp.where(sample_weights[None] > 0, columns, 0)
        y = jnp.where(sample_weights > 0, y, 0)
    data = Problem(columns, y, options.noise_precision, options.prune_threshold, sample_weights)
    units = Units(
        center=jnp.zeros(k, dtype),
        scale=jnp.ones(k, dtype),
        y_center=jnp.zeros((), dtype),
        y_scale=jnp.ones((), dtype),
        num_samples=jnp.asarray(data.num_samples, dtype),
    )
    if frame.intercept:
        (columns, center), (y, y_center) = centred(data, columns), centred(data, y)
        units = units._replace(center=center, y_center=y_center)
    else:
        units = units._replace(moments=_moments(data))
    if frame.standardize:
        units = units._replace(scale=_size(data, columns), y_scale=_size(data, y))
        columns, y = columns / units.scale[:, None], y / units.y_scale
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
    problem = data._replace(X=columns, y=y, noise_precision=precision, unmasked=unmasked)
    return problem, options, units


class Shape(NamedTuple):
    """The shape that a dataset is filled up to, so that few shapes are ever compiled.

    Attributes:
        rows: Number of rows; those added count zero times.
        features: Number of features, that of ones among them; those added explain nothing.
    """

    rows: int
    features: int


def enter_on_host(
    frame: Frame,
    options: Options,
    X: np.ndarray,
    y: np.ndarray,
    sample_weights: np.ndarray | None,
    shape: Shape,
) -> tuple[Problem, Options, Units]:
    """`enter` in NumPy for arrays at hand, filled up to a shape.

    Columns are centred and scaled in float64 before they are brought into the type of the fit, so
    that years and prices keep what varies of them; a few columns at a time, so that no copy of X
    is made but the one that is fitted.

    Args:
        frame: What to do.
        options: Options in the user's units.
        X: Features, samples in rows, of any real type.
        y: Target.
        sample_weights: How often each row counts. A row that counts zero times may hold anything.
        shape: The shape to fill up to.

    Returns:
        The problem, with sample weights if the shape asks for more rows, options and units, all of
        NumPy arrays.
    """
    options = jax.tree.map(np.asarray, options)
    (n, k), dtype = X.shape, np.dtype(options.tolerance.dtype)
    present = slice(None) if sample_weights is None else sample_weights > 0
    counts = None if sample_weights is None else np.asarray(sample_weights, np.float64)[present]
    columns = _aligned((shape.features, shape.rows), dtype)
    center, scale = np.zeros(k), np.ones(k)
    few = max(2**17 // n, 1)
    for first in range(0, k, few):
        some = slice(first, min(first + few, k))
        block = X[present, some].T
        if not frame.plain:
            block, center[some], scale[some] = _framed(frame, block, counts)
        columns[some, :n][:, present] = block
    target, y_center, y_scale = np.asarray(y[present])[None], np.zeros(1), np.ones(1)
    if not frame.plain:
        target, y_center, y_scale = _framed(frame, target, counts)
    whole = np.zeros(shape.rows, dtype)
    whole[:n][present] = target[0]
    weights = None
    if sample_weights is not None or shape.rows > n:
        weights = np.zeros(shape.rows, dtype)
        weights[:n] = 1 if sample_weights is None else sample_weights
    if frame.intercept:
        columns[k, :n] = 1
    total = float(n) if counts is None else float(counts.sum())
    moments = None if frame.intercept else _moments_on_host(X[present], y[present], counts)
    units = Units(center, scale, y_center[0], y_scale[0], np.float64(total), moments)
    spare = shape.features - k

    def filled(values: Any, fill: Any) -> np.ndarray:
        values = np.asarray(values)
        return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, spare)], constant_values=fill)

    unmasked, start = options.unmasked, options.initial_weights
    if frame.intercept or (unmasked is not None and spare):
        unmasked = np.zeros(k, bool) if unmasked is None else np.asarray(unmasked)
        unmasked = filled(unmasked, False)
        unmasked[k : k + int(frame.intercept)] = True
    precision = options.noise_precision
    if precision is not None:
        precision = np.asarray(float(precision) * units.y_scale**2, dtype)
    if start is not None:
        start = filled(np.asarray(start, np.float64) * scale / units.y_scale, 0).astype(dtype)
    options = options._replace(
        noise_precision=precision,
        initial_weights=start,
        rates=filled(options.rates, 1),
        unmasked=unmasked,
    )
    of_features = None
    if shape.features > k + int(frame.intercept):
        of_features = np.int32(k + int(frame.intercept))
    problem = Problem(
        columns, whole, precision, options.prune_threshold, weights, unmasked, of_features
    )  # type: ignore[arg-type]
    return problem, options, units


def _framed(
    frame: Frame, values: np.ndarray, counts: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns (a row each) centred and scaled in float64, what was taken off, and the divisor."""
    # What is left of a constant column is rounding, of the type that the numbers came in.
    given = values.dtype if np.issubdtype(values.dtype, np.floating) else np.dtype(np.float64)
    dust = DUST * float(np.finfo(given).eps)
    # Laid out anew, so that sums do not depend on how the caller's rows lie in memory.
    values = np.array(values, np.float64, order="C")
    center, scale = np.zeros(len(values)), np.ones(len(values))
    if frame.intercept:
        for _ in range(2):  # the second round takes out the rounding of the first
            mean = np.average(values, axis=1, weights=counts)
            values -= mean[:, None]
            center += mean
        widest = np.max(np.abs(values), axis=1, initial=0)
        values[widest <= dust * np.abs(center)] = 0
    if frame.standardize:
        largest = np.max(np.abs(values), axis=1, initial=0)
        largest[largest == 0] = 1
        square = np.average((values / largest[:, None]) ** 2, axis=1, weights=counts)
        scale = np.where(square > 0, largest * np.sqrt(square), 1)
        values /= scale[:, None]
    return values, center, scale


def _aligned(shape: tuple[int, int], dtype: np.dtype) -> np.ndarray:
    """An array of zeros that JAX on a CPU takes as it lies, without a copy."""
    size = shape[0] * shape[1] * dtype.itemsize
    bytes_ = np.zeros(size + 64, np.uint8)
    offset = -bytes_.ctypes.data % 64
    return bytes_[offset : offset + size].view(dtype).reshape(shape)


def leave(frame: Frame, units: Units, result: Result, xp: Any = jnp) -> Result:
    """A result in the user's units and over the user's features.

    Args:
        frame: How the dataset was brought into the form that was fitted.
        units: The way back.
        result: The result in the units of the fit.
        xp: The namespace of its arrays, `jax.numpy` or `numpy`.
    """
    no_level = xp.zeros_like(result.support[0])
    result = result._replace(with_intercept=~no_level if frame.intercept else no_level)
    if result.uncertainty is not None:
        moments = units.moments  # without the uncertainty they say nothing
        if moments is None and not frame.intercept:
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
    """The same of the user's features, the feature of ones after them as the level of y."""
    k = units.center.shape[-1]
    features, level = uncertainty.features, int(frame.intercept)
    # The feature of ones has number k and comes last; slots beyond the user's features are none.
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


def centred(
    data: Problem, values: Float[Array, "*d n"]
) -> tuple[Float[Array, "*d n"], Float[Array, "*d"]]:
    """Values less their mean, and the mean, in two rounds for the sake of float32."""
    xp = namespace(values)
    first = data.mean(values)
    left = values - first[..., None]
    rest = data.mean(left)
    left = left - rest[..., None]
    if data.sample_weights is not None:
        left = xp.where(xp.broadcast_to(data.sample_weights, left.shape) > 0, left, 0)
    widest = xp.max(xp.abs(left), axis=-1)
    constant = widest <= DUST * xp.finfo(values.dtype).eps * xp.abs(first)
    return xp.where(constant[..., None], 0, left), first + rest


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


def _moments_on_host(X: np.ndarray, y: np.ndarray, counts: np.ndarray | None) -> Moments:
    """The same in NumPy, from a few columns at a time."""
    k, total = X.shape[1], float(len(y) if counts is None else counts.sum())
    share = np.full(len(y), 1 / total) if counts is None else counts / total
    y_mean = share @ y
    away = y - y_mean
    y_spread = np.sqrt(share @ away**2)
    mean, spread, product = np.zeros(k), np.zeros(k), np.zeros(k)
    few = max(2**17 // len(y), 1)
    for first in range(0, k, few):
        some = slice(first, min(first + few, k))
        block = X[:, some].astype(np.float64)
        mean[some] = share @ block
        block -= mean[some]
        widest = np.abs(block).max(axis=0)
        block[:, widest <= DUST * np.finfo(np.float64).eps * np.abs(mean[some])] = 0
        spread[some] = np.sqrt(share @ block**2)
        product[some] = (share * away) @ block
    unit = np.where(spread > 0, spread, 1) * (y_spread if y_spread > 0 else 1)
    return Moments(np.float64(total), mean, spread, y_mean, y_spread, product / unit)


def _unknown_moments(units: Units, xp: Any) -> Moments:
    """For results of one structure where nobody has added them up."""
    one, each = xp.zeros_like(units.y_center), xp.zeros_like(units.center)
    return Moments(one, each, each, one, one, each)


def _size(data: Problem, values: Float[Array, "*d n"]) -> Float[Array, "*d"]:
    """Root mean square, whatever the units; 1 where all is zero."""
    largest = jnp.max(jnp.abs(values), axis=-1)
    largest = jnp.where(largest > 0, largest, 1)
    square = data.mean((values / largest[..., None]) ** 2)
    varies = square > 0
    # The inner choice is for the sake of the derivative, which a root has none of at zero.
    return jnp.where(varies, largest * jnp.sqrt(jnp.where(varies, square, 1)), 1)
