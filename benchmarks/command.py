"""The command line that all benchmarks share: which parts to run, and how."""

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
    """Read the arguments; a name that there is not ends the program with a message.

    Args:
        program: The module after `python -m`.
        description: What `--help` says.
        kind: What a part is called, such as `section`.
        names: The parts there are.
        flags: Options without a value, and the help for each.
        values: Options with a value, how it is read, and the help for each; absent, it is None.

    Returns:
        The options by their names, and in `chosen` the parts named, or all of them.
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
    """Read the arguments of a benchmark of sections, then make those asked for, one by one.

    Args:
        benchmark: Its name below `benchmarks`.
        description: What `--help` says.
        makers: The sections; each is told whether to be quick.

    Returns:
        Of each section, as it is done, its name, what was made, the command that makes it again,
        and whether it was quick, in which case nothing is to be saved.
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
