"""A study on disk, chunk by chunk, so that a killed process loses its last chunk at most.

It is a folder with `settings.json` and a file for each finished chunk, each written whole or not at
all. Of several processes the first writes and all read, from a folder that all see.
"""

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from bmjax._io.files import write_whole

_SETTINGS = "settings.json"


def open_checkpoint(path: str | os.PathLike[str], settings: dict[str, Any]) -> "Checkpoint":
    """Open the checkpoint in a folder, from all processes at once.

    Args:
        path: The folder, created if it does not exist.
        settings: Everything that the results depend on, by name; strings and numbers.

    Raises:
        ValueError: As for `Checkpoint`, or if the processes do not see the same folder.
        OSError: If the folder cannot be read or written.
    """
    if jax.process_count() == 1:
        return Checkpoint(path, settings)
    # The first process creates it, and the others find any error themselves: none may be left
    # waiting.
    opened = failure = None
    for turn in (True, False):
        if (jax.process_index() == 0) == turn:
            try:
                opened = Checkpoint(path, settings)
            except (ValueError, OSError) as error:
                failure = error
        multihost_utils.sync_global_devices("bmjax checkpoint")
    seen = -1 if opened is None else opened.num_chunks
    others = np.asarray(multihost_utils.process_allgather(np.int32(seen)))
    if failure is not None:
        raise failure
    if opened is None or not (others == seen).all():
        raise ValueError(
            f"checkpoint {os.fspath(path)} has {others.tolist()} chunks as the processes see it "
            "(-1: an error there): give a folder that all of them share."
        )
    return opened


class Checkpoint:
    """The finished chunks of one study.

    Args:
        path: The folder, created if it does not exist.
        settings: Everything that the results depend on, by name; strings and numbers.

    Raises:
        ValueError: If the folder holds something else, a study with other settings (the message
            names the first that differs) or damaged settings.
        OSError: If the folder cannot be read or written.
    """

    def __init__(self, path: str | os.PathLike[str], settings: dict[str, Any]):
        self._folder = Path(path)
        # Through JSON, so that values are compared as a file holds them.
        settings = json.loads(json.dumps(settings))
        self._folder.mkdir(parents=True, exist_ok=True)
        place = self._folder / _SETTINGS
        if place.exists():
            self._compare(place, settings)
            return
        strangers = [p.name for p in self._folder.iterdir() if not p.name.startswith(".")]
        if strangers:
            raise ValueError(
                f"checkpoint {self._folder} holds {strangers[0]} but no {_SETTINGS}: give an empty "
                "or a new folder."
            )
        write_whole(place, json.dumps(settings, indent=1).encode())

    @property
    def num_chunks(self) -> int:
        """The number of finished chunks in the folder."""
        return len(list(self._folder.glob("chunk_*.npz")))

    def load(self, begin: int) -> dict[str, np.ndarray] | None:
        """The arrays of the chunk whose first dataset has a given number, or None if it is missing.

        Raises:
            ValueError: If the file is damaged; the message names it.
        """
        place = self._place(begin)
        if not place.exists():
            return None
        try:
            content = io.BytesIO(place.read_bytes())
            with np.load(content, allow_pickle=False) as arrays:  # verifies checksums
                return dict(arrays)
        except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"checkpoint file {place} is damaged ({error}): delete it and run again, and its "
                "chunk alone is made anew."
            ) from error

    def save(self, begin: int, arrays: dict[str, np.ndarray]) -> None:
        """Store a finished chunk, in the first process; it is on the disk when this returns.

        Raises:
            OSError: If it cannot be written, such as on a full disk; existing files stay.
        """
        if jax.process_index() > 0:
            return
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # pyright: ignore[reportArgumentType]
        write_whole(self._place(begin), buffer.getvalue())

    def _place(self, begin: int) -> Path:
        return self._folder / f"chunk_{begin:012d}.npz"

    def _compare(self, place: Path, settings: dict[str, Any]) -> None:
        try:
            before = json.loads(place.read_bytes())
            names = before.keys() | settings.keys()
        except (ValueError, AttributeError) as error:
            raise ValueError(
                f"checkpoint file {place} is damaged ({error}): give a new folder."
            ) from error
        for name in sorted(names):
            if before.get(name) != settings.get(name):
                raise ValueError(
                    f"checkpoint {self._folder} is of a study with {name} = "
                    f"{_short(before.get(name))}, now it is {_short(settings.get(name))}: give the "
                    "former settings, or a new folder."
                )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
