"""Run the practice benchmark, all of it or some sections, and write its tables.

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
    for _, tables, line, quick in command.sections("practice", __doc__, SECTIONS):
        for name, table in tables.items():
            report.publish(f"practice_{name}", table, line, quick)


if __name__ == "__main__":
    main()
