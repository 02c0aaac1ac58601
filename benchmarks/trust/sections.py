"""Measurements of reliability: bad inputs, kills, size. Each section has a table and remarks."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd

import bmjax
from benchmarks.process import peak_memory

Row = dict[str, Any]
Data = tuple[Any, Any]


class Table(NamedTuple):
    """The result of a section.

    Attributes:
        table: One row for each case.
        remarks: Remarks on all of them.
    """

    table: pd.DataFrame
    remarks: list[str]


# --- inputs ---


def _clean(rng: np.random.Generator, n: int = 40, k: int = 6) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, max(k, 2)))
    return X[:, :k], X[:, 0] - 2 * X[:, 1] + 0.5 * rng.normal(size=n)


def _changed(change: Callable[[np.ndarray, np.ndarray], Any], n: int = 40, k: int = 6) -> Any:
    """Clean data that a function changes in place, or replaces."""

    def make(rng: np.random.Generator) -> Data:
        X, y = _clean(rng, n, k)
        other = change(X, y)
        return (X, y) if other is None else other

    return make


def _put(array: str, place: Any, value: Any) -> Any:
    def change(X: np.ndarray, y: np.ndarray) -> None:
        (X if array == "X" else y)[place] = value

    return _changed(change)


INPUTS: dict[str, Callable[[np.random.Generator], Data]] = {
    "clean": _clean,
    "NaN in X": _put("X", (3, 1), np.nan),
    "NaN in y": _put("y", 5, np.nan),
    "inf in X": _put("X", (3, 1), np.inf),
    "-inf in y": _put("y", 5, -np.inf),
    "all of X NaN": _put("X", slice(None), np.nan),
    "y constant": _put("y", slice(None), 3.0),
    "y zero": _put("y", slice(None), 0.0),
    "X zero": _put("X", slice(None), 0.0),
    "X and y zero": _changed(lambda X, y: (0 * X, 0 * y)),
    "a zero column": _put("X", (slice(None), 1), 0.0),
    "a constant column": _put("X", (slice(None), 2), 1.0),
    "duplicate of a true column": _changed(lambda X, y: (X[:, [0, 1, 0, 1, 4, 5]], y)),
    "duplicate but for 1e-7": _changed(
        lambda X, y: (np.column_stack([X[:, :5], X[:, 0] + 1e-7 * X[:, 5]]), y)
    ),
    "all columns the same": _changed(lambda X, y: (X[:, [0] * 6], y)),
    "y is a column": _changed(lambda X, y: (X, X[:, 3])),
    "no noise": _changed(lambda X, y: (X, X @ np.arange(6.0))),
    "X times 1e30": _changed(lambda X, y: (X * 1e30, y)),
    "X times 1e-30": _changed(lambda X, y: (X * 1e-30, y)),
    "y times 1e30": _changed(lambda X, y: (X, y * 1e30)),
    "y times 1e-30": _changed(lambda X, y: (X, y * 1e-30)),
    "columns from 1e-12 to 1e12": _changed(lambda X, y: (X * np.logspace(-12, 12, 6), y)),
    "columns at 1e8": _changed(lambda X, y: (X + 1e8, y)),
    "one row 1e6 times the rest": _changed(
        lambda X, y: (X * np.where(np.arange(40) == 7, 1e6, 1)[:, None], y)
    ),
    "1e300": _put("X", (3, 1), 1e300),
    "small integers": _changed(lambda X, y: (np.rint(X), np.rint(y))),
    "integer type": _changed(lambda X, y: (np.rint(9 * X).astype(int), np.rint(9 * y).astype(int))),
    "0 and 1": _changed(lambda X, y: (np.asarray(X > 0), np.asarray(y > 0))),
    "n < k": lambda rng: _clean(rng, 6, 9),
    "n = k": lambda rng: _clean(rng, 9, 9),
    "n = 2": lambda rng: _clean(rng, 2, 3),
    "k = 1": _changed(lambda X, y: (X[:, :1], y)),
    "n = 1": _changed(lambda X, y: (X[:1], y[:1])),
    "no column": _changed(lambda X, y: (X[:, :0], y)),
    "y too short": _changed(lambda X, y: (X, y[:-1])),
    "X of one axis": _changed(lambda X, y: (X[:, 0], y)),
    "text": _changed(lambda X, y: (X.astype(str), y)),
    "complex": _changed(lambda X, y: (X + 1j, y)),
    "None": _changed(lambda X, y: (X, None)),
}


def inputs(quick: bool) -> Table:
    """Bad and hard inputs, each in a single fit and as the middle one of a batch of three."""
    names = ["clean", "NaN in X", "y zero", "text"] if quick else list(INPUTS)
    rows = []
    with np.errstate(over="ignore"):
        for dtype in ("float32", "float64"):
            for name in names:
                rows.append(_one_input(name, dtype))
    return Table(pd.DataFrame(rows), _verdicts(rows))


def _verdicts(rows: list[Row]) -> list[str]:
    """A summary of the table."""
    compared = [row["neighbours"] for row in rows if row["neighbours"]]
    silent = [
        f"{row['input']} ({row['type']})"
        for row in rows
        for ending, finite in (("fit", "finite"), ("in a batch", "finite in a batch"))
        if row[finite] == "no" and not row[ending].startswith("NON_FINITE")
    ]
    kept = {row["type"]: row["fit"] for row in rows if row["input"] == "clean"}
    wrong = [
        f"{row['input']} ({row['type']}): {row['fit']}"
        for row in rows
        if row["input"].startswith(("X times", "y times")) and row["finite"] == "yes"
        if row["fit"] != kept[row["type"]]
    ]
    return [
        f"neighbours bit-equal: {compared.count('bit-equal')} of {len(compared)}",
        f"not finite and not said: {'; '.join(silent) or 'none'}",
        f"other units, another answer, and not said: {'; '.join(wrong) or 'none'}",
    ]


def _one_input(name: str, dtype: str) -> Row:
    X, y = INPUTS[name](np.random.default_rng(0))
    if isinstance(X, np.ndarray) and X.dtype == float:
        X = X.astype(dtype)
    if isinstance(y, np.ndarray) and y.dtype == float:
        y = y.astype(dtype)
    alone, finite = _ending(lambda: bmjax.fit(X, y))
    row: Row = {
        "input": name,
        "type": dtype,
        "fit": alone,
        "finite": finite,
        "in a batch": "",
        "finite in a batch": "",
        "neighbours": "",
    }
    try:
        clean = [_clean(np.random.default_rng(seed), *X.shape) for seed in (1, 2, 3)]
        Xs = np.stack([data[0] for data in clean]).astype(X.dtype)
        ys = np.stack([data[1] for data in clean]).astype(y.dtype)
        other_Xs, other_ys = Xs.copy(), ys.copy()
        other_Xs[1], other_ys[1] = X, y
    except (TypeError, ValueError, AttributeError):
        # Data that cannot be stacked with others: the batch gets them as they are.
        row["in a batch"], _ = _ending(lambda: bmjax.fit_batch(X, y))
        return row
    row["in a batch"], row["finite in a batch"] = _ending(
        lambda: jax.tree.map(lambda leaf: leaf[1], _batch(other_Xs, other_ys))
    )
    if row["finite in a batch"]:
        before, after = _batch(Xs, ys), _batch(other_Xs, other_ys)
        same = all(
            np.asarray(a)[i].tobytes() == np.asarray(b)[i].tobytes()
            for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
            for i in (0, 2)
        )
        row["neighbours"] = "bit-equal" if same else "differ"
    return row


def _batch(Xs: Any, ys: Any) -> bmjax.Result:
    return bmjax.fit_batch(Xs, ys)._replace(lane_steps=None)


def _ending(call: Callable[[], bmjax.Result]) -> tuple[str, str]:
    """How a call ended, and whether all its numbers are finite."""
    try:
        result = call()
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}", ""
    status = bmjax.Status(int(result.status))
    numbers = (
        result.coef,
        result.weights,
        result.inclusion,
        result.intercept,
        result.noise_precision,
        result.bound,
    )
    finite = all(np.isfinite(np.asarray(values)).all() for values in numbers)
    return f"{status.name}, {int(np.sum(result.support))} kept", "yes" if finite else "no"


# --- crashes ---

_CHUNKS = 40


def run_study(folder: str, output: str, chunk: int) -> None:
    """The study that is killed; the other process runs this."""
    study = bmjax.monte_carlo(
        bmjax.simulate.two_features,
        {"BM": partial(bmjax.fit, initial_inclusion=0.5)},
        jax.random.key(0),
        _CHUNKS * chunk,
        chunk=chunk,
        checkpoint=folder,
        progress=False,
    )
    found = study.outcomes["BM"]
    assert found.status is not None
    np.savez(output, truth=study.truth, coef=found.coef, support=found.support, status=found.status)


def _begin(folder: Path, output: Path, chunk: int) -> subprocess.Popen[bytes]:
    code = (
        "import jax; jax.config.update('jax_enable_x64', True); "
        "from benchmarks.trust.sections import run_study; "
        f"run_study({os.fspath(folder)!r}, {os.fspath(output)!r}, {chunk})"
    )
    return subprocess.Popen([sys.executable, "-c", code])


def _on_disk(folder: Path) -> dict[str, int]:
    """The finished chunks and when each was written."""
    return {place.name: place.stat().st_mtime_ns for place in sorted(folder.glob("*.npz"))}


def crashes(quick: bool) -> Table:
    """A study killed at random times and run again until it is done."""
    kills, chunk = (3, 200) if quick else (20, 2000)
    rng = np.random.default_rng(0)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        whole, broken = room / "whole", room / "broken"
        began = time.time()
        if _begin(whole, room / "whole.npz", chunk).wait():
            raise RuntimeError("the study that was left alone failed")
        written = np.array(list(_on_disk(whole).values())) / 1e9 - began
        startup, pace = float(written[0]), float(np.mean(np.diff(written)))
        for number in range(kills):
            before = _on_disk(broken)
            # One kill in four falls before the first chunk of a run, the others after it.
            early = number % 4 == 3
            wait = rng.uniform(0, startup if early else 2 * pace)
            process = _begin(broken, room / "broken.npz", chunk)
            while not early and process.poll() is None and len(_on_disk(broken)) == len(before):
                time.sleep(0.005)
            try:
                ended = process.wait(wait)
            except subprocess.TimeoutExpired:
                process.kill()  # SIGKILL
                ended = process.wait()
            after = _on_disk(broken)
            rows.append(
                {
                    "kill": number + 1,
                    "seconds": wait,
                    "after": "the start" if early else "a chunk",
                    "exit": ended,
                    "chunks before": len(before),
                    "chunks after": len(after),
                    "finished chunks lost or rewritten": sum(
                        after.get(chunk_name) != when for chunk_name, when in before.items()
                    ),
                    "partial files left": len(list(broken.glob(".*"))) if broken.exists() else 0,
                }
            )
        before = _on_disk(broken)
        if _begin(broken, room / "broken.npz", chunk).wait():
            raise RuntimeError("the study that was killed did not go on")
        after = _on_disk(broken)
        lost = sum(row["finished chunks lost or rewritten"] for row in rows)
        lost += sum(after.get(chunk_name) != when for chunk_name, when in before.items())
        with np.load(room / "whole.npz") as a, np.load(room / "broken.npz") as b:
            same = a.files == b.files and all(a[x].tobytes() == b[x].tobytes() for x in a.files)
        killed = sum(row["exit"] == -9 for row in rows)
        return Table(
            pd.DataFrame(rows),
            [
                f"kills survived: {killed}; finished chunks lost or rewritten: {lost}",
                f"chunks made by the last run: {len(after) - len(before)} of {len(after)}",
                f"result bit-equal to that of the study left alone: {'yes' if same else 'no'}",
                f"{_CHUNKS} chunks of {chunk} datasets; first chunk after {startup:.2f} s, then "
                f"{pace:.2f} s a chunk",
            ],
        )


# --- largest ---

_METHODS: dict[str, Any] = {
    "fit_batch": bmjax.batched(lambda X, y: bmjax.fit_batch(X, y, initial_inclusion=0.5)),
    "fit": partial(bmjax.fit, initial_inclusion=0.5, uncertainty=False),
}


def largest(quick: bool) -> Table:
    """Studies saved on disk as they run, the large one by the faster method."""
    rows = [_large(name, 10_000) for name in _METHODS]
    if not quick:
        faster = min(rows, key=lambda row: row["of these in the method"])["method"]
        rows.append(_large(faster, 1_000_000))
    return Table(pd.DataFrame(rows), ["two features, n = 40, one fit a dataset from 0.5"])


def _large(name: str, repeats: int) -> Row:
    with tempfile.TemporaryDirectory() as folder:

        def run() -> tuple[bmjax.Study, float]:
            began = time.perf_counter()
            study = bmjax.monte_carlo(
                bmjax.simulate.two_features,
                {name: _METHODS[name]},
                jax.random.key(0),
                repeats,
                checkpoint=folder,
                progress=False,
            )
            return study, time.perf_counter() - began

        study, seconds = run()
        _, again = run()
        files = [place.stat().st_size for place in Path(folder).iterdir()]
    spent = study.outcomes[name].seconds
    status = study.outcomes[name].status
    assert status is not None
    return {
        "method": name,
        "datasets": repeats,
        "seconds": seconds,
        "of these compiling the method": spent.compile,
        "of these in the method": spent.run,
        "datasets per second": repeats / seconds,
        "seconds to read it again": again,
        "files": len(files),
        "MB on disk": sum(files) / 1e6,
        "largest file kB": max(files) / 1e3,
        "peak memory MB": peak_memory(),
        "converged": np.mean(status == bmjax.Status.CONVERGED),
        "F1 of pruning": study.mean(name, "f1").mean,
    }
