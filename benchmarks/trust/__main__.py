"""Run the trust benchmark, all of it or the sections named, and write its tables.

python -m benchmarks.trust [--quick] [SECTION ...]
"""

import jax

jax.config.update("jax_enable_x64", True)

from benchmarks import command, report  # noqa: E402
from benchmarks.trust import sections  # noqa: E402

SECTIONS = {
    "inputs": sections.inputs,
    "crashes": sections.crashes,
    "largest": sections.largest,
}


def main() -> None:
    """Run, print, save."""
    arguments = command.parse(
        "benchmarks.trust",
        __doc__,
        "section",
        tuple(SECTIONS),
        {"quick": "small sizes, nothing saved"},
    )
    for section in arguments.chosen:
        table, remarks = SECTIONS[section](arguments.quick)
        line = f"python -m benchmarks.trust {section}"
        if not arguments.quick:
            path = report.RESULTS / f"trust_{section}.csv"
            report.save_table(path, table, line, remarks)
        print(f"\n{line}")
        print(table.round(3).to_string(index=False))
        for remark in remarks:
            print(remark)


if __name__ == "__main__":
    main()
