"""The command `python -m bmjax`: fit a CSV file, or the diabetes data, and print what was kept.

Data flow one way: read, fit, report. What a user can get wrong is found before the fit, as a
`_UsageError` whose message names the place and the remedy; `main` alone turns it into a line on
stderr and exit status 2. pandas and rich belong to the `cli` extra and matplotlib to `plot`, so
they are imported only where they are used.
"""

import argparse
import csv
import difflib
import io
import os
import reprlib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

import bmjax
from bmjax._cli import output
from bmjax._cli.output import Report, listed
from bmjax._io.files import write_whole
from bmjax.datasets import load_diabetes

_Array = NDArray[np.float64]
_AS_CSV = "Save the table as CSV with the encoding UTF-8."
_EXTRAS = {"pandas": "cli", "rich": "cli", "matplotlib": "plot"}
_SAVED, _DRAWN = (".json", ".csv"), (".png", ".pdf", ".svg")
# The square of an effect, which is a ratio of two columns, must be a number too.
_SMALLEST, _LARGEST = 1e-70, 1e70

_DESCRIPTION = """\
Fit Bayesian masking, a sparse linear regression that does not shrink the features it keeps.
Without FILE, the diabetes data of Efron et al. (2004) are fitted.

FILE is a comma-separated text file with a header row. Every column but the target and the weights
is a feature, and all must hold numbers, none missing. The level of the target is fitted as an
intercept, and coefficients are on the scale of FILE, whatever the units of its columns."""

_EPILOG = """\
examples:
  python -m bmjax
  python -m bmjax houses.csv --target price
  python -m bmjax houses.csv --target price --keep size,year --save fit.json --plot fit.png
  python -m bmjax houses.csv --target price --stability 100

exit status: 0 after a fit, converged or not (the output says which); 2 for unusable input, or if
a file could not be written; 130 after Ctrl-C."""

INTERRUPTED = "bmjax: interrupted."


class _UsageError(Exception):
    """Something the user can put right; the message says what and how."""


class _Data(NamedTuple):
    X: _Array
    y: _Array
    names: list[str]
    weights: _Array | None = None


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
        argv: the arguments after the command's name; those of the process if None.

    Returns:
        The exit status: 0 after a fit, 2 after a usage error, 130 after Ctrl-C.
    """
    try:
        try:
            return _run(_parser().parse_args(argv))
        except _UsageError as error:
            print(f"bmjax: error: {error}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print(INTERRUPTED, file=sys.stderr)
            return 130
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
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE", help="CSV file; default: the embedded diabetes data")
    add("--target", metavar="NAME", help="column of FILE to predict")
    add(
        "--keep",
        metavar="A,B",
        action="append",
        default=[],
        help="features that are always kept, never masked; a name with a comma in double quotes",
    )
    add("--weights", metavar="NAME", help="column of FILE that says how often each row counts")
    add("--no-intercept", action="store_true", help="fit no level of the target")
    add(
        "--stability",
        metavar="N",
        type=int,
        help="also fit N random halves of the rows, N even, and show how often each feature is "
        "kept",
    )
    add(
        "--posterior",
        action="store_true",
        help="also show the probability of each feature and its effect averaged over all choices "
        "of features",
    )
    add(
        "--seed",
        metavar="N",
        type=int,
        default=0,
        help="of the halves of --stability and the chains of --posterior; default: 0",
    )
    add("--save", metavar="PATH", help="write the fit, to .json, or the features, to .csv")
    add("--plot", metavar="PATH", help="draw the coefficients, to .png, .pdf or .svg")
    add("--version", action="version", version=f"bmjax {bmjax.__version__}")
    return parser


def _run(args: argparse.Namespace) -> int:
    _check_options(args)
    with _extras():  # before the fit, so that a missing package does not cost the user a fit
        from rich.console import Console

        if args.save is not None:
            import pandas  # noqa: F401
        if args.plot is not None:
            import matplotlib

            from bmjax import plots  # noqa: F401

            matplotlib.use("Agg")  # no window, and none needed

    if args.file is None:
        X, y, names = load_diabetes()
        data = _Data(X, y, names)
        source, target = "the diabetes data (Efron et al. 2004)", "progression"
    else:
        data = read_csv(args.file, args.target, args.weights)
        source, target = args.file, args.target
    kept = _kept(args.keep, source, data.names, (target, args.weights))
    data = _rows_that_count(data, args.weights)
    if args.stability is not None and len(data.y) < 4:
        raise _UsageError(f"--stability: {source} has {len(data.y)} rows, halves need at least 4.")
    _check_sizes(data, target, args)

    options = {
        "intercept": not args.no_intercept,
        "standardize": True,
        "unmasked": [data.names.index(name) for name in kept] or None,
    }
    with jax.enable_x64(True):  # a caller of `main` keeps the precision it had
        result = bmjax.fit(data.X, data.y, sample_weights=data.weights, **options)
        selection = None
        if args.stability is not None:
            selection = bmjax.stability_selection(
                data.X, data.y, jax.random.key(args.seed), args.stability, **options
            )
        posterior = None
        if args.posterior:
            options.pop("standardize")  # it does not depend on units
            posterior = bmjax.posterior(
                data.X, data.y, jax.random.key(args.seed), sample_weights=data.weights, **options
            )
        report = Report.of(
            result,
            selection,
            posterior,
            *data,
            kept=kept,
            intercept=options["intercept"],
            source=source,
            target=target,
            weights_name=args.weights,
            seed=args.seed,
        )
        # Before the table is printed, which a pipe may cut short.
        failures = _write(args, report)
    console = Console(highlight=False)
    output.show(console, report)
    if failures:
        raise _UsageError("\n".join(failures))
    return 0


def _write(args: argparse.Namespace, report: Report) -> list[str]:
    """Writes the files asked for; returns what went wrong."""
    failures = []
    for path, contents in ((args.save, output.saved), (args.plot, output.picture)):
        if path is None:
            continue
        try:
            write_whole(Path(path).resolve(), contents(report, Path(path).suffix.lower()))
        except OSError as error:
            failures.append(f"cannot write {path}: {error.strerror}.")
    return failures


@contextmanager
def _extras() -> Iterator[None]:
    """Turns the absence of a package of an extra into a message that says how to get it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        user = "--plot" if package == "matplotlib" else "the command"
        raise _UsageError(
            f'{user} needs {package}: pip install "bmjax[{_EXTRAS[package]}]"'
        ) from error


# ---- options


def _check_options(args: argparse.Namespace) -> None:
    """Raises for what is wrong whatever the data are."""
    if args.file is None:
        for option in ("target", "weights"):
            if getattr(args, option) is not None:
                raise _UsageError(
                    f"--{option} goes with a CSV file: python -m bmjax FILE --target NAME."
                )
    _check_place("--save", args.save, _SAVED, args.file)
    _check_place("--plot", args.plot, _DRAWN, args.file)
    if args.stability is not None:
        if args.stability < 2 or args.stability % 2:
            raise _UsageError(
                f"--stability {args.stability}: halves come in pairs, so give an even number, "
                "at least 2; 100 is usual."
            )
        if args.weights is not None:
            raise _UsageError(
                "--stability draws weights of the rows itself, so it does not go with --weights."
            )
    if not 0 <= args.seed < 2**32:
        raise _UsageError(f"--seed {args.seed}: give a number from 0 to {2**32 - 1}.")


def _check_place(option: str, name: str | None, endings: Sequence[str], data: str | None) -> None:
    """Raises if a file of that name cannot be what the option writes."""
    if name is None:
        return
    path = Path(name)
    if path.suffix.lower() not in endings:
        *others, last = endings
        raise _UsageError(f"{option} {name}: the name must end in {', '.join(others)} or {last}.")
    if not path.parent.is_dir():
        raise _UsageError(f"{option} {name}: there is no directory {path.parent}.")
    if path.is_dir():
        raise _UsageError(f"{option} {name}: this is a directory. Give the name of a file.")
    if not os.access(path.parent, os.W_OK):
        raise _UsageError(f"{option} {name}: no permission to write in {path.parent}.")
    if data is not None and path.exists() and Path(data).exists() and path.samefile(data):
        raise _UsageError(f"{option} {name} would overwrite the data. Give another name.")


def _kept(
    given: Sequence[str], source: str, names: Sequence[str], taken: Sequence[str | None]
) -> list[str]:
    """The features to keep, each once, from lists of them."""
    try:
        kept = [name.strip() for row in csv.reader(given, skipinitialspace=True) for name in row]
    except csv.Error as error:
        raise _UsageError("--keep: a name with a line break goes in double quotes.") from error
    if given and not (kept and all(kept)):
        raise _UsageError("--keep: a name is empty. Give names of features with commas between.")
    for name in kept:
        if name in taken and name not in names:
            raise _UsageError(f"--keep: {name!r} is the target or the weights, not a feature.")
        _check_column("--keep", source, names, name, kind="feature")
    return list(dict.fromkeys(kept))


def _rows_that_count(data: _Data, weights_name: str | None) -> _Data:
    """The data without rows of weight zero, which change nothing."""
    if data.weights is None:
        return data
    counts = data.weights > 0
    if np.sum(counts) < 2:
        raise _UsageError(
            f"--weights: column {weights_name!r} is above zero in {np.sum(counts)} rows: a fit "
            "needs at least 2."
        )
    return data._replace(X=data.X[counts], y=data.y[counts], weights=data.weights[counts])


def _check_sizes(data: _Data, target: str, args: argparse.Namespace) -> None:
    """Raises if a column's values are too large or too small for their squares to be numbers."""
    columns = [*zip(data.names, data.X.T, strict=True), (target, data.y)]
    if data.weights is not None:
        columns.append((args.weights, data.weights))
    for name, values in columns:
        largest = size = np.abs(values).max()
        if not args.no_intercept and name != args.weights and largest < _LARGEST:
            size = np.ptp(values)
        if largest >= _LARGEST or 0 < size <= _SMALLEST:
            raise _UsageError(
                f"column {name!r}: its values are too large or too small to compute with. "
                "Change its unit."
            )


# ---- reading


def read_csv(path: str, target: str | None, weights: str | None = None) -> _Data:
    """Reads features, target and weights from a comma-separated file with a header row.

    Args:
        path: the file.
        target: the column to predict.
        weights: the column that says how often each row counts; all others are features.

    Returns:
        The features (n, k), the target (n,), the k names of the features, and the weights (n,).

    Raises:
        _UsageError: the file cannot be used as it is.
    """
    with _extras():
        import pandas as pd

    text = _read_text(path)
    names = _header(path, text)
    _check_header(path, names)
    target = _check_target(path, names, target, weights)

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
    _check_values(path, text, names, parsed, table.isna().to_numpy(), table.to_numpy(), weights)
    features = [j for j, name in enumerate(names) if name not in (target, weights)]
    return _Data(
        X=parsed[:, features],
        y=parsed[:, names.index(target)],
        names=[names[j] for j in features],
        weights=None if weights is None else parsed[:, names.index(weights)],
    )


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
            f"{path} has no header row: its first row, {listed(names)}, is all numbers.\n"
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
            f"{path} has more than one column named {listed(repeated)}. "
            "Give each column a name of its own."
        )


def _check_target(path: str, names: list[str], target: str | None, weights: str | None) -> str:
    if target is None:
        raise _UsageError(
            "which column is to be predicted? Name it with --target NAME.\n"
            f"Columns of {path}: {listed(names)}"
        )
    _check_column("--target", path, names, target)
    if weights is not None:
        _check_column("--weights", path, names, weights)
    if weights == target:
        raise _UsageError(f"--weights: {target!r} is the target. Name another column.")
    if len(names) == 1 + (weights is not None):
        also = "" if weights is None else f" and the weights {weights!r}"
        raise _UsageError(
            f"{path} has no column but the target {target!r}{also}. Add at least one feature."
        )
    return target


def _check_column(
    option: str, source: str, names: Sequence[str], name: str, kind: str = "column"
) -> None:
    if name not in names:
        close = " or ".join(map(repr, difflib.get_close_matches(name, names)))
        hint = f" Did you mean {close}?" if close else ""
        raise _UsageError(
            f"{option}: no {kind} {name!r} in {source}.{hint}\n"
            f"{kind.capitalize()}s: {listed(names)}"
        )


def _check_values(
    path: str,
    text: str,
    names: list[str],
    parsed: _Array,
    missing: NDArray[np.bool_],
    raw: NDArray[Any],
    weights: str | None,
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
        also = f" (as have other columns: {listed(names[j] for j in others)})" if others else ""
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
    refuse(
        (parsed < 0) & (np.array(names) == weights),
        "the negative weight {}",
        "A row counts zero times or more.",
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
