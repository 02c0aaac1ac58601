"""A progress bar on stderr, if there is someone to see it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bmjax._checks import validate


@contextmanager
def progress_bar(
    title: str, total: int, wanted: bool | None
) -> Iterator[Callable[[str, int], None]]:
    """A function to call with what has just been done and how much of it.

    Args:
        title: What is shown at first.
        total: How much there is to do.
        wanted: Whether to show it; None: where stderr is a terminal and rich is installed.

    Raises:
        TypeError: If `wanted` is none of True, False and None.
        ModuleNotFoundError: If it is asked for and rich is not installed.
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
