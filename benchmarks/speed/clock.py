"""Timing that can be trusted on a shared machine, and results that say where they come from.

Both sides of a comparison run in one process, in turn, after a first call each that is not
counted; the device is waited for; ratios are taken turn by turn and their median is quoted.
"""

import datetime
import os
import platform
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

RESULTS = Path(__file__).parent.parent / "results"


def seconds(run: Callable[[], Any]) -> float:
    """Wall time of one call, the device waited for."""
    begin = time.perf_counter()
    jax.block_until_ready(run())
    return time.perf_counter() - begin


def in_turn(sides: Sequence[Callable[[], Any]], turns: int, warm_up: bool = True) -> np.ndarray:
    """Seconds of each side in each turn, shape (turns, sides): A B A B ..."""
    if warm_up:
        for side in sides:
            jax.block_until_ready(side())
    return np.array([[seconds(side) for side in sides] for _ in range(turns)])


def spread(values: np.ndarray) -> tuple[float, float, float]:
    """Median, lowest and highest."""
    return float(np.median(values)), float(np.min(values)), float(np.max(values))


def environment() -> dict[str, str]:
    """Versions, device and date, to stand beside every figure."""

    def installed(package: str) -> str:
        try:
            return f"{package} {version(package)}"
        except PackageNotFoundError:
            return f"{package} absent"

    packages = ("bmjax", "jax", "jaxlib", "numpy", "scikit-learn", "abess")
    return {
        "versions": ", ".join(installed(p) for p in packages),
        "python": platform.python_version(),
        "device": f"{jax.devices()[0].device_kind}, {len(os.sched_getaffinity(0))} cores",
        "date": datetime.date.today().isoformat(),
    }


def save(name: str, rows: list[dict[str, Any]], command: str) -> pd.DataFrame:
    """Write a section's rows as CSV, with the command and the environment in every row."""
    RESULTS.mkdir(exist_ok=True)
    table = pd.DataFrame(rows)
    table.assign(command=command, **environment()).to_csv(
        RESULTS / f"speed_{name}.csv", index=False
    )
    return table
