"""Run the trust benchmark, all of it or some sections, and write its tables.

python -m benchmarks.trust [--quick] [SECTION ...]
"""

import jax

jax.config.update("jax_enable_x64", True)

from benchmarks import command, report  # noqa: E402
from benchmarks.trust import pictures, scale, sections  # noqa: E402

SECTIONS = {
    "inputs": sections.inputs,
    "crashes": sections.crashes,
    "largest": sections.largest,
    "devices": scale.devices,
    "streamed": scale.streamed,
}


def main() -> None:
    """Run, print, save."""
    for section, (table, remarks), line, quick in command.sections("trust", __doc__, SECTIONS):
        origin = report.publish(f"trust_{section}", table, line, quick, remarks)
        if origin is not None:
            report.draw(f"trust_{section}", pictures.PAINTERS.get(section), table, origin)


if __name__ == "__main__":
    main()
