"""The command `python -m bmjax`: fit a CSV file, or the diabetes data, and print what was kept.

Data flow one way: read, fit, report. What a user can get wrong is found before the fit, as a
`UsageError` whose message names the place and the remedy; `main` alone turns it into a line on
stderr and exit status 2. pandas and rich belong to the `cli` extra and matplotlib to `plot`, so
they are imported only where they are used; JAX is imported last, so that help and mistakes do not
wait for it.
"""

import argparse
import csv
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import bmjax
from bmjax._cli import predict
from bmjax._cli.cache import keep_programs
from bmjax._cli.categories import Levels, described, dummy_names, expanded, labels_of
from bmjax._cli.errors import (
    Parser,
    UsageError,
    check_column,
    check_place,
    extras,
    whole_number,
)
from bmjax._cli.reading import add_form, check_target, form_of, read_header, read_values

if TYPE_CHECKING:
    from bmjax._cli.output import Report

_Array = NDArray[np.float64]
_SAVED, _DRAWN = (".json", ".npz", ".csv"), (".png", ".pdf", ".svg")
# The square of an effect, which is a ratio of two columns, must be a number too.
_SMALLEST, _LARGEST = 1e-70, 1e70

_DESCRIPTION = """\
Fit Bayesian masking, a sparse linear regression that does not shrink the features it keeps.
Without FILE, the diabetes data of Efron et al. (2004) are fitted.

FILE is a comma-separated text file, plain or gzipped, with a header row. Every column but the
target, the weights and those excluded is a feature. All must hold numbers, none missing; a column
of yes and no, or true and false, is taken as 1 and 0, and with --categorical one of categories
becomes a 0/1 column for each level but the first, kept or pruned together. The level of the target
is fitted as an intercept, and coefficients are on the scale of FILE, whatever the units of its
columns."""

_EPILOG = """\
examples:
  python -m bmjax
  python -m bmjax houses.csv --target price
  python -m bmjax houses.csv --target price --exclude id,street --drop-missing
  python -m bmjax maisons.csv --target prix --sep ';' --decimal ,
  python -m bmjax houses.csv --target price --keep size,year --save fit.json --plot fit.png
  python -m bmjax houses.csv --target price --categorical quarter,heating
  python -m bmjax houses.csv --target price --stability 100
  python -m bmjax houses.csv --target sold             yes or no: effects on the log-odds
  python -m bmjax predict fit.json new.csv           what a saved fit says of new rows

Compiled programs are kept in your cache folder (--no-cache: not; JAX_COMPILATION_CACHE_DIR: in
another), so that a later run starts at once.

exit status: 0 after a fit, converged or not (the output says which); 2 for unusable input, or if
a file could not be written; 130 after Ctrl-C."""

INTERRUPTED = "bmjax: interrupted."


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
            words = sys.argv[1:] if argv is None else list(argv)
            if words[:1] == ["predict"]:
                return predict.run(words[1:])
            return _run(_parser().parse_args(words))
        except UsageError as error:
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


def _parser() -> Parser:
    parser = Parser(
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
    add(
        "--exclude",
        metavar="A,B",
        action="append",
        default=[],
        help="columns of FILE that are not looked at, such as names of the rows",
    )
    add(
        "--categorical",
        metavar="A,B",
        action="append",
        default=[],
        help="columns of FILE that hold categories: all levels of one are kept or pruned together",
    )
    add("--weights", metavar="NAME", help="column of FILE that says how often each row counts")
    add(
        "--family",
        choices=("gaussian", "logistic", "student"),
        help="how the target is distributed: gaussian; logistic, for one of two values; student, "
        "for noise with outliers. Default: logistic if the target has just two values, else "
        "gaussian",
    )
    add("--no-intercept", action="store_true", help="fit no level of the target")
    add(
        "--stability",
        metavar="N",
        type=whole_number,
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
        type=whole_number,
        default=0,
        help="of the halves of --stability and the chains of --posterior; default: 0",
    )
    add(
        "--save",
        metavar="PATH",
        help="write the fit, to .json or .npz, for predict; or the features, to .csv",
    )
    add("--plot", metavar="PATH", help="draw the coefficients, to .png, .pdf or .svg")
    add("--no-cache", action="store_true", help="keep no compiled programs on the disk")
    add("--version", action=_Version, nargs=0, help="show the version and exit")
    add_form(parser)
    return parser


class _Version(argparse.Action):
    """Shows the version, looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"bmjax {bmjax.__version__}")
        parser.exit()


def _run(args: argparse.Namespace) -> int:
    _check_options(args)
    form = form_of(args)
    notes, levels = [], {}
    if args.file is None:
        from bmjax.datasets import load_diabetes

        source, target = "the diabetes data (Efron et al. 2004)", "progression"
        X, y, names = load_diabetes()
        left_out = _names(args.exclude, "--exclude", source, names)
        features = [name for name in names if name not in left_out]
        data = _Data(X[:, [names.index(name) for name in features]], y, features)
        kept = _names(args.keep, "--keep", source, features)
    else:
        source = args.file
        text, names = read_header(source, form)
        target = check_target(source, names, args.target, args.weights)
        left_out = _names(args.exclude, "--exclude", source, names, (target, args.weights))
        wanted = [name for name in names if name not in left_out]
        features = [name for name in wanted if name not in (target, args.weights)]
        if not features:
            also = "" if args.weights is None else f" and the weights {args.weights!r}"
            raise UsageError(
                f"{source} has no column but the target {target!r}{also}. Add at least one feature."
            )
        kept = _names(args.keep, "--keep", source, features, (target, args.weights))
        categories = _names(
            args.categorical, "--categorical", source, features, (target, args.weights)
        )
        table = read_values(
            source,
            text,
            names,
            wanted,
            form,
            target=target,
            weights=args.weights,
            categories=dict.fromkeys(categories),
        )
        levels = table.levels
        notes = [*table.notes, *described(levels)]
        X = table.values[:, [wanted.index(name) for name in features]]
        X, features = expanded(X, features, levels)
        data = _Data(
            X=X,
            y=table.column(target),
            names=features,
            weights=None if args.weights is None else table.column(args.weights),
        )
    kept = [name for raw in kept for name in dummy_names(raw, levels)]
    data = _rows_that_count(data, args.weights)
    if args.stability is not None and len(data.y) < 4:
        raise UsageError(f"--stability: {source} has {len(data.y)} rows, halves need at least 4.")
    _check_sizes(data, target, args)
    family, data, said = _outcomes(args, data, target)
    notes = [*notes, *said]
    with extras():  # before the fit, so that a missing package does not cost the user a fit
        from rich.console import Console

        if args.save is not None:
            import pandas  # noqa: F401
        if args.plot is not None:
            import matplotlib

            matplotlib.use("Agg")  # no window, and none needed

    console = Console(highlight=False)
    keep_programs(not args.no_cache)
    with _patience(Console(stderr=True)):
        failures, report = _fitted(args, data, kept, levels, (source, target, family), notes)
    from bmjax._cli import output

    output.show(console, report)
    if failures:
        raise UsageError("\n".join(failures))
    return 0


def _fitted(
    args: argparse.Namespace,
    data: _Data,
    kept: list[str],
    levels: Levels,
    about: tuple[str, str, str],
    notes: list[str],
) -> tuple[list[str], "Report"]:
    """The fit, written to the files asked for: what went wrong with these, and the report.

    Args:
        args: the options.
        data: the data.
        kept: features that are never masked.
        levels: the levels of columns that held categories.
        about: what the data are called, the target's name, and the family.
        notes: what has been noticed so far.
    """
    source, target, family = about
    import jax

    from bmjax._cli.output import Report
    from bmjax._results.names import Names

    if args.plot is not None:
        from bmjax import plots  # noqa: F401
    options = {
        "family": family,
        "intercept": not args.no_intercept,
        "standardize": True,
        "unmasked": [data.names.index(name) for name in kept] or None,
        "groups": labels_of(data.names, levels),
    }
    with jax.enable_x64(True):  # a caller of `main` keeps the precision it had
        result = bmjax.fit(data.X, data.y, sample_weights=data.weights, **options)
        result = result._replace(names=Names(tuple(data.names), target))
        selection = None
        if args.stability is not None:
            selection = bmjax.stability_selection(
                data.X, data.y, jax.random.key(args.seed), args.stability, **options
            )
        posterior = None
        if args.posterior:
            options.pop("groups")  # there are none, as has been checked
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
            said=notes,
            levels=levels,
        )
        # Before the table is printed, which a pipe may cut short.
        return _write(args, report), report


@contextmanager
def _patience(console: Any) -> Iterator[None]:
    """Says on a terminal that something is on its way, for the first fit has to be compiled."""
    if not console.is_terminal:
        yield
        return
    with console.status("fitting; the first time this compiles for some seconds ..."):
        yield


def _write(args: argparse.Namespace, report: "Report") -> list[str]:
    """Writes the files asked for; returns what went wrong."""
    from bmjax._cli import output
    from bmjax._io.files import write_whole

    failures = []
    for path, contents in ((args.save, output.saved), (args.plot, output.picture)):
        if path is None:
            continue
        try:
            write_whole(Path(path).resolve(), contents(report, Path(path).suffix.lower()))
        except OSError as error:
            failures.append(f"cannot write {path}: {error.strerror}.")
    return failures


def _outcomes(args: argparse.Namespace, data: _Data, target: str) -> tuple[str, _Data, list[str]]:
    """The family, the data with a target of zeros and ones if it is logistic, and what to note."""
    family, values = args.family, np.unique(data.y)
    notes = []
    if family is None:
        family = "logistic" if len(values) == 2 else "gaussian"
    if family == "logistic":
        if len(values) != 2:
            raise UsageError(
                f"--family logistic: column {target!r} has {len(values)} different values, and an "
                "outcome is one of two. Use gaussian or student for a number."
            )
        notes.append(
            f"{target} is {values[0]:g} or {values[1]:g}: effects are on the log-odds of "
            f"{values[1]:g} (--family gaussian: on its mean)."
        )
        data = data._replace(y=(data.y == values[1]).astype(float))
    return family, data, notes


# ---- options


def _check_options(args: argparse.Namespace) -> None:
    """Raises for what is wrong whatever the data are."""
    if args.file is None:
        for option in ("target", "weights", "categorical"):
            if getattr(args, option):
                raise UsageError(
                    f"--{option} goes with a CSV file: python -m bmjax FILE --target NAME."
                )
    if args.posterior and args.categorical:
        raise UsageError("--posterior is of single columns, so it does not go with --categorical.")
    check_place("--save", args.save, _SAVED, args.file)
    check_place("--plot", args.plot, _DRAWN, args.file)
    if args.stability is not None:
        if args.stability < 2 or args.stability % 2:
            raise UsageError(
                f"--stability {args.stability}: halves come in pairs, so give an even number, "
                "at least 2; 100 is usual."
            )
        if args.weights is not None:
            raise UsageError(
                "--stability draws weights of the rows itself, so it does not go with --weights."
            )
    if not 0 <= args.seed < 2**32:
        raise UsageError(f"--seed {args.seed}: give a number from 0 to {2**32 - 1}.")


def _names(
    given: Sequence[str],
    option: str,
    source: str,
    names: Sequence[str],
    taken: Sequence[str | None] = (),
) -> list[str]:
    """The columns that an option names, each once, from lists of them."""
    try:
        found = [name.strip() for row in csv.reader(given, skipinitialspace=True) for name in row]
    except csv.Error as error:
        raise UsageError(f"{option}: a name with a line break goes in double quotes.") from error
    if given and not (found and all(found)):
        raise UsageError(f"{option}: a name is empty. Give names of columns with commas between.")
    for name in found:
        if name in taken:
            raise UsageError(
                f"{option}: {name!r} is the target or the weights, not a feature. Leave it out."
            )
        check_column(option, source, names, name, kind="feature")
    return list(dict.fromkeys(found))


def _rows_that_count(data: _Data, weights_name: str | None) -> _Data:
    """The data without rows of weight zero, which change nothing."""
    if data.weights is None:
        return data
    counts = data.weights > 0
    if np.sum(counts) < 2:
        raise UsageError(
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
            raise UsageError(
                f"column {name!r}: its values are too large or too small to compute with. "
                "Change its unit."
            )
