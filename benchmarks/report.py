"""Tables and pictures that record their origin: the command, the versions, the date."""

import datetime
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import pandas as pd

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULTS = Path(__file__).parent / "results"


def environment() -> dict[str, str]:
    """Versions, device and date, recorded with every figure."""

    def installed(package: str) -> str:
        try:
            return f"{package} {version(package)}"
        except PackageNotFoundError:
            return f"{package} absent"

    packages = ("bmjax", "jax", "jaxlib", "numpy", "scikit-learn", "abess")
    return {
        "versions": ", ".join(installed(p) for p in packages),
        "python": platform.python_version(),
        "device": f"{jax.devices()[0].device_kind}, {len(os.sched_getaffinity(0))} cores",
        "date": datetime.date.today().isoformat(),
    }


def save_table(
    path: Path, table: pd.DataFrame, command: str, remarks: Sequence[str] = ()
) -> dict[str, str]:
    """Write a table as CSV under comment lines with its origin and remarks; `read_table` reads it.

    Args:
        path: The file to write.
        table: The table, without its index. Numbers are written to six digits.
        command: The command that made it.
        remarks: More comment lines.

    Returns:
        The origin: the command and the `environment`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    origin = {"command": command, **environment()}
    lines = [f"# {name}: {value}" for name, value in origin.items()]
    lines += [f"# {' '.join(remark.split())}" for remark in remarks]
    # An existing file is always whole, even if the process is killed while writing it.
    unfinished = path.with_name(f"{path.name}.part")
    unfinished.write_text("\n".join([*lines, table.to_csv(index=False, float_format="%.6g")]))
    unfinished.replace(path)
    return origin


def publish(
    name: str, table: pd.DataFrame, command: str, quick: bool, remarks: Sequence[str] = ()
) -> dict[str, str] | None:
    """Print a table and its remarks; unless the run was quick, save it and return its origin."""
    origin = None
    if not quick:
        origin = save_table(RESULTS / f"{name}.csv", table, command, remarks)
    print("\n".join([table.round(3).to_string(index=False), *remarks]))
    return origin


def read_table(path: Path) -> tuple[pd.DataFrame, dict[str, str]]:
    """A table that `save_table` wrote, and its origin."""
    table = pd.read_csv(path, comment="#")
    lines = path.read_text().splitlines()[: 1 + len(environment())]
    return table, dict(line.removeprefix("# ").split(": ", 1) for line in lines)


def draw(
    name: str,
    painter: Callable[[pd.DataFrame], "Figure"] | None,
    table: pd.DataFrame,
    origin: Mapping[str, str],
) -> None:
    """Draw a table and save the picture next to its CSV, if there is anything to draw."""
    if painter is not None:
        save_picture(RESULTS / f"{name}.png", painter(table), origin)


def save_picture(path: Path, figure: "Figure", origin: Mapping[str, str]) -> None:
    """Write a picture as PNG, with its origin in the metadata."""
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {name.capitalize(): value for name, value in origin.items()}
    figure.savefig(path, dpi=120, bbox_inches="tight", metadata=metadata)
