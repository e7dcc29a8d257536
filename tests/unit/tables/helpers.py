"""Rows, owners and whole batches for tests of tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch import own_files
from anabranch.tables.contract import Owner, Table

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", tz="UTC"))])
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LANE = "0-aaaaaaaa"


def owner(epoch: int, lane: str = LANE) -> Owner:
    return Owner("orders", lane, epoch)


def rows(ids: Sequence[int], name: str = "row") -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": n, "name": f"{name}-{n}", "at": AT} for n in ids], schema=SCHEMA)


def written(table: Table, by: Owner, *tasks: Sequence[int], name: str = "row") -> list[bytes]:
    """What some tasks have written, each its ids."""
    parts = []
    for ids in tasks:
        writer = table.writer(by, SCHEMA)
        writer.write(rows(ids, name))
        parts += writer.close()
    return parts


def committed(table: Table, by: Owner, batch: int, *tasks: Sequence[int], name: str = "row") -> None:
    table.commit(by, batch, written(table, by, *tasks, name=name))


def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files and folders that are made durable from now on."""
    found, sync = list[Path](), own_files.sync

    def noted(path: Path | str) -> None:
        sync(path)
        found.append(Path(path))

    monkeypatch.setattr(own_files, "sync", noted)
    return found
