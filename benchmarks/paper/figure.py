"""The types of a figure and a claim of this benchmark, and the style of its curves."""

from collections.abc import Callable
from typing import Any, NamedTuple

from matplotlib.figure import Figure as Picture

Table = Any
"""A pandas DataFrame. The types that pandas publishes do not see through indexing by label."""


class Claim(NamedTuple):
    """A claim of the paper and the result found here.

    Attributes:
        paper: The claim of the paper.
        here: The measurement.
        holds: "yes", "no", or in which respect it does not hold.
    """

    paper: str
    here: str
    holds: str


class Figure(NamedTuple):
    """A figure: its numbers are made first; picture and verdict come from the numbers only.

    Attributes:
        title: One line.
        measure: Makes the table; its argument says whether a quick look is enough.
        draw: Draws a table.
        claims: Compares a table with the paper's claims.
    """

    title: str
    measure: Callable[[bool], Table]
    draw: Callable[[Table], Picture]
    claims: Callable[[Table], list[Claim]]


def yes(holds: bool) -> str:
    """The verdict on a claim that holds or does not."""
    return "yes" if holds else "no"


_STYLES: dict[str, dict[str, Any]] = {
    "BM": dict(color="black", linestyle="-", marker="o"),
    "BM (default)": dict(color="black", linestyle="--", marker="s", markerfacecolor="white"),
    "ARD": dict(color="0.45", linestyle="-.", marker="D"),
    "Lasso": dict(color="0.6", linestyle=":", marker="^"),
    "best subset": dict(color="0.3", linestyle=(0, (5, 1)), marker="v"),
    "abess": dict(color="0.3", linestyle=(0, (1, 1)), marker="x"),
    "ARD (default threshold)": dict(color="0.6", linestyle="-", marker="P"),
    "ARD (threshold in hindsight)": dict(color="0.6", linestyle="-", marker="*"),
}


def style(method: str) -> dict[str, Any]:
    """Line and marker of a method, the same in all pictures and different in grey."""
    return {"label": method, "markersize": 5, **_STYLES[method]}
