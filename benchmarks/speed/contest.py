"""Run sides that take turns in their own process, each call under a time limit.

A side that takes too long, asks for more memory than there is, or crashes the process is dropped,
and the others start again without it. So all figures of a side come from one process, and a rival
that may take hours costs no more than its limit. Sides that compile have a first call that is
reported separately; nothing is cached on disk. `together` runs all sides in one process, turn by
turn; `apart` gives each its own process, if peak memory is needed. `CPU s` counts all threads of
that process, but not workers that it starts; the sides have the same cores and the same
`OMP_NUM_THREADS`.
"""

import importlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks import process

Runs = dict[str, "Run"]
NO_CACHE = {"JAX_ENABLE_COMPILATION_CACHE": "false"}


class Case(NamedTuple):
    """The task, and the sides that do it.

    Attributes:
        draw: Returns the input for every side in a turn, and the truth. Not timed.
        sides: Functions of the input, by name.
        score: Returns numbers from a result and the truth. Not timed.
        compiled: The sides that have a separate first call.
        parts: The share of the work that a side does, if not all; seconds are scaled up.
    """

    draw: Callable[[int], tuple[tuple[Any, ...], Any]]
    sides: Mapping[str, Callable[..., Any]]
    score: Callable[[Any, Any], dict[str, float]]
    compiled: Collection[str] = ()
    parts: Mapping[str, float] = {}


@dataclass
class Run:
    """The calls of one side: the first, if it compiles, the others, and why it ended."""

    first: dict[str, Any] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)
    ended: str = ""

    def values(self, name: str) -> np.ndarray:
        """A measured number for each call but the first; NaN if there was none."""
        return np.array([call[name] for call in self.calls] or [np.nan], float)

    def last(self, name: str) -> float:
        """A measured number after the last call."""
        calls = [call for call in (self.first, *self.calls) if call]
        return calls[-1][name] if calls else np.nan


def selection(result: Any, truth: np.ndarray) -> dict[str, float]:
    """Compare the kept features with the truth; for a batch, return means.

    Args:
        result: The result of a fit, or coefficients that are 0 if pruned, (k,) or (b, k).
        truth: The true effects.

    Returns:
        F1 of the features kept and of those pruned, how many were falsely kept and missed, and
        iterations (NaN if the result does not report them).
    """
    kept = np.asarray(getattr(result, "support", result)) != 0
    real = truth[: len(kept)] != 0 if kept.ndim == 2 else truth != 0
    return {
        "F1": _f1(kept, real),
        "F1 of pruning": _f1(~kept, ~real),
        "false": float((kept & ~real).sum(axis=-1).mean()),
        "missed": float((~kept & real).sum(axis=-1).mean()),
        "steps": float(np.median(np.asarray(getattr(result, "num_steps", np.nan)))),
    }


def _f1(named: np.ndarray, sought: np.ndarray) -> float:
    # In NumPy: JAX would compile for every shape, in a process whose memory is measured.
    hits, all_of_both = (named & sought).sum(axis=-1), named.sum(axis=-1) + sought.sum(axis=-1)
    return float(np.mean(np.where(all_of_both == 0, 1, 2 * hits / np.maximum(all_of_both, 1))))


def play(
    module: str, maker: str, arguments: Sequence[Any], names: Sequence[str], turns: int
) -> Iterator[dict[str, Any]]:
    """In the process of the sides: yield the side before a call, and its costs after it."""
    process.cap_memory()
    case: Case = getattr(importlib.import_module(module), maker)(*arguments)
    for turn in range(-1, turns):
        for name in names:
            if turn < 0 and name not in case.compiled:
                continue
            yield {"side": name}
            given, truth = case.draw(max(turn, 0))
            cpu, begin = time.process_time(), time.perf_counter()
            result = jax.block_until_ready(case.sides[name](*given))
            spent = time.perf_counter() - begin, time.process_time() - cpu
            part = case.parts.get(name, 1)
            measured = {
                "turn": turn,
                "s": spent[0] / part,
                "CPU s": spent[1] / part,
                "peak MB": process.peak_memory(),
                "resident MB": process.resident_memory(),
                "maps": process.memory_maps(),
                **case.score(result, truth),
            }
            del given, truth, result  # before the next data are drawn, because memory is measured
            yield measured


def together(
    module: str,
    maker: str,
    arguments: Sequence[Any],
    names: Sequence[str],
    turns: int,
    *,
    limit: float,
    total: float = float("inf"),
    double: bool = True,
) -> Runs:
    """Let the sides take turns in one process.

    Args:
        module: The module of the maker.
        maker: The function that makes the `Case`.
        arguments: Its arguments, numbers and text.
        names: The sides that take part, in order.
        turns: Number of turns, not counting the first call.
        limit: Maximum number of seconds of a call, with the drawing of its data.
        total: Maximum number of seconds of a process.
        double: Whether JAX uses float64.

    Returns:
        The calls of each side.
    """
    variables = {**NO_CACHE, "JAX_ENABLE_X64": "1" if double else "0"}
    left, done = list(names), {}
    while left:
        runs = {name: Run() for name in left}
        call = f"play({module!r}, {maker!r}, {tuple(arguments)}, {left}, {turns})"
        side = None
        try:
            for item in process.item_by_item(__name__, call, variables, limit, total):
                if "side" in item:
                    side = item["side"]
                elif side is not None and item["turn"] < 0:
                    runs[side].first = item
                elif side is not None:
                    runs[side].calls.append(item)
        except (TimeoutError, ChildProcessError) as error:
            if side is None:  # not even started: a fault of the benchmark
                raise
            runs[side].ended = str(error)
            done[side] = runs[side]
            left.remove(side)
        else:
            done |= runs
            break
    return {name: done[name] for name in names}


def apart(
    module: str,
    maker: str,
    arguments: Sequence[Any],
    names: Sequence[str],
    turns: int,
    **options: Any,
) -> Runs:
    """The same, with each side in its own process, one after another."""
    return {
        name: together(module, maker, arguments, [name], turns, **options)[name] for name in names
    }


def row(runs: Runs, scores: Sequence[str]) -> dict[str, Any]:
    """Time and quality of each side, and the ratio of the rivals' times to the first side's."""
    ours = next(iter(runs.values()))
    columns: dict[str, Any] = {}
    for name, run in runs.items():
        if run.first:
            columns[f"{name} first s"] = run.first["s"]
        columns[f"{name} s"] = np.median(run.values("s"))
        columns[f"{name} CPU s"] = np.median(run.values("CPU s"))
        if run is not ours:
            turns = min(len(run.values("s")), len(ours.values("s")))
            ratios = run.values("s")[:turns] / ours.values("s")[:turns]
            columns[f"{name} ratio"] = np.median(ratios)
        columns |= {f"{name} {score}": np.mean(run.values(score)) for score in scores}
    ended = [f"{name}: {run.ended}" for name, run in runs.items() if run.ended]
    return columns | {"unfinished": "; ".join(ended)}


def memory(runs: Runs, size: float) -> dict[str, Any]:
    """Peak memory of each side, and its excess over the first side's, in multiples of X.

    Args:
        runs: The sides; the first one only makes X.
        size: Size of X, in MB.
    """
    idle, *others = runs.items()
    columns: dict[str, Any] = {"X MB": size, f"{idle[0]} peak MB": idle[1].last("peak MB")}
    for name, run in others:
        peak = run.last("peak MB")
        columns[f"{name} peak MB"] = peak
        columns[f"{name} peak / X"] = peak / size
        columns[f"{name} above {idle[0]} / X"] = (peak - idle[1].last("peak MB")) / size
    return columns
