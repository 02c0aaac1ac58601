"""The command line shared by all benchmarks: which parts to run, and with which options."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

Made = TypeVar("Made")


def parse(
    program: str,
    description: str | None,
    kind: str,
    names: Sequence[str],
    flags: Mapping[str, str],
    values: Mapping[str, tuple[Callable[[str], Any], str]] | None = None,
) -> argparse.Namespace:
    """Read the arguments; an unknown name ends the program with a message.

    Args:
        program: The module after `python -m`.
        description: The text of `--help`.
        kind: The word for a part, such as `section`.
        names: The names of the parts.
        flags: Options without a value, and the help for each.
        values: Options with a value, the function that reads it, and the help for each. An option
            that is not given is None.

    Returns:
        The options by name; `chosen` holds the parts that were named, or all of them.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=description)
    parser.add_argument("chosen", nargs="*", metavar=kind.upper(), help=", ".join(names))
    for flag, meaning in flags.items():
        parser.add_argument(f"--{flag}", action="store_true", help=meaning)
    for name, (read, meaning) in (values or {}).items():
        parser.add_argument(f"--{name}", type=read, help=meaning)
    arguments = parser.parse_args()
    unknown = set(arguments.chosen) - set(names)
    if unknown:
        parser.error(f"unknown {kind} {sorted(unknown)}; there are {', '.join(names)}")
    if not arguments.chosen:
        arguments.chosen = list(names)
    return arguments


def sections(
    benchmark: str, description: str | None, makers: Mapping[str, Callable[[bool], Made]]
) -> Iterator[tuple[str, Made, str, bool]]:
    """Read the arguments of a benchmark with sections, then run those requested, one by one.

    Args:
        benchmark: Its name within `benchmarks`.
        description: The text of `--help`.
        makers: The sections, as functions; each is given whether the run is quick.

    Returns:
        For each section, when it is done: its name, its result, the command that reproduces it,
        and whether the run was quick, in which case nothing should be saved.
    """
    program = f"benchmarks.{benchmark}"
    flags = {"quick": "small sizes, nothing saved"}
    arguments = parse(program, description, "section", tuple(makers), flags)

    def made() -> Iterator[tuple[str, Made, str, bool]]:
        for section in arguments.chosen:
            line = f"python -m {program} {section}"
            print(f"\n{line}")
            yield section, makers[section](arguments.quick), line, arguments.quick

    return made()
