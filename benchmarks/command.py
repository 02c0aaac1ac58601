"""The command line that all benchmarks share: which parts to run, and how."""

import argparse
from collections.abc import Mapping, Sequence


def parse(
    program: str,
    description: str | None,
    kind: str,
    names: Sequence[str],
    flags: Mapping[str, str],
) -> argparse.Namespace:
    """Read the arguments; a name that there is not ends the program with a message.

    Args:
        program: The module after `python -m`.
        description: What `--help` says.
        kind: What a part is called, such as `section`.
        names: The parts there are.
        flags: Options without a value, and the help for each.

    Returns:
        The options by their names, and in `chosen` the parts named, or all of them.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=description)
    parser.add_argument("chosen", nargs="*", metavar=kind.upper(), help=", ".join(names))
    for flag, meaning in flags.items():
        parser.add_argument(f"--{flag}", action="store_true", help=meaning)
    arguments = parser.parse_args()
    unknown = set(arguments.chosen) - set(names)
    if unknown:
        parser.error(f"unknown {kind} {sorted(unknown)}; there are {', '.join(names)}")
    if not arguments.chosen:
        arguments.chosen = list(names)
    return arguments
