"""The section ``[storage]``."""

from __future__ import annotations

import re
from pathlib import Path

from anabranch.config.section import Section

__all__ = ["StorageSettings", "is_uri", "local_folder"]

_URI = re.compile(r"file:|[A-Za-z][A-Za-z0-9+.-]*:/")


class StorageSettings(Section):
    """Where lanes' folders are. ``root`` is a path or a URI. The storage there must be able to prevent two processes
    from taking the same lane's folder: see docs/reference/storage-roots.md.
    """

    root: str = "./.anabranch/lanes"


def is_uri(text: str) -> bool:
    """Whether a text is a URI rather than a path: whether it begins with ``file:``, or with another scheme, a colon and
    a slash. So ``hdfs:/lanes`` is a URI, and ``a:b/lanes`` is a path.
    """
    return _URI.match(text) is not None


def local_folder(uri: str) -> Path | None:
    """The local path for a path or a URI, such as a storage root; None for a URI with a scheme other than ``file``.

    As in Hadoop's ``Path``, ``#``, ``?`` and ``%`` have no special meaning in a path or a URI: for example,
    ``%20`` stays as it is.
    """
    if not is_uri(uri):
        return Path(uri)
    scheme, _, rest = uri.partition(":")
    if scheme != "file":
        return None
    return Path(f"/{rest[2:].partition('/')[2]}" if rest.startswith("//") else rest)
