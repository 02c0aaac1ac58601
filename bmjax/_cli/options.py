"""The options of the command, and the checks of them that need no data."""

import argparse
import csv
from collections.abc import Sequence
from typing import Any

import bmjax
from bmjax._cli.errors import Parser, UsageError, check_column, check_place, whole_number
from bmjax._cli.header import add_form

_SAVED, _DRAWN = (".json", ".npz", ".csv"), (".png", ".pdf", ".svg")

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


def parser() -> Parser:
    """The parser of the command without `predict`."""
    whole = Parser(
        prog="python -m bmjax",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = whole.add_argument
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
    add_form(whole)
    return whole


class _Version(argparse.Action):
    """Show the version, which is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"bmjax {bmjax.__version__}")
        parser.exit()


def check_options(args: argparse.Namespace) -> None:
    """Raise if options are wrong for any data."""
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


def columns_named(
    given: Sequence[str],
    option: str,
    source: str,
    names: Sequence[str],
    taken: Sequence[str | None] = (),
) -> list[str]:
    """The columns that an option names in comma-separated lists, each once."""
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
