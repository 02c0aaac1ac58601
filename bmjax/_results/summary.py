"""Summaries of a fit and a refit as tables, in text and HTML."""

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Summary:
    """The table, facts and notes of a fit. `print` it, or take `to_pandas()`; a notebook shows it.

    Attributes:
        names: Names of the features.
        coef: Effect of each feature on the mean of y.
        standard_errors: Standard errors of `coef`, NaN where pruned; None without uncertainty.
        inclusion: Inclusion rates.
        support: Whether each feature is kept.
        facts: Facts about the fit as a whole, by name.
        notes: Warnings, one sentence or more each.
        refit: Effects by least squares on the support, zero where pruned; None without uncertainty.
        standardized: Effects in standard deviations of y per standard deviation of the feature
            (log-odds in a logistic fit); None without uncertainty.
        odds: Whether effects are log-odds, so that exp(coef) is a ratio of odds.
        groups: The label of each feature's group, "" in no group; None without groups.

    Example:
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> fit = bmjax.fit(X, y, intercept=True)
        >>> print(str(fit.summary(names)).splitlines()[0])
        feature     coef  std. error    refit  standardized  inclusion  kept
    """

    names: tuple[str, ...]
    coef: np.ndarray
    standard_errors: np.ndarray | None
    inclusion: np.ndarray
    support: np.ndarray
    facts: dict[str, str]
    notes: tuple[str, ...]
    refit: np.ndarray | None = None
    standardized: np.ndarray | None = None
    odds: bool = False
    groups: tuple[str, ...] | None = None

    def to_pandas(self) -> Any:
        """The features as a `pandas.DataFrame`, names in its index.

        Raises:
            ModuleNotFoundError: If pandas is not installed.
        """
        columns = {} if self.groups is None else {"group": np.array(self.groups, object)}
        columns |= {"coef": self.coef}
        if self.standard_errors is not None:
            columns["standard_error"] = self.standard_errors
        if self.refit is not None:
            columns["refit"] = self.refit
        if self.standardized is not None:
            columns["standardized"] = self.standardized
        if self.odds:
            columns["odds_ratio"] = self.odds_ratio
        columns |= {"inclusion": self.inclusion, "kept": self.support}
        return feature_frame(self.names, columns)

    def __str__(self) -> str:
        """The table, with kept features first, then the facts and notes."""
        return table_text(self._rows(), self.facts, self.notes)

    def _repr_html_(self) -> str:
        """The summary as HTML, for notebooks."""
        return page(self._rows(), self.facts, self.notes)

    @property
    def odds_ratio(self) -> np.ndarray:
        """The factor on the odds of y = 1 per unit of each feature, (k,); meaningful if `odds`."""
        with np.errstate(over="ignore"):
            return np.exp(self.coef)

    def _rows(self) -> list[tuple[str, ...]]:
        columns = {} if self.groups is None else {"group": list(self.groups)}
        columns["coef"] = [f"{value:.5g}" for value in self.coef]
        if self.odds:
            columns["odds ratio"] = [f"{value:.4g}" for value in self.odds_ratio]
        no_errors = np.full(len(self.coef), np.nan)
        errors = no_errors if self.standard_errors is None else self.standard_errors
        blank = self.standard_errors is None
        columns["std. error"] = ["" if blank else f"{value:.4g}" for value in errors]
        if self.refit is not None and self.standardized is not None:
            columns["refit"] = [f"{value:.5g}" for value in self.refit]
            columns["standardized"] = [f"{value:.3f}" for value in self.standardized]
        columns["inclusion"] = [f"{value:.3f}" for value in self.inclusion]
        pruned = {"coef": "0", "inclusion": "0"}
        rows: list[tuple[str, ...]] = [("feature", *columns, "kept")]
        for i in np.argsort(~self.support, kind="stable"):
            kept = bool(self.support[i])
            cells = (
                c[i] if kept or name == "group" else pruned.get(name, "")
                for name, c in columns.items()
            )
            rows.append((self.names[i], *cells, "yes" if kept else "no"))
        return rows


@dataclass(frozen=True)
class RefitSummary:
    """Least squares on a support as a table. `print` it, or take `to_pandas()`.

    Attributes:
        names: Names of the features.
        coef: Effects, zero off the support.
        standard_errors: Standard errors of `coef`, NaN off the support.
        t: `coef` over its standard error.
        p_values: Two-sided p-values.
        intervals: (k, 2) ends of the 95 % intervals.
        facts: Facts about the refit as a whole, by name.
        notes: Warnings, one sentence or more each.

    Example:
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> fit = bmjax.fit(X, y, intercept=True)
        >>> print(str(fit.refit(X, y).summary(names)).splitlines()[0])
        feature     coef  std. error      t        p  95 % from        to
    """

    names: tuple[str, ...]
    coef: np.ndarray
    standard_errors: np.ndarray
    t: np.ndarray
    p_values: np.ndarray
    intervals: np.ndarray
    facts: dict[str, str]
    notes: tuple[str, ...]

    def to_pandas(self) -> Any:
        """The features as a `pandas.DataFrame`, names in its index.

        Raises:
            ModuleNotFoundError: If pandas is not installed.
        """
        columns = {
            "coef": self.coef,
            "standard_error": self.standard_errors,
            "t": self.t,
            "p_value": self.p_values,
            "lower": self.intervals[:, 0],
            "upper": self.intervals[:, 1],
        }
        return feature_frame(self.names, columns)

    def __str__(self) -> str:
        """The table of the features on the support, then the facts and notes."""
        return table_text(self._rows(), self.facts, self.notes)

    def _repr_html_(self) -> str:
        """The summary as HTML, for notebooks."""
        return page(self._rows(), self.facts, self.notes)

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [
            ("feature", "coef", "std. error", "t", "p", "95 % from", "to")
        ]
        for i in np.flatnonzero(self.coef):
            numbers = (self.coef[i], self.standard_errors[i], self.t[i], self.p_values[i])
            form = (".5g", ".4g", ".2f", ".2g")
            cells = (format(value, one) for value, one in zip(numbers, form, strict=True))
            rows.append((self.names[i], *cells, *(f"{end:.5g}" for end in self.intervals[i])))
        return rows


def figure(value: float, error: float | None = None) -> str:
    """A number with five digits, or with more if its standard error is smaller than that."""
    digits = 5
    if value and error is not None and math.isfinite(value) and 0 < error < math.inf:
        places = math.floor(math.log10(abs(value))) - math.floor(math.log10(error))
        digits = min(max(digits, places + 2), 17)
    return f"{value:.{digits}g}"


def feature_frame(names: tuple[str, ...], columns: dict[str, np.ndarray]) -> Any:
    import pandas as pd

    return pd.DataFrame(columns, index=pd.Index(names, name="feature"))


def table_text(
    rows: list[tuple[str, ...]], facts: dict[str, str], notes: Iterable[str] = ()
) -> str:
    """The text of a table, whose first row is its head, then facts and notes."""
    # Formatted here, so that a summary needs no other package.
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if j == 0 else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    lines = [lines[0], rule, *lines[1:], rule]
    width = max(map(len, facts))
    lines += [f"{name.ljust(width)}  {value}" for name, value in facts.items()]
    return "\n".join([*lines, *(f"Note: {note}" for note in notes)])


def page(rows: list[tuple[str, ...]], facts: dict[str, str], notes: Iterable[str] = ()) -> str:
    """The table, facts and notes as HTML, with its own styles, since some notebooks have none."""

    def cell(kind: str, text: str, left: bool) -> str:
        side = "left" if left else "right"
        style = f"text-align: {side}; padding: 0.2em 0.6em; vertical-align: top"
        if kind == "th":
            style += "; white-space: nowrap"
        return f'<{kind} style="{style}">{html.escape(text)}</{kind}>'

    def row(cells: Iterable[str], kind: str, style: str = "") -> str:
        inside = "".join(cell(kind, text, left=j == 0) for j, text in enumerate(cells))
        return f"<tr{style}>{inside}</tr>"

    head, *body = rows
    grey = ' style="opacity: 0.5"'
    lines = [row(cells, "td", grey if cells[-1] == "no" else "") for cells in body]
    table = f"<table><thead>{row(head, 'th')}</thead><tbody>{''.join(lines)}</tbody></table>"
    said = "".join(
        f"<tr>{cell('th', name, left=True)}{cell('td', value, left=True)}</tr>"
        for name, value in facts.items()
    )
    warned = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return f"<div>{table}<table><tbody>{said}</tbody></table>" + (
        f"<ul>{warned}</ul></div>" if warned else "</div>"
    )
