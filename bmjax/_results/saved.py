"""Saving and loading of fits; see `writing` for the format of the file."""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bmjax._model.distributions import FAMILIES
from bmjax._results.names import Names
from bmjax._results.parts import LaneSteps
from bmjax._results.result import Result
from bmjax._results.writing import FORMAT, PARTS, VERSION, write
from bmjax._runtime.debugging import unwatched

# Exceptions that reading a damaged file, or one of another kind, may raise.
_TROUBLE = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OSError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
)


class Saved(NamedTuple):
    """The content of the file of a fit.

    Attributes:
        result: The fit, in NumPy arrays of the type of the fit.
        extra: Further entries of the file, such as the settings of the command.
    """

    result: Result
    extra: dict[str, Any]


def save(result: Result, path: str | os.PathLike[str]) -> None:
    """Write a fit, or a batch of fits, to a file, whole or not at all.

    Args:
        result: The result of `bmjax.fit` or `bmjax.fit_batch`.
        path: The file, whose name ends in `.json` or `.npz`. An existing file is replaced.

    Raises:
        TypeError: If `result` is not a `Result`.
        ValueError: If the name has another ending.
        OSError: If the file cannot be written; an existing file is then unchanged.

    Example:
        >>> import os, tempfile
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> fit = bmjax.fit(X, y, intercept=True)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bmjax.save(fit, os.path.join(folder, "fit.json"))
    """
    if not isinstance(result, Result):
        raise TypeError(f"result is {type(result).__name__}; give what bmjax.fit returned.")
    write(result, path)


@unwatched
def load(path: str | os.PathLike[str]) -> Result:
    """Read a fit that `save`, `Result.save` or the command's `--save` has written.

    Args:
        path: The file.

    Returns:
        The fit, equal to the bit if JAX has its type: a fit made in float64 becomes float32 if
        float64 is not enabled.

    Raises:
        ValueError: If the file is no saved fit, is damaged, or has a newer version of the format.
        OSError: If the file cannot be read.

    Example:
        >>> import os, tempfile
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> fit = bmjax.fit(X, y, intercept=True)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fit.save(os.path.join(folder, "fit.npz"))
        ...     again = bmjax.load(os.path.join(folder, "fit.npz"))
        >>> bool((again.coef == fit.coef).all())
        True
    """
    result = read(path).result
    return jax.tree.map(jnp.asarray, result)._replace(lane_steps=result.lane_steps)


def read(path: str | os.PathLike[str]) -> Saved:
    """Read a saved fit as NumPy arrays, with the further entries of the file.

    Raises:
        ValueError: If the file is no saved fit, is damaged, or has a newer version of the format.
        OSError: If the file cannot be read.
    """
    place, content = os.fspath(path), Path(path).read_bytes()
    try:
        head, arrays = _archive(content) if content[:2] == b"PK" else _text(content)
        names, version = head.pop("names"), int(head.pop("version"))
        family, groups = head.pop("family", None), head.pop("groups", None)
        known = head.pop("format") == FORMAT
    except _TROUBLE as error:
        raise ValueError(
            f"{place} is not a saved fit, or it is damaged ({type(error).__name__}: {error}): "
            "write one with result.save(path) or the command's --save."
        ) from None
    if not known:
        raise ValueError(f"{place} is not a saved fit of bmjax.")
    if version > VERSION:
        raise ValueError(
            f"{place} is of version {version} of the format, this bmjax reads up to {VERSION}: "
            "update bmjax."
        )
    try:
        result = _assembled(arrays, names, family)
        return Saved(result._replace(groups=None if groups is None else tuple(groups)), head)
    except _TROUBLE as error:
        raise ValueError(f"{place} is damaged ({error!r}): fit again.") from None


def _archive(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays = dict(archive)
    return json.loads(str(arrays.pop("about"))), arrays


def _text(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    head = json.loads(content)
    fields = head.pop("fit")
    return head, {name: _array(field) for name, field in fields.items()}


def _assembled(
    arrays: dict[str, np.ndarray], names: dict[str, Any] | None, family: str | None
) -> Result:
    """The result from its arrays by name, the inverse of `_leaves`."""
    fields: dict[str, Any] = {}
    parts: dict[str, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        first, _, rest = name.partition(".")
        if rest:
            parts.setdefault(first, {})[rest] = array
        else:
            fields[first] = array
    numbers = parts.pop("family", {})
    if family is not None:
        fields["family"] = FAMILIES[family]._replace(**numbers)
    for name, values in parts.items():
        if name == "lane_steps":
            fields[name] = LaneSteps(**{key: int(value) for key, value in values.items()})
        else:
            fields[name] = PARTS[name](**values)
    if names is not None:
        features = names["features"]
        fields["names"] = Names(None if features is None else tuple(features), names["target"])
    return Result(**fields)


def _array(field: dict[str, Any]) -> np.ndarray:
    def number(value: Any) -> Any:
        if isinstance(value, list):
            return [number(one) for one in value]
        return float(value) if isinstance(value, str) else value

    values = np.asarray(number(field["values"]), field["dtype"])
    return values.reshape(field["shape"])
