"""Run part of a benchmark in its own process, with its own devices and peak memory."""

import json
import os
import queue
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def elsewhere(
    module: str, call: str, variables: Mapping[str, str], timeout: float | None = None
) -> Any:
    """The return value of a function called in its own process.

    Args:
        module: Where the function is, such as `benchmarks.speed.gpu`.
        call: The call, such as `one_case(2, 40, 100)`; its return value is passed on as JSON.
        variables: Environment variables in addition to those of this process.
        timeout: Maximum number of seconds, if there is a limit.
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


def item_by_item(
    module: str, call: str, variables: Mapping[str, str], limit: float, total: float
) -> Iterator[Any]:
    """The items of a generator in its own process, as they come; its child processes end with it.

    Args:
        module: Where the generator is.
        call: The call that makes it; its items are passed on as JSON.
        variables: Environment variables in addition to those of this process.
        limit: Maximum number of seconds for one item.
        total: Maximum number of seconds for all of them.

    Raises:
        TimeoutError: If an item, or all of them, took longer than that.
        ChildProcessError: If the process ended before the generator did.
    """
    code = (
        f"import json; import {module} as there\n"
        f"for item in there.{call}: print('item', json.dumps(item), flush=True)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert child.stdout is not None
    lines: queue.Queue[str] = queue.Queue()

    def read(pipe=child.stdout):
        for line in pipe:
            lines.put(line)
        lines.put("")  # the end

    threading.Thread(target=read, daemon=True).start()
    deadline = time.monotonic() + total
    try:
        while True:
            left = deadline - time.monotonic()
            try:
                line = lines.get(timeout=max(min(limit, left), 0))
            except queue.Empty:
                most = f"{limit:g} s a call" if limit <= left else f"{total:g} s in all"
                raise TimeoutError(f"over {most}") from None
            if not line:
                break
            if line.startswith("item "):
                yield json.loads(line.removeprefix("item "))
        if child.wait() != 0:
            raise ChildProcessError(f"the process ended with {child.returncode}")
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def cap_memory(share: float = 0.5) -> None:
    """Let this process fail if it asks for more than a share of the machine's memory."""
    most = int(share * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def memory_maps() -> float:
    """Number of memory maps of this process; NaN if the system does not report it."""
    maps = Path("/proc/self/maps")
    return len(maps.read_text().splitlines()) if maps.exists() else float("nan")


def resident_memory() -> float:
    """The current memory of this process, in MB; NaN if the system does not report it."""
    pages = Path("/proc/self/statm")
    if not pages.exists():
        return float("nan")
    return int(pages.read_text().split()[1]) * resource.getpagesize() * 1e-6


def peak_memory() -> float:
    """The peak memory of this process, in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # memory inherited from the parent does not count here, but does below
        line = next(row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        return int(line.split()[1]) * 1.024e-3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
