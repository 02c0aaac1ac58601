"""Run the speed benchmark, all of it or some sections, and write its tables and pictures.

python -m benchmarks.speed [--quick] [SECTION ...]
"""

import os

# Both sides get the same threads: as many as there are cores.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, str(len(os.sched_getaffinity(0))))
# A section may start processes of its own, which need the accelerator's memory too.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax  # noqa: E402 the thread counts above are read at import
import pandas as pd  # noqa: E402

jax.config.update("jax_enable_x64", True)

from benchmarks import command, report  # noqa: E402
from benchmarks.speed import (  # noqa: E402
    first_call,
    floors,
    gpu,
    loops,
    pictures,
    rivals,
    shapes,
    shared,
    tall,
    wide,
)

SECTIONS = {
    "reference": rivals.against_reference,
    "estimators": rivals.against_estimators,
    "vmap": rivals.against_vmap,
    "precisions": rivals.precisions,
    "floors": floors.floors,
    "growth": floors.growth,
    "first_call": first_call.first_call,
    "wide": wide.wide,
    "wide_memory": wide.wide_memory,
    "tall": tall.tall,
    "shared_design": shared.shared_design,
    "loops": loops.loops,
    "shapes": shapes.shapes,
    "gpu": gpu.gpu,
}


def main() -> None:
    """Run, print, save, draw."""
    made = command.sections("speed", __doc__, SECTIONS)
    if not gpu.present():
        print("no GPU here: all figures are of the CPU")
    for section, rows, line, quick in made:
        if not rows:  # there is no device to measure it on
            continue
        table = pd.DataFrame(rows)
        if not quick:
            origin = report.save_table(report.RESULTS / f"speed_{section}.csv", table, line)
            report.draw(f"speed_{section}", pictures.PAINTERS.get(section), table, origin)
        print(table.round(3).T.to_string(header=False))


if __name__ == "__main__":
    main()
