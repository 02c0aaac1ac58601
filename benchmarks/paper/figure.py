"""What a figure of this benchmark is, what is said of a claim, and how curves are told apart."""

from collections.abc import Callable
from typing import Any, NamedTuple

from matplotlib.figure import Figure as Picture

Table = Any
"""A pandas DataFrame. The types that pandas publishes do not see through indexing by label."""


class Claim(NamedTuple):
    """A claim of the paper and what was found here.

    Attributes:
        paper: What the paper says.
        here: What was measured.
        holds: "yes", "no", or in what respect it does not.
    """

    paper: str
    here: str
    holds: str


class Figure(NamedTuple):
    """A figure: numbers first, and picture and verdict from the numbers alone.

    Attributes:
        title: One line.
        measure: Makes the table; its argument is whether a quick look is enough.
        draw: Draws a table.
        claims: Holds a table against the paper's claims.
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
