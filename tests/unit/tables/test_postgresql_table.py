"""A table in a real PostgreSQL: types, upserts, locks, a server that goes away, and what is refused."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import traceback
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from anabranch import crash_points
from anabranch.container import surroundings
from anabranch.container.error_text import is_final
from anabranch.errors import AnabranchError, ConfigError, ConflictError, FencedError, NotFoundError, StateError
from anabranch.model.lane import Lane
from anabranch.spark.query.tables import TablePublisher
from anabranch.systems.output import Written
from anabranch.tables import session
from anabranch.tables.postgresql import PostgresqlTable
from tests.support import postgres
from tests.unit.tables.helpers import LANE, SCHEMA, committed, owner, written


@pytest.fixture
def url(postgresql_url: str) -> str:
    return postgresql_url


@pytest.fixture
def connection(url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(url, autocommit=True) as made:
        yield made


def opened(url: str, **settings: object) -> PostgresqlTable:
    return PostgresqlTable("orders", {"url": url, "table": "orders", **settings})


def table(url: str, **settings: object) -> PostgresqlTable:
    made = opened(url, **settings)
    made.prepare(SCHEMA, create=True)
    made.fence(owner(1), new=True)
    return made


def test_all_types_come_through(url: str, connection: psycopg.Connection[Any]) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    columns: dict[str, tuple[pa.DataType, list[Any]]] = {
        "yes": (pa.bool_(), [True, None]),
        "small": (pa.int8(), [-1, None]),
        "big": (pa.int64(), [2**62, None]),
        "real": (pa.float64(), [1.5e300, float("inf")]),
        "text": (pa.string(), ['a "quoted", \\. \n line', ""]),
        "none": (pa.string(), [None, "\\N"]),
        "bytes": (pa.binary(), [b"\x00\xff", b""]),
        "day": (pa.date32(), [date(2026, 1, 2), None]),
        "at": (pa.timestamp("us", tz="UTC"), [at, None]),
        "local": (pa.timestamp("us"), [at.replace(tzinfo=None), None]),
        "price": (pa.decimal128(10, 2), [Decimal("12.30"), None]),
        "tags": (pa.list_(pa.string()), [["a", 'b"'], []]),
        "inner": (pa.struct([("x", pa.int32())]), [{"x": 1}, None]),
    }
    schema = pa.schema([(name, kind) for name, (kind, _) in columns.items()])
    made = opened(url)
    made.prepare(schema, create=True)
    made.prepare(schema, create=False)
    made.fence(owner(1), new=True)
    writer = made.writer(owner(1), schema)
    arrays = [pa.array(values, kind) for kind, values in columns.values()]
    writer.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
    made.commit(owner(1), 0, writer.close())
    found = connection.execute("select * from orders").fetchall()
    assert found == list(zip(*(values for _, values in columns.values()), strict=True))


def test_upserts_leave_the_last_row_of_each_key(url: str, connection: psycopg.Connection[Any]) -> None:
    made = table(url, mode="upsert", key=["id"])
    committed(made, owner(1), 0, [1, 2, 1], [2], name="first")
    committed(made, owner(1), 1, [2, 3], name="second")
    committed(made, owner(1), 0, [1, 2], name="replayed")
    found = connection.execute("select id, name from orders order by id").fetchall()
    assert found == [(1, "first-1"), (2, "second-2"), (3, "second-3")]


UUID = "0190f5fa-7e35-7000-8000-000000000001"
IGNORING_CASE = "create collation \"any case\" (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"


@pytest.mark.parametrize(
    ("held", "index", "keys", "found"),
    [
        ("uuid", "(key)", [UUID, UUID.upper(), "{" + UUID + "}"], {UUID: 2}),
        ("char(6)", "(key)", ["AB", "AB ", "ab", "AB" + " " * 9], {"AB": 3, "ab": 2}),
        ("varchar(3)", "(key)", ["AB  ", "AB ", "AB", "AB" + " " * 9], {"AB ": 3, "AB": 2}),
        ("varchar", "(key)", ["AB ", "AB"], {"AB ": 0, "AB": 1}),
        ("text", "(key)", ["AB", "ab"], {"AB": 0, "ab": 1}),
        ('text collate "any case"', "(key)", ["AB", "ab"], {"AB": 1}),
        ("text", '(key collate "any case")', ["AB", "ab"], {"AB": 1}),
        ("text", '(key); create unique index on orders (key collate "any case", n)', ["AB", "ab"], {"AB": 0, "ab": 1}),
    ],
)
def test_keys_of_one_batch_are_compared_as_the_table_does(
    url: str, connection: psycopg.Connection[Any], held: str, index: str, keys: list[str], found: dict[str, int]
) -> None:
    """The first row of a key decides how the key is written."""
    if "any case" in held + index:
        connection.execute(IGNORING_CASE)
    connection.execute(f"create table orders (key {held}, n bigint); create unique index on orders {index}".encode())
    schema = pa.schema([("key", pa.string()), ("n", pa.int64())])
    made = opened(url, mode="upsert", key=["key"])
    made.prepare(schema, create=True)
    made.fence(owner(1), new=True)
    made.commit(owner(1), 0, wrote(made, schema, {"key": keys[0], "n": -1}))
    made.commit(owner(1), 1, wrote(made, schema, *({"key": key, "n": n} for n, key in enumerate(keys))))
    rows = connection.execute("select key::text, n from orders").fetchall()
    assert dict(rows) == found


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(("nulls", "kept"), [("", [0, 1, 3, 4, 5]), ("nulls not distinct", [1, 3, 5])])
def test_rows_with_a_null_in_their_key_are_those_that_the_table_takes_them_for(
    url: str, connection: psycopg.Connection[Any], nulls: str, kept: list[int], together: bool
) -> None:
    """In one batch or in several."""
    connection.execute("create table orders (id text, line bigint, n bigint)")
    connection.execute(f"create unique index on orders (id, line) {nulls}".encode())
    schema = pa.schema([("id", pa.string()), ("line", pa.int64()), ("n", pa.int64())])
    made = opened(url, mode="upsert", key=["id", "line"])
    made.prepare(schema, create=True)
    made.fence(owner(1), new=True)
    keys = [("a", None), ("a", None), ("a", 1), ("a", 1), (None, None), (None, None)]
    found = [{"id": key, "line": line, "n": n} for n, (key, line) in enumerate(keys)]
    for batch, some in enumerate([found] if together else [[row] for row in found]):
        made.commit(owner(1), batch, wrote(made, schema, *some))
    assert [n for (n,) in connection.execute("select n from orders order by n")] == kept


def test_a_key_that_is_too_long_is_not_taken_for_another_one(url: str, connection: psycopg.Connection[Any]) -> None:
    connection.execute("create table orders (id varchar(3) primary key, n bigint)")
    schema = pa.schema([("id", pa.string()), ("n", pa.int64())])
    made = opened(url, mode="upsert", key=["id"])
    made.prepare(schema, create=True)
    made.fence(owner(1), new=True)
    with pytest.raises(ConflictError, match="value too long"):
        made.commit(owner(1), 0, wrote(made, schema, {"id": "abcd", "n": 1}, {"id": "abc", "n": 2}))


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("create unique index on orders (id)", None),
        ("create unique index on orders (id) include (name)", None),
        ("alter table orders add unique (id, name)", "no unique index on"),
        ("create index on orders (id)", "no unique index on"),
        ("create unique index on orders (name) include (id)", "no unique index on"),
        ("create unique index on orders (id) where name is not null", "no unique index on"),
        ("create unique index on orders (id, lower(name))", "no unique index on"),
        ("create unique index on orders (lower(name))", "no unique index on"),
        ("alter table orders add unique (id) deferrable", "a deferrable constraint on"),
        ("alter table orders add unique (id), add unique (id) deferrable", "a deferrable constraint on"),
    ],
)
def test_upserts_need_an_index_by_which_postgresql_finds_the_key(
    url: str, connection: psycopg.Connection[Any], made: str, told: str | None
) -> None:
    table(url)
    connection.execute(made)
    upserting = opened(url, mode="upsert", key=["id"])
    if told is not None:
        with pytest.raises(ConflictError, match=rf"{told} \(id\)"):
            upserting.prepare(SCHEMA, create=False)
        return
    upserting.prepare(SCHEMA, create=False)
    committed(upserting, owner(1), 0, [1, 2, 1])
    assert connection.execute("select id from orders order by id").fetchall() == [(1,), (2,)]


def test_an_index_that_could_not_be_built_is_not_used(url: str, connection: psycopg.Connection[Any]) -> None:
    committed(table(url), owner(1), 0, [1, 1])
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute("create unique index concurrently on orders (id)")
    with pytest.raises(ConflictError, match=r"no unique index on \(id\)"):
        opened(url, mode="upsert", key=["id"]).prepare(SCHEMA, create=False)


def test_the_last_task_and_the_last_row_win(url: str, connection: psycopg.Connection[Any]) -> None:
    made = table(url, mode="upsert", key=["id"])
    first, second = written(made, owner(1), [1], name="a"), written(made, owner(1), [1], name="b")
    made.commit(owner(1), 0, [*second, *first])
    assert connection.execute("select name from orders").fetchall() == [("a-1",)]


@pytest.mark.parametrize("name", ["orders", "public.orders"])
def test_a_fence_waits_for_a_commit_that_is_under_way(url: str, connection: psycopg.Connection[Any], name: str) -> None:
    """It is in the table before the fence returns; or it is fenced. The next owner may name the schema, too."""
    made, other = table(url), opened(url, table=name)
    connection.execute("begin")
    connection.execute("lock table orders in access exclusive mode")  # somebody holds up the commit
    parts = written(made, owner(1), [1])
    outcome: list[object] = []

    def commit() -> None:
        try:
            outcome.append(made.commit(owner(1), 0, parts))
        except AnabranchError as error:
            outcome.append(error)

    committing = threading.Thread(target=commit)
    committing.start()
    fencing = threading.Thread(target=other.fence, args=(owner(2), None))
    fencing.start()
    fencing.join(1)
    fenced_first = not fencing.is_alive()  # nothing can be committed yet: the table is locked
    connection.execute("commit")
    committing.join(30)
    fencing.join(30)
    assert not (fenced_first and outcome == [None])
    rows = connection.execute("select count(*) from orders").fetchone()
    assert rows == (1 if outcome == [None] else 0,)
    assert other.last("orders", LANE) == (0 if outcome == [None] else -1)
    with pytest.raises(FencedError):
        made.commit(owner(1), 1, written(made, owner(1), [2]))


def test_a_commit_that_somebody_fences_just_after_it_has_succeeded(url: str) -> None:
    made, other = table(url), opened(url)
    parts = written(made, owner(1), [1])

    def fence(step: str, lane: str, batch: int) -> None:
        if step == crash_points.NAMED:
            other.fence(owner(2), None)

    with crash_points.watched(fence):
        made.commit(owner(1), 0, parts)
    assert other.last("orders", LANE) == 0


def test_rows_of_a_worker_that_writes_late_are_never_seen(url: str, connection: psycopg.Connection[Any]) -> None:
    """Of an attempt that nobody named; and what former incarnations have left is taken away."""
    made = table(url)
    written(made, owner(1), [7])
    committed(made, owner(1), 0, [1])
    written(made, owner(1), [8])
    opened(url).fence(owner(2), None)
    committed(made, owner(2), 1, [2])
    assert connection.execute("select id from orders order by id").fetchall() == [(1,), (2,)]
    made.leave(owner(2))
    left = connection.execute("select relname from pg_class where starts_with(relname, 'anabranch_')").fetchall()
    assert {name for (name,) in left} == {"anabranch_marks", "anabranch_marks_pkey"}


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_server_that_loses_batches_in_a_fail_over_takes_no_later_ones(
    url: str, connection: psycopg.Connection[Any], attempts: int
) -> None:
    """A replica that lagged has neither their rows nor the marker."""
    made = table(url)
    lane = Lane(
        id=LANE, job="orders", deployment=0, stage="0", group="outputs", seat="0", tasks=(), ssps=(), epoch=1
    )  # fmt: skip

    def publish(batch: int) -> None:
        (part,) = written(made, owner(1), [batch])
        publisher.publish(batch, [Written(stream="orders", partition=0, slot=0, rows=1, ref=part)], {})

    publisher = TablePublisher(lane, 1, {"orders": made})
    publisher.take(new=True)
    for batch in range(3):
        publish(batch)
    connection.execute("delete from orders where id = 2")
    connection.execute(f"update anabranch_marks set batch = 1 where lane = '{LANE}'".encode())
    if attempts == 2:
        publisher = TablePublisher(lane, 1, {"orders": opened(url)})
        publisher.take(new=False)
    told = (
        f"the table orders in PostgreSQL contains batches of lane {LANE} up to 1, but it used to contain them up to 2"
    )
    with pytest.raises(StateError, match=told) as caught:
        publish(3)
    assert "the rows of batches 2 to 2 are missing from it" in caught.value.cure
    assert "`anabranch reset orders`" in caught.value.cure
    publish(2)  # a lane that still has to repeat the lost batch continues
    publish(3)
    assert connection.execute("select id from orders order by id").fetchall() == [(n,) for n in range(4)]


@pytest.mark.parametrize(
    ("set_to", "is_then"), [("off", "on"), ("local", "local"), ("on", "on"), ("remote_apply", "remote_apply")]
)
@pytest.mark.parametrize("autocommit", [False, True])
def test_a_commit_is_durable_whatever_the_database_says(
    url: str, connection: psycopg.Connection[Any], set_to: str, is_then: str, autocommit: bool
) -> None:
    name = url.rpartition("/")[2]
    connection.execute(f"alter role current_user in database {name} set synchronous_commit = {set_to}".encode())
    with psycopg.connect(url) as plain:
        assert plain.execute("show synchronous_commit").fetchone() == (set_to,)
    with session.connect("outputs.orders.url", url, "the table", autocommit) as mine:
        mine.rollback()
        assert mine.execute("show synchronous_commit").fetchone() == (is_then,)
        assert mine.autocommit == autocommit


def test_the_url_can_say_that_a_commit_need_not_be_durable(url: str) -> None:
    given = f"{url}?options=-csynchronous_commit%3Doff"
    with session.connect("outputs.orders.url", given, "the table") as mine:
        assert mine.execute("show synchronous_commit").fetchone() == ("off",)


def test_a_table_that_is_created_anew_has_another_id_and_no_markers(
    url: str, connection: psycopg.Connection[Any]
) -> None:
    made = table(url)
    committed(made, owner(1), 0, [1])
    former = made.id()
    made.prepare(SCHEMA, create=True)
    assert (made.id(), made.last("orders", LANE)) == (former, 0)
    connection.execute("drop table orders")
    made.prepare(SCHEMA, create=True)
    assert made.id() != former
    assert made.last("orders", LANE) == -1
    with pytest.raises(StateError, match="knows nothing of lane"):
        made.fence(owner(2), new=False)


def test_a_table_has_the_same_id_under_all_its_names(url: str) -> None:
    assert table(url).id() == opened(url, table="public.orders").id()


@pytest.mark.parametrize("upserts", [False, True])
@pytest.mark.parametrize("name", ["tip %", "a%%b", "%s", "%(attempts)s"])
def test_a_percent_sign_is_a_character_of_a_name(
    url: str, connection: psycopg.Connection[Any], name: str, upserts: bool
) -> None:
    connection.execute('create schema "50%"')
    settings = {"mode": "upsert", "key": [name]} if upserts else {}
    made = opened(url, table=f"50%.orders {name}", **settings)
    schema = pa.schema([(name, pa.int64()), (f"more {name}", pa.string())])
    made.prepare(schema, create=True)
    made.prepare(schema, create=False)
    made.fence(owner(1), new=True)
    made.commit(owner(1), 0, wrote(made, schema, {name: 1, f"more {name}": "x"}))
    made.leave(owner(1))
    assert (made.last("orders", LANE), made.writers("orders"), len(made.id())) == (0, [LANE], 32)
    select = sql.SQL("select {} from {}").format(
        sql.SQL(", ").join(map(sql.Identifier, schema.names)), sql.Identifier("50%", f"orders {name}")
    )
    assert connection.execute(select).fetchall() == [(1, "x")]


def test_a_wrong_statement_is_not_told_as_a_lost_connection() -> None:
    told = "the table failed: the query has 1 placeholder but 0 parameters were passed"
    with pytest.raises(AnabranchError, match=told) as caught, session.told("the table"):
        raise psycopg.ProgrammingError("the query has 1 placeholder but 0 parameters were passed")
    assert surroundings.awaited(str(caught.value)) is None


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_a_server_that_is_restarted_in_the_middle_of_a_batch(how: signal.Signals) -> None:
    """After a crash what was staged is gone, and it is told; written once more, it is there once."""
    with postgres.serving() as server:
        url = server.new_database()
        made = table(url)
        committed(made, owner(1), 0, [1])
        parts = written(made, owner(1), [2, 3])
        busy = made.writer(owner(1), SCHEMA)
        server.stop(how)
        threading.Timer(1, server.start).start()
        if how is signal.SIGQUIT:
            with pytest.raises(AnabranchError, match=r"of 2 rows .* 0 are there"):
                made.commit(owner(1), 1, parts)
            parts = written(made, owner(1), [2, 3])
        made.commit(owner(1), 1, parts)
        with pytest.raises(AnabranchError, match=r"the connection to output orders, .* was lost"):
            written_on(busy)
        committed(made, owner(1), 1, [2, 3])
        with psycopg.connect(url) as connection:
            assert connection.execute("select id from orders order by id").fetchall() == [(1,), (2,), (3,)]


def test_a_server_that_takes_no_writes_is_one_that_is_away(postgres_server: postgres.Server, url: str) -> None:
    made = table(url)
    with contextlib.ExitStack() as failing_over:
        failing_over.enter_context(postgres_server.read_only(url))
        with pytest.raises(AnabranchError, match="takes no writes now: cannot execute") as caught:
            opened(f"{url}?target_session_attrs=any").fence(owner(2), new=False)
        found = surroundings.awaited(str(caught.value))
        assert found is not None
        assert found.name == "the database"
        threading.Timer(1, failing_over.close).start()
        made.fence(owner(2), new=False)  # tries to connect until a session can write


def written_on(writer: Any) -> None:
    writer.write(pa.RecordBatch.from_pylist([{"id": 9}], schema=SCHEMA))


def test_what_is_wrong_is_told(url: str, connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFoundError, match="doesn't exist"):
        opened(url).prepare(SCHEMA, create=False)
    connection.execute("create table orders (id integer, name varchar(40), at timestamptz, extra text not null)")
    with pytest.raises(ConflictError, match=r"the job writes 'id' as bigint; in .* it is integer"):
        opened(url).prepare(SCHEMA, create=True)
    connection.execute("alter table orders alter column id type bigint")
    with pytest.raises(ConflictError, match="a column 'extra' that may not be null"):
        opened(url).prepare(SCHEMA, create=True)
    connection.execute("alter table orders alter column extra set default 'x'")
    opened(url).prepare(SCHEMA, create=True)
    with pytest.raises(ConflictError, match=r"no unique index on \(id\)"):
        opened(url, mode="upsert", key=["id"]).prepare(SCHEMA, create=True)
    connection.execute("alter table orders drop column name")
    with pytest.raises(ConflictError, match=r"a column 'name' .*, which") as caught:
        opened(url).prepare(SCHEMA, create=True)
    connection.execute(caught.value.cure.removeprefix("add it: "))
    made = table(url)
    connection.execute("alter table orders add check (id < 10)")
    with pytest.raises(ConflictError, match=r"doesn't take a row: .* violates check constraint"):
        committed(made, owner(1), 0, [1, 10])
    monkeypatch.setitem(session.LIMITS, "lock_timeout", "300ms")
    with connection.transaction():
        connection.execute("lock table orders in access exclusive mode")
        with pytest.raises(AnabranchError, match="is locked by another program"):
            committed(made, owner(1), 0, [1])
    connection.execute("alter table orders rename to away")
    with pytest.raises(NotFoundError, match="doesn't exist"):
        committed(made, owner(1), 0, [1])
    connection.execute("alter table away rename to orders")
    committed(made, owner(1), 0, [1])
    assert connection.execute("select id from orders").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("kind", "held", "value", "found"),
    [
        (pa.int8(), "bigint", 5, "5"),
        (pa.int32(), "bigint", 2**31 - 1, "2147483647"),
        (pa.float32(), "double precision", 0.5, "0.5"),
        (pa.string(), "uuid", UUID, UUID),
        (pa.string(), "varchar(3)", "äbc", "äbc"),
        (pa.string(), "char(3)", "abc", "abc"),
        (pa.list_(pa.int32()), "json", [1, None], "[1, null]"),
        (pa.decimal128(10, 2), "numeric", Decimal("12.30"), "12.30"),
        (pa.decimal128(10, 2), "numeric(12,4)", Decimal("12.30"), "12.3000"),
        (pa.decimal128(10, 2), "numeric(10,2)", Decimal("-99999999.99"), "-99999999.99"),
        (pa.string(), "varchar(3)", "abcd", None),
        (pa.string(), "char(3)", "abcd", None),
        (pa.string(), "uuid", "abcd", None),
    ],
)
@pytest.mark.parametrize("settings", [{}, {"mode": "upsert", "key": ["id"]}], ids=["append", "upsert"])
def test_values_get_into_a_column_of_another_type_whole_or_not_at_all(
    url: str,
    connection: psycopg.Connection[Any],
    kind: pa.DataType,
    held: str,
    value: object,
    found: str | None,
    settings: dict[str, object],
) -> None:
    connection.execute(f"create table orders (id bigint primary key, x {held})".encode())
    schema = pa.schema([("id", pa.int64()), ("x", kind)])
    made = opened(url, **settings)
    made.prepare(schema, create=True)
    made.fence(owner(1), new=True)
    parts = wrote(made, schema, {"id": 1, "x": value})
    if found is None:
        with pytest.raises(ConflictError, match=r"doesn't take a row: .*(too long|invalid input)"):
            made.commit(owner(1), 0, parts)
        assert connection.execute("select count(*) from orders").fetchone() == (0,)
        return
    made.commit(owner(1), 0, parts)
    assert connection.execute("select x::text from orders").fetchall() == [(found,)]


@pytest.mark.parametrize("held", ["numeric(10,2)", "numeric(14,6)", "numeric(18,4)", "numeric(6,-3)"])
def test_a_numeric_column_with_fewer_digits_is_refused(
    url: str, connection: psycopg.Connection[Any], held: str
) -> None:
    """PostgreSQL would round some of the numbers, or not take them."""
    connection.execute(f"create table orders (price {held})".encode())
    with pytest.raises(ConflictError, match=re.escape(f"it is {held}, which has too few digits")) as caught:
        opened(url).prepare(pa.schema([("price", pa.decimal128(16, 6))]), create=False)
    assert caught.value.cure == "cast it in the job, or change the column's type"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("alter column name type numeric(4,0)", r"writes 'name' as numeric\(10,2\); in .* it is numeric\(4,0\)"),
        ("alter column at type date", "writes 'at' as timestamp with time zone; in .* it is date"),
        ("drop column name", r"writes a column 'name' \(numeric\(10,2\)\), which .* doesn't have"),
    ],
)
def test_a_table_that_another_program_changes_while_the_job_runs(
    url: str, connection: psycopg.Connection[Any], change: str, told: str
) -> None:
    """PostgreSQL would cut values without saying so."""
    schema = pa.schema([("name", pa.decimal128(10, 2)), ("at", pa.timestamp("us", tz="UTC"))])
    made = opened(url)
    made.prepare(schema, create=True)
    made.fence(owner(1), new=True)
    parts = wrote(made, schema, {"name": Decimal("12.34"), "at": datetime(2026, 1, 2, 3, tzinfo=UTC)})
    connection.execute(f"alter table orders {change}".encode())
    with pytest.raises(ConflictError, match=told):
        made.commit(owner(1), 0, parts)
    assert made.last("orders", LANE) == -1


def wrote(made: PostgresqlTable, schema: pa.Schema, *found: dict[str, object]) -> list[bytes]:
    writer = made.writer(owner(1), schema)
    writer.write(pa.RecordBatch.from_pylist(list(found), schema=schema))
    return writer.close()


TEXTS = pa.list_(pa.string())


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        (pa.string(), "a\0b", r"'a\x00b'"),
        (pa.string(), "a" * 100 + "\0", "'" + "a" * 58 + "…"),
        (TEXTS, ["a", "\0"], r"""'["a", "\\u0000"]'"""),
        (TEXTS, ["\\\0"], r"""'["\\\\\\u0000"]'"""),
        (pa.map_(pa.string(), pa.int32()), [("\0", 1)], r"""'{"\\u0000": 1}'"""),
    ],
)
def test_a_character_that_postgresql_lacks_is_told_with_its_column(
    url: str, kind: pa.DataType, value: object, shown: str
) -> None:
    made = opened(url)
    schema = pa.schema([("id", pa.int64()), ("x", kind)])
    made.prepare(schema, create=True)
    told = f"'x' contains U+0000, a character that PostgreSQL can't store: {shown}\n"
    with pytest.raises(ConflictError, match=re.escape(told)) as caught:
        wrote(made, schema, {"id": 1}, {"id": 2, "x": value})
    assert "replace(text, chr(0), '')" in caught.value.cure


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"url": "mysql://x"}, "write postgresql://"),
        ({"mode": "upsert"}, "belong together"),
        ({"key": ["id"]}, "belong together"),
        ({"mode": "merge"}, "outputs.orders.mode has the value 'merge'"),
    ],
)
def test_settings_are_checked(settings: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        opened(**{"url": "postgresql://db/shop", **settings})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "password", "told"),
    [
        ("me:${env:PW}@db/shop?sslmod=require", "s3cret", 'accepts: invalid URI query parameter: "sslmod"\n'),
        ("me:${env:PW}@[::1/shop", "s3cret", "accepts: end of string reached"),
        ("me:${env:PW}@db/shop", "s3cret%x", "accepts\n"),
        ("me:${env:PW}@db/shop", "a@s3cret", "accepts\n"),
        ("me:${env:PW}@db/shop", "s3cret/x", "accepts\n"),
        ("me:${env:PW}@db/shop", "a s3cret", "accepts\n"),
        ("me:s3cret%x@db/shop", "", "accepts\n"),
        ("db/shop?password=s3cret%x", "", "accepts\n"),
        ("db/shop?connect_timeout=soon", "", "accepts\n"),
    ],
)
def test_a_url_that_the_client_refuses_is_told_without_its_password(
    monkeypatch: pytest.MonkeyPatch, given: str, password: str, told: str
) -> None:
    monkeypatch.setenv("PW", password)
    refused = re.escape(f"outputs.orders.url isn't a URL that PostgreSQL's client {told}")
    with pytest.raises(ConfigError, match=refused) as caught:
        opened(f"postgresql://{given}").id()
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


def test_a_wrong_password_is_told_and_not_shown(url: str) -> None:
    with pytest.raises(AnabranchError, match="password authentication failed") as caught:
        opened(url.replace(postgres.PASSWORD, "wrong-one")).prepare(SCHEMA, create=True)
    assert "wrong-one" not in str(caught.value)


def test_a_standby_does_not_hide_why_another_server_refuses(postgres_server: postgres.Server, url: str) -> None:
    login = url.rpartition("@")[0]
    with postgres.serving() as standby:
        with standby.admin() as admin:
            admin.execute(f"create database nowhere owner {postgres.USER}".encode())
        several = f"{login}@127.0.0.1:{postgres_server.port},127.0.0.1:{standby.port}/nowhere"
        with standby.read_only("/nowhere"), pytest.raises(AnabranchError, match=r"database .nowhere. does not exist"):
            session.connect("outputs.orders.url", several, "the table")


def test_a_server_that_freezes_holds_up_a_lane_for_a_while_only(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = table(url)
    parts = written(made, owner(1), [1])
    mine = session.connect("outputs.orders.url", url, "the table")
    pid = mine.info.backend_pid
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(session, "ANSWERS_WITHIN", 0.3)
    try:
        with (
            pytest.raises(AnabranchError, match=r"the connection to the table was lost: no answer within 0\.3 s"),
            session.told("the table"),
            mine,
        ):
            mine.execute("select 1")
        assert mine.closed
    finally:
        os.kill(pid, signal.SIGCONT)
    monkeypatch.undo()
    made.commit(owner(1), 0, parts)


def test_a_statement_that_takes_too_long_is_not_told_as_a_lock_of_another_program(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(session.LIMITS, "statement_timeout", "300ms")
    with session.connect("outputs.orders.url", url, "the table") as mine:
        told = r"PostgreSQL cancelled a statement for the table: .* due to statement timeout"
        with pytest.raises(AnabranchError, match=told) as caught, session.told("the table"):
            mine.execute("select pg_sleep(60)")
        mine.rollback()
    assert "longer than statement_timeout (300ms" in caught.value.cure
    assert not is_final(caught.value)


def test_a_connection_is_made_with_all_parameters_of_the_url(url: str, connection: psycopg.Connection[Any]) -> None:
    connection.execute("create schema shop")
    asked = url + "?application_name=shop&options=-csearch_path%3Dshop%20-clock_timeout%3D7s"
    committed(table(asked), owner(1), 0, [1])
    assert connection.execute("select id from shop.orders").fetchall() == [(1,)]
    with session.connect("outputs.orders.url", asked, "the table") as mine:
        assert mine.info.get_parameters()["application_name"] == "shop"
        assert mine.execute("show lock_timeout").fetchone() == ("7s",)
        assert mine.execute("show statement_timeout").fetchone() == ("10min",)


@pytest.mark.parametrize(("given", "idle"), [("", "30"), ("?keepalives_idle=7", "7")])
def test_a_connection_is_kept_alive_as_the_url_says(url: str, given: str, idle: str) -> None:
    with session.connect("outputs.orders.url", url + given, "the table") as mine:
        parameters = mine.info.get_parameters()
    assert (parameters["keepalives_idle"], parameters["tcp_user_timeout"]) == (idle, "120000")
