"""The section ``[storage]``."""

from __future__ import annotations

from pathlib import Path

from anabranch.config.section import Section

__all__ = ["StorageSettings", "local_folder"]


class StorageSettings(Section):
    """Where lanes' folders are. ``root`` is a path or a URI. The storage there must be able to prevent two processes
    from taking the same lane's folder: see docs/reference/storage-roots.md.
    """

    root: str = "./.anabranch/lanes"


def local_folder(uri: str) -> Path | None:
    """The local path for a path or a URI, such as a storage root; None for a URI with a scheme other than ``file``.

    As in Hadoop's ``Path``, ``#``, ``?`` and ``%`` have no special meaning in a path or a URI: for example,
    ``%20`` stays as it is.
    """
    scheme, colon, rest = uri.partition(":")
    if not colon or "/" in scheme:
        return Path(uri)
    if scheme != "file":
        return None
    return Path(f"/{rest[2:].partition('/')[2]}" if rest.startswith("//") else rest)
