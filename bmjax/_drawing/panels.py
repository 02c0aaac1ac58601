"""Axes, and the parts that several pictures draw into them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from bmjax._drawing.labels import in_any_script
from bmjax._drawing.style import (
    COLOURS,
    DARK,
    DASHES,
    FAINT,
    FEW,
    GREY,
    KEPT,
    MOST_NAMES,
    NARROW,
    POINTS,
    ROW,
    Array,
)


def row_axes(
    names: list[str], kept: Array, ax: Axes | None, width: float
) -> tuple[Axes, Array, Array]:
    """Axes with one row for each feature, the first on top, and the rows' places and heights."""
    all_named = len(names) <= MOST_NAMES
    # Hundreds of pruned features fill no more of the picture than forty named features.
    narrow = min(NARROW, MOST_NAMES / max(1, np.sum(~kept)))
    heights = np.where(kept | all_named, 1, narrow)
    y = np.cumsum(heights) - heights / 2
    if ax is None:
        ax = new_axes(width, 0.9 + ROW * min(y[-1] + 1, 250), 1)[0]
    named = np.flatnonzero(kept | all_named)
    texts = [in_any_script(names[j]) for j in named]
    ax.set_yticks(y[named], [text for text, _ in texts])
    for j, tick, (_, fonts) in zip(named, ax.get_yticklabels(), texts, strict=True):
        tick.set(parse_math=False, fontsize=POINTS, color="black" if kept[j] else GREY)
        tick.set_fontfamily(fonts)
    ax.set_ylim(y[-1] + heights[-1] / 2 + 0.2, -0.2)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    return ax, y, 0.6 * heights


def draw_shares(
    rows: tuple[Axes, Array, Array],
    shares: Array,
    half: Array,
    chosen: Array,
    threshold: float,
    labels: tuple[str, str],
) -> Axes:
    """Draw shares with bars of error and a threshold, into the rows that `row_axes` has made.

    Args:
        rows: The axes, and the rows' places and heights.
        shares: Shares between 0 and 1.
        half: Half the length of each bar of error.
        chosen: Whether each feature is coloured.
        threshold: The share at which a vertical line is drawn.
        labels: Labels of the features that are not chosen, and of those that are.
    """
    ax, y, heights = rows
    ax.axvline(threshold, color=DARK, linewidth=0.8, linestyle=(0, (4, 2)), zorder=1)
    for group, colour, size, label in (
        (~chosen, GREY, 3, labels[0]),
        (chosen, KEPT, 5, labels[1]),
    ):
        place, share, error = y[group], shares[group], half[group]
        ax.barh(place, share, height=heights[group], color=colour, alpha=0.25)
        ax.hlines(place, share - error, share + error, color=colour, linewidth=0.3 * size, zorder=3)
        ax.plot(share, place, "o", color=colour, markersize=size, zorder=4, label=label)
    ax.set_xlim(-0.015, 1.03)
    return ax


def split_axes(ax: Axes, share: float) -> Axes:
    """New axes with the same rows in the right share of some axes, which shrink."""
    place, picture = ax.get_subplotspec(), ax.figure
    if place is not None:
        # Not an inset, whose width constrained layout would not take into account.
        left, right = place.subgridspec(1, 2, width_ratios=(1 - share, share), wspace=0.06)
        ax.set_subplotspec(left)
        return picture.add_subplot(right, sharey=ax)
    x0, y0, width, height = ax.get_position().bounds
    gap = 0.02 * width
    ax.set_position((x0, y0, (1 - share) * width - gap, height))
    left = x0 + (1 - share) * width + gap
    return picture.add_axes((left, y0, share * width - gap, height), sharey=ax)


def draw_panels(  # noqa: PLR0913 - what both panels draw
    pair: tuple[Axes, Axes],
    x: Array,
    coef: Array,
    inclusion: Array,
    names: list[str],
    kept: Array,
    marker: str | None = None,
) -> None:
    """Draw both panels, with one line for each feature."""
    # By size at the end, so that if names run out the small ones have none.
    order = [int(j) for j in np.argsort(-np.abs(coef[-1]), kind="stable") if kept[j]]
    named = list(range(len(names))) if len(names) <= FEW else order[:MOST_NAMES]
    rank = np.cumsum(kept) - 1
    pair[0].axhline(0, color=DARK, linewidth=0.8, zorder=1)
    pair[0].set_ylabel("coefficient")
    pair[1].set(ylabel="inclusion", ylim=(-0.03, 1.03))
    for ax, values in zip(pair, (coef, inclusion), strict=True):
        colours = []
        for j, name in enumerate(names):
            place = int(rank[j])
            colours.append(COLOURS[place % len(COLOURS)] if kept[j] else FAINT)
            dashes = DASHES[place // len(COLOURS) % len(DASHES)] if kept[j] else "-"
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
            # Not as the argument `label`, for which a leading underscore means no label.
            line.set_label(name)
        ax.set_xscale("log")
        ax.spines[["top", "right"]].set_visible(False)
        if ax is pair[1] and len(names) > FEW:
            # Most rates end at 1, where many names would only repeat those of the other panel.
            named = [j for j in named if 0.01 < values[-1, j] < 0.99]
        name_ends(ax, x[-1], values[-1], names, colours, named)


def plain_log(ax: Axes, digits: Sequence[int]) -> None:
    """Set ticks of a logarithmic axis at some digits, as plain numbers."""
    ax.xaxis.set_major_locator(LogLocator(subs=digits))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_locator(NullLocator())


def name_ends(
    ax: Axes, x: float, ends: Array, names: list[str], colours: list[str], named: Iterable[int]
) -> None:
    """Name lines on the right of the axes, each name as near to its line's end as possible."""
    chosen = np.array([j for j in named if np.isfinite(ends[j])], int)
    if not len(chosen):
        return
    low, high = ax.get_ylim()
    ax.set_ylim(low, high)  # the places below are for these limits only
    height = ax.get_window_extent().height * 72 / ax.figure.dpi
    heights = spread_out((ends[chosen] - low) / (high - low), 1.15 * POINTS / height)
    for j, place in zip(chosen, heights, strict=True):
        name, fonts = in_any_script(names[j])
        text = ax.annotate(
            name,
            (x, ends[j]),
            (1.05, place),
            textcoords="axes fraction",
            annotation_clip=False,
            va="center",
            fontsize=POINTS,
            color=GREY if colours[j] == FAINT else colours[j],
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


def spread_out(wanted: Array, gap: float) -> Array:
    """Places in [0, 1], at least a gap apart, that are nearest to those wanted in least squares."""
    m = len(wanted)
    gap = min(gap, 1 / max(1, m - 1))
    order = np.argsort(wanted, kind="stable")
    # Without the gaps this is isotonic regression, by its max-min formula.
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


def vector(name: str, values: Any) -> Array:
    values = np.asarray(values)
    if values.ndim != 1:
        raise ValueError(
            f"{name} is a batch, of shape {values.shape[:-1]}; a picture is of one fit at a time, "
            f"e.g. jax.tree.map(lambda leaf: leaf[i], {name})."
        )
    return values


def checked_axes(axes: Sequence[Axes] | None) -> tuple[Axes, Axes] | None:
    if axes is None:
        return None
    flat = np.ravel(np.asarray(axes, object))
    if len(flat) != 2:
        raise ValueError(f"axes has {len(flat)} entries; give two, for coef and inclusion.")
    return flat[0], flat[1]


def axes_pair(axes: Sequence[Axes] | None) -> tuple[Axes, Axes]:
    given = checked_axes(axes)
    if given is not None:
        return given
    first, second = new_axes(10, 4.6, 2)
    return first, second


def new_axes(width: float, height: float, panels: int) -> list[Axes]:
    # Imported only here, since pyplot picks a backend when it is imported.
    import matplotlib.pyplot as plt

    picture, axes = plt.subplots(
        1, panels, figsize=(width, height), layout="constrained", squeeze=False
    )
    picture.set_layout_engine("constrained", wspace=0.06)  # names end before the next panel
    return list(axes[0])
