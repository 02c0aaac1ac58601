"""Run the optimum benchmark, all of it or the sections named, and write its tables.

python -m benchmarks.optimum [--quick] [SECTION ...]
"""

import argparse

import jax
import pandas as pd

jax.config.update("jax_enable_x64", True)

from benchmarks import report  # noqa: E402
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
    parser = argparse.ArgumentParser(prog="python -m benchmarks.optimum", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="small sizes, nothing saved")
    arguments = parser.parse_args()
    unknown = set(arguments.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"unknown section {sorted(unknown)}; there are {', '.join(SECTIONS)}")
    for section in arguments.sections or SECTIONS:
        table = pd.DataFrame(SECTIONS[section](arguments.quick))
        command = f"python -m benchmarks.optimum {section}"
        if not arguments.quick:
            report.save_table(report.RESULTS / f"optimum_{section}.csv", table, command)
        print(f"\n{command}")
        print(table.round(3).to_string(index=False))


if __name__ == "__main__":
    main()
