"""The cache of compiled programs, kept between runs of the command."""

import os
import sys
from pathlib import Path

_VARIABLE = "JAX_COMPILATION_CACHE_DIR"


def keep_programs(wanted: bool) -> None:
    """Have JAX keep compiled programs in the user's cache folder, unless told otherwise.

    This sets the environment variables that JAX reads when it is imported, so it does nothing if
    JAX has been imported or the user has set the folder. Without a folder there is no cache.

    Args:
        wanted: Whether to keep them.
    """
    if not wanted or "jax" in sys.modules or _VARIABLE in os.environ:
        return
    try:
        place = _user_cache() / "bmjax" / "programs"
        place.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no home folder, or no permission to write in it
        return
    if os.access(place, os.W_OK):
        os.environ[_VARIABLE] = str(place)
        # A fit is made of many small programs, each below JAX's own limit of a second.
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


def _user_cache() -> Path:
    """The user's cache folder on this operating system."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
