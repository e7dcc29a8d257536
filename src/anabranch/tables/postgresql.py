"""A table in PostgreSQL. Spark tasks fill a staging table. One transaction then inserts the staged rows into the
table, and sets the lane's marker.
"""

from __future__ import annotations

import contextlib
import hashlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import psycopg
import pyarrow as pa
from psycopg import sql
from pyarrow import csv
from pydantic import field_validator, model_validator

from anabranch import crash_points
from anabranch.errors import AnabranchError, ConfigError, NotFoundError
from anabranch.tables import marks, options, postgresql_columns, postgresql_keys, session
from anabranch.tables.contract import Owner
from anabranch.tables.marks import NOTHING, Mark
from anabranch.tables.postgresql_columns import Column

__all__ = ["PostgresqlTable"]

_MARKS = "anabranch_marks"
_CLEARS_WITHIN = "2s"
"""How long a statement that clears or drops a staging table waits for a lock that a frozen worker may hold."""


class PostgresqlOptions(options.Options):
    """The settings of a table in PostgreSQL.

    Attributes:
        url: the database's URL, for example ``postgresql://user:${env:PASSWORD}@host:5432/database``.
        table: the table's name, optionally with its schema.
        mode: ``append``, or ``upsert`` to keep only the last row of each key.
        key: the columns of the key, for ``upsert``.
    """

    url: str
    table: str
    mode: Literal["append", "upsert"] = "append"
    key: tuple[str, ...] = ()

    @field_validator("url")
    @classmethod
    def _postgresql(cls, url: str) -> str:
        if not url.startswith(("postgresql://", "postgres://")):
            raise ValueError("write postgresql://user:${env:PASSWORD}@host:5432/database")
        return url

    @model_validator(mode="after")
    def _keyed(self) -> PostgresqlOptions:
        if (self.mode == "upsert") != bool(self.key):
            raise ValueError('mode = "upsert" and key = ["a column"] belong together')
        return self


class _Part(msgspec.Struct, frozen=True):
    """Identifies the rows that one attempt of a Spark task has written to the staging table."""

    attempt: str
    rows: int
    columns: tuple[str, ...]


_read = msgspec.msgpack.Decoder(_Part).decode


@dataclass
class _Rows:
    """Copies the rows of a Spark task into the staging table. Each row also gets the attempt's id and a number."""

    connection: psycopg.Connection[Any]
    stage: sql.Identifier
    columns: tuple[str, ...]
    where: str
    _attempt: str = field(default_factory=lambda: uuid.uuid4().hex)
    _count: int = 0

    def write(self, rows: pa.RecordBatch) -> None:
        numbers = pa.array(range(self._count, self._count + rows.num_rows), pa.int64())
        self._count += rows.num_rows
        texts = [postgresql_columns.text(column) for column in rows.columns]
        for name, column, text in zip(self.columns, rows.columns, texts, strict=True):
            postgresql_columns.check_text(name, column, text, self.where)
        columns = [pa.repeat(pa.scalar(self._attempt), rows.num_rows), numbers, *texts]
        names = ["attempt", "n", *rows.schema.names]
        sink = pa.BufferOutputStream()
        csv.write_csv(pa.table(columns, names), sink, csv.WriteOptions(include_header=False, quoting_style="needed"))
        copy = sql.SQL("copy {} (attempt, n, {}) from stdin (format csv)").format(
            self.stage, sql.SQL(", ").join(map(_column, self.columns))
        )
        with session.told(self.where), self.connection.cursor() as cursor, cursor.copy(copy) as target:
            target.write(sink.getvalue().to_pybytes())

    def close(self) -> list[bytes]:
        self.connection.close()
        return [msgspec.msgpack.encode(_Part(self._attempt, self._count, self.columns))]

    def abort(self) -> None:
        self.connection.close()


class PostgresqlTable:
    """A table in a PostgreSQL database.

    In each schema, the table ``anabranch_marks`` contains the markers of all lanes that write to the schema's tables.
    Each commit and each fence first locks the lane's marker. So a fence waits for a running commit, and after the
    fence, former owners can't commit.

    If :meth:`prepare` creates a dropped table again, the table gets a new id, and the old markers are deleted. If
    another program creates the table again, the id and the markers stay.

    A lane has a staging table for each epoch. Staging tables are unlogged: PostgreSQL empties them after a crash.

    Statements with names of schemas, tables or columns have literals instead of parameters: if a statement has
    parameters, psycopg takes a ``%`` in a name for a placeholder.
    """

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self._name = name
        self._given = options.checked(PostgresqlOptions, name, settings)
        self._schema, _, self._table = self._given.table.rpartition(".")

    def __str__(self) -> str:
        return f"output {self._name}, the table {self._given.table} in PostgreSQL"

    def id(self) -> str:
        with self._connected() as connection:
            self._columns(connection)
            query = sql.SQL("select id from {} where relation = {} and lane = ''")
            row = connection.execute(query.format(self._at(_MARKS), self._table)).fetchone()
        if row is None:
            raise NotFoundError(f"{self} has no marks", f"restore the table {_MARKS} beside it")
        return str(row[0])

    def prepare(self, schema: pa.Schema, create: bool) -> None:
        wanted = {each.name: postgresql_columns.type_of(each, str(self)) for each in schema}
        missing = [name for name in self._given.key if name not in wanted]
        if missing:
            raise ConfigError(
                f"outputs.{self._name}.key names {missing[0]!r}, and the job writes {', '.join(wanted)}",
                "name columns that it writes",
            )
        with self._connected() as connection:
            if create:
                self._make(connection, wanted)
            postgresql_columns.check(self._columns(connection), wanted, str(self), self._given.table)
            if self._given.key:
                table = self._regclass(connection, self._table)
                postgresql_keys.check(connection, table, self._given.key, self._name, str(self))

    def fence(self, owner: Owner, new: bool | None) -> None:
        with self._connected() as connection:
            self._lock(connection, owner)
            mark = marks.fenced(self._found(connection, owner.job, owner.lane), owner, str(self), new)
            if mark is not None:
                self._put(connection, owner, mark)
        self._forget(owner)

    def last(self, job: str, lane: str) -> int:
        with self._connected() as connection:
            found = self._found(connection, job, lane)
        return NOTHING if found is None else found.batch

    def writers(self, job: str) -> list[str]:
        query = sql.SQL("select lane from {} where relation = {} and job = {} and batch > {} order by lane")
        with self._connected() as connection:
            if not self._exists(connection, _MARKS):
                return []
            found = connection.execute(query.format(self._at(_MARKS), self._table, job, NOTHING)).fetchall()
        return [lane for (lane,) in found]

    def writer(self, owner: Owner, schema: pa.Schema) -> _Rows:
        stage = self._stage(owner)
        with self._connected() as connection:
            # Several Spark tasks may create the staging table at the same time, and "if not exists" alone doesn't make
            # this safe.
            connection.execute("select pg_advisory_xact_lock(%s)", [_number(stage)])
            columns = [
                sql.SQL("{} {}").format(_column(each.name), postgresql_columns.type_of(each, str(self)))
                for each in schema
            ]
            connection.execute(
                sql.SQL("create unlogged table if not exists {} (attempt text, n bigint, {})").format(
                    self._at(stage), sql.SQL(", ").join(columns)
                )
            )
        return _Rows(self._connect(autocommit=True), self._at(stage), tuple(schema.names), str(self))

    def commit(self, owner: Owner, batch: int, parts: Sequence[bytes]) -> None:
        wrote = [_read(part) for part in parts]
        with self._connected() as connection:
            self._lock(connection, owner)
            mark = marks.check(self._found(connection, owner.job, owner.lane), owner, str(self))
            if mark.batch < batch:
                self._take_in(connection, owner, wrote)
                self._put(connection, owner, Mark(owner.epoch, batch))
        crash_points.reach(crash_points.NAMED, owner.lane, batch)
        self._clear("truncate {}", self._stage(owner))

    def leave(self, owner: Owner) -> None:
        self._clear("drop table if exists {}", self._stage(owner))

    def _take_in(self, connection: psycopg.Connection[Any], owner: Owner, wrote: Sequence[_Part]) -> None:
        """Insert the rows of the parts ``wrote`` from the staging table into the table itself. Raises AnabranchError if
        rows are missing from the staging table.

        With ``upsert``, if several of these rows have the same key, only the last one is used. If the table already has
        a row with this key, the table's row is updated. What counts as the same key is up to the table."""
        stage, attempts = self._at(self._stage(owner)), sql.SQL("{}::text[]").format([part.attempt for part in wrote])
        named = sql.SQL("attempt = any({})").format(attempts)
        row = connection.execute(sql.SQL("select count(*) from {} where {}").format(stage, named)).fetchone()
        count, wanted = 0 if row is None else row[0], sum(part.rows for part in wrote)
        if count != wanted:
            raise AnabranchError(
                f"of {wanted} rows that tasks have just written beside {self}, {count} are there",
                "PostgreSQL was restarted after a crash, maybe; the batch is written again, and nothing is lost",
            )
        names = wrote[0].columns
        columns = sql.SQL(", ").join(map(sql.Identifier, names))
        held = self._columns(connection)
        values = self._values(connection, owner, names, held)
        order = sql.SQL("array_position({}, attempt)").format(attempts)
        if self._given.mode == "append":
            text = "insert into {} ({}) select {} from {} where {} order by {}, n"
            connection.execute(sql.SQL(text).format(self._at(self._table), columns, values, stage, named, order))
            return
        staged, table = {name: _column(name) for name in self._given.key}, self._regclass(connection, self._table)
        compared = postgresql_keys.compared(connection, table, staged, held)
        apart = postgresql_keys.apart(connection, table, staged, ("attempt", "n"))
        key, same = sql.SQL(", ").join(compared), sql.SQL(", ").join([*compared, *apart])
        others = [sql.SQL("{0} = excluded.{0}").format(sql.Identifier(n)) for n in names if n not in self._given.key]
        action = sql.SQL("update set {}").format(sql.SQL(", ").join(others)) if others else sql.SQL("nothing")
        # Rows are inserted in the order of the key, so that lanes with common keys can't deadlock.
        text = (
            "insert into {} ({}) select {} from "
            "(select distinct on ({}) * from {} where {} order by {}, {} desc, n desc) as newest "
            "order by {} on conflict ({}) do {}"
        )
        conflict = sql.SQL(", ").join(map(sql.Identifier, self._given.key))
        whole = sql.SQL(text).format(
            self._at(self._table), columns, values, same, stage, named, same, order, key, conflict, action
        )
        connection.execute(whole)

    def _values(
        self, connection: psycopg.Connection[Any], owner: Owner, names: Sequence[str], held: Mapping[str, Column]
    ) -> sql.Composable:
        """The SQL values to insert from the staging table into the columns ``names`` of the table. ``held`` has all
        columns of the table. Raises ConflictError if the table no longer accepts these values, because another program
        has changed the table.
        """
        stage = self._regclass(connection, self._stage(owner))
        _, _, *staged = postgresql_columns.columns_of(connection, stage).values()  # the first two aren't the job's
        wanted = {name: sql.SQL(each.type) for name, each in zip(names, staged, strict=True)}
        postgresql_columns.check(held, wanted, str(self), self._given.table)
        return sql.SQL(", ").join(postgresql_columns.assigned(_column(name), held[name]) for name in names)

    def _make(self, connection: psycopg.Connection[Any], wanted: Mapping[str, sql.SQL]) -> None:
        connection.execute("select pg_advisory_xact_lock(%s)", [_number(_MARKS)])
        connection.execute(
            sql.SQL(
                "create table if not exists {} (relation text, job text, lane text, epoch bigint not null, "
                "batch bigint not null, id text, primary key (relation, job, lane))"
            ).format(self._at(_MARKS))
        )
        columns = [sql.SQL("{} {}").format(sql.Identifier(name), kind) for name, kind in wanted.items()]
        if self._given.key:
            key = sql.SQL(", ").join(map(sql.Identifier, self._given.key))
            columns.append(sql.SQL("primary key ({})").format(key))
        if not self._exists(connection, self._table):
            whole = sql.SQL("create table {} ({})").format(self._at(self._table), sql.SQL(", ").join(columns))
            connection.execute(whole)
            former = sql.SQL("delete from {} where relation = {}").format(self._at(_MARKS), self._table)
            connection.execute(former)
        first = sql.SQL("insert into {} values ({}, '', '', 0, {}, {}) on conflict do nothing")
        connection.execute(first.format(self._at(_MARKS), self._table, NOTHING, uuid.uuid4().hex))

    def _columns(self, connection: psycopg.Connection[Any]) -> dict[str, Column]:
        if not self._exists(connection, self._table):
            raise marks.missing(str(self))
        return postgresql_columns.columns_of(connection, self._regclass(connection, self._table))

    def _found(self, connection: psycopg.Connection[Any], job: str, lane: str) -> Mark | None:
        query = sql.SQL("select epoch, batch from {} where relation = {} and job = {} and lane = {}")
        row = connection.execute(query.format(self._at(_MARKS), self._table, job, lane)).fetchone()
        return None if row is None else Mark(*row)

    def _put(self, connection: psycopg.Connection[Any], owner: Owner, mark: Mark) -> None:
        query = sql.SQL(
            "insert into {} values ({}, {}, {}, {}, {}) on conflict (relation, job, lane) "
            "do update set epoch = excluded.epoch, batch = excluded.batch"
        )
        values = (self._table, owner.job, owner.lane, mark.epoch, mark.batch)
        connection.execute(query.format(self._at(_MARKS), *values))

    def _lock(self, connection: psycopg.Connection[Any], owner: Owner) -> None:
        """Lock the lane's marker, which need not exist yet, until the transaction ends.

        This method takes two locks. One is named after the OID of the schema's table of markers, because two processes
        may use different names for the same table (``orders``, ``public.orders``). The other is the only lock that
        processes of older versions take.
        """
        query = "select to_regclass(%s)::oid::text"
        row = connection.execute(query, [self._regclass(connection, _MARKS)]).fetchone()
        held_in = None if row is None else row[0]
        for table in (self._given.table, f"{held_in} {self._table}"):
            name = f"{table} {owner.job} {owner.lane}"
            connection.execute("select pg_advisory_xact_lock(%s)", [_number(name)])

    def _stage(self, owner: Owner) -> str:
        return f"{self._stages(owner)}{owner.epoch}"

    def _stages(self, owner: Owner) -> str:
        """The beginning of the names of a lane's staging tables. The rest of a name is the epoch."""
        return f"anabranch_{hashlib.sha256(f'{self._table} {owner.job} {owner.lane}'.encode()).hexdigest()[:16]}_"

    def _forget(self, owner: Owner) -> None:
        """Remove the staging tables of former owners."""
        begins = self._stages(owner)
        with self._connected() as connection:
            query = "select relname from pg_class where relkind = 'r' and starts_with(relname, %s)"
            names = [name for (name,) in connection.execute(query, [begins])]
        for name in names:
            if int(name.removeprefix(begins)) < owner.epoch:
                self._clear("drop table if exists {}", name)

    def _clear(self, statement: str, stage: str) -> None:
        """Clear or drop the staging table ``stage`` with an SQL statement, in which ``{}`` stands for the table. If the
        table stays locked, do nothing. If the table doesn't exist, do nothing, because a fence may have removed it.
        Remaining rows do no harm: a commit names attempts, and inserts only the rows of these attempts."""
        with (
            session.told(str(self)),
            contextlib.suppress(psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedTable),
            self._connect() as connection,
        ):
            connection.execute(sql.SQL("set lock_timeout = {}").format(_CLEARS_WITHIN))
            connection.execute(sql.SQL(statement).format(self._at(stage)))

    def _exists(self, connection: psycopg.Connection[Any], relation: str) -> bool:
        row = connection.execute(
            "select to_regclass(%s) is not null", [self._regclass(connection, relation)]
        ).fetchone()
        return row is not None and bool(row[0])

    def _regclass(self, connection: psycopg.Connection[Any], relation: str) -> str:
        return self._at(relation).as_string(connection)

    def _at(self, relation: str) -> sql.Identifier:
        return sql.Identifier(*([self._schema] if self._schema else []), relation)

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        """A context with a connection in a transaction, which is committed at the end unless an error is raised."""
        with session.told(str(self)), self._connect() as connection:
            yield connection

    def _connect(self, autocommit: bool = False) -> psycopg.Connection[Any]:
        """A new connection, for which the references to secrets in the URL are resolved."""
        return session.connect(f"outputs.{self._name}.url", self._given.url, str(self), autocommit)


def _column(name: str) -> sql.Identifier:
    """A column's name in the staging table. The prefix avoids conflicts with the staging table's own columns."""
    return sql.Identifier(f"c_{name}")


def _number(name: str) -> int:
    """The number of the advisory lock for a name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
