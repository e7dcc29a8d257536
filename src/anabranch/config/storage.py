"""The section ``[storage]``."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from anabranch.config.section import Section

__all__ = ["StorageSettings", "local_folder"]


class StorageSettings(Section):
    """``root``: where lanes' checkpoint folders live: a path or any URI that Spark can checkpoint to."""

    root: str = "./.anabranch/lanes"


def local_folder(uri: str) -> Path | None:
    """Where a storage root, or a folder below it, is on a local disk; None: it is elsewhere.

    A path without a scheme is taken letter by letter: ``#``, ``?`` and ``%`` are part of it, as they are for Spark.
    """
    scheme, colon, rest = uri.partition(":")
    if not colon or "/" in scheme:
        return Path(uri)
    if scheme != "file":
        return None
    return Path(unquote(f"/{rest[2:].partition('/')[2]}" if rest.startswith("//") else rest))
