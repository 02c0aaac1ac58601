"""Timing that can be trusted on a shared machine.

Both sides of a comparison run in one process and take turns, after one call of each that is not
counted. Timing waits for the device. Ratios are taken turn by turn, and their median is reported.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np


def seconds(run: Callable[[], Any]) -> float:
    """Wall time of one call, including the wait for the device."""
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
