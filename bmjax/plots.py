"""Pictures of a fit: its coefficients, course, path over the start, stability and posterior.

Needs matplotlib, `pip install "bmjax[plot]"`, and is imported by itself, `import bmjax.plots`.
Each function draws into the axes given, or else into a new figure, and returns the axes; none
shows or saves anything. Features that were pruned are drawn in grey.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np
from jax.typing import ArrayLike
from numpy.typing import NDArray

from bmjax._checks.arrays import floating_array
from bmjax._fitting.fit import fit
from bmjax._posterior.result import Posterior
from bmjax._results.names import Names, feature_names, names_of
from bmjax._results.refit import half_width
from bmjax._results.result import Result

try:
    from matplotlib import font_manager, rcParams
    from matplotlib.axes import Axes
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "matplotlib":
        raise
    raise ModuleNotFoundError(
        'bmjax.plots needs matplotlib: pip install "bmjax[plot]"', name=error.name
    ) from error

__all__ = ["coefficients", "course", "path", "probabilities", "sizes", "stability"]


def __dir__() -> list[str]:
    return __all__


_Array = NDArray[Any]

# Of Okabe and Ito, told apart by colour-blind readers; dashes tell the next seven from the first.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", (0, (4, 1.5)), (0, (4, 1.5, 1, 1.5)), (0, (1, 1)))
_KEPT, _GREY, _FAINT, _PALE, _DARK = _COLOURS[0], "0.6", "0.75", "0.9", "0.35"

_POINTS = 8  # size of the names
_MOST_NAMES = 40  # rows that are all named; lines that are named at all
_FEW = 12  # lines of which the grey ones are named as well
_LONGEST = 30  # characters of a name
_ROW, _NARROW = 0.2, 0.35  # height of a row in inches; of an unnamed one in rows


class _Selection(Protocol):
    """What `stability` reads; `bmjax.StabilitySelection` has it."""

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
    """Draws the coefficients with their intervals, and beside them the inclusion rates.

    A row a feature, the first on top. The interval is that of `Result.conf_int`, the support
    taken as known; a fit made without uncertainty has dots alone. Of more than 40 features only
    those kept are named, and the rows of the others are narrower.

    Args:
        result: One fit of k features.
        names: k names. Default: those that the data came with, or else x0, x1, ...
        level: Probability of the intervals, between 0 and 1.
        standardized: Whether to draw, between the two, the effects in standard deviations of y
            per standard deviation of the feature, which can be compared whatever the units.
        ax: Where to draw; a quarter of its width goes to new axes for the rates, and before that a
            third to those of the standardised effects. Default: a new figure.

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
    coef = _vector("result", result.coef)
    names = _names(names, len(coef), result.names)
    half_width(level, np.zeros(1))  # says what is wrong with the level
    inclusion, kept = np.asarray(result.inclusion), np.asarray(result.support)
    ax, y, heights = _rows(names, kept, ax, width=6.8)

    ax.axvline(0, color=_DARK, linewidth=0.8, zorder=1)
    ax.plot(coef[~kept], y[~kept], "o", color=_GREY, markersize=3, label="pruned")
    ax.plot(coef[kept], y[kept], "o", color=_KEPT, markersize=5, zorder=3, label="kept")
    label = "coefficient"
    if result.uncertainty is not None:
        ends = np.asarray(result.conf_int(level))
        ax.hlines(y[kept], *ends[kept].T, color=_KEPT, linewidth=1.5)
        label += f", {100 * level:g} % interval"
    ax.set_xlabel(label)

    rates = _split(ax, 1 / 4)
    if standardized:
        _draw_standardized(_split(ax, 1 / 3), result, y, heights)
    panel = rates
    panel.barh(y[kept], 1, height=heights[kept], color=_PALE)
    panel.barh(y[kept], inclusion[kept], height=heights[kept], color=_KEPT)
    for place, rate in zip(y[kept], inclusion[kept], strict=True):
        panel.text(1.08, place, f"{rate:.2f}", va="center", fontsize=_POINTS, color=_DARK)
    # Wider than the bars, for the numbers beside them.
    panel.set(xlim=(0, 1.5), xticks=[0, 1])
    panel.set_xlabel("inclusion", x=1 / 3)
    panel.spines["bottom"].set_bounds(0, 1)
    panel.tick_params(left=False, labelleft=False)
    panel.spines[["top", "right", "left"]].set_visible(False)
    return ax


def _draw_standardized(panel: Axes, result: Result, y: _Array, heights: _Array) -> None:
    """Bars of the standardised effects of the features kept."""
    effects, kept = np.asarray(result.standardized), np.asarray(result.support)
    panel.axvline(0, color=_DARK, linewidth=0.8, zorder=1)
    panel.barh(y[kept], effects[kept], height=heights[kept], color=_KEPT)
    widest = 1.15 * max(np.max(np.abs(effects), initial=0), 1e-3)
    panel.set(xlim=(-widest, widest))
    panel.xaxis.set_major_locator(MaxNLocator(3))
    panel.set_xlabel("standardised")
    panel.tick_params(axis="y", left=False, labelleft=False)
    panel.spines[["top", "right", "left"]].set_visible(False)


def course(
    result: Result, names: Iterable[str] | None = None, *, axes: Sequence[Axes] | None = None
) -> tuple[Axes, Axes]:
    """Draws coefficients and inclusion rates over the steps of a fit.

    Up to 12 features are all named where their lines end. Of more, those kept are, at most 40 by
    the size of their coefficients; and beside the rates only those that end between 0 and 1.

    Args:
        result: One fit of k features, made with `history=True`.
        names: k names. Default: those that the data came with, or else x0, x1, ...
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
    coef = _vector("result", result.coef)
    names = _names(names, len(coef), result.names)
    history = result.history
    if history is None:
        raise ValueError("result has no history; make the fit with history=True.")
    ran = np.asarray(history.active_count) >= 0
    if not ran.any():
        raise ValueError("result has a history of no steps; make the fit with a higher max_steps.")
    inclusion = np.asarray(history.inclusion)[ran]
    effects = np.asarray(history.weights)[ran] * inclusion
    steps = np.arange(1, len(inclusion) + 1)
    pair = _pair(axes)
    _panels(pair, steps, effects, inclusion, names, np.asarray(result.support))
    for ax in pair:
        # One step is a point; an axis needs a length.
        ax.set(xlabel="step", xlim=(1, max(2, len(steps))))
        _plain_log(ax, (1, 2, 5) if len(steps) < 200 else (1,))
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
    """Draws where plain fits from several initial inclusion rates end.

    One fit a rate, `fit(X, y, initial_inclusion=rate, **options)`, each to the optimum next to
    its start: where the lines jump, another optimum begins. A vertical line marks the rate whose
    fit has the highest bound, the lowest of those within 0.01 nats; the features that it keeps
    have colours, and names as in `course`.

    Args:
        X: (n, k) features, samples in rows.
        y: (n,) target.
        rates: (r,) initial rates in (0, 1], at least two. Default: 25 from 0.02 to 0.99, evenly
            spaced in their logarithm.
        names: k names. Default: those that the data came with, or else x0, x1, ...
        axes: Two axes to draw into. Default: a new figure.
        options: What else `fit` takes.

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
        # Here and not after the fits, which take their time.
        names = _names(names, shape[1], names_of(X))
    _checked(axes)
    fits = [fit(X, y, initial_inclusion=float(rate), **options) for rate in rates]
    names = _names(names, len(fits[0].coef), fits[0].names)
    bounds = np.array([float(one.bound) for one in fits])
    bounds[np.isnan(bounds)] = -np.inf
    # Fits that ended at the same optimum differ in how near they came.
    best = int(np.argmax(bounds >= bounds.max() - 0.01))
    coef = np.stack([np.asarray(one.coef) for one in fits])
    inclusion = np.stack([np.asarray(one.inclusion) for one in fits])
    pair = _pair(axes)
    for ax in pair:
        ax.axvline(rates[best], color=_DARK, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
        ax.set_title(f"highest bound at {rates[best]:.2g}", fontsize=_POINTS, color=_DARK)
    _panels(pair, rates, coef, inclusion, names, np.asarray(fits[best].support), marker=".")
    for ax in pair:
        ax.set(xlabel="initial inclusion", xlim=(rates[0], rates[-1]))
        _plain_log(ax, (1, 2, 5))
    return pair


def stability(
    selection: _Selection, names: Iterable[str] | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draws how often each feature was selected, with the threshold of the stable ones.

    A row a feature, the first on top, with two standard errors to either side. Of more than 40
    features only the stable ones are named, and the rows of the others are narrower.

    Args:
        selection: A `bmjax.StabilitySelection` of one dataset, of which it reads `frequencies`,
            `standard_errors` and `stable`, all (k,), and `threshold`.
        names: k names. Default: those that the data came with, or else x0, x1, ...
        ax: Where to draw. Default: a new figure.

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
    frequencies = _vector("selection", selection.frequencies)
    names = _names(names, len(frequencies), getattr(selection, "names", None))
    threshold = float(selection.threshold)
    half, stable = 2 * np.asarray(selection.standard_errors), np.asarray(selection.stable)
    ax, y, heights = _rows(names, stable, ax, width=5.6)

    ax.axvline(threshold, color=_DARK, linewidth=0.8, linestyle=(0, (4, 2)), zorder=1)
    ax.set_title(f"stable from {threshold:.3g} on", fontsize=_POINTS, color=_DARK)
    for group, colour, size, label in (
        (~stable, _GREY, 3, "not stable"),
        (stable, _KEPT, 5, "stable"),
    ):
        place, share, error = y[group], frequencies[group], half[group]
        ax.barh(place, share, height=heights[group], color=colour, alpha=0.25)
        ax.hlines(place, share - error, share + error, color=colour, linewidth=0.3 * size, zorder=3)
        ax.plot(share, place, "o", color=colour, markersize=size, zorder=4, label=label)
    ax.set(xlim=(-0.015, 1.03), xlabel="selection frequency, ± 2 standard errors")
    return ax


def probabilities(
    posterior: Posterior, names: Iterable[str] | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draws the probability of each feature, with two Monte Carlo errors to either side.

    A row a feature, the first on top; those more probable than not in colour. Of more than 40
    features only these are named, and the rows of the others are narrower.

    Args:
        posterior: What `bmjax.posterior` returned for one dataset of k features.
        names: k names. Default: x0, x1, ...
        ax: Where to draw. Default: a new figure.

    Returns:
        The axes.

    Raises:
        ValueError: If the posterior is of several datasets or there are not k names.

    Example:
        >>> import bmjax.plots
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> posterior = bmjax.posterior(X, y, intercept=True)
        >>> ax = bmjax.plots.probabilities(posterior, names)
    """
    chance = _vector("posterior", posterior.probability)
    names = _names(names, len(chance))
    half, likely = 2 * np.asarray(posterior.probability_error), chance > 0.5
    ax, y, heights = _rows(names, likely, ax, width=5.6)
    ax.axvline(0.5, color=_DARK, linewidth=0.8, linestyle=(0, (4, 2)), zorder=1)
    for group, colour, size, label in (
        (~likely, _GREY, 3, "less probable than not"),
        (likely, _KEPT, 5, "more probable than not"),
    ):
        place, share, error = y[group], chance[group], half[group]
        ax.barh(place, share, height=heights[group], color=colour, alpha=0.25)
        ax.hlines(place, share - error, share + error, color=colour, linewidth=0.3 * size, zorder=3)
        ax.plot(share, place, "o", color=colour, markersize=size, zorder=4, label=label)
    ax.set(xlim=(-0.015, 1.03), xlabel="probability that the feature acts")
    return ax


def sizes(posterior: Posterior, *, ax: Axes | None = None) -> Axes:
    """Draws the probability of each number of features, those always in not counted.

    Args:
        posterior: What `bmjax.posterior` returned for one dataset.
        ax: Where to draw. Default: a new figure.

    Returns:
        The axes.

    Raises:
        ValueError: If the posterior is of several datasets.

    Example:
        >>> import bmjax.plots
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> posterior = bmjax.posterior(X, y, intercept=True)
        >>> ax = bmjax.plots.sizes(posterior)
    """
    chance = _vector("posterior", posterior.size)
    # Beyond the last that could be seen there is nothing to draw.
    shown = max(int(np.flatnonzero(chance > 1e-3).max(initial=0)) + 2, 2)
    chance = chance[:shown]
    if ax is None:
        ax = _new(4.8, 3.2, 1)[0]
    ax.bar(np.arange(len(chance)), chance, color=_KEPT, width=0.8)
    ax.set(xlabel="number of features that act", ylabel="probability", ylim=(0, None))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.spines[["top", "right"]].set_visible(False)
    return ax


# ---- rows


def _rows(
    names: list[str], kept: _Array, ax: Axes | None, width: float
) -> tuple[Axes, _Array, _Array]:
    """Axes with a row a feature, the first on top, where each row is, and how high its bar."""
    all_named = len(names) <= _MOST_NAMES
    # Hundreds of pruned features fill no more of the picture than forty that are named.
    narrow = min(_NARROW, _MOST_NAMES / max(1, np.sum(~kept)))
    heights = np.where(kept | all_named, 1, narrow)
    y = np.cumsum(heights) - heights / 2
    if ax is None:
        ax = _new(width, 0.9 + _ROW * min(y[-1] + 1, 250), 1)[0]
    named = np.flatnonzero(kept | all_named)
    texts = [_in_any_script(names[j]) for j in named]
    ax.set_yticks(y[named], [text for text, _ in texts])
    for j, tick, (_, fonts) in zip(named, ax.get_yticklabels(), texts, strict=True):
        tick.set(parse_math=False, fontsize=_POINTS, color="black" if kept[j] else _GREY)
        tick.set_fontfamily(fonts)
    ax.set_ylim(y[-1] + heights[-1] / 2 + 0.2, -0.2)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    return ax, y, 0.6 * heights


def _split(ax: Axes, share: float) -> Axes:
    """New axes in the right share of these, which shrink, with the same rows."""
    place, picture = ax.get_subplotspec(), ax.figure
    if place is not None:
        # Not an inset, of which constrained layout does not find the width.
        left, right = place.subgridspec(1, 2, width_ratios=(1 - share, share), wspace=0.06)
        ax.set_subplotspec(left)
        return picture.add_subplot(right, sharey=ax)
    x0, y0, width, height = ax.get_position().bounds
    gap = 0.02 * width
    ax.set_position((x0, y0, (1 - share) * width - gap, height))
    left = x0 + (1 - share) * width + gap
    return picture.add_axes((left, y0, share * width - gap, height), sharey=ax)


# ---- lines


def _panels(  # noqa: PLR0913 - what both panels draw
    pair: tuple[Axes, Axes],
    x: _Array,
    coef: _Array,
    inclusion: _Array,
    names: list[str],
    kept: _Array,
    marker: str | None = None,
) -> None:
    """Draws both panels, a line a feature."""
    # By size at the end, so that where names run out it is the small ones that have none.
    order = [int(j) for j in np.argsort(-np.abs(coef[-1]), kind="stable") if kept[j]]
    named = list(range(len(names))) if len(names) <= _FEW else order[:_MOST_NAMES]
    rank = np.cumsum(kept) - 1
    pair[0].axhline(0, color=_DARK, linewidth=0.8, zorder=1)
    pair[0].set_ylabel("coefficient")
    pair[1].set(ylabel="inclusion", ylim=(-0.03, 1.03))
    for ax, values in zip(pair, (coef, inclusion), strict=True):
        colours = []
        for j, name in enumerate(names):
            place = int(rank[j])
            colours.append(_COLOURS[place % len(_COLOURS)] if kept[j] else _FAINT)
            dashes = _DASHES[place // len(_COLOURS) % len(_DASHES)] if kept[j] else "-"
            (line,) = ax.plot(
                x,
                values[:, j],
                color=colours[j],
                linestyle=dashes,
                linewidth=1.5 if kept[j] else 0.8,
                marker="." if len(x) == 1 else marker,
                markersize=4 if kept[j] else 2,
                zorder=3 if kept[j] else 2,
            )
            # Not as the argument of that name, where a name in underscores means none.
            line.set_label(name)
        ax.set_xscale("log")
        ax.spines[["top", "right"]].set_visible(False)
        if ax is pair[1] and len(names) > _FEW:
            # Most rates end at 1, where many names would say no more than the other panel.
            named = [j for j in named if 0.01 < values[-1, j] < 0.99]
        _name_ends(ax, x[-1], values[-1], names, colours, named)


def _plain_log(ax: Axes, digits: Sequence[int]) -> None:
    """Ticks of a logarithmic axis at these digits, as plain numbers."""
    ax.xaxis.set_major_locator(LogLocator(subs=digits))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_locator(NullLocator())


def _name_ends(
    ax: Axes, x: float, ends: _Array, names: list[str], colours: list[str], named: Iterable[int]
) -> None:
    """Names lines on the right of the axes, each as near to its end as the others leave it."""
    chosen = np.array([j for j in named if np.isfinite(ends[j])], int)
    if not len(chosen):
        return
    low, high = ax.get_ylim()
    ax.set_ylim(low, high)  # the places below hold for these limits only
    height = ax.get_window_extent().height * 72 / ax.figure.dpi
    heights = _spread((ends[chosen] - low) / (high - low), 1.15 * _POINTS / height)
    for j, place in zip(chosen, heights, strict=True):
        name, fonts = _in_any_script(names[j])
        text = ax.annotate(
            name,
            (x, ends[j]),
            (1.05, place),
            textcoords="axes fraction",
            annotation_clip=False,
            va="center",
            fontsize=_POINTS,
            color=_GREY if colours[j] == _FAINT else colours[j],
            arrowprops=dict(
                arrowstyle="-",
                color=colours[j],
                linewidth=0.5,
                shrinkA=1,
                shrinkB=0,
                relpos=(0, 0.5),
            ),
        )
        text.set_parse_math(False)
        text.set_fontfamily(fonts)


def _spread(wanted: _Array, gap: float) -> _Array:
    """Places in [0, 1], at least a gap apart, nearest in squares to those wanted."""
    m = len(wanted)
    gap = min(gap, 1 / max(1, m - 1))
    order = np.argsort(wanted, kind="stable")
    # Less the gaps it is isotonic regression, by its max-min formula.
    target = wanted[order] - gap * np.arange(m)
    sums = np.concatenate([[0.0], np.cumsum(target)])
    first, last = np.arange(m)[:, None], np.arange(m)[None, :]
    means = (sums[last + 1] - sums[first]) / np.maximum(last - first + 1, 1)
    means = np.where(last >= first, means, np.inf)
    lowest = np.minimum.accumulate(means[:, ::-1], axis=1)[:, ::-1]
    level = np.max(np.where(last >= first, lowest, -np.inf), axis=0)
    places = np.empty(m)
    places[order] = np.clip(level, 0, 1 - gap * (m - 1)) + gap * np.arange(m)
    return places


# ---- names in any script


def _in_any_script(name: str) -> tuple[str, list[str]]:
    """A name as it can be drawn, characters that no font has as escapes, and the fonts it needs."""
    usual = rcParams["font.family"]
    own = font_manager.findfont(font_manager.FontProperties())
    fonts = list(usual)
    for character in dict.fromkeys(name):
        if _has(own, character) or not character.isprintable():
            continue
        font = _font_with(character)
        if font is None:
            name = name.replace(character, f"\\u{ord(character):04x}")
        elif font not in fonts:
            fonts.append(font)
    return name, fonts


@cache
def _font_with(character: str) -> str | None:
    """The first installed font that has a character."""
    for font in font_manager.fontManager.ttflist:
        if _has(font.fname, character) and "LastResort" not in font.name:
            return font.name
    return None


def _has(path: str, character: str) -> bool:
    try:
        return _opened(path).get_char_index(ord(character)) != 0
    except (OSError, RuntimeError):  # a font that is gone or broken
        return False


@cache
def _opened(path: str) -> Any:
    return font_manager.get_font(path)


# ---- arguments


def _vector(name: str, values: Any) -> _Array:
    values = np.asarray(values)
    if values.ndim != 1:
        raise ValueError(
            f"{name} is a batch, of shape {values.shape[:-1]}; a picture is of one fit at a time, "
            f"e.g. jax.tree.map(lambda leaf: leaf[i], {name})."
        )
    return values


def _names(names: Iterable[str] | None, k: int, known: Names | None = None) -> list[str]:
    """The names as far as there is room, those that the data came with if none are given."""
    if names is None and known is not None:
        names = known.features
    full = feature_names(names, k)
    return [n if len(n) <= _LONGEST else n[: _LONGEST - 1] + "…" for n in full]


def _checked(axes: Sequence[Axes] | None) -> tuple[Axes, Axes] | None:
    if axes is None:
        return None
    flat = np.ravel(np.asarray(axes, object))
    if len(flat) != 2:
        raise ValueError(f"axes has {len(flat)} entries; give two, for coef and inclusion.")
    return flat[0], flat[1]


def _pair(axes: Sequence[Axes] | None) -> tuple[Axes, Axes]:
    given = _checked(axes)
    if given is not None:
        return given
    first, second = _new(10, 4.6, 2)
    return first, second


def _new(width: float, height: float, panels: int) -> list[Axes]:
    # Only here, since pyplot picks a backend when it is imported.
    import matplotlib.pyplot as plt

    picture, axes = plt.subplots(
        1, panels, figsize=(width, height), layout="constrained", squeeze=False
    )
    picture.set_layout_engine("constrained", wspace=0.06)  # names end before the next panel
    return list(axes[0])
