"""The values of a CSV file as numbers, or an error that says what is wrong with them."""

import io
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmjax._cli.categories import codes_of, levels_of
from bmjax._cli.errors import UsageError, extras, listed
from bmjax._cli.header import Form, records_of

_Array = NDArray[np.float64]
# Words that are taken as 0 and 1 in a column that holds no others.
_WORDS = ({"no": 0.0, "yes": 1.0}, {"false": 0.0, "true": 1.0})


class Table(NamedTuple):
    """Columns of a file as numbers.

    Attributes:
        values: (n, columns) numbers, all finite.
        names: Names of the columns.
        notes: Sentences on how they were converted.
        rows: (n,) the number of each row in the file, from 1, blank lines not counted.
        levels: Levels of each categorical column, for which `values` holds their numbers.
    """

    values: _Array
    names: list[str]
    notes: list[str]
    rows: NDArray[np.integer]
    levels: dict[str, tuple[str, ...]]

    def column(self, name: str) -> _Array:
        """The values of the column of a name."""
        return self.values[:, self.names.index(name)]


def read_values(  # noqa: PLR0913 - two of them only for messages
    path: str,
    text: str,
    names: list[str],
    wanted: Sequence[str],
    form: Form,
    *,
    target: str | None = None,
    weights: str | None = None,
    categories: Mapping[str, Sequence[str] | None] | None = None,
    least: int = 2,
) -> Table:
    """Columns of a file as numbers.

    Args:
        path: The path of the file, for messages.
        text: The text of the file.
        names: The names in the header.
        wanted: The columns to read; others may hold anything.
        form: The format of the file.
        target: The column that may hold any two words, of which the second in sorted order is taken
            as 1; None if the rows are read for a prediction.
        weights: The column in which no number may be negative.
        categories: The categorical columns, with their levels, or None to find these.
        least: The least number of rows.

    Raises:
        UsageError: If a row or a value cannot be used.
    """
    with extras():
        import pandas as pd

    try:
        # The header is read as a row among the others: pandas then holds each row to its width,
        # where it would otherwise take an extra first column for an index. As objects, since the
        # numbers are parsed below, where an error can name the column.
        table = pd.read_csv(
            io.StringIO(text, newline=""),
            header=None,
            dtype=object,
            skipinitialspace=True,
            sep=form.sep,
        ).iloc[1:]
    except pd.errors.ParserError as error:
        reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        if "EOF inside string" in reason:  # pandas counts rows here, from 0
            *_, (line, _) = records_of(path, text, form)
            reason = f"a quote opened in line {line} is never closed"
        raise UsageError(
            f"{path} is not a regular CSV file: {reason}.\n"
            "Each row needs one value for each name in the header, in quotes if it has a comma."
        ) from error
    places = [names.index(name) for name in wanted]
    table = table.iloc[:, places]
    missing = table.isna().to_numpy()
    present = np.ones(len(table), bool)
    notes = []
    if form.drop_missing and missing.any():
        present = ~missing.any(axis=1)
        notes.append(
            f"{np.sum(~present)} of {len(table)} rows were left out, for a value is missing there."
        )
    if np.sum(present) < least:
        some = {0: "no rows", 1: "only one row"}.get(int(np.sum(present)), "too few rows")
        what = f"{some} below its header" + (" without a missing value" if notes else "")
        need = f"at least {least} {'row is' if least == 1 else 'rows are'} needed"
        raise UsageError(f"{path} has {what}: {need}.")
    columns, levels = [], {}
    for name, (_, column) in zip(wanted, table.items(), strict=True):
        if categories is not None and name in categories:
            levels[name] = tuple(categories[name] or levels_of(column[present]))
            columns.append(codes_of(column, levels[name]))
            continue
        values, words = _parsed(column, form.decimal, any_two=name == target)
        columns.append(values)
        if words:
            notes.append(f"{name} was taken as 0/1: {' = 0, '.join(words)} = 1.")
    parsed = np.stack(columns, axis=1)
    trouble = _Trouble(path, text, list(wanted), table.to_numpy(), present, form)
    bad = np.isnan(parsed) & ~missing
    mark = "" if form.decimal == "," else " (for decimal commas: --decimal ,)"
    trouble.refuse(
        bad & np.isin(wanted, list(levels))[None, :],
        "the value {}, which the fit has not seen,",
        "Leave such rows out.",
    )
    trouble.refuse(
        bad,
        "the value {}, not a number,",
        f"Write it as a number{mark}."
        if target is None
        else f"Write it as a number{mark}, name a column of categories (--categorical), or leave "
        "the column out: --exclude.",
    )
    trouble.refuse(
        missing,
        "a missing value",
        "Fill it in, or leave such rows out: --drop-missing."
        if target is None
        else "Fill it in, leave such rows out (--drop-missing), or --exclude.",
    )
    trouble.refuse(
        np.isinf(parsed), "the infinite value {}", "Correct it, or remove the row or the column."
    )
    trouble.refuse(
        (parsed < 0) & (np.array(wanted) == weights),
        "the negative weight {}",
        "A row counts zero times or more.",
    )
    return Table(parsed[present], list(wanted), notes, 1 + np.flatnonzero(present), levels)


def _parsed(column: Any, decimal: str, *, any_two: bool = False) -> tuple[_Array, list[str]]:
    """A column as numbers, NaN where it holds none, and the words that were taken as 0 and 1.

    Args:
        column: The column as text.
        decimal: The decimal mark.
        any_two: Whether any two words are taken as 0 and 1, not just no and yes, or false and true.
    """
    import pandas as pd

    plain = column
    if decimal == ",":
        # A point is then a separator of thousands, which cannot be told from a decimal mark.
        plain = plain.where(~plain.str.contains(".", regex=False, na=False), "not a number")
        plain = plain.str.replace(",", ".", regex=False)
    values = np.asarray(pd.to_numeric(plain, errors="coerce"), np.float64)
    if not np.isnan(values).all():
        return values, []
    text = column.str.strip().str.lower()
    for words in _WORDS:
        if text.notna().any() and text.dropna().isin(list(words)).all():
            return text.map(words).to_numpy(np.float64), list(words)
    written = column.str.strip()
    found = sorted(set(written.dropna()))
    if any_two and len(found) == 2:
        return written.map(dict(zip(found, (0, 1), strict=True))).to_numpy(np.float64), found
    return values, []


class _Trouble(NamedTuple):
    """The values as they were read, with which a message can name the place of a bad one."""

    path: str
    text: str
    names: list[str]
    raw: NDArray[Any]
    present: NDArray[np.bool_]
    form: Form

    def refuse(self, bad: NDArray[np.bool_], problem: str, remedy: str) -> None:
        """Raise if a value is bad; the message names the first column, the line and the remedy."""
        bad = bad & self.present[:, None]
        if not bad.any():
            return
        column, *others = np.flatnonzero(bad.any(axis=0)).tolist()
        row = int(np.argmax(bad[:, column]))
        found = problem.format(reprlib.repr(self.raw[row, column]))
        # Lines are counted as in an editor: blank lines count, and a quoted value may span several.
        records = records_of(self.path, self.text, self.form)
        line = next(start for i, (start, _) in enumerate(records) if i == row + 1)
        also = f" (as have other columns: {listed(self.names[j] for j in others)})"
        raise UsageError(
            f"{self.path}: column {self.names[column]!r} has {found} in line {line}"
            f"{also if others else ''}.\n{remedy}"
        )
