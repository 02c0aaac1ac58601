"""Run the benchmark on published designs, all of it or some sections, and write its tables.

python -m benchmarks.external [--quick] [--draws N] [--minutes M] [--afresh METHODS]
                               [SECTION ...]

Results are saved cell by cell: the same command resumes where it was stopped, and measures only the
methods and cells that are missing.
"""

import time

import jax

jax.config.update("jax_enable_x64", True)

from benchmarks import command, report  # noqa: E402
from benchmarks.external import (  # noqa: E402
    boss_sections,
    hastie_section,
    leave_one_out,
    one_support,
    real_section,
)
from benchmarks.external.ledger import Options  # noqa: E402

SECTIONS = {
    "boss": boss_sections.narrow,
    "boss_large": boss_sections.large,
    "boss_wide": boss_sections.wide,
    "one_support": one_support.one_support,
    "hastie": hastie_section.grid,
    "real": real_section.real,
    "left_out": leave_one_out.left_out,
}
# Tables with one row per cell are saved as they are made, and are too long to print.
_LEDGERS = {"boss", "boss_large", "boss_wide", "hastie", "real"}


def main() -> None:
    """Run, print, save."""
    program = "benchmarks.external"
    arguments = command.parse(
        program,
        __doc__,
        "section",
        tuple(SECTIONS),
        {"quick": "a few cells, nothing saved"},
        {
            "draws": (int, "datasets a cell, or repeats; rows of other numbers stay on file"),
            "minutes": (float, "after so long, say what has been found; the same command goes on"),
            "afresh": (str, "methods to measure again, such as 'default fit,posterior mean'"),
        },
    )
    afresh = tuple((arguments.afresh or "").split(","))
    for section in arguments.chosen:
        draws = f" --draws {arguments.draws}" if arguments.draws else ""
        line = f"python -m {program} {section}{draws}"
        print(f"\n{line}")
        until = time.monotonic() + 60 * (arguments.minutes or float("inf"))
        options = Options(arguments.quick, arguments.draws, afresh, line, until)
        tables = SECTIONS[section](options)
        for name, table in tables.items():
            if name in _LEDGERS and not arguments.quick:
                continue
            print(f"\n{name}")
            report.publish(f"external_{name}", table, line, arguments.quick)


if __name__ == "__main__":
    main()
