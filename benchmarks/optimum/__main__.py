"""Run the optimum benchmark, all of it or some sections, and write its tables.

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
    "grid": sections.grid,
}


def main() -> None:
    """Run, print, save."""
    for section, rows, line, quick in command.sections("optimum", __doc__, SECTIONS):
        report.publish(f"optimum_{section}", pd.DataFrame(rows), line, quick)


if __name__ == "__main__":
    main()
