"""The same batches on an accelerator and on its host's CPU, each in its own process."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.process import elsewhere
from benchmarks.speed import clock, data

TURNS = 3
# Features, samples and datasets; two features stand for the paper's first experiment.
CASES = [(2, 40, 10_000), (10, 200, 2_000), (50, 1_000, 500), (50, 100_000, 1)]
QUICK = [(2, 40, 500), (10, 200, 20)]


def present() -> bool:
    """Whether JAX has a device other than a CPU."""
    return any(device.platform != "cpu" for device in jax.devices())


def gpu(quick: bool) -> list[dict[str, Any]]:
    """One fit per dataset from 0.5 on both devices in turn; float32, without compile time."""
    if not present():
        print("no GPU here")
        return []
    return compared(QUICK if quick else CASES, {"accelerator": {}, "CPU": {"JAX_PLATFORMS": "cpu"}})


def compared(
    cases: list[tuple[int, int, int]], sides: dict[str, dict[str, str]]
) -> list[dict[str, Any]]:
    """The cases on both sides, each a set of environment variables, the first the faster one."""
    rows = []
    for case in cases:
        turns: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
        for _ in range(TURNS):
            for side, variables in sides.items():
                turns[side].append(elsewhere(__name__, f"one_case{case}", variables, timeout=600))
        first, second = (turns[side] for side in sides)
        ratios = [b["s"] / a["s"] for a, b in zip(first, second, strict=True)]
        row = dict(zip(("k", "n", "datasets"), case, strict=True))
        for side, runs in turns.items():
            row |= {f"{side} s": float(np.median([run["s"] for run in runs]))}
            row |= {f"{side} {name}": runs[0][name] for name in ("bound", "F1", "converged")}
            row |= {f"{side} useful lane-steps": runs[0]["useful"], side: runs[0]["device"]}
        median, lowest, highest = clock.spread(np.array(ratios))
        rows.append(row | {"ratio": median, "lowest": lowest, "highest": highest})
    return rows


def one_case(k: int, n: int, b: int) -> dict[str, Any]:
    """A batch on JAX's device: time of a second call, and the quality reached."""
    options: dict[str, Any] = {}
    if k == 2:
        X, y = data.two_features(b)
        weights = np.tile([0.0, 1.0], (b, 1))
        options["noise_precision"] = 200.0
    else:
        X, y, weights = data.uniform_design(b, k, n)
    X, y = X.astype(np.float32), y.astype(np.float32)
    spent = clock.in_turn([lambda: data.plain_fit_batch(X, y, **options)], 1)[0, 0]
    r = data.plain_fit_batch(X, y, **options)
    assert r.lane_steps is not None
    return {
        "s": spent,
        "device": jax.devices()[0].device_kind,
        "bound": float(jnp.mean(r.bound)),
        "F1": float(data.f1_of_pruning(np.asarray(r.support), weights).mean()),
        "converged": float(jnp.mean(r.converged)),
        "useful": r.lane_steps.useful / r.lane_steps.total,
    }
