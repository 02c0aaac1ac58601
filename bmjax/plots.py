"""Pictures of a fit: its coefficients, course, path over the start, stability and posterior.

This module needs matplotlib, `pip install "bmjax[plot]"`, and is imported explicitly, `import
bmjax.plots`. Each function draws into the given axes, or else into a new figure, and returns the
axes; none shows or saves anything. Features that were pruned are drawn in grey.
"""

from __future__ import annotations

# First, since it says what to install if matplotlib is missing.
import bmjax._drawing  # noqa: F401

# isort: split

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from jax.typing import ArrayLike
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from bmjax._checks.arrays import floating_array
from bmjax._drawing.labels import drawn_names
from bmjax._drawing.panels import (
    axes_pair,
    checked_axes,
    draw_panels,
    draw_shares,
    plain_log,
    row_axes,
    split_axes,
    vector,
)
from bmjax._drawing.posterior import probabilities, sizes
from bmjax._drawing.style import DARK, GREY, KEPT, PALE, POINTS, Array
from bmjax._fitting.fit import fit
from bmjax._results.names import names_of
from bmjax._results.refit import half_width
from bmjax._results.result import Result

__all__ = ["coefficients", "course", "path", "probabilities", "sizes", "stability"]


def __dir__() -> list[str]:
    return __all__


class _Selection(Protocol):
    """The fields that `stability` reads, as of a `bmjax.StabilitySelection`."""

    @property
    def frequencies(self) -> Any: ...
    @property
    def standard_errors(self) -> Any: ...
    @property
    def threshold(self) -> Any: ...
    @property
    def stable(self) -> Any: ...


def coefficients(
    result: Result,
    names: Iterable[str] | None = None,
    *,
    level: float = 0.95,
    standardized: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw the coefficients with their intervals, and beside them the inclusion rates.

    There is one row for each feature, the first on top. The intervals are those of
    `Result.conf_int`, with the support taken as known; a fit made without uncertainty has dots
    only. Of more than 40 features only those kept are named, and the rows of the others are
    narrower.

    Args:
        result: One fit of k features.
        names: k names. Default: those of the data, or else x0, x1, ...
        level: Probability of the intervals, between 0 and 1.
        standardized: Whether to draw, between the two, the effects in standard deviations of y per
            standard deviation of the feature, which are comparable between features.
        ax: The axes to draw into. A quarter of their width goes to new axes for the rates, and a
            third of the rest to axes for the standardised effects. Default: a new figure.

    Returns:
        The axes of the coefficients; those of the rates are the last in the figure.

    Raises:
        TypeError: If level is not a number.
        ValueError: If the result is a batch, there are not k names, or level is out of range.

    Example:
        >>> import bmjax.plots
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> fit = bmjax.fit(X, y, intercept=True)
        >>> ax = bmjax.plots.coefficients(fit, names, standardized=True)
        >>> ax.figure.savefig('coefficients.png')  # doctest: +SKIP
    """
    coef = vector("result", result.coef)
    names = drawn_names(names, len(coef), result.names)
    half_width(level, np.zeros(1))  # raises if the level is not valid
    inclusion, kept = np.asarray(result.inclusion), np.asarray(result.support)
    ax, y, heights = row_axes(names, kept, ax, width=6.8)

    ax.axvline(0, color=DARK, linewidth=0.8, zorder=1)
    ax.plot(coef[~kept], y[~kept], "o", color=GREY, markersize=3, label="pruned")
    ax.plot(coef[kept], y[kept], "o", color=KEPT, markersize=5, zorder=3, label="kept")
    label = "coefficient"
    if result.uncertainty is not None:
        ends = np.asarray(result.conf_int(level))
        ax.hlines(y[kept], *ends[kept].T, color=KEPT, linewidth=1.5)
        label += f", {100 * level:g} % interval"
    ax.set_xlabel(label)

    rates = split_axes(ax, 1 / 4)
    if standardized:
        _draw_standardized(split_axes(ax, 1 / 3), result, y, heights)
    panel = rates
    panel.barh(y[kept], 1, height=heights[kept], color=PALE)
    panel.barh(y[kept], inclusion[kept], height=heights[kept], color=KEPT)
    for place, rate in zip(y[kept], inclusion[kept], strict=True):
        panel.text(1.08, place, f"{rate:.2f}", va="center", fontsize=POINTS, color=DARK)
    # Wider than the bars, for the numbers beside them.
    panel.set(xlim=(0, 1.5), xticks=[0, 1])
    panel.set_xlabel("inclusion", x=1 / 3)
    panel.spines["bottom"].set_bounds(0, 1)
    panel.tick_params(left=False, labelleft=False)
    panel.spines[["top", "right", "left"]].set_visible(False)
    return ax


def _draw_standardized(panel: Axes, result: Result, y: Array, heights: Array) -> None:
    """Bars of the standardised effects of the features kept."""
    effects, kept = np.asarray(result.standardized), np.asarray(result.support)
    panel.axvline(0, color=DARK, linewidth=0.8, zorder=1)
    panel.barh(y[kept], effects[kept], height=heights[kept], color=KEPT)
    widest = 1.15 * max(np.max(np.abs(effects), initial=0), 1e-3)
    panel.set(xlim=(-widest, widest))
    panel.xaxis.set_major_locator(MaxNLocator(3))
    panel.set_xlabel("standardised")
    panel.tick_params(axis="y", left=False, labelleft=False)
    panel.spines[["top", "right", "left"]].set_visible(False)


def course(
    result: Result, names: Iterable[str] | None = None, *, axes: Sequence[Axes] | None = None
) -> tuple[Axes, Axes]:
    """Draw the coefficients and inclusion rates over the steps of a fit.

    Up to 12 features are all named at the ends of their lines. Of more features only those kept are
    named, at most the 40 of the largest coefficients, and beside the rates only those that end
    between 0 and 1.

    Args:
        result: One fit of k features, made with `history=True`.
        names: k names. Default: those of the data, or else x0, x1, ...
        axes: Two axes to draw into. Default: a new figure.

    Returns:
        The axes of the coefficients and those of the rates.

    Raises:
        ValueError: If the result is a batch or has no history, there are not k names, or there
            are not two axes.

    Example:
        >>> import bmjax.plots
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> fit = bmjax.fit(X, y, intercept=True, history=True)
        >>> effects, rates = bmjax.plots.course(fit, names)
    """
    coef = vector("result", result.coef)
    names = drawn_names(names, len(coef), result.names)
    history = result.history
    if history is None:
        raise ValueError("result has no history; make the fit with history=True.")
    ran = np.asarray(history.active_count) >= 0
    if not ran.any():
        raise ValueError("result has a history of no steps; make the fit with a higher max_steps.")
    inclusion = np.asarray(history.inclusion)[ran]
    effects = np.asarray(history.weights)[ran] * inclusion
    steps = np.arange(1, len(inclusion) + 1)
    pair = axes_pair(axes)
    draw_panels(pair, steps, effects, inclusion, names, np.asarray(result.support))
    for ax in pair:
        # One step is a point; an axis needs a length.
        ax.set(xlabel="step", xlim=(1, max(2, len(steps))))
        plain_log(ax, (1, 2, 5) if len(steps) < 200 else (1,))
    return pair


def path(
    X: ArrayLike,
    y: ArrayLike,
    rates: ArrayLike | None = None,
    names: Iterable[str] | None = None,
    *,
    axes: Sequence[Axes] | None = None,
    **options: Any,
) -> tuple[Axes, Axes]:
    """Draw the ends of single fits from several initial inclusion rates.

    There is one fit for each rate, `fit(X, y, initial_inclusion=rate, **options)`, to the optimum
    next to its start: where the lines jump, another optimum begins. A vertical line marks the rate
    whose fit has the highest bound, the lowest of those within 0.01 nats; the features that it
    keeps are coloured, and named as in `course`.

    Args:
        X: (n, k) features, samples in rows.
        y: (n,) target.
        rates: (r,) initial rates in (0, 1], at least two. Default: 25 from 0.02 to 0.99, evenly
            spaced in their logarithm.
        names: k names. Default: those of the data, or else x0, x1, ...
        axes: Two axes to draw into. Default: a new figure.
        options: Further options of `fit`.

    Returns:
        The axes of the coefficients and those of the rates.

    Raises:
        TypeError: If an argument of `fit` has the wrong type.
        ValueError: If rates are out of range, there are not k names or not two axes, or `fit`
            refuses an argument.

    Example:
        >>> import bmjax.plots
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> effects, rates = bmjax.plots.path(X, y, [0.1, 0.5, 0.9], names, intercept=True)
    """
    if "initial_inclusion" in options:
        raise ValueError("initial_inclusion is what a path varies; give its values as rates.")
    rates = np.geomspace(0.02, 0.99, 25) if rates is None else rates
    rates = np.sort(np.ravel(floating_array("rates", rates)))
    if len(rates) < 2 or not np.all((rates > 0) & (rates <= 1)):
        raise ValueError("rates must be at least two numbers above 0 and at most 1.")
    shape = floating_array("X", X).shape
    if len(shape) == 2:
        # Checked here and not after the fits, which may take long.
        names = drawn_names(names, shape[1], names_of(X))
    checked_axes(axes)
    fits = [fit(X, y, initial_inclusion=float(rate), **options) for rate in rates]
    names = drawn_names(names, len(fits[0].coef), fits[0].names)
    bounds = np.array([float(one.bound) for one in fits])
    bounds[np.isnan(bounds)] = -np.inf
    # Fits that end at the same optimum differ in their distance to it.
    best = int(np.argmax(bounds >= bounds.max() - 0.01))
    coef = np.stack([np.asarray(one.coef) for one in fits])
    inclusion = np.stack([np.asarray(one.inclusion) for one in fits])
    pair = axes_pair(axes)
    for ax in pair:
        ax.axvline(rates[best], color=DARK, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
        ax.set_title(f"highest bound at {rates[best]:.2g}", fontsize=POINTS, color=DARK)
    draw_panels(pair, rates, coef, inclusion, names, np.asarray(fits[best].support), marker=".")
    for ax in pair:
        ax.set(xlabel="initial inclusion", xlim=(rates[0], rates[-1]))
        plain_log(ax, (1, 2, 5))
    return pair


def stability(
    selection: _Selection, names: Iterable[str] | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draw the frequency with which each feature was selected, with the threshold of stable ones.

    There is one row for each feature, the first on top, with two standard errors to either side. Of
    more than 40 features only the stable ones are named, and the rows of the others are narrower.

    Args:
        selection: A `bmjax.StabilitySelection` of one dataset, of which it reads `frequencies`,
            `standard_errors` and `stable`, all (k,), and `threshold`.
        names: k names. Default: those of the data, or else x0, x1, ...
        ax: The axes to draw into. Default: a new figure.

    Returns:
        The axes.

    Raises:
        ValueError: If the selection is a batch or there are not k names.

    Example:
        >>> import jax
        >>> import bmjax.plots
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> halves = bmjax.stability_selection(X, y, jax.random.key(0), 10, intercept=True)
        >>> ax = bmjax.plots.stability(halves, names)
    """
    frequencies = vector("selection", selection.frequencies)
    names = drawn_names(names, len(frequencies), getattr(selection, "names", None))
    threshold, stable = float(selection.threshold), np.asarray(selection.stable)
    rows, half = row_axes(names, stable, ax, width=5.6), 2 * np.asarray(selection.standard_errors)
    ax = draw_shares(rows, frequencies, half, stable, threshold, ("not stable", "stable"))
    ax.set_title(f"stable from {threshold:.3g} on", fontsize=POINTS, color=DARK)
    ax.set_xlabel("selection frequency, ± 2 standard errors")
    return ax
