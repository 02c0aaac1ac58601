"""Errors that a user of the command can correct, and the checks that raise them."""

import argparse
import difflib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

_EXTRAS = {"pandas": "cli", "rich": "cli", "matplotlib": "plot"}
_LISTED = 12  # names in a message: enough to find a slip, few enough for a line or two


class UsageError(Exception):
    """An error that the user can correct; the message says what is wrong and how to correct it."""


class Parser(argparse.ArgumentParser):
    """A parser that raises its errors as `UsageError`, without the list of options."""

    def error(self, message: str) -> NoReturn:
        """Raise argparse's message, with the closest option if one is unknown."""
        message = message.removeprefix("argument ")
        unknown, found, words = message.partition("unrecognized arguments: ")
        if found and not unknown:
            first = words.split()[0].partition("=")[0]
            close = difflib.get_close_matches(first, self._option_string_actions, 1)
            message += f". Did you mean {close[0]}?" if close else ""
        raise UsageError(f"{message}\n{self.prog} --help shows what may be given.")


def whole_number(text: str) -> int:
    """The value of an option as an integer."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number.") from None


@contextmanager
def extras() -> Iterator[None]:
    """Turn the absence of an optional package into an error that says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        user = "--plot" if package == "matplotlib" else "the command"
        raise UsageError(
            f'{user} needs {package}: pip install "bmjax[{_EXTRAS[package]}]"'
        ) from error


def check_column(
    option: str, source: str, names: Sequence[str], name: str, kind: str = "column"
) -> None:
    """Raise if there is no column of a name; the message names those that come near."""
    if name not in names:
        close = " or ".join(map(repr, difflib.get_close_matches(name, names)))
        hint = f" Did you mean {close}?" if close else ""
        raise UsageError(
            f"{option}: no {kind} {name!r} in {source}.{hint}\n"
            f"{kind.capitalize()}s: {listed(names)}"
        )


def check_place(option: str, name: str | None, endings: Sequence[str], data: str | None) -> None:
    """Raise if an option cannot write a file of that name, by its ending or its place."""
    if name is None:
        return
    path = Path(name)
    if path.suffix.lower() not in endings:
        *others, last = endings
        allowed = f"{', '.join(others)} or {last}" if others else last
        raise UsageError(f"{option} {shown(name)}: the name must end in {allowed}.")
    if not path.parent.is_dir():
        raise UsageError(f"{option} {name}: there is no directory {path.parent}. Make it first.")
    if path.is_dir():
        raise UsageError(f"{option} {name}: this is a directory. Give the name of a file.")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"{option} {name}: no permission to write in {path.parent}.")
    if data is not None and path.exists() and Path(data).exists() and path.samefile(data):
        raise UsageError(f"{option} {name} would overwrite the data. Give another name.")


def shown(name: str) -> str:
    """A name, in quotes if it is blank, would break a line or would move the cursor."""
    return name if name.strip() and name.isprintable() else repr(name)


def listed(names: Iterable[str]) -> str:
    """The first dozen of some names, joined by commas, and the number of the others."""
    names = list(names)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(map(shown, names[:_LISTED])) + more
