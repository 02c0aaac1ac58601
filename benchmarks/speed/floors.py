"""Compare a step with the least possible work, on one thread; growth of time and memory."""

import os
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import bmjax
from benchmarks.process import elsewhere, peak_memory
from benchmarks.speed import clock, data
from bmjax._model import sweep as e_sweep
from bmjax._model.bound import lower_bound


def floors(quick: bool) -> list[dict[str, Any]]:
    """The E sweep against a bare sigmoid, the M step against its one product, on one core."""
    return elsewhere(__name__, f"on_one_core({quick})", {"JAX_ENABLE_X64": "1"}, timeout=600)


def on_one_core(quick: bool) -> list[dict[str, Any]]:
    """The same in this process, which uses one core from here on."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before JAX starts its threads
    repeats = 20
    rows = []
    for k, n in [(50, 1000)] if quick else [(50, 1000), (100, 2000)]:
        for dtype in (jnp.float32, jnp.float64):
            X, y, _ = data.uniform_design(1, k, n)
            options = bmjax.Problem(
                jnp.asarray(X[0].T, dtype), jnp.asarray(y[0], dtype), None, jnp.asarray(0, dtype)
            )
            state = bmjax.initialise(options, jnp.full(k, 0.5, dtype))
            residual = e_sweep.residual(options, state)

            def again(step):
                return jax.jit(lambda s: lax.fori_loop(0, repeats, lambda i, s: step(s), s))

            def bump(mask, value):  # a data dependence, so that no repeat can be optimised away
                return mask.at[0, 0].add(1e-20 * value)

            sigmoid = again(jax.nn.sigmoid)
            sweep = again(
                lambda m, p=options, s=state, r=residual: (
                    e_sweep.over_features(p, s._replace(mask_mean=m), r, 1, True).mask_mean
                )
            )
            product = again(lambda m: bump(m, jnp.sum(m @ m.T)))
            m_step = again(
                lambda m, p=options, s=state: bump(
                    m, jnp.sum(bmjax.m_step(p, s._replace(mask_mean=m)).weights)
                )
            )
            bound = again(
                lambda m, p=options, s=state: bump(m, lower_bound(p, s._replace(mask_mean=m)))
            )
            sides = [
                lambda f=f, m=state.mask_mean: f(m)
                for f in (sigmoid, sweep, product, m_step, bound)
            ]
            times = clock.in_turn(sides, 15)
            row: dict[str, Any] = {"k": k, "n": n, "type": jnp.dtype(dtype).name}
            for name, column in zip(
                ("sigmoid", "E sweep", "product", "M step", "bound"), times.T, strict=True
            ):
                row[f"{name} ns/element"] = np.median(column) / (repeats * k * n) * 1e9
            row["E sweep / sigmoid"] = np.median(times[:, 1] / times[:, 0])
            row["M step / product"] = np.median(times[:, 3] / times[:, 2])
            rows.append(row)
    return rows


def growth(quick: bool) -> list[dict[str, Any]]:
    """Time of a fit of 60 iterations, and peak memory, each case in a process of its own.

    The time includes the start and end of a fit. The easiest of the paper's designs takes 60.
    """
    cases = [("n", 50, n, 1) for n in (1_000, 10_000, 100_000, 1_000_000)]
    cases += [("k", k, 20_000, 1) for k in (10, 30, 100, 300, 1000)]
    cases += [("b", 2, 40, b) for b in (100, 1_000, 10_000, 100_000)]
    if quick:
        cases = [("n", 10, 1_000, 1), ("n", 10, 10_000, 1), ("b", 2, 40, 100), ("b", 2, 40, 1_000)]
    rows = []
    for along, k, n, b in cases:
        spent, peak = elsewhere(__name__, f"one_case({k}, {n}, {b})", {}, timeout=600)
        size = b * n * k * 4 if b == 1 else b * n * 4
        rows.append(
            {
                "along": along,
                "k": k,
                "n": n,
                "b": b,
                "s": spent,
                "peak MiB": peak / 2**20,
                "peak / input": peak / size,
            }
        )
    for along in dict.fromkeys(row["along"] for row in rows):
        chosen = [row for row in rows if row["along"] == along]
        upper = chosen[-2:] if len(chosen) > 2 else chosen  # beyond the overhead
        slope = np.log(upper[1]["s"] / upper[0]["s"]) / np.log(upper[1][along] / upper[0][along])
        for row in chosen:
            row["exponent"] = slope
    return rows


def one_case(k: int, n: int, b: int) -> tuple[float, float]:
    """Seconds and peak bytes of one case, in float32. X is made in place, no copy kept."""
    rng = np.random.default_rng(0)
    if b > 1:
        X, y = data.two_features(b)

        def run():
            return data.plain_fit_batch(
                X.astype(np.float32), y.astype(np.float32), noise_precision=200.0
            )
    else:
        X = rng.random(size=(n, k), dtype=np.float32)
        y = X[:, : k // 2].sum(axis=1) + rng.normal(size=n).astype(np.float32)
        X, y = jnp.asarray(X), jnp.asarray(y)

        def run():
            return data.plain_fit(X, y, max_steps=60, tolerance=0)

    jax.block_until_ready(run())
    begin = time.perf_counter()
    jax.block_until_ready(run())
    spent = time.perf_counter() - begin
    return spent, 1e6 * peak_memory()
