"""A Delta table: fences that meet a commit in between, other writers, and what is refused."""

from __future__ import annotations

import errno
import json
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import deltalake
import polars as pl
import pyarrow as pa
import pytest
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.schema import PrimitiveType

from anabranch import own_files
from anabranch.config import OutputSettings
from anabranch.container.error_text import is_final
from anabranch.errors import AnabranchError, ConfigError, ConflictError, FencedError, NotFoundError
from anabranch.tables import opening, schemas
from anabranch.tables.delta import DeltaFolder
from tests.unit.tables.helpers import LANE, SCHEMA, committed, owner, rows, synced, written


def opened(path: Path, **settings: object) -> DeltaFolder:
    return DeltaFolder("orders", {"path": str(path / "table"), **settings})


def column(name: str, kind: object, **metadata: object) -> dict[str, object]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


ID, NAME, AT = column("id", "long"), column("name", "string"), column("at", "timestamp")


def made_by_others(
    path: Path, *columns: dict[str, object], protocol: Mapping[str, object], properties: Mapping[str, str] | None = None
) -> DeltaFolder:
    """A table of which there is only the log."""
    about = {
        "id": "11111111-1111-1111-1111-111111111111",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": columns}),
        "partitionColumns": [],
        "configuration": properties or {},
    }
    log = path / "table" / "_delta_log" / f"{0:020}.json"
    log.parent.mkdir(parents=True)
    log.write_text("\n".join(json.dumps(action) for action in ({"protocol": protocol}, {"metaData": about})))
    return opened(path)


@pytest.fixture
def table(tmp_path: Path) -> DeltaFolder:
    made = opened(tmp_path)
    made.prepare(SCHEMA, create=True)
    made.fence(owner(1), new=True)
    return made


def ids(path: Path) -> list[int]:
    return sorted(pl.read_delta(str(path / "table"))["id"].to_list())


def test_a_fence_between_the_look_and_the_commit_is_met(
    table: DeltaFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The protocol's own check: both name the lane's id, and the one that comes late has not seen the other."""
    committed(table, owner(1), 0, [1])
    parts = written(table, owner(1), [2])
    look = deltalake.DeltaTable

    def slowly(path: Path) -> deltalake.DeltaTable:
        monkeypatch.setattr(deltalake, "DeltaTable", look)
        seen = look(path)
        opened(tmp_path).fence(owner(2), new=None)
        return seen

    monkeypatch.setattr(deltalake, "DeltaTable", slowly)
    with pytest.raises(FencedError, match="epoch 2 has taken over"):
        table.commit(owner(1), 1, parts)
    assert ids(tmp_path) == [1]


def test_two_incarnations_that_commit_one_batch_at_once(table: DeltaFolder, tmp_path: Path) -> None:
    """Of the same epoch even: one of them is a replay."""
    parts = [written(table, owner(1), [1, 2]) for _ in range(4)]
    threads = [threading.Thread(target=opened(tmp_path).commit, args=(owner(1), 0, each)) for each in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ids(tmp_path) == [1, 2]


def test_lanes_and_others_write_at_once(table: DeltaFolder, tmp_path: Path) -> None:
    def work(lane: str, first: int) -> None:
        mine = opened(tmp_path)
        mine.fence(owner(1, lane), new=True)
        for batch in range(5):
            committed(mine, owner(1, lane), batch, [first + batch])

    threads = [threading.Thread(target=work, args=(f"0-{n:08x}", n * 5)) for n in range(3)]
    for thread in threads:
        thread.start()
    for n in range(15, 20):
        deltalake.write_deltalake(tmp_path / "table", pa.Table.from_batches([rows([n])]), mode="append")
    for thread in threads:
        thread.join()
    assert ids(tmp_path) == list(range(20))


def test_a_table_that_others_change_all_the_time_is_told(
    table: DeltaFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be better the next time: the error isn't final."""

    def loses(*_: object, **__: object) -> None:
        deltalake.DeltaTable(tmp_path / "table").alter.set_table_description("others were here")
        raise CommitFailedError("others were first")

    parts = written(table, owner(1), [1])
    with monkeypatch.context() as patch:
        patch.setattr(deltalake.DeltaTable, "create_write_transaction", loses)
        told = "is being changed by somebody else: 20 commits in a row failed: others were first"
        with pytest.raises(AnabranchError, match=told) as caught:
            table.commit(owner(1), 0, parts)
    assert not is_final(caught.value)
    table.commit(owner(1), 0, parts)
    assert ids(tmp_path) == [1]


@pytest.mark.parametrize(
    ("error", "told", "final"),
    [
        (DeltaError("no room\nat all"), "no room", False),
        (DeltaError(""), "DeltaError", False),
        (CommitFailedError("no room\nat all"), "no room", False),
        (CommitFailedError("Unsupported table features required: [RowTracking]"), r".*\[RowTracking\]", True),
    ],
)
def test_an_error_of_a_commit_is_told_at_once(
    table: DeltaFolder, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str, final: bool
) -> None:
    """Only if the table has a newer version did others come first."""
    tries = 0

    def fails(*_: object, **__: object) -> None:
        nonlocal tries
        tries += 1
        raise error

    parts = written(table, owner(1), [1])
    monkeypatch.setattr(deltalake.DeltaTable, "create_write_transaction", fails)
    with pytest.raises(AnabranchError, match=rf"can't be written: {told}\n") as caught:
        table.commit(owner(1), 0, parts)
    assert is_final(caught.value) is final
    assert tries == 1


def test_marks_outlive_checkpoints_and_compaction(table: DeltaFolder, tmp_path: Path) -> None:
    committed(table, owner(1), 0, [1])
    committed(table, owner(1), 1, [2])
    plain = deltalake.DeltaTable(tmp_path / "table")
    plain.optimize.compact()
    plain.create_checkpoint()
    plain.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert table.last("orders", LANE) == 1
    committed(table, owner(1), 1, [2])
    assert ids(tmp_path) == [1, 2]


def test_a_table_whose_markers_expire_is_refused(table: DeltaFolder, tmp_path: Path) -> None:
    """Also if it gets the property while the job runs."""
    parts = written(table, owner(1), [1])
    plain = deltalake.DeltaTable(tmp_path / "table")
    plain.alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 1 days"})
    told = r"delta\.setTransactionRetentionDuration = 'interval 1 days', with which the markers of lanes expire"
    for refused in (lambda: table.prepare(SCHEMA, create=False), lambda: table.commit(owner(1), 0, parts)):
        with pytest.raises(ConflictError, match=told):
            refused()
    assert ids(tmp_path) == []


def test_markers_say_when_they_were_set(table: DeltaFolder, tmp_path: Path) -> None:
    """Without it, checkpoints of some programs leave them out."""
    begun = time.time() * 1000
    committed(table, owner(1), 0, [1])
    actions = [json.loads(line) for line in entry(tmp_path).read_text().splitlines()]
    markers = {action["txn"]["appId"]: action["txn"]["lastUpdated"] for action in actions if "txn" in action}
    assert markers.keys() == {f"anabranch/orders/{LANE}", f"anabranch/orders/{LANE}/epoch"}
    assert all(begun - 1 <= at <= time.time() * 1000 for at in markers.values())


def test_small_files_of_many_tasks_become_one(table: DeltaFolder, tmp_path: Path) -> None:
    committed(table, owner(1), 0, *([n] for n in range(20)))
    assert len(deltalake.DeltaTable(tmp_path / "table").file_uris()) == 1
    assert len(list((tmp_path / "table").glob("*.parquet"))) == 1
    assert ids(tmp_path) == list(range(20))


def test_a_table_may_have_more_columns(table: DeltaFolder, tmp_path: Path) -> None:
    deltalake.DeltaTable(tmp_path / "table").alter.add_columns([deltalake.Field("more", PrimitiveType("long"))])
    table.prepare(SCHEMA, create=False)
    committed(table, owner(1), 0, [1], [2])
    assert pl.read_delta(str(tmp_path / "table"))["more"].to_list() == [None, None]
    assert ids(tmp_path) == [1, 2]


def test_a_table_that_gets_another_schema_while_the_job_runs(table: DeltaFolder, tmp_path: Path) -> None:
    parts = written(table, owner(1), [1])
    others = pa.table({"id": ["a"], "name": ["b"]})
    deltalake.write_deltalake(tmp_path / "table", others, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(ConflictError, match=r"writes 'id' as long; in .* it is string"):
        table.commit(owner(1), 0, parts)
    assert table.last("orders", LANE) == -1
    assert pl.read_delta(str(tmp_path / "table"))["id"].to_list() == ["a"]


def test_a_killed_tasks_files_are_never_seen_and_go_with_a_full_vacuum(table: DeltaFolder, tmp_path: Path) -> None:
    committed(table, owner(1), 0, [1])
    written(table, owner(1), [2])
    assert ids(tmp_path) == [1]
    assert len(list((tmp_path / "table").glob("*.parquet"))) == 2
    plain = deltalake.DeltaTable(tmp_path / "table")
    plain.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
    assert len(list((tmp_path / "table").glob("*.parquet"))) == 1
    assert ids(tmp_path) == [1]


def test_what_is_wrong_is_told(table: DeltaFolder, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="doesn't exist"):
        opened(tmp_path / "other").prepare(SCHEMA, create=False)
    told_of = {("more", pa.int64()): "writes a column 'more' .long.", ("id", pa.string()): "writes 'id' as string"}
    for column, told in told_of.items():
        schema = pa.schema([*(field for field in SCHEMA if field.name != column[0]), column])
        with pytest.raises(ConflictError, match=told):
            table.prepare(schema, create=True)
    deltalake.DeltaTable.create(tmp_path / "cut", deltalake.Schema.from_arrow(SCHEMA), partition_by=["name"])
    with pytest.raises(ConflictError, match="is partitioned by name"):
        DeltaFolder("orders", {"path": str(tmp_path / "cut")}).prepare(SCHEMA, create=True)
    (tmp_path / "file").touch()
    with pytest.raises(AnabranchError, match=r"can't be made|doesn't exist"):
        DeltaFolder("orders", {"path": str(tmp_path / "file" / "table")}).prepare(SCHEMA, create=True)
    with pytest.raises(ConfigError, match="local and shared folders"):
        DeltaFolder("orders", {"path": "s3://bucket/table"})


NEVER_NULL = pa.field("x", pa.int64(), nullable=False)


@pytest.mark.parametrize(
    ("kind", "held", "written"),
    [
        (pa.list_(NEVER_NULL), "array<long not null>", "array<long>"),
        (pa.map_(pa.string(), NEVER_NULL), "map<string, long not null>", "map<string, long>"),
        (pa.struct([NEVER_NULL]), "struct<x: long not null>", "struct<x: long>"),
        (pa.list_(pa.list_(NEVER_NULL)), "array<array<long not null>>", "array<array<long>>"),
    ],
)
def test_nulls_inside_a_column_where_the_table_allows_none_are_refused(
    tmp_path: Path, kind: pa.DataType, held: str, written: str
) -> None:
    schema = pa.schema([("more", kind)])
    deltalake.DeltaTable.create(tmp_path / "table", deltalake.Schema.from_arrow(schema))
    opened(tmp_path).prepare(schema, create=False)
    with pytest.raises(ConflictError, match=rf"writes 'more' as {written}; in .* it is {held}\n") as caught:
        opened(tmp_path).prepare(schemas.nullable(schema), create=False)
    assert caught.value.cure == schemas.NO_NULLS


def test_comments_inside_a_column_do_not_matter(tmp_path: Path) -> None:
    place = column("place", {"type": "struct", "fields": [column("x", "string", comment="the gate")]})
    made = made_by_others(tmp_path, place, protocol={"minReaderVersion": 1, "minWriterVersion": 2})
    made.prepare(pa.schema([("place", pa.struct([("x", pa.string())]))]), create=False)


@pytest.mark.parametrize("kind", [pa.duration("us"), pa.time64("ns"), pa.list_(pa.duration("us"))])
def test_a_column_of_a_type_that_delta_lacks_is_named(table: DeltaFolder, tmp_path: Path, kind: pa.DataType) -> None:
    schema = pa.schema([*SCHEMA, ("flight_time", kind)])
    for asked in (opened(tmp_path / "new"), table):
        with pytest.raises(ConflictError, match=re.escape(f"can't have a column 'flight_time' of type {kind}")):
            asked.prepare(schema, create=True)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("mapping", ["name", "id"])
def test_a_table_whose_files_name_columns_otherwise_is_refused(tmp_path: Path, mapping: str) -> None:
    """Readers look for other names in the files, and find nothing but nulls."""
    named = [{"delta.columnMapping.id": n, "delta.columnMapping.physicalName": f"col-{n}"} for n in range(1, 4)]
    columns = [each | {"metadata": metadata} for each, metadata in zip((ID, NAME, AT), named, strict=True)]
    properties = {"delta.columnMapping.mode": mapping, "delta.columnMapping.maxColumnId": "3"}
    protocol = {"minReaderVersion": 2, "minWriterVersion": 5}
    made = made_by_others(tmp_path, *columns, protocol=protocol, properties=properties)
    with pytest.raises(ConflictError, match=rf"the property delta\.columnMapping\.mode = '{mapping}'"):
        made.prepare(SCHEMA, create=False)


INVARIANT = {"delta.invariants": "length(name) < 9"}


@pytest.mark.parametrize(
    ("columns", "properties", "told"),
    [
        ((NAME,), {"delta.constraints.short": "id < 9"}, "a constraint, delta.constraints.short = 'id < 9'"),
        ((column("name", "string", **INVARIANT),), {}, "a column 'name' with delta.invariants"),
        (
            (NAME, column("more", {"type": "struct", "fields": [column("x", "string", **INVARIANT)]})),
            {},
            "a column 'more' with delta.invariants",
        ),
        (
            (NAME, column("more", "long", **{"delta.generationExpression": "id + 1"})),
            {},
            "a column 'more' with delta.generationExpression",
        ),
        (
            (NAME, column("more", "long", **{"delta.identity.start": 1, "delta.identity.step": 1})),
            {},
            "a column 'more' with delta.identity.start",
        ),
    ],
)
def test_a_table_with_rules_that_only_writers_keep_is_refused(
    tmp_path: Path, columns: tuple[dict[str, object], ...], properties: dict[str, str], told: str
) -> None:
    protocol = {"minReaderVersion": 1, "minWriterVersion": 4}
    made = made_by_others(tmp_path, ID, *columns, AT, protocol=protocol, properties=properties)
    with pytest.raises(ConflictError, match=re.escape(told)):
        made.prepare(SCHEMA, create=False)


def test_a_table_that_gets_a_constraint_while_the_job_runs(table: DeltaFolder, tmp_path: Path) -> None:
    parts = written(table, owner(1), [1])
    deltalake.DeltaTable(tmp_path / "table").alter.add_constraint({"large": "id > 5"})
    with pytest.raises(ConflictError, match=r"a constraint, delta\.constraints\.large = 'id > 5'"):
        table.commit(owner(1), 0, parts)
    assert ids(tmp_path) == []


@pytest.mark.parametrize("feature", ["rowTracking", "identityColumns", "ofTheFuture"])
def test_a_table_that_needs_more_than_the_library_has_is_told(tmp_path: Path, feature: str) -> None:
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [feature, "domainMetadata"]}
    made = made_by_others(tmp_path, ID, NAME, AT, protocol=protocol)
    with pytest.raises(ConflictError, match=rf"(?i)can't be written: .*{feature}") as caught:
        made.fence(owner(1), new=True)
    assert caught.value.cure == "write to a table without these features"


def test_a_null_where_none_may_be_is_told(tmp_path: Path) -> None:
    schema = pa.schema([field.with_nullable(field.name != "name") for field in SCHEMA])
    properties = {"delta.columnMapping.mode": "none"}  # the same as none at all
    deltalake.DeltaTable.create(tmp_path / "table", deltalake.Schema.from_arrow(schema), configuration=properties)
    made = opened(tmp_path)
    made.prepare(SCHEMA, create=False)
    made.fence(owner(1), new=True)
    writer = made.writer(owner(1), SCHEMA)
    writer.write(rows([1]))
    with pytest.raises(ConflictError, match=r"the Delta table .*table doesn't take a row: 'name' is null"):
        writer.write(pa.RecordBatch.from_pylist([{"id": 2}], schema=SCHEMA))
    committed(made, owner(1), 0, [3])
    assert ids(tmp_path) == [3]


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    monkeypatch.delitem(sys.modules, "anabranch.tables.delta")
    with pytest.raises(ConfigError, match="deltalake is missing") as caught:
        opening.opened("orders", OutputSettings(to="delta", path="/tmp/x"))  # type: ignore[call-arg]
    assert caught.value.cure == 'install it: pip install "anabranch[delta]"'


def entry(path: Path) -> Path:
    """The newest entry of the log."""
    return path / "table" / "_delta_log" / f"{deltalake.DeltaTable(path / 'table').version():020}.json"


def test_a_commit_is_durable_with_those_of_others_before_it(
    table: DeltaFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = written(table, owner(1), [1])
    before = synced(monkeypatch)
    write = deltalake.DeltaTable.create_write_transaction

    def slowly(*args: object, **given: object) -> None:
        monkeypatch.setattr(deltalake.DeltaTable, "create_write_transaction", write)
        deltalake.write_deltalake(tmp_path / "table", pa.Table.from_batches([rows([9])]), mode="append")
        others.append(entry(tmp_path))
        before.clear()
        write(*args, **given)  # type: ignore[arg-type]

    others: list[Path] = []
    monkeypatch.setattr(deltalake.DeltaTable, "create_write_transaction", slowly)
    table.commit(owner(1), 0, parts)
    assert ids(tmp_path) == [1, 9]
    assert before == [*others, entry(tmp_path), entry(tmp_path).parent]


@pytest.mark.parametrize(
    "trusts",
    [
        lambda table: table.fence(owner(2), new=False),
        lambda table: table.last("orders", LANE),
        lambda table: table.commit(owner(1), 0, []),
    ],
)
def test_a_commit_is_durable_before_it_is_trusted(
    table: DeltaFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusts: Callable[[DeltaFolder], object]
) -> None:
    """The process that committed it can have been killed in between."""
    committed(table, owner(1), 0, [1])
    newest, after = entry(tmp_path), synced(monkeypatch)
    trusts(table)
    assert after[:2] == [newest, newest.parent]


def test_a_commit_that_cannot_be_made_durable_is_repeated(
    table: DeltaFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, last = written(table, owner(1), [1]), entry(tmp_path)
    sync = own_files.sync

    def fails(path: Path | str) -> None:
        if Path(path).suffix == ".json" and Path(path) != last and Path(path).exists():
            raise OSError(errno.EIO, "Input/output error")
        sync(path)

    monkeypatch.setattr(own_files, "sync", fails)
    with pytest.raises(AnabranchError, match=r"can't be written: Input/output error"):
        table.commit(owner(1), 0, parts)
    monkeypatch.setattr(own_files, "sync", sync)
    table.commit(owner(1), 0, parts)
    assert ids(tmp_path) == [1]
