"""Opens the database of a store, looks whether it is one of ours, and says what its errors mean."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DatabaseError
from sqlalchemy.pool import StaticPool

from anabranch.coordinator.store import tables
from anabranch.errors import AnabranchError, ConfigError, ConflictError, NotFoundError, UnsupportedFormatError

__all__ = ["WRITES", "create", "explained", "make_folder", "open_existing", "path_of"]

BUSY_SECONDS = 5.0
WRITES = {"anabranch_writes": True}
_CURE = "set [coordinator] store to a place that can be written, as in sqlite:////home/me/coordinator.db"


def path_of(url: str) -> Path | None:
    """The file of a store's database; None for one in memory.

    Raises:
        ConfigError: not a database URL, or a database that isn't supported yet.
    """
    try:
        parsed = sa.make_url(url)
    except ArgumentError as error:
        raise ConfigError(f"{url!r} is not a database URL", _CURE) from error
    if parsed.get_backend_name() != "sqlite":
        raise ConfigError(f"a store can't live in {parsed.get_backend_name()!r} yet, only in sqlite", _CURE)
    return Path(parsed.database) if parsed.database and parsed.database != ":memory:" else None


def make_folder(folder: Path) -> None:
    """Make a folder with its parents; ConfigError if that can't be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"the folder {folder} of the store can't be made: {error.strerror}", _CURE) from error


def create(url: str) -> sa.Engine:
    """The database at ``url``, made if it isn't there."""
    path = path_of(url)
    if path is None:
        engine = _engine(":memory:")
    else:
        make_folder(path.parent)
        engine = _engine(_uri(path, "rwc"))
    try:
        with explained(url):
            if not _is_ours(engine, url):
                _prepare(engine)
    except BaseException:
        engine.dispose()
        raise
    return engine


def open_existing(url: str) -> sa.Engine:
    """The database at ``url``; NotFoundError if there is none. Creates nothing."""
    path = path_of(url)
    missing = NotFoundError(f"there is no store at {path or url}", "run a job first: anabranch run JOB.py")
    try:
        if path is None or not path.is_file():
            raise missing
    except OSError as error:
        raise ConfigError(f"the store {path} can't be read: {error.strerror}", _CURE) from error
    engine = _engine(_uri(path, "rw"))
    try:
        with explained(url):
            if not _is_ours(engine, url):
                raise missing
    except BaseException:
        engine.dispose()
        raise
    return engine


@contextmanager
def explained(url: str) -> Iterator[None]:
    """Database errors inside become AnabranchErrors that name the store and a cure."""
    try:
        yield
    except DatabaseError as error:
        where = path_of(url) or url
        message = str(error.orig)
        if "locked" in message or "busy" in message:
            raise ConflictError(
                f"the store {where} is locked by another process for more than {BUSY_SECONDS:.0f} s",
                "see who holds it (fuser, lsof), end that, and try again",
            ) from error
        if "not a database" in message or "malformed" in message:
            raise ConfigError(
                f"{where} can't be read as a store: {message}",
                "restore the file, or name another in [coordinator] store",
            ) from error
        if any(word in message for word in ("unable to open", "readonly", "disk I/O", "is full")):
            raise ConfigError(f"the store {where} can't be opened or written: {message}", _CURE) from error
        raise AnabranchError(f"the store {where} failed: {message}", "see the database's message") from error


def _uri(path: Path, mode: str) -> str:
    return f"file:{quote(str(path.absolute()))}?mode={mode}"


def _engine(database: str) -> sa.Engine:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(database, uri=True, timeout=BUSY_SECONDS, check_same_thread=False)
        connection.isolation_level = None  # transactions begin where begin() below says so
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=StaticPool)

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        writes = connection.get_execution_options().keys() >= WRITES.keys()
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _is_ours(engine: sa.Engine, url: str) -> bool:
    """Whether it holds a store; an empty database doesn't. Writes nothing."""
    where = path_of(url) or url
    with engine.connect() as connection:
        there = set(sa.inspect(connection).get_table_names())
        if not there:
            return False
        if "meta" not in there:
            raise ConfigError(f"{where} is a database of something else: it has the tables {sorted(there)[:5]}", _CURE)
        query = sa.select(tables.meta.c.value).where(tables.meta.c.key == "format")
        version = connection.execute(query).scalar()
    if version != str(tables.FORMAT_VERSION):
        raise UnsupportedFormatError(
            f"the store {where} has format version {version}; this anabranch knows {tables.FORMAT_VERSION}",
            "upgrade anabranch; nothing was changed",
        )
    return True


def _prepare(engine: sa.Engine) -> None:
    raw = engine.raw_connection()
    try:
        raw.cursor().execute("PRAGMA journal_mode = WAL")
    finally:
        raw.close()
    with engine.execution_options(**WRITES).begin() as connection:
        if not sa.inspect(connection).get_table_names():
            tables.metadata.create_all(connection)
            connection.execute(sa.insert(tables.meta).values(key="format", value=str(tables.FORMAT_VERSION)))
