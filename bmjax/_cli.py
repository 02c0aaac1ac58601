"""The command `python -m bmjax`: fit a CSV file, or the diabetes data, and print what was kept.

Data flow one way: read, standardise, fit, report. What a user can get wrong is found before the
fit, as a `_UsageError` whose message names the place and the remedy; `main` alone turns it into a
line on stderr and exit status 2. pandas and rich belong to the `cli` extra, so both are imported
only where they are used.
"""

import argparse
import csv
import difflib
import io
import math
import os
import reprlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

import bmjax
from bmjax.datasets import load_diabetes

_Array = NDArray[np.float64]
_LISTED = 12  # names in a message: enough to find a slip, few enough for a line or two
_NARROWEST = 70  # columns: every number at its longest, and room for a name
_AS_CSV = "Save the table as CSV with the encoding UTF-8."

_DESCRIPTION = """\
Fit Bayesian masking, a sparse linear regression that does not shrink the features it keeps.
Without FILE, the diabetes data of Efron et al. (2004) are fitted.

FILE is a comma-separated text file with a header row. Every column but the target is a feature,
and must hold numbers, none missing. Features and target are centred, and each feature is scaled
to unit standard deviation, before the fit."""

_EPILOG = """\
examples:
  python -m bmjax
  python -m bmjax houses.csv --target price

exit status: 0 after a fit, converged or not (the output says which); 2 for unusable input."""


class _UsageError(Exception):
    """Something the user can put right; the message says what and how."""


class _Standardised(NamedTuple):
    X: _Array
    y: _Array
    constant: NDArray[np.bool_]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
        argv: the arguments after the command's name; those of the process if None.

    Returns:
        The exit status: 0 after a fit, 2 after a usage error.
    """
    try:
        try:
            return _run(_parser().parse_args(argv))
        except _UsageError as error:
            print(f"bmjax: error: {error}", file=sys.stderr)
            return 2
        finally:
            # A pipe that broke is noticed here, not in the interpreter's flush at exit, which
            # would complain.
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # Quietly, for the reader (`head`, say) has what it wanted; the status is that of rich.
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bmjax",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="CSV file; default: the embedded diabetes data"
    )
    parser.add_argument("--target", metavar="NAME", help="column of FILE to predict")
    parser.add_argument("--version", action="version", version=f"bmjax {bmjax.__version__}")
    return parser


def _run(args: argparse.Namespace) -> int:
    with _cli_extra():  # before the fit, so that a missing rich does not cost the user a fit
        from rich.console import Console

    if args.file is None:
        if args.target is not None:
            raise _UsageError("--target goes with a CSV file: python -m bmjax FILE --target NAME.")
        X, y, names = load_diabetes()
        source, target = "the diabetes data (Efron et al. 2004)", "progression"
    else:
        X, y, names = read_csv(args.file, args.target)
        source, target = args.file, args.target

    data = standardise(X, y, names, target)
    # Within the block only: a caller of `main` keeps the precision it had.
    with jax.enable_x64(True):
        result = bmjax.fit(data.X, data.y)

    console = Console(highlight=False)
    # A narrower table would lose digits; a narrower terminal breaks the lines and keeps them.
    console.width = max(console.width, _NARROWEST)
    title = f"Bayesian masking of {source}\n{len(y)} rows, {_count(names)}, target {_shown(target)}"
    console.print(report(title, names, data, result, encoding=console.encoding))
    return 0


@contextmanager
def _cli_extra() -> Iterator[None]:
    """Turns the absence of a package of the `cli` extra into a message that says how to get it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("pandas", "rich"):
            raise
        raise _UsageError(f'the command needs {package}: pip install "bmjax[cli]"') from error


# ---- reading


def read_csv(path: str, target: str | None) -> tuple[_Array, _Array, list[str]]:
    """Reads features and target from a comma-separated file with a header row.

    Args:
        path: the file.
        target: the column to predict; all others are features.

    Returns:
        The features (n, k), the target (n,) and the k names of the features.

    Raises:
        _UsageError: the file cannot be used as it is.
    """
    with _cli_extra():
        import pandas as pd

    text = _read_text(path)
    names = _header(path, text)
    _check_header(path, names)
    target = _check_target(path, names, target)

    try:
        # The header is read as a row among the others: pandas then holds each row to its width,
        # where it would otherwise take a first column too many for an index. As objects, since
        # the numbers are parsed below, where the column with a bad one can be named.
        table = pd.read_csv(
            io.StringIO(text, newline=""), header=None, dtype=object, skipinitialspace=True
        ).iloc[1:]
    except pd.errors.ParserError as error:
        reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        if "EOF inside string" in reason:  # pandas counts rows here, from 0
            *_, (line, _) = _records(path, text)
            reason = f"a quote opened in line {line} is never closed"
        raise _UsageError(
            f"{path} is not a regular CSV file: {reason}.\n"
            "Each row needs one value for each name in the header, in quotes if it has a comma."
        ) from error
    if len(table) < 2:
        found = "no rows" if table.empty else "only one row"
        raise _UsageError(f"{path} has {found} below its header: a fit needs at least 2.")

    parsed = table.apply(pd.to_numeric, errors="coerce").to_numpy(np.float64)
    _check_values(path, text, names, parsed, table.isna().to_numpy(), table.to_numpy())
    k = names.index(target)
    return np.delete(parsed, k, axis=1), parsed[:, k].copy(), names[:k] + names[k + 1 :]


def _read_text(path: str) -> str:
    try:
        # utf-8-sig: spreadsheets put a byte order mark in front, which would join the first name.
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise _UsageError(
            f"cannot read {path}: {error.strerror}. Give the path of a CSV file."
        ) from error
    except UnicodeDecodeError as error:
        raise _UsageError(f"{path} is not UTF-8 text. {_AS_CSV}") from error
    if "\0" in text:
        raise _UsageError(f"{path} is not text, for it holds null bytes. {_AS_CSV}")
    return text


def _records(path: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yields each row, the header too, with the line it starts in; skips blank lines, as pandas."""
    lines = list(io.StringIO(text, newline=""))
    reader = csv.reader(lines, skipinitialspace=True)
    end = 0
    try:
        for row in reader:
            start, end = end, reader.line_num
            if lines[start].strip(" \t\r\n"):
                yield start + 1, row
    except csv.Error as error:
        raise _UsageError(
            f"{path} is not a regular CSV file: {error} in line {end + 1}. Is a quote missing?"
        ) from error


def _header(path: str, text: str) -> list[str]:
    first = next(_records(path, text), None)
    if first is None:
        raise _UsageError(f"{path} is empty. It needs a header row and at least 2 rows of numbers.")
    return [name.strip() for name in first[1]]


def _check_header(path: str, names: list[str]) -> None:
    if all(_is_number(name) for name in names if name) and any(names):
        raise _UsageError(
            f"{path} has no header row: its first row, {_listed(names)}, is all numbers.\n"
            "Put the names of the columns in a first row."
        )
    separator = next((s for s in ("\t", ";", "|") if s in names[0]), None)
    if len(names) == 1 and separator is not None:
        raise _UsageError(
            f"{path} seems to be separated by {separator!r}. Save it with commas instead."
        )
    if "" in names:
        raise _UsageError(
            f"column {names.index('') + 1} of {path} has no name in the header.\n"
            "Name it, or remove it if it only numbers the rows (pandas: to_csv(..., index=False))."
        )
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise _UsageError(
            f"{path} has more than one column named {_listed(repeated)}. "
            "Give each column a name of its own."
        )


def _check_target(path: str, names: list[str], target: str | None) -> str:
    if target is None:
        raise _UsageError(
            "which column is to be predicted? Name it with --target NAME.\n"
            f"Columns of {path}: {_listed(names)}"
        )
    if target not in names:
        close = difflib.get_close_matches(target, names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise _UsageError(
            f"--target: {path} has no column {target!r}.{hint}\nColumns of {path}: {_listed(names)}"
        )
    if len(names) == 1:
        raise _UsageError(
            f"{path} has no column but the target {target!r}. Add at least one feature."
        )
    return target


def _check_values(
    path: str,
    text: str,
    names: list[str],
    parsed: _Array,
    missing: NDArray[np.bool_],
    raw: NDArray[Any],
) -> None:
    """Raises for the first kind of trouble found, with the column, the line and the remedy."""

    def refuse(bad: NDArray[np.bool_], problem: str, remedy: str) -> None:
        if not bad.any():
            return
        column, *others = np.flatnonzero(bad.any(axis=0))
        row = int(np.argmax(bad[:, column]))
        found = problem.format(reprlib.repr(raw[row, column]))
        # Counted as an editor counts: blank lines too, and a quoted value may run over several.
        line = next(start for i, (start, _) in enumerate(_records(path, text)) if i == row + 1)
        also = f" (as have other columns: {_listed(names[j] for j in others)})" if others else ""
        raise _UsageError(
            f"{path}: column {names[column]!r} has {found} in line {line}{also}.\n{remedy}"
        )

    refuse(
        np.isnan(parsed) & ~missing,
        "the value {}, not a number,",
        "Write it as a number, code categories as 0/1 columns, or remove the column.",
    )
    refuse(missing, "a missing value", "Fill it in, or remove the row or the column.")
    refuse(
        np.isinf(parsed), "the infinite value {}", "Correct it, or remove the row or the column."
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(map(_shown, names[:_LISTED])) + more


# ---- arithmetic


def standardise(X: _Array, y: _Array, names: Sequence[str], target: str) -> _Standardised:
    """Centres features and target, and scales each feature to unit standard deviation.

    In NumPy and float64, before JAX sees the data: a column of large values that differ little
    would lose its digits to a float32 rounding. The deviation is the root mean square, n below.

    Args:
        X: the features (n, k).
        y: the target (n,).
        names: the names of the features, for messages.
        target: the name of the target, for messages.

    Returns:
        Both arrays, with a constant column exactly zero, and which features (k,) are constant.

    Raises:
        _UsageError: the squares of a column's values leave the range of float64.
    """
    # By the values, not by a zero deviation, which the rounding of the mean would spoil.
    constant = X.max(axis=0) == X.min(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        centred = np.where(constant, 0.0, X - X.mean(axis=0))
        y_centred = np.zeros_like(y) if y.max() == y.min() else y - y.mean()
        squares = np.append((centred**2).sum(axis=0), (y_centred**2).sum())
    varies = np.append(~constant, y.max() != y.min())
    for name, square, varied in zip([*names, target], squares, varies, strict=True):
        if not np.isfinite(square) or (varied and square < np.finfo(np.float64).tiny):
            raise _UsageError(
                f"column {name!r}: its values are too large or too small to be squared. "
                "Change its unit."
            )
    scale = np.where(constant, 1.0, np.sqrt(squares[:-1] / len(y)))
    return _Standardised(centred / scale, y_centred, constant)


# ---- printing


def report(
    title: str,
    names: Sequence[str],
    data: _Standardised,
    result: bmjax.Result,
    encoding: str = "utf-8",
) -> object:
    """Builds what the command prints about a fit.

    Args:
        title: what was fitted.
        names: the names of the features.
        data: what was fitted.
        result: what `bmjax.fit` returned.
        encoding: of the output; a name it cannot express is written with escapes.

    Returns:
        The title, the table of features and the figures of the fit, for `rich` to print.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    def text(line: str) -> Text:
        # A `Text`, so that a name with [brackets] is not taken for markup.
        return Text(line.encode(encoding, "backslashreplace").decode(encoding))

    coef = np.asarray(result.coef)
    least_squares, _, rank, _ = np.linalg.lstsq(data.X, data.y, rcond=None)
    # Formats of their own: collinear features give least squares enormous values.
    format_coef, format_ls = _fixed(coef), _fixed(least_squares)

    table = Table()
    table.add_column("feature", overflow="fold")  # a long name takes more lines, losing nothing
    for heading in ("coef", "inclusion", "", "least squares"):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    inclusion, support = np.asarray(result.inclusion), np.asarray(result.support)
    for j, name in enumerate(names):
        table.add_row(
            text(_shown(name)),
            format_coef(coef[j]),
            _rate(inclusion[j]),
            "kept" if support[j] else "pruned",
            format_ls(least_squares[j]),
            style=None if support[j] else "dim",
        )

    # Below the table, where a reader who wonders about the coefficients looks.
    notes = [
        "Features and target centred, each feature scaled to unit standard deviation: coefficients "
        "are in units of the target per standard deviation of the feature. Computed in float64."
    ]
    if data.constant.any():
        constant = _listed(names[int(j)] for j in np.flatnonzero(data.constant))
        notes.append(f"Constant, so without any effect: {constant}.")
    if rank < np.count_nonzero(~data.constant):
        notes.append("Least squares is not unique on these data; the one of least norm is shown.")

    figures = Table.grid(padding=(0, 2))
    precision = float(result.noise_precision)
    deviation = math.inf if precision == 0 else 1 / math.sqrt(precision)
    for label, figure in (
        ("kept", f"{np.count_nonzero(support)} of {_count(names)}"),
        ("noise standard deviation", f"{deviation:.6g}"),
        ("noise precision", f"{precision:.6g}"),
        ("bound", f"{float(result.bound):.8g}"),
        ("steps", f"{int(result.num_steps)}"),
        ("status", bmjax.Status(int(result.status)).message),
    ):
        figures.add_row(label, text(figure))
    return Group(text(title), table, *map(text, notes), figures)


def _fixed(values: ArrayLike) -> Callable[[float], str]:
    """Returns one format for a column of figures, with five digits for the largest.

    With the same decimals in each row, sizes compare at a glance; zero without decimals is exact.
    """
    largest = np.abs(np.asarray(values, dtype=np.float64)).max(initial=0.0)
    if 1e-3 <= largest < 1e7:
        form = f"z.{max(0, 4 - math.floor(math.log10(largest)))}f"
    else:
        form = ".4e"
    return lambda value: format(value, form) if value else "0"


def _rate(value: float) -> str:
    return "0" if value == 0 else "<0.001" if value < 0.0005 else f"{value:.3f}"


def _count(names: Sequence[str]) -> str:
    return f"{len(names)} feature{'s' if len(names) > 1 else ''}"


def _shown(name: str) -> str:
    """Escapes a name that would break a line or move the cursor."""
    return name if name.isprintable() else repr(name)
