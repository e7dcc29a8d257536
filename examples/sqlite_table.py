"""A table of your own, in a SQLite file. A batch's rows and the marker of its lane are written in one transaction."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa

from anabranch.errors import ConflictError, NotFoundError
from anabranch.tables import Mark, Owner, marks


class SqliteTable:
    """A table in a SQLite file. The rows of a batch pass through the driver.

    The setting ``path`` names the file, which must be on a disk that all containers share.
    """

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self._path = str(settings["path"])

    def __str__(self) -> str:
        return self._path

    def id(self) -> str:
        with self._opened() as connection:
            return str(connection.execute("select id from made").fetchone()[0])

    def prepare(self, schema: pa.Schema, create: bool) -> None:
        if create:
            with closing(self._connect()) as connection:
                connection.execute("begin immediate")  # before the table is looked for: nobody can create it in between
                if not _columns(connection):
                    self._make(connection, schema)
                connection.execute("commit")
        with self._opened() as connection:
            held = _columns(connection)
        if set(held) != set(schema.names):
            raise ConflictError(f"{self} has the columns {', '.join(held)}", "write these")

    def _make(self, connection: sqlite3.Connection, schema: pa.Schema) -> None:
        for former in ("marks", "made"):  # of a table whose rows alone were dropped
            connection.execute(f"drop table if exists {former}")
        columns = ", ".join(f'"{name}"' for name in schema.names)
        connection.execute(f"create table rows ({columns})")
        connection.execute("create table marks (job, lane, epoch, batch, primary key (job, lane))")
        connection.execute("create table made (id)")
        connection.execute("insert into made values (?)", [uuid.uuid4().hex])

    def fence(self, owner: Owner, new: bool | None) -> None:
        with self._opened() as connection:
            connection.execute("begin immediate")
            mark = marks.fenced(_mark(connection, owner.job, owner.lane), owner, str(self), new)
            if mark is not None:
                _put(connection, owner, mark)
            connection.execute("commit")

    def last(self, job: str, lane: str) -> int:
        with self._opened() as connection:
            mark = _mark(connection, job, lane)
        return -1 if mark is None else mark.batch

    def writers(self, job: str) -> list[str]:
        with closing(self._connect()) as connection:
            if not _columns(connection):
                return []
            found = connection.execute("select lane from marks where job = ? and batch >= 0", [job])
            return sorted(lane for (lane,) in found)

    def writer(self, owner: Owner, schema: pa.Schema) -> _Rows:
        return _Rows(schema)

    def commit(self, owner: Owner, batch: int, parts: Sequence[bytes]) -> None:
        with self._opened() as connection:
            connection.execute("begin immediate")  # before the marker is read: nobody can fence in between
            if marks.check(_mark(connection, owner.job, owner.lane), owner, str(self)).batch >= batch:
                return
            for part in parts:
                rows = pa.ipc.open_stream(part).read_all()
                names = ", ".join(f'"{name}"' for name in rows.schema.names)
                places = ", ".join("?" for _ in rows.schema)
                values = zip(*(column.to_pylist() for column in rows.columns), strict=True)
                connection.executemany(f"insert into rows ({names}) values ({places})", values)
            _put(connection, owner, Mark(owner.epoch, batch))
            connection.execute("commit")

    def leave(self, owner: Owner) -> None:
        pass

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with closing(self._connect()) as connection:
            if not _columns(connection):
                raise NotFoundError(f"{self} has no table", "restore it")
            yield connection

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, isolation_level=None)


class _Rows:
    """Collects the rows of a Spark task. The only part contains the rows themselves, so batches should be small."""

    def __init__(self, schema: pa.Schema) -> None:
        self._sink = pa.BufferOutputStream()
        self._stream = pa.ipc.new_stream(self._sink, schema)

    def write(self, rows: pa.RecordBatch) -> None:
        self._stream.write_batch(rows)

    def close(self) -> list[bytes]:
        self._stream.close()
        return [self._sink.getvalue().to_pybytes()]

    def abort(self) -> None:
        pass


def _columns(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute("select name from pragma_table_info('rows')")]


def _mark(connection: sqlite3.Connection, job: str, lane: str) -> Mark | None:
    found = connection.execute("select epoch, batch from marks where job = ? and lane = ?", [job, lane]).fetchone()
    return None if found is None else Mark(*found)


def _put(connection: sqlite3.Connection, owner: Owner, mark: Mark) -> None:
    connection.execute("replace into marks values (?, ?, ?, ?)", [owner.job, owner.lane, mark.epoch, mark.batch])
