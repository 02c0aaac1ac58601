"""Files that are there whole or not at all."""

import os
import shutil
from pathlib import Path


def write_whole(place: Path, content: bytes) -> None:
    """Write a file, or leave what was there; it is on the disk when this returns.

    It is written under another name, forced to the disk and only then renamed, so that nobody ever
    finds half of it. Who may read it stays as it was.

    Raises:
        OSError: If it cannot be written, such as on a full disk.
    """
    partial = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with open(partial, "wb") as file:
            if place.exists():
                shutil.copymode(place, partial)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, place)
    finally:
        partial.unlink(missing_ok=True)
    if os.name == "posix":  # the name too has to be on the disk
        folder = os.open(place.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
