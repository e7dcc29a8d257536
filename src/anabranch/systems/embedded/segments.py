"""Writes segments, the Arrow files that contain the records, and reads pieces of them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa

from anabranch.errors import LogError, NotFoundError
from anabranch.systems.embedded import disk, layout, start
from anabranch.systems.records import RECORD_SCHEMA

__all__ = ["SegmentRef", "SegmentWriter", "Slice", "read_slice"]

# With LZ4, a million JSON records of 100 bytes take 28 MB instead of 114 MB. Writing takes 0.09 s instead of 0.07 s,
# and reading takes 0.02 s instead of 0.01 s.
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class SegmentRef(msgspec.Struct, frozen=True, kw_only=True):
    """A durable segment that no manifest entry names yet. If it has no rows, there is no file."""

    file: str
    rows: int
    bytes: int
    slot: int
    partition: int


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """Some consecutive records of a segment.

    Attributes:
        path: the segment's file.
        file_bytes: the size that the file must have.
        skip: how many of the segment's rows come before the slice.
        offset: the offset of the slice's first record.
        where: the stream and the partition, for messages.
    """

    path: str
    file_bytes: int
    skip: int
    rows: int
    offset: int
    where: str = ""


class SegmentWriter:
    """Writes one segment, in any process that can access the root. Readers see the records once an entry names the
    segment.

    Raises:
        NotFoundError: the stream has no such partition under this root.
    """

    def __init__(self, log_root: Path | str, stream: str, partition: int, slot: int) -> None:
        self._folder = layout.segments_folder(str(log_root), layout.check_name(stream), partition)
        if not os.path.isdir(self._folder):
            raise NotFoundError(
                f"{self._folder} is not there: {stream} has no partition {partition} under this root",
                "every container must see the same [systems.embedded] root",
            )
        self._partition = partition
        self._slot = slot
        self._rows = 0
        self._file = ""
        self._sink: pa.OSFile | None = None
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Add records, which must have the columns of ``RECORD_SCHEMA``. If necessary, the columns' types are cast.
        Raises ValueError if a record has no timestamp."""
        if not batch.num_rows:
            return
        if not batch.schema.equals(RECORD_SCHEMA):
            batch = batch.select(RECORD_SCHEMA.names).cast(RECORD_SCHEMA)
        if batch.column("timestamp").null_count:
            raise ValueError("a record has no timestamp")
        if self._writer is None:
            self._file = f"{uuid.uuid4().hex}.arrow"
            self._sink = pa.OSFile(self._path, "wb")
            self._writer = pa.ipc.new_file(self._sink, RECORD_SCHEMA, options=_OPTIONS)
        self._writer.write_batch(batch)
        self._rows += batch.num_rows

    def close(self) -> SegmentRef:
        """Make the segment and its name durable, because an entry must not name a file that could still be lost.
        Returns a reference to the segment, for the entry.
        """
        if self._writer is None or self._sink is None:
            return SegmentRef(file="", rows=0, bytes=0, slot=self._slot, partition=self._partition)
        self._writer.close()
        self._sink.close()
        disk.sync_file(self._path)
        disk.sync_folder(self._folder)
        return SegmentRef(
            file=self._file,
            rows=self._rows,
            bytes=os.stat(self._path).st_size,
            slot=self._slot,
            partition=self._partition,
        )

    def abort(self) -> None:
        """Delete the segment. Don't call this after an entry has named it."""
        if self._sink is not None:
            self._sink.close()
            os.unlink(self._path)

    @property
    def _path(self) -> str:
        return f"{self._folder}/{self._file}"


def read_slice(piece: Slice) -> Iterator[pa.RecordBatch]:
    """The records of a slice in order, in batches with the columns of ``RECORD_SCHEMA``.

    Raises:
        LogError: the records have been deleted, or the file is missing or isn't as the manifest describes it.
    """
    _check_size(piece)
    try:
        with pa.memory_map(piece.path) as source:
            reader = pa.ipc.open_file(source)
            if not reader.schema.equals(RECORD_SCHEMA):
                raise _damaged(piece, "has other columns than a segment")
            skip, left = piece.skip, piece.rows
            for index in range(reader.num_record_batches):
                batch = reader.get_batch(index)
                batch.validate()
                if skip >= batch.num_rows:
                    skip -= batch.num_rows
                    continue
                part = batch.slice(skip, left)
                skip = 0
                left -= part.num_rows
                yield part
                if not left:
                    return
    except FileNotFoundError:  # deleted since its size was checked
        raise _missing(piece) from None
    except (pa.ArrowException, OSError) as error:
        raise _damaged(piece, f"can't be read: {error}") from error
    raise _damaged(piece, f"has {left} records fewer than its manifest says")


def _check_size(piece: Slice) -> None:
    try:
        size = os.stat(piece.path).st_size
    except FileNotFoundError:
        raise _missing(piece) from None
    if size != piece.file_bytes:
        fault = "was cut short" if size < piece.file_bytes else "has grown"
        raise _damaged(piece, f"{fault}: {size} of {piece.file_bytes} bytes")


def _missing(piece: Slice) -> LogError:
    begins = start.read(start.of_segment(piece.path))
    if piece.offset < begins.offset:
        return start.gone(piece.where, piece.offset, begins.offset)
    return _damaged(piece, "is missing")


def _damaged(piece: Slice, fault: str) -> LogError:
    return LogError(
        f"{piece.path}, which holds the offsets {piece.offset} to {piece.offset + piece.rows - 1}, {fault}",
        f"restore the file from a backup; nothing from offset {piece.offset} on was processed",
    )
