"""Writing of fits: a versioned format without pickle, readable by other programs.

`.json` is text, with enough digits to restore each number to the bit; `.npz` is NumPy's archive,
for fits of very many features. Both hold the same content: fields by name, such as `starts.score`,
the version of the format and the names of the features.
"""

import io
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from bmjax._io.files import write_whole
from bmjax._results.parts import History, LaneSteps, Moments, Starts, Uncertainty

FORMAT = "bmjax fit"
# Version of the format: 2 if a family or groups are written, which a reader of 1 does not know.
VERSION = 2
_ENDINGS = (".json", ".npz")
# Fields that are themselves tuples of arrays.
PARTS: dict[str, type[Any]] = {
    "starts": Starts,
    "uncertainty": Uncertainty,
    "history": History,
    "lane_steps": LaneSteps,
    "moments": Moments,
}


def write(result: Any, path: str | os.PathLike[str]) -> None:
    """Write a `Result` to a file, whole or not at all; see `bmjax.save`."""
    place = Path(path)
    write_whole(place.resolve(), contents(result, _ending(place)))


def contents(result: Any, ending: str, extra: dict[str, Any] | None = None) -> bytes:
    """The contents of the file of a fit, as bytes.

    Args:
        result: The `Result`.
        ending: `.json` or `.npz`.
        extra: Further entries, of JSON's own types, with keys that the format does not use.
    """
    arrays = {name: np.asarray(leaf) for name, leaf in _leaves(result)}
    names = result.names
    head = {
        "format": FORMAT,
        "version": 1 if result.family is None and result.groups is None else 2,
        **(extra or {}),
        "names": None if names is None else {"features": names.features, "target": names.target},
    }
    if result.family is not None:
        head["family"] = result.family.name
    if result.groups is not None:
        head["groups"] = result.groups
    if ending == ".npz":
        buffer = io.BytesIO()
        arrays["about"] = np.asarray(json.dumps(head))
        np.savez_compressed(buffer, **arrays)  # pyright: ignore[reportArgumentType]
        return buffer.getvalue()
    fields = {
        name: {"dtype": array.dtype.name, "shape": array.shape, "values": _plain(array.tolist())}
        for name, array in arrays.items()
    }
    # Each array is one line, so that a fit of many features does not take thousands of lines.
    text = json.dumps(head, indent=2, ensure_ascii=False, allow_nan=False)
    lines = ",\n".join(f"    {json.dumps(n)}: {json.dumps(v)}" for n, v in fields.items())
    text = text.removesuffix("\n}") + f',\n  "fit": {{\n{lines}\n  }}\n}}\n'
    # Invalid characters in the name of the data's file become escapes, which JSON reads back.
    return text.encode(errors="backslashreplace")


def _ending(place: Path) -> str:
    ending = place.suffix.lower()
    if ending not in _ENDINGS:
        raise ValueError(f"path is {os.fspath(place)}; its name must end in .json or .npz.")
    return ending


def _leaves(result: Any) -> list[tuple[str, Any]]:
    """The arrays of a result by name."""
    leaves = []
    for name, value in vars(result).items():
        if name in ("names", "groups") or value is None:
            continue
        if name in PARTS or name == "family":
            pairs = zip(value._fields, value, strict=True)
            leaves += [(f"{name}.{part}", leaf) for part, leaf in pairs if leaf is not None]
        else:
            leaves.append((name, value))
    return leaves


def _plain(values: Any) -> Any:
    """The values with strings for NaN and infinity, which JSON lacks."""
    if isinstance(values, list):
        return [_plain(value) for value in values]
    return repr(values) if isinstance(values, float) and not math.isfinite(values) else values
