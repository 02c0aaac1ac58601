"""`bootstrap`: intervals of the effects from fits to samples drawn with replacement."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float

from bmjax._checks import inputs, validate
from bmjax._fitting.resampling import fits_of_resamples, generator
from bmjax._results.names import Names, by_number, names_of
from bmjax._runtime.debugging import unwatched


class Bootstrap(NamedTuple):
    """The effects, and their percentile intervals, of fits to samples drawn with replacement.

    Attributes:
        lower: Lower ends of the percentile intervals of `coef`.
        upper: Upper ends of these intervals.
        intercept_lower: Lower end of the interval of the intercept.
        intercept_upper: Upper end of that interval.
        level: Nominal coverage of the intervals.
        standard_errors: Standard deviations of `coef` over the resamples.
        frequencies: Share of the fits that kept each feature.
        coef: Effects in each fit.
        intercept: Intercept in each fit.
        status: The code of `Status` with which each fit ended.
        names: Names of the features and the target, if the data had any.

    Example:
        >>> import jax
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> again = bmjax.bootstrap(X, y, jax.random.key(0), 20, intercept=True)
        >>> again.level, again.frequencies.shape
        (0.95, (10,))
    """

    lower: Float[np.ndarray, " k"]
    upper: Float[np.ndarray, " k"]
    intercept_lower: float
    intercept_upper: float
    level: float
    standard_errors: Float[np.ndarray, " k"]
    frequencies: Float[np.ndarray, " k"]
    coef: Float[np.ndarray, "resamples k"]
    intercept: Float[np.ndarray, " resamples"]
    status: Any
    names: Names | None = None

    def __repr__(self) -> str:
        """A summary in one line."""
        fits, k = np.shape(self.coef)
        return f"<bmjax.Bootstrap: {fits} fits of {k} features, intervals of {self.level:.0%}>"


@unwatched
def bootstrap(
    X: ArrayLike,
    y: ArrayLike,
    key: jax.Array,
    resamples: int = 1000,
    *,
    level: float = 0.95,
    progress: bool | None = None,
    **options: Any,
) -> Bootstrap:
    """Compute percentile intervals of the effects from fits to samples drawn with replacement.

    A feature that is dropped has an effect of zero, so the intervals include the uncertainty of the
    selection; the share of zeros is one minus `frequencies`.

    Args:
        X: (n, k) features.
        y: (n,) target.
        key: A JAX random key.
        resamples: Number of fits.
        level: Coverage of the intervals, between 0 and 1.
        progress: As for `stability_selection`.
        options: Options of `fit_batch`, such as `intercept=True`; not `sample_weights`.

    Returns:
        The intervals, and the effects of each fit.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range.

    Reference:
        Efron and Tibshirani, "An introduction to the bootstrap", 1993, chapter 13.

    Example:
        >>> import jax
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> again = bmjax.bootstrap(X, y, jax.random.key(0), 20, intercept=True)
        >>> bool(again.lower[2] < again.upper[2]), again.coef.shape
        (True, (20, 10))
    """
    names = names_of(X, y)
    options = by_number(options, names)
    X, y, _, _ = inputs.on_host(X, y, None)
    n = len(y)
    resamples = validate.count("resamples", resamples, low=1)
    validate.number("level", level, float, low=0, high=1, open_low=True)
    level = float(level)  # as given, not as float32 rounds it

    def drawn(i: int) -> np.ndarray:
        return np.bincount(generator(key, i).integers(0, n, n), minlength=n)

    fits = fits_of_resamples(X, y, drawn, resamples, "bootstrap", progress, options)
    ends = [(1 - level) / 2, (1 + level) / 2]
    lower, upper = np.quantile(fits.coef, ends, axis=0)
    low, high = np.quantile(fits.intercept, ends)
    return Bootstrap(
        lower=lower,
        upper=upper,
        intercept_lower=float(low),
        intercept_upper=float(high),
        level=level,
        standard_errors=fits.coef.std(axis=0),
        frequencies=fits.support.mean(axis=0),
        coef=fits.coef,
        intercept=fits.intercept,
        status=fits.status,
        names=names,
    )
