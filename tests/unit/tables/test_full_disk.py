"""Tables in folders on a disk that is full: it is told, nothing is lost, nothing left, and with room it goes on."""

from __future__ import annotations

import random
import re
import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import polars as pl
import psycopg
import pyarrow as pa
import pytest

from anabranch.config import OutputSettings
from anabranch.container.error_text import is_final
from anabranch.errors import AnabranchError
from anabranch.tables import Table
from anabranch.tables.opening import opened
from tests.support import postgres
from tests.support.disks import Disk, mounted
from tests.support.iceberg import iceberg_catalog, iceberg_rows
from tests.unit.tables.helpers import AT, SCHEMA, committed, owner, written

COUNT = 40_000
FULL = r"No space left on device|database or disk is full"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with mounted(tmp_path / "disk", 4) as made:
        if made is None:
            pytest.skip("this user may not mount a disk")
        yield made


@pytest.fixture(params=["parquet", "delta", "iceberg"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def begun(kind: str, path: Path) -> Table:
    """With a row."""
    where = {"table": "shop.orders", "catalog": iceberg_catalog(path)} if kind == "iceberg" else {"path": str(path)}
    table = opened("orders", OutputSettings(to=kind, **where))  # type: ignore[arg-type]
    table.prepare(SCHEMA, create=True)
    table.fence(owner(1), new=True)
    committed(table, owner(1), 0, [1])
    return table


def ids(kind: str, path: Path) -> list[int]:
    if kind == "iceberg":
        return sorted(iceberg_rows({"table": "shop.orders", "catalog": iceberg_catalog(path)})["id"].to_list())
    if kind == "delta":
        return sorted(pl.read_delta(str(path))["id"].to_list())
    return sorted(n for (n,) in duckdb.sql(f"select id from '{path}/*.parquet'").fetchall())


def files(path: Path) -> list[Path]:
    return [each for each in path.rglob("*") if each.suffix in (".parquet", ".part")]


def large() -> pa.RecordBatch:
    """Some megabytes that can't be made smaller."""
    dice = random.Random(1)
    names = [dice.randbytes(60).hex() for _ in range(COUNT)]
    return pa.RecordBatch.from_arrays([range(COUNT), names, pa.array([AT] * COUNT, SCHEMA[2].type)], schema=SCHEMA)


def fail_to_write(table: Table) -> None:
    """As a task does."""
    writer = table.writer(owner(1), SCHEMA)
    try:
        writer.write(large())
        writer.close()
    except BaseException:
        writer.abort()
        raise


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """No file of this process may get longer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_task_that_may_not_write_more(kind: str, tmp_path: Path) -> None:
    table = begun(kind, tmp_path)
    before = files(tmp_path)
    with at_most(1 << 20), pytest.raises(AnabranchError, match="File too large") as caught:
        fail_to_write(table)
    assert not is_final(caught.value)
    assert files(tmp_path) == before
    committed(table, owner(1), 1, [2])
    assert ids(kind, tmp_path) == [1, 2]


def test_a_task_on_a_full_disk(kind: str, disk: Disk) -> None:
    table = begun(kind, disk.path)
    before = files(disk.path)
    with pytest.raises(AnabranchError, match="No space left on device") as caught:
        fail_to_write(table)
    assert not is_final(caught.value)
    assert files(disk.path) == before
    committed(table, owner(1), 1, [2])
    assert ids(kind, disk.path) == [1, 2]


@pytest.mark.parametrize("left", [0, 8 << 10, 20 << 10])
def test_a_commit_on_a_full_disk(kind: str, disk: Disk, left: int) -> None:
    """Whichever of its files is the one too many."""
    table = begun(kind, disk.path)
    said: list[AnabranchError] = []
    for batch in range(1, 4):
        parts = written(table, owner(1), [10 * batch], [10 * batch + 1])
        disk.fill(leave=left)
        try:
            table.commit(owner(1), batch, parts)
        except AnabranchError as error:
            said.append(error)
        disk.make_room()
        committed(table, owner(1), batch, [10 * batch], [10 * batch + 1])
    assert said or left
    assert not any(is_final(each) for each in said)
    assert all(re.search(FULL, str(each)) for each in said), said
    assert table.last("orders", owner(1).lane) == 3
    assert ids(kind, disk.path) == [1, 10, 11, 20, 21, 30, 31]


def test_a_database_on_a_full_disk(postgres_server: postgres.Server) -> None:
    """What is staged of a batch that fails is in nobody's way when it is run again."""
    with tempfile.TemporaryDirectory(prefix="anabranch-") as place, mounted(Path(place) / "disk", 8) as disk:
        if disk is None:
            pytest.skip("this user may not mount a disk")
        Path(place).chmod(0o755)
        with postgres_server.on_disk(disk.path) as url:
            table = opened("orders", OutputSettings(to="postgresql", url=url, table="orders"))  # type: ignore[call-arg]
            table.prepare(SCHEMA, create=True)
            table.fence(owner(1), new=True)
            committed(table, owner(1), 0, [1])
            for _ in range(3):
                with pytest.raises(AnabranchError, match=r"can't take more: .*No space left on device") as caught:
                    fail_to_write(table)
                assert not is_final(caught.value)
                table.leave(owner(1))
            committed(table, owner(1), 1, [2])
            with psycopg.connect(url) as connection:
                assert connection.execute("select id from orders order by id").fetchall() == [(1,), (2,)]
