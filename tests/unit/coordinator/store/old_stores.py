"""Stores as older commits made them: dumps of SQLite in the folder ``stores``, whose README says how they were made."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

import sqlalchemy as sa

from anabranch.coordinator.store import address
from tests.unit.coordinator.store.helpers import raw

FOLDER = Path(__file__).parent / "stores"
OLDER = sorted(path.stem for path in FOLDER.glob("format-*.sql"))


def load(name: str, url: str) -> None:
    """Put the store of that name into an empty database."""
    path = address.path_of(url)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        _restore(name, path)
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db"
        _restore(name, copy)
        _copy(f"sqlite:///{copy}", url)


def version(name: str) -> int:
    """The format of the store of that name."""
    return int(name.split("-")[1])


def _restore(name: str, path: Path) -> None:
    connection = sqlite3.connect(path)
    try:
        connection.executescript((FOLDER / f"{name}.sql").read_text())
        connection.execute("PRAGMA journal_mode = WAL")  # as a store has it; a dump doesn't say so
    finally:
        connection.close()


def _copy(source: str, target: str) -> None:
    """All tables of a database of SQLite's, with their rows, into one of PostgreSQL's."""
    found = sa.MetaData()
    with raw(source) as old, raw(target) as new:
        found.reflect(old)
        for table in found.tables.values():
            for column in table.columns:
                if isinstance(column.type, sa.BLOB):
                    column.type = sa.LargeBinary()
        found.create_all(new)
        for table in found.sorted_tables:
            left_out = {"id"} if table.name == "events" else set()  # numbered anew
            rows = [dict(row) for row in old.execute(sa.select(table)).mappings()]
            for row in rows:
                new.execute(sa.insert(table).values({key: row[key] for key in row.keys() - left_out}))
