"""The text and the header of a CSV file, its format, and the errors in them.

Read by Python's own `csv`, so that mistakes are reported before pandas is loaded.
"""

import argparse
import csv
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bmjax._cli.errors import UsageError, check_column, listed, shown

_AS_CSV = "Save the table as CSV with the encoding UTF-8."
_GZIP = b"\x1f\x8b"


class Form(NamedTuple):
    """The format of a file.

    Attributes:
        sep: The separator of values.
        decimal: The decimal mark.
        comment: The beginning of lines to leave out, or None.
        numeric_header: Whether the first row is the header even if it is all numbers.
        drop_missing: Whether to leave out rows with a missing value.
    """

    sep: str = ","
    decimal: str = "."
    comment: str | None = None
    numeric_header: bool = False
    drop_missing: bool = False


def add_form(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe the format of a file."""
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
    """The format given by the options of `add_form`, checked."""
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
    """The text of a file, with lines that are left out made empty, and the names of its columns.

    Raises:
        UsageError: If the file cannot be read, or its header cannot be used.
    """
    text = _read_text(path)
    if form.comment is not None:
        text = _without_comments(text, form.comment)
    first = next(records_of(path, text, form), None)
    if first is None:
        raise UsageError(f"{path} is empty. It needs a header row and at least 2 rows of numbers.")
    names = [name.strip() for name in first[1]]
    _check_header(path, names, form)
    return text, names


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
    """The text with empty lines in place of comments, so that lines keep their numbers."""
    lines, quoted = [], False
    for line in io.StringIO(text, newline=""):
        if not quoted and line.lstrip().startswith(mark):
            lines.append("\n")
            continue
        quoted ^= line.count('"') % 2 == 1
        lines.append(line)
    return "".join(lines)


def records_of(path: str, text: str, form: Form) -> Iterator[tuple[int, list[str]]]:
    """Yield each row, the header first, and its first line; skip blank lines, as pandas does."""
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
    """The name of the target, checked together with that of the weights."""
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
