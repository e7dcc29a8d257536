"""Opens the database of a store, looks whether it is one of ours, and says what its errors mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from anabranch.coordinator.store import sqlite, tables
from anabranch.coordinator.store.address import CURE, Address, make_folder
from anabranch.errors import AnabranchError, ConfigError, NotFoundError, StoreUnavailableError, UnsupportedFormatError

__all__ = ["create", "explained", "open_existing"]


def create(url: str) -> sa.Engine:
    """The database at ``url``, with a store in it. SQLite's is made if it isn't there, PostgreSQL's must be."""
    address = Address(url)
    if address.path is not None:
        make_folder(address.path.parent)
    engine = _on_server().engine(address) if address.kind == "postgresql" else sqlite.engine(address.path, "rwc")
    try:
        with explained(url):
            if not _is_ours(engine, address):
                _prepare(engine, address)
    except BaseException:
        engine.dispose()
        raise
    return engine


def open_existing(url: str) -> sa.Engine:
    """The database at ``url``; NotFoundError if there is none. Creates nothing."""
    address = Address(url)
    if address.kind == "postgresql":
        engine: sa.Engine = _on_server().engine(address)
    else:
        try:
            if address.path is None or not address.path.is_file():
                raise _missing(address)
        except OSError as error:
            raise ConfigError(f"the store {address.path} can't be read: {error.strerror}", CURE) from error
        engine = sqlite.engine(address.path, "rw")
    try:
        with explained(url):
            if not _is_ours(engine, address):
                raise _missing(address)
    except BaseException:
        engine.dispose()
        raise
    return engine


@contextmanager
def explained(url: str) -> Iterator[None]:
    """Database errors inside become AnabranchErrors that name the store and a cure.

    Raises:
        StoreUnavailableError: PostgreSQL can't be reached, or is lost in the middle.
        ConflictError: another process has locked SQLite's file.
    """
    try:
        yield
    except PoolTimeoutError as error:
        where = Address(url).shown
        raise StoreUnavailableError(f"the store {where} is held up: all connections are in use", "try again") from error
    except DBAPIError as error:
        address = Address(url)
        explanation = _on_server().explanation if address.kind == "postgresql" else sqlite.explanation
        raise explanation(error, _where(address)) from error


def _on_server() -> ModuleType:
    """What knows PostgreSQL: its driver takes long to import, and most stores don't need it."""
    from anabranch.coordinator.store import postgresql

    return postgresql


def _where(address: Address) -> str:
    return str(address.path or address.shown)


def _missing(address: Address) -> AnabranchError:
    cure = "run a job first: anabranch run JOB.py"
    if address.kind == "postgresql":
        cure = "start a coordinator first: anabranch coordinator"
    return NotFoundError(f"there is no store at {_where(address)}", cure)


def _is_ours(engine: sa.Engine, address: Address) -> bool:
    with engine.connect() as connection:
        return _holds_store(connection, address)


def _holds_store(connection: sa.Connection, address: Address) -> bool:
    """Whether it holds a store; an empty database doesn't. Writes nothing."""
    where = _where(address)
    there = set(sa.inspect(connection).get_table_names())
    if not there:
        return False
    if "meta" not in there:
        raise ConfigError(
            f"{where} is a database of something else: it has the tables {sorted(there)[:5]}",
            "name another in [coordinator] store, or an empty one",
        )
    query = sa.select(tables.meta.c.value).where(tables.meta.c.key == "format")
    version = connection.execute(query).scalar()
    if version != str(tables.FORMAT_VERSION):
        raise _other_version(where, version)
    return True


def _other_version(where: str, version: str | None) -> AnabranchError:
    ours = tables.FORMAT_VERSION
    what = f"the store {where} has format version {version}; this anabranch knows {ours}"
    if version is None or not version.isdecimal():
        return UnsupportedFormatError(what, "restore it from a backup; nothing was changed")
    if int(version) < ours:
        cure = (
            "it was written by an older anabranch: go on with that one, or let [coordinator] store name a new place, "
            "where jobs begin afresh; nothing was changed"
        )
        return UnsupportedFormatError(what, cure)
    return UnsupportedFormatError(what, "it was written by a newer anabranch: upgrade this one; nothing was changed")


def _prepare(engine: sa.Engine, address: Address) -> None:
    if address.kind == "sqlite":
        sqlite.keep_a_log(engine)
    with engine.execution_options(**sqlite.WRITES).begin() as connection:
        if address.kind == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_on_server().CREATION)))
        if not _holds_store(connection, address):
            tables.metadata.create_all(connection)
            connection.execute(sa.insert(tables.meta).values(key="format", value=str(tables.FORMAT_VERSION)))
