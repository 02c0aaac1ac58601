"""Run the practice benchmark, all of it or the sections named, and write its tables.

python -m benchmarks.practice [--quick] [SECTION ...]
"""

import jax

jax.config.update("jax_enable_x64", True)

from benchmarks import command, report  # noqa: E402
from benchmarks.practice import sections  # noqa: E402

SECTIONS = {
    "real": sections.real,
    "coverage": sections.coverage,
    "stability": sections.stability,
}


def main() -> None:
    """Run, print, save."""
    arguments = command.parse(
        "benchmarks.practice",
        __doc__,
        "section",
        tuple(SECTIONS),
        {"quick": "small sizes, nothing saved"},
    )
    for section in arguments.chosen:
        line = f"python -m benchmarks.practice {section}"
        print(f"\n{line}")
        for name, table in SECTIONS[section](arguments.quick).items():
            if not arguments.quick:
                report.save_table(report.RESULTS / f"practice_{name}.csv", table, line)
            print(f"\n{table.round(3).to_string(index=False)}")


if __name__ == "__main__":
    main()
