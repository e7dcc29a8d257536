"""Writes the rows of Spark tasks to Parquet files of a target size, and merges small files."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch import own_files
from anabranch.errors import AnabranchError, ConflictError

__all__ = [
    "GROUP_ROWS",
    "FileRef",
    "FileStore",
    "FileWriter",
    "Folder",
    "Rows",
    "columns",
    "merged",
    "named",
    "told",
]

_GROUP_BYTES = 64 << 20
GROUP_ROWS = 1 << 20
"""A FileWriter writes a row group as soon as it has at least this many rows, or ``_GROUP_BYTES`` bytes, in memory."""


class FileRef(msgspec.Struct, frozen=True):
    """A reference to a file. ``name`` is the file's name in its :class:`FileStore` or, in an entry of a Parquet table's
    log, the file's name in the table's folder.
    """

    name: str
    rows: int
    bytes: int


_read = msgspec.msgpack.Decoder(FileRef).decode


class FileStore(Protocol):
    """Stores files, each of which is written once and never changed."""

    def new(self) -> str:
        """A unique name for a new file."""
        ...

    def make(self, name: str) -> pa.NativeFile: ...

    def read(self, name: str) -> pa.NativeFile: ...

    def settle(self, names: Sequence[str]) -> None:
        """Make closed files durable."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        ...


@dataclass(frozen=True)
class Folder:
    """Stores files in a folder on a disk."""

    path: Path
    suffix: str = ".parquet"

    def __str__(self) -> str:
        return str(self.path)

    def new(self) -> str:
        return f"{uuid.uuid4().hex}{self.suffix}"

    def make(self, name: str) -> pa.NativeFile:
        self.path.mkdir(parents=True, exist_ok=True)
        return pa.OSFile(str(self.path / name), "wb")

    def read(self, name: str) -> pa.NativeFile:
        return pa.OSFile(str(self.path / name))

    def settle(self, names: Sequence[str]) -> None:
        for name in names:
            own_files.sync(self.path / name)
        own_files.sync(self.path)

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)


@dataclass
class FileWriter:
    """Writes rows to new files, and starts another file whenever a file has reached ``target`` bytes."""

    store: FileStore
    schema: pa.Schema
    target: int
    _held: list[pa.RecordBatch] = field(default_factory=list)
    _bytes: int = 0
    _rows: int = 0
    _file: pq.ParquetWriter | None = None
    _sink: pa.NativeFile | None = None
    _name: str = ""
    _written: int = 0
    _done: list[FileRef] = field(default_factory=list)

    def write(self, rows: pa.RecordBatch) -> None:
        with told(str(self.store)):
            self._write(rows)

    def _write(self, rows: pa.RecordBatch) -> None:
        self._held.append(rows)
        self._bytes += rows.nbytes
        self._rows += rows.num_rows
        if self._bytes >= _GROUP_BYTES or self._rows >= GROUP_ROWS:
            self._write_group()

    def close(self) -> list[FileRef]:
        """Write the rows that are still in memory, make the files durable, and return references to them."""
        with told(str(self.store)):
            self._write_group()
            self._close_file()
            if self._done:
                self.store.settle([ref.name for ref in self._done])
        return self._done

    def abort(self) -> None:
        """Remove the files that were written, even if closing an open file fails."""
        for open_one in (self._file, self._sink):
            if open_one is not None:
                with suppress(OSError):
                    open_one.close()
        for name in [each.name for each in self._done] + ([self._name] if self._name else []):
            self.store.remove(name)

    def _write_group(self) -> None:
        if not self._held:
            return
        if self._file is None:
            self._name = self.store.new()
            self._sink = self.store.make(self._name)
            self._file = pq.ParquetWriter(self._sink, self.schema)
        self._file.write_table(pa.Table.from_batches(self._held, self.schema))
        self._written += self._rows
        self._held, self._bytes, self._rows = [], 0, 0
        assert self._sink is not None
        if self._sink.tell() >= self.target:
            self._close_file()

    def _close_file(self) -> None:
        if self._file is None or self._sink is None:
            return
        self._file.close()
        size = self._sink.tell()
        self._sink.close()
        self._done.append(FileRef(self._name, self._written, size))
        self._file, self._sink, self._name, self._written = None, None, "", 0


@dataclass(frozen=True)
class Rows:
    """Writes the rows of one Spark task to files that readers don't see until a commit names them. Raises ConflictError
    for a null in a ``required`` column. ``where`` is the table's name in error messages.
    """

    files: FileWriter
    where: str
    required: Collection[str] = ()

    def write(self, rows: pa.RecordBatch) -> None:
        for name in self.required:
            if rows.column(name).null_count:
                raise ConflictError(
                    f"{self.where} doesn't take a row: {name!r} is null, which it may not be",
                    "fix the job, or make the column optional",
                )
        self.files.write(rows)

    def close(self) -> list[bytes]:
        return [msgspec.msgpack.encode(ref) for ref in self.files.close()]

    def abort(self) -> None:
        self.files.abort()


def named(parts: Sequence[bytes]) -> list[FileRef]:
    """The references to files, decoded from ``parts``, which :meth:`Rows.close` returned in Spark tasks."""
    return [_read(part) for part in parts]


def columns(store: FileStore, ref: FileRef) -> pa.Schema:
    """The columns of a file."""
    with store.read(ref.name) as source:
        return pq.read_schema(source)


def merged(store: FileStore, refs: Sequence[FileRef], target: int) -> list[FileRef]:
    """Merge consecutive small files into files of at most about ``target`` bytes. Returns references to the files that
    contain the rows after the merge, in the same order. The small files that were merged aren't deleted.

    A file of more than half of ``target`` isn't merged. At most ``target`` bytes are rewritten in total. Small files
    that would exceed this total aren't merged, either.

    Args:
        store: where the files are.
        refs: the files, which must all have the same columns.
        target: a limit in bytes, both for each merged file and for all rewritten files together.
    """
    found: list[FileRef] = []
    run: list[FileRef] = []
    budget = target

    def join() -> None:
        if len(run) > 1:
            found.extend(_joined(store, run, target))
        else:
            found.extend(run)
        run.clear()

    for ref in refs:
        if ref.bytes > target // 2 or ref.bytes > budget:
            join()
            found.append(ref)
            continue
        if sum(each.bytes for each in run) + ref.bytes > target:
            join()
        run.append(ref)
        budget -= ref.bytes
    join()
    return found


def _joined(store: FileStore, refs: Sequence[FileRef], target: int) -> list[FileRef]:
    writer: FileWriter | None = None
    try:
        for ref in refs:
            with store.read(ref.name) as source:
                file = pq.ParquetFile(source)
                writer = writer or FileWriter(store, file.schema_arrow, target)
                for group in range(file.num_row_groups):  # a batch of several groups could need much memory
                    for batch in file.iter_batches(GROUP_ROWS, row_groups=[group]):
                        writer.write(batch)
        assert writer is not None
        return writer.close()
    except BaseException:
        if writer is not None:
            writer.abort()
        raise


@contextmanager
def told(where: str) -> Iterator[None]:
    """Inside ``with``, an OSError is raised as an AnabranchError. ``where`` tells users where the files are."""
    try:
        yield
    except OSError as error:
        raise AnabranchError(
            f"{where} can't be written: {error.strerror or error}",
            "make room, or change its owner or mode; the batch is written again, and nothing is lost",
        ) from error
