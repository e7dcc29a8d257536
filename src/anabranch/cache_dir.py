"""The folder for files that this machine keeps between runs: jars and the archive of Spark's classes, from
``anabranch jars fetch`` and ``anabranch doctor --fix``, and artifacts of jobs."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["folder"]


def folder() -> Path:
    """The folder ``anabranch`` in ``$XDG_CACHE_HOME`` or, if that isn't set, in ``~/.cache``. It may not exist yet."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "anabranch"
