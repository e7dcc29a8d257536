"""The folder for files that this machine keeps between runs: jars from ``anabranch jars fetch``, the archive of Spark's
classes from ``anabranch doctor --fix``, and artifacts of jobs."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["folder"]


def folder() -> Path:
    """The folder ``anabranch`` in ``$XDG_CACHE_HOME``, by default ``~/.cache``. The folder doesn't always exist."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "anabranch"
