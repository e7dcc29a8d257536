"""Finds the pieces of segments that contain given offsets, without reading many entries of a long manifest."""

from __future__ import annotations

import msgspec

from anabranch.errors import LogError
from anabranch.systems.embedded import layout, partition, start
from anabranch.systems.embedded.manifest import Segment
from anabranch.systems.embedded.segments import Slice
from anabranch.systems.embedded.start import Start

__all__ = ["PartitionIndex"]

_REMEMBERED = 8192


class _Extent(msgspec.Struct, frozen=True):
    """An entry's offsets and files. The rest of the entry, such as ``writers``, is left out, because it would take too
    much memory.
    """

    base: int
    end: int
    segments: tuple[Segment, ...]


class PartitionIndex:
    """Finds the files that contain given records of one partition. Caches the offsets and files of entries.

    Readers normally move forward, so a search begins after the last entry that the previous search found. If that
    entry was deleted, or doesn't end before the wanted offset, the search begins at the oldest entry.
    """

    def __init__(self, root: str, stream: str, number: int) -> None:
        self._manifest = layout.manifest_folder(root, stream, number)
        self._segments = layout.segments_folder(root, stream, number)
        self._where = f"{stream}, partition {number}"
        self._extents: dict[int, _Extent] = {}
        self._hint = 0

    def slices(self, first: int, end: int) -> list[Slice]:
        """The pieces with the records ``first`` to ``end - 1``. Raises LogError if any of these records is missing."""
        if not 0 <= first <= end:
            raise LogError(
                f"{self._where}: there are no offsets from {first} to {end}", "this is a fault of the caller"
            )
        if first == end:
            return []
        while True:
            begins = self._start()
            if first < begins.offset:
                raise start.gone(self._where, first, begins.offset)
            try:
                return self._between(first, end, begins.sequence)
            except LogError:
                if self._start() == begins:  # otherwise entries were deleted meanwhile: search again
                    raise

    def _between(self, first: int, end: int, oldest: int) -> list[Slice]:
        pieces: list[Slice] = []
        sequence = self._holder_of(first, oldest)
        expected = first
        while expected < end:
            extent = self._extent(sequence)
            if extent is None:
                raise self._missing(expected, end, sequence)
            if extent.end > extent.base:
                if not extent.base <= expected < extent.end:
                    raise self._missing(expected, end, sequence)
                pieces += self._pieces(extent, expected, min(end, extent.end))
                expected = min(end, extent.end)
            self._hint = sequence
            sequence += 1
        return pieces

    def _start(self) -> Start:
        return start.read(start.of_manifest(self._manifest))

    def _holder_of(self, offset: int, oldest: int) -> int:
        """The number of the first entry that ends after ``offset``, among the entries from number ``oldest`` on. If no
        entry ends after ``offset``, the result is one more than the last entry's number."""
        low = self._hint if self._hint >= oldest and self._ends_before(self._hint, offset) else oldest - 1
        step = 1
        while self._ends_before(low + step, offset):
            low, step = low + step, step * 2
        high = low + step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._ends_before(middle, offset) else (low, middle)
        return high

    def _ends_before(self, sequence: int, offset: int) -> bool:
        extent = self._extent(sequence)
        return extent is not None and extent.end <= offset

    def _extent(self, sequence: int) -> _Extent | None:
        extent = self._extents.get(sequence)
        if extent is None and (entry := partition.read(self._manifest, sequence)) is not None:
            extent = _Extent(entry.base, entry.base + entry.rows, entry.segments)
            if len(self._extents) >= _REMEMBERED:
                self._extents.clear()
            self._extents[sequence] = extent
        return extent

    def _pieces(self, extent: _Extent, first: int, end: int) -> list[Slice]:
        pieces = []
        base = extent.base
        for segment in extent.segments:
            after = base + segment.rows
            if base < end and first < after:
                begin = max(base, first)
                pieces.append(
                    Slice(
                        path=f"{self._segments}/{segment.file}",
                        file_bytes=segment.bytes,
                        skip=begin - base,
                        rows=min(after, end) - begin,
                        offset=begin,
                        where=self._where,
                    )
                )
            base = after
        return pieces

    def _missing(self, first: int, end: int, sequence: int) -> LogError:
        known = partition.read(self._manifest, sequence - 1)
        reason = f"it ends at {known.base + known.rows}" if known else "its manifest has a hole"
        return LogError(
            f"{self._where} doesn't hold the offsets {first} to {end - 1}: {reason} ({self._manifest})",
            "restore the manifest folder from a backup",
        )
