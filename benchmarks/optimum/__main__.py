"""Run the optimum benchmark, all of it or the sections named, and write its tables.

python -m benchmarks.optimum [--quick] [SECTION ...]
"""

import jax
import pandas as pd

jax.config.update("jax_enable_x64", True)

from benchmarks import command, report  # noqa: E402
from benchmarks.optimum import sections  # noqa: E402

SECTIONS = {
    "paper": sections.paper,
    "strong": sections.strong,
    "wide": sections.wide,
    "chain": sections.chain,
    "permuted": sections.permuted,
    "enumeration": sections.enumeration,
    "cost": sections.cost,
    "calibration": sections.calibration,
    "grid": sections.grid,
}


def main() -> None:
    """Run, print, save."""
    arguments = command.parse(
        "benchmarks.optimum",
        __doc__,
        "section",
        tuple(SECTIONS),
        {"quick": "small sizes, nothing saved"},
    )
    for section in arguments.chosen:
        table = pd.DataFrame(SECTIONS[section](arguments.quick))
        line = f"python -m benchmarks.optimum {section}"
        if not arguments.quick:
            report.save_table(report.RESULTS / f"optimum_{section}.csv", table, line)
        print(f"\n{line}")
        print(table.round(3).to_string(index=False))


if __name__ == "__main__":
    main()
