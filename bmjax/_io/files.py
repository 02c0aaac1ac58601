"""Files that are written whole or not at all."""

import os
import shutil
from pathlib import Path


def write_whole(place: Path, content: bytes) -> None:
    """Write a file, or keep the existing one on an error; it is on the disk when this returns.

    It is written under another name, forced to the disk and only then renamed, so that no process
    ever finds half of it. The permissions of an existing file are kept.

    Raises:
        OSError: If the file cannot be written, such as on a full disk.
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
    if os.name == "posix":  # the name has to be on the disk too
        folder = os.open(place.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
