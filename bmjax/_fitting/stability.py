"""`stability_selection`: how often fits to halves of the samples keep each feature."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from bmjax._checks import inputs, validate
from bmjax._checks.groups import group_labels
from bmjax._fitting.resampling import fits_of_resamples, generator
from bmjax._model.groups import groups_of
from bmjax._results.names import Names, by_number, names_of
from bmjax._runtime.debugging import unwatched


class StabilitySelection(NamedTuple):
    """The frequency with which fits to random halves of the samples keep each feature.

    Attributes:
        frequencies: Share of the fits that kept each feature.
        standard_errors: Monte Carlo standard errors of the frequencies, from the spread between
            pairs of complementary halves; they fall with the number of resamples, not of samples.
        threshold: The lowest frequency at which a feature counts as stable.
        stable: Whether the frequency of each feature is at or above the threshold.
        average_size: Average number of features that a fit kept (q). Unmasked ones do not count,
            and a group of columns counts as one.
        expected_false: Bound on the expected number of stable features that a fit keeps no more
            often than average, q^2 / ((2 threshold - 1) k), of k features that may be masked.
        expected_false_unimodal: A sharper bound, valid if the distribution of the share of pairs
            that agree on a feature is unimodal; NaN where the bound does not apply.
        supports: The features that each fit kept; fits 2 i and 2 i + 1 are of complementary halves.
        status: The code of `Status` with which each fit ended.
        names: Names of the features and the target, if the data had any.

    Example:
        >>> import jax
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> halves = bmjax.stability_selection(X, y, jax.random.key(0), 10, intercept=True)
        >>> halves.supports.shape, halves.threshold
        ((10, 10), 0.75)
    """

    frequencies: Float[Array, " k"]
    standard_errors: Float[Array, " k"]
    threshold: float
    stable: Bool[Array, " k"]
    average_size: float
    expected_false: float
    expected_false_unimodal: float
    supports: Bool[np.ndarray, "resamples k"]
    status: Any
    names: Names | None = None

    def __repr__(self) -> str:
        """A summary in one line."""
        fits, k = np.shape(self.supports)
        often = int(np.sum(np.asarray(self.stable)))
        return (
            f"<bmjax.StabilitySelection: {often} of {k} features kept by {self.threshold:.0%} or "
            f"more of {fits} fits>"
        )


@unwatched
def stability_selection(
    X: ArrayLike,
    y: ArrayLike,
    key: jax.Array,
    resamples: int = 100,
    *,
    threshold: float = 0.75,
    progress: bool | None = None,
    **options: Any,
) -> StabilitySelection:
    """Fit complementary random halves of the samples and count how often each feature is kept.

    Args:
        X: (n, k) features.
        y: (n,) target.
        key: A JAX random key.
        resamples: Number of fits, even: each pair takes two halves that share no sample.
        threshold: The lowest frequency at which a feature counts as stable, above 1/2.
        progress: Whether to show progress on stderr, which needs rich. Default: if stderr is a
            terminal and rich is installed.
        options: Options of `fit_batch`, such as `intercept=True`; not `sample_weights`.

    Returns:
        The frequencies, the stable features, and bounds on the number expected by chance.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, or there are fewer than four samples.

    Reference:
        Meinshausen and Buhlmann, "Stability selection", JRSS B, 2010; Shah and Samworth,
        "Variable selection with error control: another look at stability selection", JRSS B, 2013.

    Example:
        >>> import jax
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> halves = bmjax.stability_selection(X, y, jax.random.key(0), 10, intercept=True)
        >>> halves.frequencies.shape, bool(halves.stable[names.index("bmi")])
        ((10,), True)
    """
    names = names_of(X, y)
    options = by_number(options, names)
    X, y, _, dtype = inputs.on_host(X, y, None)
    n, k = X.shape
    resamples = validate.count("resamples", resamples, low=2)
    if resamples % 2:
        raise ValueError(f"resamples is {resamples}; halves come in pairs, so it must be even.")
    if n < 4:
        raise ValueError(f"X has {n} rows; half of them must be at least 2 samples.")
    threshold = float(
        validate.number("threshold", threshold, float, low=0.5, high=1, open_low=True)
    )
    pairs = resamples // 2

    def halves(i: int) -> np.ndarray:
        rng = generator(key, i // 2)
        order = rng.permutation(n)
        half = order[: n // 2] if i % 2 == 0 else order[n // 2 : 2 * (n // 2)]
        return np.bincount(half, minlength=n)

    fits = fits_of_resamples(X, y, halves, resamples, "stability selection", progress, options)
    supports = fits.support
    frequencies = supports.mean(axis=0)
    by_pair = supports.reshape(pairs, 2, k).mean(axis=1)
    spread = by_pair.std(axis=0, ddof=1) if pairs > 1 else np.full(k, np.nan)
    unmasked = options.get("unmasked")
    maskable = np.ones(k, bool)
    if unmasked is not None:
        maskable = ~np.asarray(validate.chosen_features("unmasked", unmasked, k))
    if options.get("groups") is not None:  # a group counts as one feature
        groups = groups_of(group_labels("groups", options["groups"], k))
        maskable &= True if groups is None else np.asarray(groups.first)
    average, choices = supports[:, maskable].sum(axis=1).mean(), max(maskable.sum(), 1)
    # A feature of frequency 3/4 after 100 fits is stable, whatever 3 * 25 / 100 rounds to.
    stable = frequencies >= threshold - 1e-12
    return StabilitySelection(
        frequencies=jnp.asarray(frequencies, dtype),
        standard_errors=jnp.asarray(spread / np.sqrt(pairs), dtype),
        threshold=threshold,
        stable=jnp.asarray(stable),
        average_size=float(average),
        expected_false=float(average**2 / ((2 * threshold - 1) * choices)),
        expected_false_unimodal=_unimodal_bound(float(average), int(choices), threshold, pairs),
        supports=supports,
        status=fits.status,
        names=names,
    )


def _unimodal_bound(q: float, k: int, threshold: float, pairs: int) -> float:
    """Shah and Samworth's bound for a unimodal share of pairs that agree (their theorem 2)."""
    theta = q / k
    if theta > 1 / np.sqrt(3) or threshold < 0.5 + 1 / pairs:
        return float("nan")
    if threshold <= min(0.5 + theta**2, 0.5 + 1 / (2 * pairs) + 0.75 * theta**2):
        return float("nan")
    if threshold <= 0.75:
        factor = 1 / (2 * (2 * threshold - 1 - 1 / (2 * pairs)))
    else:
        factor = 4 * (1 - threshold + 1 / (2 * pairs)) / (1 + 1 / pairs)
    return float(factor * theta * q)
