"""Hadoop's checksum files: ``.NAME.crc`` next to ``NAME`` on a local disk."""

from __future__ import annotations

import struct
import zlib

__all__ = ["agrees", "name_of"]

_MAGIC = b"crc\0"
_HEADER = struct.Struct(">4si")


def name_of(file: str) -> str:
    """The name of a file's checksum file. Both names are relative to the same folder."""
    folder, slash, name = file.rpartition("/")
    return f"{folder}{slash}.{name}.crc"


def agrees(content: bytes, checksum: bytes) -> bool:
    """Whether a file's content matches its checksum. As in Hadoop, a checksum file without a complete header matches
    any content.
    """
    if len(checksum) < _HEADER.size:
        return True
    magic, size = _HEADER.unpack_from(checksum)
    if magic != _MAGIC or size <= 0:
        return False
    sums = [zlib.crc32(content[at : at + size]) for at in range(0, len(content), size)]
    return checksum[_HEADER.size :] == struct.pack(f">{len(sums)}I", *sums)
