"""The command `python -m bmjax`: fit a CSV file, or the diabetes data, and print the features.

Data flow one way: read, fit, report. A mistake of the user is found before the fit and raised as a
`UsageError` whose message names the place and the remedy; only `main` turns it into a line on
stderr and exit status 2. pandas and rich belong to the `cli` extra and matplotlib to `plot`, so
they are imported only where they are used; JAX is imported last, so that help and mistakes do not
wait for it.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bmjax
from bmjax._cli import predict
from bmjax._cli.cache import keep_programs
from bmjax._cli.categories import Levels, described, dummy_names, expanded, labels_of
from bmjax._cli.data import Data, check_sizes, outcomes, rows_that_count
from bmjax._cli.errors import UsageError, extras
from bmjax._cli.header import check_target, form_of, read_header
from bmjax._cli.options import check_options, columns_named, parser
from bmjax._cli.reading import read_values

if TYPE_CHECKING:
    from bmjax._cli.output import Report


INTERRUPTED = "bmjax: interrupted."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

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
            return _run(parser().parse_args(words))
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
        # Without a message, since the reader (such as `head`) is done; the status is rich's.
        return 1


def _run(args: argparse.Namespace) -> int:
    check_options(args)
    form = form_of(args)
    notes, levels = [], {}
    if args.file is None:
        from bmjax.datasets import load_diabetes

        source, target = "the diabetes data (Efron et al. 2004)", "progression"
        X, y, names = load_diabetes()
        left_out = columns_named(args.exclude, "--exclude", source, names)
        features = [name for name in names if name not in left_out]
        data = Data(X[:, [names.index(name) for name in features]], y, features)
        kept = columns_named(args.keep, "--keep", source, features)
    else:
        source = args.file
        text, names = read_header(source, form)
        target = check_target(source, names, args.target, args.weights)
        left_out = columns_named(args.exclude, "--exclude", source, names, (target, args.weights))
        wanted = [name for name in names if name not in left_out]
        features = [name for name in wanted if name not in (target, args.weights)]
        if not features:
            also = "" if args.weights is None else f" and the weights {args.weights!r}"
            raise UsageError(
                f"{source} has no column but the target {target!r}{also}. Add at least one feature."
            )
        kept = columns_named(args.keep, "--keep", source, features, (target, args.weights))
        categories = columns_named(
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
        data = Data(
            X=X,
            y=table.column(target),
            names=features,
            weights=None if args.weights is None else table.column(args.weights),
        )
    kept = [name for raw in kept for name in dummy_names(raw, levels)]
    data = rows_that_count(data, args.weights)
    if args.stability is not None and len(data.y) < 4:
        raise UsageError(f"--stability: {source} has {len(data.y)} rows, halves need at least 4.")
    check_sizes(data, target, args)
    family, data, said = outcomes(args, data, target)
    notes = [*notes, *said]
    with extras():  # before the fit, so that a missing package does not cost the user a fit
        from rich.console import Console

        if args.save is not None:
            import pandas  # noqa: F401
        if args.plot is not None:
            import matplotlib

            matplotlib.use("Agg")  # draws without a window

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
    data: Data,
    kept: list[str],
    levels: Levels,
    about: tuple[str, str, str],
    notes: list[str],
) -> tuple[list[str], "Report"]:
    """Make the fit and write the requested files; return their errors and the report.

    Args:
        args: the options.
        data: the data.
        kept: features that are never masked.
        levels: the levels of columns that held categories.
        about: the name of the data, the name of the target, and the family.
        notes: sentences on how the data were converted.
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
        # Files are written before the table is printed, which a closed pipe may cut short.
        return _write(args, report), report


@contextmanager
def _patience(console: Any) -> Iterator[None]:
    """Show on a terminal that the fit is running, since the first one has to be compiled."""
    if not console.is_terminal:
        yield
        return
    with console.status("fitting; the first time this compiles for some seconds ..."):
        yield


def _write(args: argparse.Namespace, report: "Report") -> list[str]:
    """Write the requested files; return the messages of those that failed."""
    from bmjax._cli import files
    from bmjax._io.files import write_whole

    failures = []
    for path, contents in ((args.save, files.saved), (args.plot, files.picture)):
        if path is None:
            continue
        try:
            write_whole(Path(path).resolve(), contents(report, Path(path).suffix.lower()))
        except OSError as error:
            failures.append(f"cannot write {path}: {error.strerror}.")
    return failures
