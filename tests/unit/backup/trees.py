"""Folders of a backup on a local disk, without Spark."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

from anabranch.container.checkpoint.filesystem import Tree

__all__ = ["OnDisk"]


class OnDisk(Tree):
    """A tree on a local disk."""

    def __init__(self, uri: str | Path) -> None:
        self.local = Path(str(uri).removeprefix("file://"))
        self.path = SimpleNamespace(toString=lambda: f"file://{self.local}")

    def other(self, uri: str) -> OnDisk:
        return OnDisk(uri)

    def clear(self, name: str = "") -> None:
        at = Path(str(self.local)) / name
        if at.is_dir():
            shutil.rmtree(at)
        else:
            at.unlink(missing_ok=True)
