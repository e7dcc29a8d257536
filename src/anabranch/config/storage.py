"""The section ``[storage]``."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from anabranch.config.section import Section

__all__ = ["StorageSettings", "local_folder"]


class StorageSettings(Section):
    """Where lanes' folders are. ``root`` is a path, or the URI of a folder in a storage system that can ensure that a
    folder has only one owner. See docs/reference/storage-roots.md.
    """

    root: str = "./.anabranch/lanes"


def local_folder(uri: str) -> Path | None:
    """The local path of a storage root, or of a folder below it; None if it isn't on a local disk.

    In a path without a scheme, ``#``, ``?`` and ``%`` have no special meaning, as in Spark.
    """
    scheme, colon, rest = uri.partition(":")
    if not colon or "/" in scheme:
        return Path(uri)
    if scheme != "file":
        return None
    return Path(unquote(f"/{rest[2:].partition('/')[2]}" if rest.startswith("//") else rest))
