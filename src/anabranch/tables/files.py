"""Parquet files of a target size, written by one task."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.errors import AnabranchError

__all__ = ["FileRef", "FileWriter", "merged", "sync", "told"]

_GROUP_BYTES = 64 << 20
_GROUP_ROWS = 1 << 20
"""Of a row group: a worker holds one in memory."""


class FileRef(msgspec.Struct, frozen=True):
    """A file that is durable. ``name`` is within its folder."""

    name: str
    rows: int
    bytes: int


@dataclass
class FileWriter:
    """Writes rows to new files of about ``target`` bytes in ``folder``, with names that nobody else has."""

    folder: Path
    schema: pa.Schema
    target: int
    suffix: str = ".parquet"
    _held: list[pa.RecordBatch] = field(default_factory=list)
    _bytes: int = 0
    _rows: int = 0
    _file: pq.ParquetWriter | None = None
    _path: Path | None = None
    _written: int = 0
    _done: list[FileRef] = field(default_factory=list)

    def write(self, rows: pa.RecordBatch) -> None:
        with told(str(self.folder)):
            self._write(rows)

    def _write(self, rows: pa.RecordBatch) -> None:
        self._held.append(rows)
        self._bytes += rows.nbytes
        self._rows += rows.num_rows
        if self._bytes >= _GROUP_BYTES or self._rows >= _GROUP_ROWS:
            self._write_group()

    def close(self) -> list[FileRef]:
        """Make them durable."""
        with told(str(self.folder)):
            self._write_group()
            self._close_file()
            if self._done:
                sync(self.folder)
        return self._done

    def abort(self) -> None:
        if self._file is not None:
            self._file.close()
        for name in [each.name for each in self._done] + ([self._path.name] if self._path is not None else []):
            (self.folder / name).unlink(missing_ok=True)

    def _write_group(self) -> None:
        if not self._held:
            return
        if self._file is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._path = self.folder / f"{uuid.uuid4().hex}{self.suffix}"
            self._file = pq.ParquetWriter(self._path, self.schema)
        self._file.write_table(pa.Table.from_batches(self._held, self.schema))
        self._written += self._rows
        self._held, self._bytes, self._rows = [], 0, 0
        assert self._path is not None
        if self._path.stat().st_size >= self.target:
            self._close_file()

    def _close_file(self) -> None:
        if self._file is None or self._path is None:
            return
        self._file.close()
        sync(self._path)
        self._done.append(FileRef(self._path.name, self._written, self._path.stat().st_size))
        self._file, self._path, self._written = None, None, 0


def merged(folder: Path, refs: Sequence[FileRef], schema: pa.Schema, target: int, suffix: str) -> list[FileRef]:
    """Files of many tasks, those next to each other that are small joined to some of about ``target`` bytes.

    No more than ``target`` bytes are written anew, whatever there is. The files that are joined stay where they are.
    """
    found: list[FileRef] = []
    run: list[FileRef] = []
    budget = target

    def join() -> None:
        if len(run) > 1:
            writer = FileWriter(folder, schema, target, suffix)
            for ref in run:
                for batch in pq.ParquetFile(folder / ref.name).iter_batches(_GROUP_ROWS):
                    writer.write(batch.select(schema.names))
            found.extend(writer.close())
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


@contextmanager
def told(where: str) -> Iterator[None]:
    """What the disk says, as an AnabranchError."""
    try:
        yield
    except OSError as error:
        raise AnabranchError(
            f"{where} can't be written: {error.strerror or error}",
            "make room, or change its owner or mode; the batch is written again, and nothing is lost",
        ) from error


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, durable."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
