"""A store in an SQLite file or in memory: how it is opened, and what its errors mean."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from anabranch.coordinator.store.address import CURE
from anabranch.errors import AnabranchError, ConfigError, ConflictError, StoreUnavailableError

__all__ = ["WRITES", "copied", "engine", "explanation", "keep_a_log", "refuse_writes"]

BUSY_SECONDS = 5.0
WRITES = {"anabranch_writes": True}


def engine(path: Path | None, mode: str) -> sa.Engine:
    """An engine with one connection to a file, or to a new database in memory. ``mode`` is ``rw``, or ``rwc`` to create
    the file if it is missing.
    """
    database = ":memory:" if path is None else f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}"

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(database, uri=True, timeout=BUSY_SECONDS, check_same_thread=False)
        connection.isolation_level = None  # begin() below begins transactions explicitly
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    made = sa.create_engine("sqlite://", creator=connect, poolclass=StaticPool)

    @sa.event.listens_for(made, "begin")
    def begin(connection: sa.Connection) -> None:
        writes = connection.get_execution_options().keys() >= WRITES.keys()
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return made


def keep_a_log(engine: sa.Engine) -> None:
    """Use write-ahead logging, which lets readers continue while another process writes. The file keeps this
    setting.
    """
    raw = engine.raw_connection()
    try:
        raw.cursor().execute("PRAGMA journal_mode = WAL")
    finally:
        raw.close()


def copied(original: sa.Engine) -> sa.Engine:
    """An in-memory copy of a database."""
    made = engine(None, "rw")
    source, target = original.raw_connection(), made.raw_connection()
    try:
        assert isinstance(source.driver_connection, sqlite3.Connection)
        assert isinstance(target.driver_connection, sqlite3.Connection)
        source.driver_connection.backup(target.driver_connection)
    finally:
        source.close()
        target.close()
    return made


def refuse_writes(engine: sa.Engine) -> None:
    """Make all further writes to the database fail."""
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")


def explanation(error: DBAPIError, where: str, has_written: bool) -> AnabranchError:
    """The error to raise for a failed statement on the store at ``where``.

    Args:
        has_written: whether this process has written to the store. If it has, an error that can go away on its own,
            such as a locked file, is a StoreUnavailableError.
    """
    message = str(error.orig)
    if "locked" in message or "busy" in message:
        locked = StoreUnavailableError if has_written else ConflictError
        return locked(
            f"the store {where} is locked by another process for more than {BUSY_SECONDS:.0f} s",
            "see who holds it (fuser, lsof), end that, and try again",
        )
    if "not a database" in message or "malformed" in message:
        return ConfigError(
            f"{where} can't be read as a store: {message}",
            "restore the file, or name another in [coordinator] store",
        )
    if "is full" in message:
        return StoreUnavailableError(
            f"the disk of the store {where} is full", "make room on that disk: running jobs continue on their own"
        )
    if any(word in message for word in ("unable to open", "readonly", "disk I/O")):
        denied = StoreUnavailableError if has_written else ConfigError
        return denied(f"the store {where} can't be opened or written: {message}", CURE)
    return AnabranchError(f"the store {where} failed: {message}", "see the database's message")
