"""A piece of a benchmark in a process of its own, so that devices and peak memory are its own."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def elsewhere(
    module: str, call: str, variables: Mapping[str, str], timeout: float | None = None
) -> Any:
    """What a function returns in a process of its own.

    Args:
        module: Where the function is, such as `benchmarks.speed.gpu`.
        call: The call, such as `one_case(2, 40, 100)`; what it returns is passed on as JSON.
        variables: Environment variables beside those of this process.
        timeout: Most seconds, if there is a limit.
    """
    code = f"import json; import {module} as there; print(json.dumps(there.{call}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        check=True,
        timeout=timeout,
    )
    return json.loads(done.stdout.splitlines()[-1])


def peak_memory() -> float:
    """The most memory that this process has had, in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # what the parent had at its birth does not count here, as it does below
        line = next(row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        return int(line.split()[1]) * 1.024e-3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
