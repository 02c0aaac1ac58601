"""Run the benchmark of `posterior`, all of it or some sections, and write its tables.

python -m benchmarks.posterior [--quick] [SECTION ...]
"""

import jax
import pandas as pd

jax.config.update("jax_enable_x64", True)

from benchmarks import command, report  # noqa: E402
from benchmarks.posterior import sections  # noqa: E402

SECTIONS = {
    "paper": sections.paper,
    "calibration": sections.calibration,
    "chains": sections.chains,
    "time": sections.seconds,
}


def main() -> None:
    """Run, print, save."""
    for section, rows, line, quick in command.sections("posterior", __doc__, SECTIONS):
        report.publish(f"posterior_{section}", pd.DataFrame(rows), line, quick)


if __name__ == "__main__":
    main()
