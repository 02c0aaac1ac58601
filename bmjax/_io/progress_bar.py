"""A progress bar on stderr, by default only on a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bmjax._checks import validate


@contextmanager
def progress_bar(
    title: str, total: int, wanted: bool | None
) -> Iterator[Callable[[str, int], None]]:
    """A context with a function to call with the name and the amount of the work just done.

    Args:
        title: The text shown at first.
        total: The total amount of work.
        wanted: Whether to show the bar; None: if stderr is a terminal and rich is installed.

    Raises:
        TypeError: If `wanted` is not True, False or None.
        ModuleNotFoundError: If the bar is requested and rich is not installed.
    """
    if wanted is None:
        wanted = sys.stderr.isatty() and _has_rich()
    if not validate.flag("progress", wanted):
        yield lambda name, count: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total)
        yield lambda name, count: bar.update(task, advance=count, description=name)


def _has_rich() -> bool:
    from importlib.util import find_spec

    return find_spec("rich") is not None
