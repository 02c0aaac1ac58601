"""The report of the command `python -m bmjax`: the printed table of features, facts and notes."""

from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import bmjax
from bmjax._cli.categories import Levels
from bmjax._cli.errors import listed, shown
from bmjax._results.refit import refit

if TYPE_CHECKING:
    from rich.console import Console

_Array = NDArray[np.float64]
_NAME, _LONG_NAME = 8, 20  # least width of a name on a terminal; largest width elsewhere


class Report(NamedTuple):
    """A fit with everything that the command reports of it, in NumPy arrays and plain Python.

    Attributes:
        result: The result of `bmjax.fit`.
        selection: The result of `bmjax.stability_selection`, or None.
        posterior: The result of `bmjax.posterior`, or None.
        summary: The facts and notes of the fit.
        names: Names of the features.
        kept: Names of the features that are never masked.
        rows: Number of rows.
        weight: Sum of the weights of the rows.
        intercept: Whether the level of the target was fitted.
        least_squares: Effects of all features by least squares, (k,).
        unique: Whether least squares has only this solution.
        constant: Whether each feature is constant, (k,).
        source: Name of the file, or of the embedded data.
        target: Name of the target.
        weights_name: Name of the column of weights, or None.
        seed: Seed of the stability selection and the posterior.
        said: Sentences on how the data were converted.
        levels: Levels of each categorical column.
    """

    result: bmjax.Result
    selection: bmjax.StabilitySelection | None
    posterior: bmjax.Posterior | None
    summary: bmjax.Summary
    names: Sequence[str]
    kept: Sequence[str]
    rows: int
    weight: float
    intercept: bool
    least_squares: _Array
    unique: bool
    constant: NDArray[np.bool_]
    source: str = ""
    target: str = ""
    weights_name: str | None = None
    seed: int = 0
    said: Sequence[str] = ()
    levels: Levels = MappingProxyType({})

    @classmethod
    def of(  # noqa: PLR0913 - what the command knows, each once
        cls,
        result: bmjax.Result,
        selection: bmjax.StabilitySelection | None,
        posterior: bmjax.Posterior | None,
        X: _Array,
        y: _Array,
        names: Sequence[str],
        weights: _Array | None,
        *,
        kept: Sequence[str],
        intercept: bool,
        **labels: Any,
    ) -> "Report":
        """Compute what the fit itself does not report. float64 must be enabled."""
        # Judged by the values, since rounding of the mean would spoil a standard deviation of zero.
        constant = np.all(X[0] == X if intercept else X == 0, axis=0)
        level = float(y[0]) if intercept and np.ptp(y) == 0 else 0.0
        full = refit(X, y - level, ~constant, intercept=intercept, sample_weights=weights)
        # Effects that are zero but for rounding would be shown with all their digits.
        spread = np.ptp if intercept else lambda values, axis: np.max(np.abs(values), axis)
        dust = np.abs(full.coef) * spread(X, 0) < 1e-9 * spread(y, 0)
        weight = float(len(y) if weights is None else weights.sum())
        rank = round(weight - full.degrees_of_freedom - intercept)
        return cls(
            result=result,
            selection=selection,
            posterior=posterior,
            summary=result.summary([shown(name) for name in names]),
            names=names,
            kept=kept,
            rows=len(y),
            weight=weight,
            intercept=intercept,
            least_squares=np.where(dust, 0.0, full.coef),
            unique=rank == np.sum(~constant),
            constant=constant,
            **labels,
        )


def show(console: "Console", report: Report) -> None:
    """Print the title, the table of features, the facts of the fit and the notes.

    Args:
        console: The console to print to; names beyond its encoding are written with escapes.
        report: The fit and its facts.
    """
    from rich.table import Table
    from rich.text import Text

    encoding = console.encoding

    def text(line: str) -> Text:
        # A `Text`, so that a name with [brackets] is not taken for markup.
        return Text(line.encode(encoding, "backslashreplace").decode(encoding))

    def lines(lines: Iterable[str]) -> None:
        for line in lines:
            console.print(text(line))

    columns = _columns(report, "+-" if "\\" in str(text("±")) else "±")
    # A narrower table would lose digits; a narrower terminal only breaks the lines.
    widths = [max(len(line) for line in (*head.split("\n"), *cells)) for head, cells in columns]
    name = _NAME
    if not console.is_terminal:  # nothing breaks the lines of a file or a pipe
        name = min(max(len(shown(name)) for name in report.names), _LONG_NAME)
    console.width = max(console.width, name + sum(widths) + 3 * len(widths) + 4)
    table = Table()
    table.add_column("feature", overflow="fold")  # a long name takes several lines
    for (head, _), width in zip(columns, widths, strict=True):
        table.add_column(Text(head, justify="right"), no_wrap=True, min_width=width)
    for j, name in enumerate(report.names):
        cells = (cells[j].rjust(width) for (_, cells), width in zip(columns, widths, strict=True))
        style = None if report.summary.support[j] else "dim"
        table.add_row(text(shown(name)), *cells, style=style)

    size = f"{report.rows} rows"
    if report.weights_name is not None:
        size += f" (weights {shown(report.weights_name)}, {report.weight:.6g} in all)"
    lines(
        [
            f"Bayesian masking of {report.source}",
            f"{size}, {_count(report.names)}, target {shown(report.target)}",
        ]
    )
    console.print(table)
    figures = Table.grid(padding=(0, 2))
    for label, figure in _figures(report).items():
        figures.add_row(label, text(figure))
    console.print(figures)
    lines(f"Note: {note}" for note in notes(report))


def _columns(report: Report, plus_minus: str) -> list[tuple[str, list[str]]]:
    """Heading and cells of each column of the table except that of the names."""
    summary, k = report.summary, len(report.names)
    errors = np.full(k, np.nan) if summary.standard_errors is None else summary.standard_errors
    verdicts = [
        "always" if name in report.kept else "kept" if support else "pruned"
        for name, support in zip(report.names, summary.support, strict=True)
    ]
    columns = [
        ("coef", _aligned(summary.coef, 5)),
        ("std.\nerror", _aligned(errors, 4)),
        ("inclu-\nsion", [_rate(value) for value in summary.inclusion]),
        ("", [verdict.ljust(6) for verdict in verdicts]),
        ("odds\nratio", _aligned(summary.odds_ratio, 4))
        if summary.odds
        else ("least\nsquares", _aligned(report.least_squares, 4)),
    ]
    if report.selection is not None:
        errors = np.asarray(report.selection.standard_errors)
        frequencies = np.asarray(report.selection.frequencies)
        cells = [
            f"{value:.2f}" + (f"{plus_minus}{error:.2f}" if np.isfinite(error) else "")
            for value, error in zip(frequencies, errors, strict=True)
        ]
        columns.append(("stability", cells))
    if report.posterior is None and report.selection is None and summary.standardized is not None:
        # With the other columns it does not fit into 80 characters.
        cells = ["0" if v == 0 else f"{v:.3f}" for v in summary.standardized]
        columns.append(("effect\nin sd", cells))
    if report.posterior is not None:
        chances = np.asarray(report.posterior.probability)
        columns.append(("proba-\nbility", [f"{chance:.2f}" for chance in chances]))
        columns.append(("averaged\ncoef", _aligned(np.asarray(report.posterior.coef), 4)))
    return columns


def _figures(report: Report) -> dict[str, str]:
    """The facts of the fit as a whole, by label."""
    result, selection = report.result, report.selection
    support = report.summary.support
    figures = {"kept": f"{np.count_nonzero(support)} of {_count(report.names)}"}
    figures |= {key: fact for key, fact in report.summary.facts.items() if key != "target"}
    status = bmjax.Status(int(result.status))
    figures["status"] = f"{status.name}: {status.message}"
    if selection is not None:
        stable = [
            name
            for name, often in zip(report.names, np.asarray(selection.stable), strict=True)
            if often and name not in report.kept
        ]
        figures["stable"] = (
            f"{listed(stable) or 'none'}: kept by {selection.threshold:.0%} or more of "
            f"{len(selection.supports)} fits to random halves of the rows"
        )
        sharper = selection.expected_false_unimodal
        also = f"; {sharper:.2g} if their frequencies are unimodal" if sharper >= 0 else ""
        figures["expected false among them"] = f"at most {selection.expected_false:.2g}{also}"
    if report.posterior is not None:
        chosen = [
            name
            for name, chance in zip(report.names, report.posterior.select(0.1), strict=True)
            if chance and name not in report.kept
        ]
        figures["found"] = (
            f"{listed(chosen) or 'none'}: of which a tenth at most is expected not to act"
        )
    return figures


def notes(report: Report) -> list[str]:
    """Sentences on how to read the fit, and warnings."""
    odds = report.summary.odds
    unit = "log-odds" if odds else "units of the target"
    found = [
        f"Coefficients are in {unit} per unit of the feature; standard errors take the kept "
        "features as known. Computed in float64."
    ]
    if (
        report.selection is None
        and report.posterior is None
        and report.summary.standardized is not None
    ):
        found.append(
            f"The effect in sd is in {'log-odds' if odds else 'standard deviations of the target'} "
            "per standard deviation of the feature."
        )
    if report.constant.any():
        constant = listed(report.names[int(j)] for j in np.flatnonzero(report.constant))
        found.append(f"Constant, so without any effect: {constant}.")
    if not report.unique and not odds:
        found.append("Least squares is not unique on these data; one solution is shown.")
    found += report.said
    found += report.summary.notes
    if report.posterior is not None and not bool(report.posterior.converged):
        status = bmjax.Status(int(report.posterior.status)).name
        found.append(
            f"The posterior ended with {status}: its probabilities are not to be relied on."
        )
    if report.selection is not None:
        ended = np.asarray(report.selection.status)
        missed = np.count_nonzero(ended != bmjax.Status.CONVERGED)
        if missed:
            found.append(f"{missed} of the {len(ended)} fits to halves did not converge.")
    return found


def _aligned(values: Iterable[float], digits: int) -> list[str]:
    """Format each number with a number of digits, decimal points below each other.

    An exact zero has no decimals; NaN is an empty cell.
    """
    written = ["0" if v == 0 else "" if np.isnan(v) else f"{v:#.{digits}g}" for v in values]
    parts = [figure.rstrip(".").partition(".") for figure in written]
    width = max((len(dot + rest) for _, dot, rest in parts), default=0)
    return [whole + (dot + rest).ljust(width) for whole, dot, rest in parts]


def _rate(value: float) -> str:
    return "0" if value == 0 else "<0.001" if value < 0.0005 else f"{value:.3f}"


def _count(names: Sequence[str]) -> str:
    return f"{len(names)} feature{'s' if len(names) > 1 else ''}"
