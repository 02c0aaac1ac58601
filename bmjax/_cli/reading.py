"""What the command reads: a CSV file as numbers, or a message that says what is wrong with it.

Mistakes in the header are found by Python's own reader, so that they are answered before pandas
has been loaded; pandas reads the values.
"""

import argparse
import csv
import gzip
import io
import reprlib
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmjax._cli.categories import codes_of, levels_of
from bmjax._cli.errors import UsageError, check_column, extras, listed, shown

_Array = NDArray[np.float64]
_AS_CSV = "Save the table as CSV with the encoding UTF-8."
_GZIP = b"\x1f\x8b"
# Words that are 0 and 1, in a column that holds no others.
_WORDS = ({"no": 0.0, "yes": 1.0}, {"false": 0.0, "true": 1.0})


class Form(NamedTuple):
    """How a file is to be read.

    Attributes:
        sep: What separates the values.
        decimal: The decimal mark.
        comment: What a line that is left out begins with, or None.
        numeric_header: Whether a first row of numbers is the header all the same.
        drop_missing: Whether rows in which a value is missing are left out.
    """

    sep: str = ","
    decimal: str = "."
    comment: str | None = None
    numeric_header: bool = False
    drop_missing: bool = False


class Table(NamedTuple):
    """Columns of a file.

    Attributes:
        values: (n, columns) numbers.
        names: Names of the columns.
        notes: Sentences on what was done to them.
        rows: (n,) the number of each row in the file, from 1, blank lines not counted.
        levels: The levels of columns that hold categories, of which `values` has the numbers.
    """

    values: _Array
    names: list[str]
    notes: list[str]
    rows: NDArray[np.integer]
    levels: dict[str, tuple[str, ...]]

    def column(self, name: str) -> _Array:
        """The column of a name."""
        return self.values[:, self.names.index(name)]


def add_form(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say how a file is to be read."""
    add = parser.add_argument_group("how FILE is written").add_argument
    add("--sep", metavar="C", default=",", help="what separates the values, 'tab' too; default: ,")
    add("--decimal", metavar="C", default=".", help="the decimal mark; default: .")
    add("--comment", metavar="C", help="leave out lines that begin with this, such as '#'")
    add(
        "--numeric-header",
        action="store_true",
        help="the first row is the header though it is all numbers, such as years",
    )
    add("--drop-missing", action="store_true", help="leave out rows in which a value is missing")


def form_of(args: argparse.Namespace) -> Form:
    """The options of `add_form`, checked."""
    sep: str = "\t" if args.sep in ("tab", "\\t") else args.sep
    if len(sep) != 1 or sep in "\"\r\n.'" or sep.isalnum():
        raise UsageError(
            f"--sep {shown(args.sep)}: give one character, such as ';', or the word tab."
        )
    if args.decimal not in (".", ","):
        raise UsageError(f"--decimal {shown(args.decimal)}: give . or , (a comma in quotes).")
    if args.decimal == sep:
        raise UsageError("--decimal ,: values are separated by commas too. Give --sep as well.")
    if args.comment is not None and not args.comment.strip():
        raise UsageError("--comment: give what such lines begin with, such as '#'.")
    return Form(sep, args.decimal, args.comment, args.numeric_header, args.drop_missing)


def read_header(path: str, form: Form) -> tuple[str, list[str]]:
    """The text of a file, lines that are left out emptied, and the names of its columns.

    Raises:
        UsageError: The file cannot be read, or its header is of no use.
    """
    text = _read_text(path)
    if form.comment is not None:
        text = _without_comments(text, form.comment)
    first = next(_records(path, text, form), None)
    if first is None:
        raise UsageError(f"{path} is empty. It needs a header row and at least 2 rows of numbers.")
    names = [name.strip() for name in first[1]]
    _check_header(path, names, form)
    return text, names


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
        path: The file, for messages.
        text: What is in it.
        names: The names in its header.
        wanted: The columns to read; others may hold anything.
        form: How it is written.
        target: The column that may hold any two words, of which the second in order is taken as 1;
            None where rows are read to be predicted.
        weights: The column in which no number may be negative.
        categories: The columns that hold categories, with their levels if these are known.
        least: How many rows there have to be.

    Raises:
        UsageError: A row or a value cannot be used as it is.
    """
    with extras():
        import pandas as pd

    try:
        # The header is read as a row among the others: pandas then holds each row to its width,
        # where it would otherwise take a first column too many for an index. As objects, since
        # the numbers are parsed below, where the column with a bad one can be named.
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
            *_, (line, _) = _records(path, text, form)
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
    """A column as numbers, NaN where it holds none, and the words that were taken for 0 and 1.

    Args:
        column: What is written in it.
        decimal: The mark of decimals.
        any_two: Whether any two words are, and not just those for no and yes.
    """
    import pandas as pd

    plain = column
    if decimal == ",":
        # A point is then a mark of thousands, which nobody can tell from a decimal one.
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
    """What a message on a value needs to say where it is."""

    path: str
    text: str
    names: list[str]
    raw: NDArray[Any]
    present: NDArray[np.bool_]
    form: Form

    def refuse(self, bad: NDArray[np.bool_], problem: str, remedy: str) -> None:
        """Raises if a value is bad, with the first column, the line and the remedy."""
        bad = bad & self.present[:, None]
        if not bad.any():
            return
        column, *others = np.flatnonzero(bad.any(axis=0)).tolist()
        row = int(np.argmax(bad[:, column]))
        found = problem.format(reprlib.repr(self.raw[row, column]))
        # Counted as an editor counts: blank lines too, and a quoted value may run over several.
        records = _records(self.path, self.text, self.form)
        line = next(start for i, (start, _) in enumerate(records) if i == row + 1)
        also = f" (as have other columns: {listed(self.names[j] for j in others)})"
        raise UsageError(
            f"{self.path}: column {self.names[column]!r} has {found} in line {line}"
            f"{also if others else ''}.\n{remedy}"
        )


def _read_text(path: str) -> str:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot read {shown(path)}: {error.strerror}. Give the path of a CSV file."
        ) from error
    if content[:2] == _GZIP:
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise UsageError(f"{path} is a damaged gzip file: {error}") from error
    try:
        # utf-8-sig: spreadsheets put a byte order mark in front, which would join the first name.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text. {_AS_CSV}") from error
    if "\0" in text:
        raise UsageError(f"{path} is not text, for it holds null bytes. {_AS_CSV}")
    return text


def _without_comments(text: str, mark: str) -> str:
    """The same with empty lines for comments, so that lines keep their numbers."""
    lines, quoted = [], False
    for line in io.StringIO(text, newline=""):
        if not quoted and line.lstrip().startswith(mark):
            lines.append("\n")
            continue
        quoted ^= line.count('"') % 2 == 1
        lines.append(line)
    return "".join(lines)


def _records(path: str, text: str, form: Form) -> Iterator[tuple[int, list[str]]]:
    """Yields each row, the header too, with the line it starts in; skips blank lines, as pandas."""
    lines = list(io.StringIO(text, newline=""))
    reader = csv.reader(lines, skipinitialspace=True, delimiter=form.sep)
    end = 0
    try:
        for row in reader:
            start, end = end, reader.line_num
            if lines[start].strip(" \t\r\n"):
                yield start + 1, row
    except csv.Error as error:
        raise UsageError(
            f"{path} is not a regular CSV file: {error} in line {end + 1}. Is a quote missing?"
        ) from error


def _check_header(path: str, names: list[str], form: Form) -> None:
    numbers = all(_is_number(name) for name in names if name) and any(names)
    if numbers and not form.numeric_header:
        raise UsageError(
            f"{path} has no header row: its first row, {listed(names)}, is all numbers.\n"
            "Put the names of the columns in a first row, or give --numeric-header if these are "
            "names."
        )
    separator = next((s for s in ("\t", ";", "|", ",") if s in names[0] and s != form.sep), None)
    if len(names) == 1 and separator is not None:
        given = "tab" if separator == "\t" else f"'{separator}'"
        raise UsageError(f"{path} seems to be separated by {separator!r}: give --sep {given}.")
    if names[0].startswith(("#", "%", "//")) and form.comment is None and len(names) == 1:
        raise UsageError(
            f"{path} begins with {names[0][:30]!r}. If such lines are comments: --comment "
            f"'{names[0][0]}'."
        )
    if "" in names:
        raise UsageError(
            f"column {names.index('') + 1} of {path} has no name in the header.\n"
            "Name it, or remove it if it only numbers the rows (pandas: to_csv(..., index=False))."
        )
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise UsageError(
            f"{path} has more than one column named {listed(repeated)}. "
            "Give each column a name of its own."
        )


def check_target(path: str, names: list[str], target: str | None, weights: str | None) -> str:
    """The name of the target, if columns of both names are there."""
    if target is None:
        raise UsageError(
            "which column is to be predicted? Name it with --target NAME.\n"
            f"Columns of {path}: {listed(names)}"
        )
    check_column("--target", path, names, target)
    if weights is not None:
        check_column("--weights", path, names, weights)
    if weights == target:
        raise UsageError(f"--weights: {target!r} is the target. Name another column.")
    return target


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
