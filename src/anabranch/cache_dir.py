"""The folder for what this machine keeps between runs: jars that ``anabranch jars fetch`` got, jobs' artifacts."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["folder"]


def folder() -> Path:
    """``anabranch`` in ``$XDG_CACHE_HOME``, by default ``~/.cache``. It may not be there."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "anabranch"
