"""Pictures of a posterior; see `bmjax.plots`."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from bmjax._drawing.labels import drawn_names
from bmjax._drawing.panels import draw_shares, new_axes, row_axes, vector
from bmjax._drawing.style import KEPT
from bmjax._posterior.result import Posterior


def probabilities(
    posterior: Posterior, names: Iterable[str] | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draw the probability of each feature, with two Monte Carlo errors to either side.

    There is one row for each feature, the first on top; those more probable than not are coloured.
    Of more than 40 features only these are named, and the rows of the others are narrower.

    Args:
        posterior: The result of `bmjax.posterior` for one dataset of k features.
        names: k names. Default: those of the data, or else x0, x1, ...
        ax: The axes to draw into. Default: a new figure.

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
    chance = vector("posterior", posterior.probability)
    names = drawn_names(names, len(chance), posterior.names)
    half, likely = 2 * np.asarray(posterior.probability_error), chance > 0.5
    rows = row_axes(names, likely, ax, width=5.6)
    labels = "less probable than not", "more probable than not"
    ax = draw_shares(rows, chance, half, likely, 0.5, labels)
    ax.set_xlabel("probability that the feature acts")
    return ax


def sizes(posterior: Posterior, *, ax: Axes | None = None) -> Axes:
    """Draw the probability of each number of features, without those that are always in.

    Args:
        posterior: The result of `bmjax.posterior` for one dataset.
        ax: The axes to draw into. Default: a new figure.

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
    chance = vector("posterior", posterior.size)
    # Only up to the last size whose bar is visible.
    shown = max(int(np.flatnonzero(chance > 1e-3).max(initial=0)) + 2, 2)
    chance = chance[:shown]
    if ax is None:
        ax = new_axes(4.8, 3.2, 1)[0]
    ax.bar(np.arange(len(chance)), chance, color=KEPT, width=0.8)
    ax.set(xlabel="number of features that act", ylabel="probability", ylim=(0, None))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.spines[["top", "right"]].set_visible(False)
    return ax
