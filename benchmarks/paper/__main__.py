"""Make the figures of the paper, all or some of them, and check them against its claims.

python -m benchmarks.paper [--quick] [--redraw] [FIGURE ...]
"""

import sys
import tempfile
import time
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from benchmarks import command, report  # noqa: E402
from benchmarks.paper import (  # noqa: E402
    beyond,
    figure1,
    figure2,
    figure3,
    figure4,
    figure5,
)
from benchmarks.paper.figure import Claim  # noqa: E402

FIGURES = {
    "figure1": figure1.FIGURE,
    "figure2": figure2.FIGURE,
    "figure3": figure3.FIGURE,
    "figure4": figure4.FIGURE,
    "figure5": figure5.FIGURE,
    **beyond.FIGURES,
}


def main() -> None:
    """Measure, judge, save, draw, print."""
    arguments = command.parse(
        "benchmarks.paper",
        __doc__,
        "figure",
        tuple(FIGURES),
        {
            "quick": "small sizes, saved to a temporary folder",
            "redraw": "draw and judge the saved tables, measure nothing",
        },
    )
    if arguments.quick and arguments.redraw:
        sys.exit("--quick measures and --redraw does not; give one of them")
    folder = Path(tempfile.mkdtemp(prefix="bmjax-")) if arguments.quick else report.RESULTS
    console = Console()
    for name in arguments.chosen:
        begin = time.perf_counter()
        figure, path = FIGURES[name], folder / f"paper_{name}.csv"
        if arguments.redraw:
            table, origin = report.read_table(path)
            claims = figure.claims(table)
        else:
            table = figure.measure(arguments.quick)
            claims = figure.claims(table)
            remarks = [f"{c.paper} | here: {c.here} | holds: {c.holds}" for c in claims]
            line = f"python -m benchmarks.paper {name}" + " --quick" * arguments.quick
            origin = report.save_table(path, table, line, remarks)
        report.save_picture(path.with_suffix(".png"), figure.draw(table), origin)
        console.print(_printed(figure.title, claims))
        console.print(f"{path.with_suffix('')}.csv, .png  {time.perf_counter() - begin:.0f} s\n")


def _printed(title: str, claims: list[Claim]) -> Table:
    """The claims and the results, side by side."""
    table = Table(title=title, title_justify="left", show_lines=True)
    for heading in ("the paper", "here", "holds"):
        table.add_column(heading)
    for claim in claims:
        table.add_row(*claim)
    return table


if __name__ == "__main__":
    main()
