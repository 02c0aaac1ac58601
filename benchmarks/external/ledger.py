"""Measured results, saved row by row in a CSV, so that a run that was stopped can resume."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from benchmarks import report

Row = dict[str, Any]


class Options(NamedTuple):
    """The options of a section.

    Attributes:
        quick: Whether to run a few cells and draws only; nothing is read or saved.
        draws: Datasets per cell, or repeats; None for the section's own number.
        afresh: Methods whose saved rows are ignored.
        command: The command that reproduces the section.
        until: The time, as of `time.monotonic`, after which no further cell is started.
    """

    quick: bool
    draws: int | None
    afresh: Sequence[str]
    command: str
    until: float = float("inf")

    def late(self) -> bool:
        """Whether to stop measuring and report the results so far."""
        return time.monotonic() > self.until

    def number(self, usual: int) -> int:
        """The requested number of draws, or three if quick, or the usual number."""
        return self.draws or (3 if self.quick else usual)


class Ledger:
    """The rows of a section, one for each cell and method; saved whenever rows are added."""

    def __init__(self, name: str, options: Options):
        """Read the saved rows.

        Args:
            name: Name of the CSV in `benchmarks/results`.
            options: Options of the run.
        """
        self._options, self._path = options, report.RESULTS / f"{name}.csv"
        self._rows: list[Row] = []
        if self._path.exists() and not options.quick:
            rows = report.read_table(self._path)[0].to_dict("records")
            self._rows = [dict(r) for r in rows if r["method"] not in options.afresh]

    def lacking(self, cell: Mapping[str, Any], methods: Iterable[str]) -> list[str]:
        """The methods without a row for this cell, which is given by some columns."""
        there = {r["method"] for r in self._rows if all(r.get(k) == v for k, v in cell.items())}
        return [name for name in methods if name not in there]

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows and save all."""
        self._rows += rows
        if not self._options.quick:
            report.save_table(self._path, pd.DataFrame(self._rows), self._options.command)

    def table(self, cells: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
        """The rows of these cells."""
        wanted = {tuple(cell.items()) for cell in cells}
        names = tuple(cells[0]) if cells else ()
        there = [r for r in self._rows if tuple((k, r.get(k)) for k in names) in wanted]
        return pd.DataFrame(there)
