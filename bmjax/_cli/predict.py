"""`python -m bmjax predict`: predictions of a saved fit at new rows."""

import argparse
import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmjax._cli.cache import keep_programs
from bmjax._cli.categories import Levels, dummy_names, labels_of
from bmjax._cli.errors import Parser, UsageError, check_place, listed, shown
from bmjax._cli.header import add_form, form_of, read_header
from bmjax._cli.reading import Table, read_values

_DESCRIPTION = """\
Predict the target of a saved fit at the rows of a CSV file.

FIT is a file that --save or result.save(path) has written. FILE needs a column for every feature
that the fit has kept, of the same name, in any order; others are not looked at. Prints CSV: the
number of the row, the predicted mean, and the standard deviation of the target around it."""

_EPILOG = """\
examples:
  python -m bmjax houses.csv --target price --save fit.json
  python -m bmjax predict fit.json new.csv
  python -m bmjax predict fit.json new.csv --save predicted.csv"""


def parser() -> Parser:
    """The parser of `predict`."""
    made = Parser(
        prog="python -m bmjax predict",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("fit", metavar="FIT", help="the saved fit, .json or .npz")
    add("file", metavar="FILE", help="CSV file with the new rows")
    add("--save", metavar="PATH", help="write to PATH, ending in .csv, instead of printing")
    add("--no-cache", action="store_true", help="keep no compiled programs on the disk")
    add_form(made)
    return made


def _new_rows(result: Any, table: Table, levels: Levels) -> NDArray[np.float64]:
    """(m, k) features of the new rows; pruned ones, which have no effect, are at their center."""
    features = result.feature_names()
    X = np.tile(result.center.astype(float), (len(table.values), 1))
    for name in table.names:
        for j, dummy in enumerate(dummy_names(name, levels)):
            if dummy in features:
                column = table.column(name)
                own = column == j + 1 if name in levels else column
                X[:, features.index(dummy)] = own
    return X


def run(argv: Sequence[str]) -> int:
    """Run `predict` and return the exit status."""
    args = parser().parse_args(argv)
    form = form_of(args)
    check_place("--save", args.save, (".csv",), args.file)
    text, names = read_header(args.file, form)
    if not Path(args.fit).exists():
        raise UsageError(
            f"cannot read {shown(args.fit)}: No such file or directory. Give a saved fit."
        )
    keep_programs(not args.no_cache)

    import jax
    import jax.numpy as jnp

    from bmjax._io.files import write_whole
    from bmjax._results.saved import read

    try:
        result, about = read(args.fit)
    except OSError as error:
        raise UsageError(
            f"cannot read {shown(args.fit)}: {error.strerror}. Give a saved fit."
        ) from error
    except ValueError as error:
        raise UsageError(str(error)) from error
    if result.coef.ndim != 1:
        raise UsageError(f"{args.fit} holds a batch of fits; save the one to predict with.")
    features = result.feature_names()
    kept = [name for name, keep in zip(features, result.support, strict=True) if keep]
    # Of 0/1 columns that the command made, the file must have the categorical column.
    levels = (about.get("settings") or {}).get("categories") or {}
    groups = labels_of(features, levels) or [None] * len(features)
    raw = dict(zip(features, groups, strict=True))
    kept = list(dict.fromkeys(raw[name] or name for name in kept))
    missing = [name for name in kept if name not in names]
    if missing:
        raise UsageError(
            f"{args.file} has no column {listed(missing)}, which the fit has kept.\n"
            f"Columns: {listed(names)}"
        )
    wanted = kept or names[:1]  # some column, to count the rows
    categories = {name: levels[name] for name in wanted if name in levels}
    table = read_values(args.file, text, names, wanted, form, categories=categories, least=1)
    X = _new_rows(result, table, categories)
    with jax.enable_x64(True):
        fit = jax.tree.map(jnp.asarray, result)._replace(names=None)
        columns = {"row": table.rows, "prediction": fit.predict(X)}
        if fit.uncertainty is not None:
            columns["standard_deviation"] = fit.predict(X, return_std=True)[1]
    lines = io.StringIO(newline="")
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(np.asarray(one).tolist() for one in columns.values()), strict=True))
    for note in table.notes:
        print(f"Note: {note}", file=sys.stderr)
    if args.save is None:
        print(lines.getvalue(), end="")
        return 0
    try:
        write_whole(Path(args.save).resolve(), lines.getvalue().encode())
    except OSError as error:
        raise UsageError(f"cannot write {args.save}: {error.strerror}.") from error
    return 0
