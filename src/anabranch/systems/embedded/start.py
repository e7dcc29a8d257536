"""The file ``start.json``, which says where a partition begins. The file is made durable before anything below the
start is deleted.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from anabranch.config.headings import heading
from anabranch.errors import LogError
from anabranch.systems.embedded import disk, layout

__all__ = ["ALL", "Start", "decode", "encode", "gone", "of_manifest", "of_segment", "read", "write"]


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Where a partition begins. ``sequence`` and ``offset`` can only rise.

    Attributes:
        sequence: the number of the first entry that is kept. Readers ignore earlier entries that still exist.
        offset: the offset at which this entry begins.
        controls: each lane's last control record from the entries below ``sequence``, in order.
        control_entries: for each of the ``controls``, the number of the entry that contained it. Files of an older
            anabranch lack this field.
    """

    version: int = layout.FORMAT_VERSION
    sequence: int = 0
    offset: int = 0
    controls: tuple[dict[str, Any], ...] = ()
    control_entries: tuple[int, ...] = ()

    @property
    def numbered_controls(self) -> list[tuple[int, dict[str, Any]]]:
        """The ``controls``, each with the number of its entry. If this number isn't known, it is replaced by the number
        of the last entry below ``sequence``, which is never too low.
        """
        is_known = len(self.control_entries) == len(self.controls)
        entries = self.control_entries if is_known else [self.sequence - 1] * len(self.controls)
        return [*zip(entries, self.controls, strict=True)]


ALL = Start()
"""The start of a partition from which nothing was ever deleted. Such a partition has no ``start.json``."""

_DECODER = msgspec.json.Decoder(Start)


def of_manifest(folder: str) -> str:
    """The path of ``start.json`` for the partition with this manifest folder."""
    return f"{os.path.dirname(folder)}/start.json"


def of_segment(path: str) -> str:
    """The path of ``start.json`` for the partition with this segment."""
    return of_manifest(os.path.dirname(path))


def read(path: str) -> Start:
    """Where a partition begins; ``ALL`` if there is no ``start.json``. If the file is damaged, raises LogError. If the
    file has another format version, raises UnsupportedFormatError. Both errors name ``path``.
    """
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except FileNotFoundError:
        return ALL
    return decode(raw, path)


def decode(raw: bytes, path: str) -> Start:
    """Parse the content of ``start.json``. Raises what :func:`read` raises."""
    return layout.decode(raw, _DECODER, path)


def encode(start: Start) -> bytes:
    return msgspec.json.encode(start) + b"\n"


def write(path: str, start: Start) -> None:
    """Write ``start.json`` durably. The caller must exclude other writers."""
    disk.replace(path, encode(start))


def gone(where: str, first: int, start: int) -> LogError:
    """The error for records that a stream's retention has deleted. ``first`` is the requested offset, and ``start`` is
    the first offset that still exists. ``where`` names the stream and the partition.
    """
    stream = where.split(",", maxsplit=1)[0]
    last = f"offset {first} is" if start == first + 1 else f"offsets {first} to {start - 1} are"
    return LogError(
        f"{where}: the {last} gone, deleted by the stream's retention",
        f"to continue from the oldest record there is, {start}, set {heading('streams', stream)} "
        f'on_data_loss = "earliest"; to keep more from now on: anabranch stream retain {stream}',
    )
