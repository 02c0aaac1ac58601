"""Cost of a process that imports, compiles and fits once, with and without a disk cache.

It imports nothing that the package would have to import, because that is timed.
"""

import statistics
import tempfile
import time
from typing import Any

from benchmarks import process


def first_call(quick: bool) -> list[dict[str, Any]]:
    """The default fit at n = 200, k = 10, in fresh processes."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        cached = {
            "JAX_ENABLE_COMPILATION_CACHE": "true",
            "JAX_COMPILATION_CACHE_DIR": folder,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
        for name, variables in [
            ("no cache", {"JAX_ENABLE_COMPILATION_CACHE": "false"}),
            ("filling the cache", cached),
            ("from the cache", cached),
        ]:
            runs = [
                process.elsewhere(__name__, "in_this_process()", variables, timeout=300)
                for _ in range(1 if name == "filling the cache" or quick else 3)
            ]
            medians = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
            rows.append({"case": name, **medians})
    return rows


def in_this_process() -> dict[str, float]:
    """Import, then fit two datasets of one shape: wall and CPU seconds, and memory maps."""
    taken = {}

    def step(name, run):
        maps, cpu, begin = process.memory_maps(), time.process_time(), time.perf_counter()
        result = run()
        taken[f"{name} s"] = time.perf_counter() - begin
        taken[f"{name} CPU s"] = time.process_time() - cpu
        taken[f"{name} maps"] = process.memory_maps() - maps
        return result

    def load():
        import bmjax

        return bmjax

    bmjax = step("import", load)
    import jax

    from benchmarks.speed import contest, data

    for name, seed in (("first fit", 0), ("next fit", 1)):
        X, y, effects = data.normal_design((200, 10), seed)
        result = step(name, lambda a=X, t=y: jax.block_until_ready(bmjax.fit(a, t)))
        taken[f"{name} F1"] = contest.selection(result, effects)["F1"]
    return taken
