"""A piece of a benchmark in a process of its own, so that devices and peak memory are its own."""

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


def item_by_item(
    module: str, call: str, variables: Mapping[str, str], limit: float, total: float
) -> Iterator[Any]:
    """What a generator in a process of its own yields, as it comes; with the process ends its kin.

    Args:
        module: Where the generator is.
        call: The call that makes it; what it yields is passed on as JSON.
        variables: Environment variables beside those of this process.
        limit: Most seconds for one item.
        total: Most seconds for all of them.

    Raises:
        TimeoutError: If an item, or all of them, took longer than that.
        ChildProcessError: If the process ended otherwise than by coming to the end.
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
    """Let this process fail where it asks for more than a share of the machine's memory."""
    most = int(share * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def memory_maps() -> float:
    """How many memory maps this process holds; NaN where the system does not tell."""
    maps = Path("/proc/self/maps")
    return len(maps.read_text().splitlines()) if maps.exists() else float("nan")


def resident_memory() -> float:
    """The memory that this process has now, in MB; NaN where the system does not tell."""
    pages = Path("/proc/self/statm")
    if not pages.exists():
        return float("nan")
    return int(pages.read_text().split()[1]) * resource.getpagesize() * 1e-6


def peak_memory() -> float:
    """The most memory that this process has had, in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # what the parent had at its birth does not count here, as it does below
        line = next(row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        return int(line.split()[1]) * 1.024e-3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
