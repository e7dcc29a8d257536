"""The folder for files that this machine keeps between runs. It contains artifacts of jobs, and the jars and the
archive of Spark's classes that ``anabranch jars fetch`` and ``anabranch doctor --fix`` make available.
"""

from __future__ import annotations

import os
from pathlib import Path

from anabranch.errors import ConfigError

__all__ = ["folder"]


def folder() -> Path:
    """The folder ``anabranch`` in ``$XDG_CACHE_HOME`` or, if that isn't set, in ``~/.cache``. It might not exist yet.

    Raises:
        ConfigError: ``XDG_CACHE_HOME`` isn't set, and the home folder isn't known.
    """
    configured = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(configured) if configured else Path.home() / ".cache") / "anabranch"
    except RuntimeError as error:
        raise ConfigError(
            f"there is no folder for anabranch's cache: HOME isn't set, and the user {os.getuid()} is unknown here",
            "let XDG_CACHE_HOME name a folder that this user can write",
        ) from error
