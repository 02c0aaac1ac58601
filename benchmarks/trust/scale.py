"""Measurements of scale: more devices, and more rows than fit into memory.

Each case runs in its own process, with its own devices and its own peak memory.
"""

import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

import bmjax
from benchmarks import process
from benchmarks.trust.sections import Row, Table

# --- devices ---


def devices(quick: bool) -> Table:
    """The same work on 1, 2, 4 and 8 virtual devices of a CPU."""
    n, b = (4_000, 32) if quick else (100_000, 512)
    rows = [_elsewhere(f"on_devices({d}, {n}, {b})", devices=d) for d in (1, 2, 4, 8)]
    for name in ("fit", "fit_batch"):
        coefs = [np.asarray(row.pop(f"{name}: coef")) for row in rows]
        for row, coef in zip(rows, coefs, strict=True):
            row[f"{name}: apart"] = f"{np.max(np.abs(coef - coefs[0])):.1e}"
    cores = len(os.sched_getaffinity(0))
    return Table(
        pd.DataFrame(rows),
        [
            f"{cores} cores: more devices than cores share them, so wall time can fall no further",
            "operations: what the compiler counts in the program of one device, loop bodies once",
            "apart: largest difference of a coefficient to that of one device",
        ],
    )


def on_devices(count: int, n: int, b: int) -> Row:
    """Rows of one dataset and datasets of a batch over a number of devices."""
    mesh = jax.make_mesh((count,), ("x",))
    data = bmjax.simulate.uniform_design(jax.random.key(0), 50, n=n)
    X, y = np.asarray(data.X), np.asarray(data.y)
    options = {"initial_inclusion": 0.5, "max_steps": 60, "uncertainty": False}
    one_fit = partial(bmjax.fit, X, y, mesh=mesh, **options)
    keys = [jax.random.key(seed) for seed in range(b)]
    sets = [bmjax.simulate.uniform_design(key, 10, n=200) for key in keys]
    Xs, ys = np.stack([d.X for d in sets]), np.stack([d.y for d in sets])
    batch = partial(bmjax.fit_batch, Xs, ys, initial_inclusion=0.5, width=1, mesh=mesh)
    row: Row = {"devices": count, "n": n, "datasets": b}
    for name, call in (("fit", one_fit), ("fit_batch", batch)):
        first = jax.block_until_ready(call())
        seconds = []
        for _ in range(3):
            began = time.perf_counter()
            jax.block_until_ready(call())
            seconds.append(time.perf_counter() - began)
        row[f"{name}: seconds"] = float(np.median(seconds))
        row[f"{name}: coef"] = np.asarray(first.coef).tolist()
        if name == "fit_batch":
            # Device i has datasets i, i + d, ...; its work is the iterations of those.
            steps = [int(np.sum(np.asarray(first.num_steps)[i::count])) for i in range(count)]
            row["fit_batch: most iterations on a device"] = max(steps)
    row |= _operations(count, X, y)
    return row


def _operations(count: int, X: np.ndarray, y: np.ndarray) -> Row:
    """The compiler's count of the work of one device in a fit of rows."""
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    rows = NamedSharding(Mesh(np.array(jax.devices()[:count]), ("x",)), PartitionSpec("x"))

    def plain(X: Any, y: Any) -> Any:
        return bmjax.fit(X, y, initial_inclusion=0.5, uncertainty=False).coef

    program = jax.jit(plain, in_shardings=rows).lower(X, y).compile()
    cost = program.cost_analysis()
    assert cost is not None
    return {
        "fit: floating-point operations": cost["flops"],
        "fit: transcendental operations": cost["transcendentals"],
    }


# --- streamed ---


def streamed(quick: bool) -> Table:
    """Fits to rows on disk, and the memory they use."""
    sizes = (2_000, 10_000) if quick else (100_000, 1_000_000, 10_000_000)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for n in sizes:
            write_rows(Path(folder), n)
            rows.append(_elsewhere(f"stream({folder!r}, whole=False)"))
        write_rows(Path(folder), 2_000 if quick else 20_000)
        rows.append(_elsewhere(f"stream({folder!r}, whole=True)"))
        rows.append(_elsewhere(f"in_memory({folder!r})"))
    found = [row.pop("coef") for row in rows[-2:]]
    apart = float(np.max(np.abs(np.subtract(*found))))
    same = bool(np.array_equal(*(np.asarray(coef) != 0 for coef in found)))
    return Table(
        pd.DataFrame([{k: v for k, v in row.items() if k != "coef"} for row in rows]),
        [
            "k = 50, X float32 on disk, all arithmetic float64; the first rows end after 6 "
            "iterations, the last two are whole default fits of the same data",
            f"whole fits: {'the same' if same else 'NOT the same'} support, largest difference of "
            f"a coefficient {apart:.1e}",
            "peak memory: of the process, with Python, JAX and the compiler",
        ],
    )


def write_rows(folder: Path, n: int, k: int = 50) -> None:
    """A dataset of the paper's design, written block by block."""
    rng = np.random.default_rng(0)
    weights = np.where(np.arange(k) % 2, rng.uniform(size=k), 0).astype(np.float32)
    kinds: dict[str, Any] = {"mode": "w+", "dtype": np.float32}
    X = np.lib.format.open_memmap(folder / "X.npy", shape=(n, k), **kinds)
    y = np.lib.format.open_memmap(folder / "y.npy", shape=(n,), **kinds)
    for begin in range(0, n, 100_000):
        rows = rng.random((min(100_000, n - begin), k), dtype=np.float32)
        noise = rng.standard_normal(len(rows), dtype=np.float32)
        X[begin : begin + len(rows)] = rows
        y[begin : begin + len(rows)] = rows @ weights + np.sqrt(np.float32(0.2)) * noise
    X.flush()
    y.flush()


def _mapped(folder: str) -> tuple[np.ndarray, np.ndarray]:
    X, y = (np.load(Path(folder) / f"{name}.npy", mmap_mode="r") for name in "Xy")
    return X, y


def stream(folder: str, whole: bool) -> Row:
    """A fit from disk, or six iterations of one."""
    X, y = _mapped(folder)
    options: dict[str, Any] = {} if whole else {"starts": 1, "moves": 0, "max_steps": 6}
    return _timed("fit_stream", X, lambda: bmjax.fit_stream((X, y), **options))


def in_memory(folder: str) -> Row:
    """The same fit with all rows in memory, as float64."""
    jax.config.update("jax_enable_x64", True)
    X, y = (np.asarray(array, float) for array in _mapped(folder))
    return _timed("fit", X, lambda: bmjax.fit(X, y))


def _timed(name: str, X: np.ndarray, call: Any) -> Row:
    began = time.perf_counter()
    result = jax.block_until_ready(call())
    seconds = time.perf_counter() - began
    return {
        "call": name,
        "n": len(X),
        "X in MB": X.size * 4 / 1e6,
        "peak memory MB": process.peak_memory(),
        "iterations": int(result.num_steps),
        "seconds, with compiling": seconds,
        "status": bmjax.Status(int(result.status)).name,
        "kept": int(np.sum(result.support)),
        "coef": np.asarray(result.coef, float).tolist(),
    }


def _elsewhere(call: str, devices: int = 1) -> Row:
    """The return value of a function of this module, called in its own process."""
    variables = {
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "JAX_ENABLE_X64": str(int("stream" not in call)),
    }
    return process.elsewhere("benchmarks.trust.scale", call, variables)
