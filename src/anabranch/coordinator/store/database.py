"""Opens the database of a store: creates or migrates the tables, refuses databases that aren't stores, and explains
database errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from anabranch import logs, own_files
from anabranch.coordinator.store import migrations, sqlite, tables
from anabranch.coordinator.store.address import CURE, Address, encodable, make_folder
from anabranch.errors import AnabranchError, ConfigError, NotFoundError, StoreUnavailableError, UnsupportedFormatError

__all__ = ["Explained", "check_format", "create", "explained", "open_existing"]

_FORMAT = sa.select(tables.meta.c.value).where(tables.meta.c.key == "format")


def create(url: str) -> sa.Engine:
    """The database at ``url``. If necessary, creates the store in it, or migrates the store to the current format. An
    SQLite file is created if there is none. A PostgreSQL database must exist.
    """
    address = Address(url)
    if address.path is not None:
        make_folder(address.path.parent)
        with suppress(OSError):  # then the file can't be opened below, either, and that error is explained
            own_files.make_file(address.path)
    engine = _on_server().engine(address) if address.kind == "postgresql" else sqlite.engine(address.path, "rwc")
    with _opening(engine, url):
        if _format(engine, address) != tables.FORMAT_VERSION:
            _prepare(engine, address)
    return engine


def open_existing(url: str, to_write: bool = False) -> sa.Engine:
    """The database at ``url``. Creates nothing. Raises NotFoundError if there is no store, and ConfigError if the store
    can't be read.

    A store in an older format is migrated if it is opened ``to_write``. Otherwise, the store isn't changed: if it is an
    SQLite file, a copy of the file is migrated in memory and made read-only; if it is in PostgreSQL,
    UnsupportedFormatError is raised.
    """
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
    with _opening(engine, url):
        found = _format(engine, address)
        if found is None:
            raise _missing(address)
        if found == tables.FORMAT_VERSION:
            return engine
        if to_write:
            _prepare(engine, address)
            return engine
        if address.kind == "postgresql":
            raise _older(_where(address), found)
        return _migrated_copy(engine, address)


@contextmanager
def _opening(engine: sa.Engine, url: str) -> Iterator[None]:
    """Explains database errors in the body of ``with`` and, if the body fails, closes the connections."""
    try:
        with explained(url):
            yield
    except BaseException:
        engine.dispose()
        raise


@contextmanager
def explained(url: str, has_written: bool = False) -> Iterator[None]:
    """Turns database errors in the body of ``with`` into AnabranchErrors that name the store and a cure.

    Args:
        has_written: whether this process has written to the store. If it has, the store's settings are known to be
            right. So an error that can go away on its own is raised as StoreUnavailableError.

    Raises:
        StoreUnavailableError: as for :class:`anabranch.coordinator.store.store.Store`.
        ConflictError: another process has locked SQLite's file, and this process hasn't written to it before.
        ConfigError: the store can't be opened, read or written.
        AnabranchError: the database failed for any other reason.
    """
    try:
        yield
    except PoolTimeoutError as error:
        where = Address(url).shown
        raise StoreUnavailableError(f"the store {where} is held up: all connections are in use", "try again") from error
    except DBAPIError as error:
        address = Address(url)
        explanation = _on_server().explanation if address.kind == "postgresql" else sqlite.explanation
        raise explanation(error, _where(address), has_written) from error


class Explained:
    """A callable that returns :func:`explained` for the store at ``url``. The callable remembers whether a write has
    succeeded, which determines ``has_written``.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._has_written = False

    @contextmanager
    def __call__(self, *, writes: bool = False) -> Iterator[None]:
        with explained(self._url, self._has_written):
            yield
        self._has_written = self._has_written or writes


def _on_server() -> ModuleType:
    """The module for PostgreSQL, imported only when needed, because its driver takes a long time to import."""
    from anabranch.coordinator.store import postgresql

    return postgresql


def _where(address: Address) -> str:
    return encodable(str(address.path or address.shown))


def _missing(address: Address) -> AnabranchError:
    cure = "run a job first: anabranch run JOB.py"
    if address.kind == "postgresql":
        cure = "start a coordinator first: anabranch coordinator"
    return NotFoundError(f"there is no store at {_where(address)}", cure)


def check_format(connection: sa.Connection, url: str) -> None:
    """Raises UnsupportedFormatError if the store no longer has the current format: a newer anabranch has migrated it,
    or a store in an older format has replaced it. Until the transaction ends, no process can migrate the store.
    """
    version = connection.execute(_FORMAT.with_for_update(read=True)).scalar()
    if version != str(tables.FORMAT_VERSION):
        where = _where(Address(url))
        raise _older(where, _known(where, version))  # the store was replaced by one in an older format


def _format(engine: sa.Engine, address: Address) -> int | None:
    with engine.connect() as connection:
        return _format_in(connection, address)


def _format_in(connection: sa.Connection, address: Address) -> int | None:
    """The format version of the store in a database; None if the database is empty.

    Raises:
        ConfigError: the database belongs to another application.
        UnsupportedFormatError: the version is newer than this anabranch knows, or isn't valid.
    """
    where = _where(address)
    there = set(sa.inspect(connection).get_table_names())
    if not there:
        return None
    if "meta" not in there:
        raise ConfigError(
            f"{where} is a database of something else: it has the tables {sorted(there)[:5]}",
            "name another in [coordinator] store, or an empty one",
        )
    return _known(where, connection.execute(_FORMAT).scalar())


def _known(where: str, version: str | None) -> int:
    ours = tables.FORMAT_VERSION
    if version == str(ours):
        return ours
    what = f"the store {where} has format version {version}; this anabranch knows {ours}"
    if version is None or not version.isdecimal() or int(version) < min(migrations.STEPS):
        raise UnsupportedFormatError(what, "restore it from a backup; nothing was changed")
    if int(version) > ours:
        raise UnsupportedFormatError(
            f"{what} and older ones",
            "it was written by a newer anabranch: upgrade this one to that, or name another store in [coordinator] "
            "store; nothing was changed",
        )
    return int(version)


def _older(where: str, version: int) -> AnabranchError:
    return UnsupportedFormatError(
        f"the store {where} has format version {version}, and this anabranch writes {tables.FORMAT_VERSION}",
        "start a coordinator of this version on it, which migrates it and keeps all jobs; nothing was changed",
    )


def _prepare(engine: sa.Engine, address: Address) -> None:
    """Create or migrate the tables in one transaction."""
    if address.kind == "sqlite":
        sqlite.keep_a_log(engine)
    with engine.execution_options(**sqlite.WRITES).begin() as connection:
        if address.kind == "postgresql":
            _on_server().lock_for_schema(connection, _where(address))
        found = _format_in(connection, address)  # again, because another process may have been faster
        if found is None:
            tables.metadata.create_all(connection)
            connection.execute(sa.insert(tables.meta).values(key="format", value=str(tables.FORMAT_VERSION)))
        elif found < tables.FORMAT_VERSION:
            migrations.migrate(connection, found, tables.FORMAT_VERSION)
    if found is not None and found < tables.FORMAT_VERSION:
        log = logs.get_logger()
        log.info("the store was migrated", store=address.shown, before=found, now=tables.FORMAT_VERSION)


def _migrated_copy(engine: sa.Engine, address: Address) -> sa.Engine:
    copy = sqlite.copied(engine)
    engine.dispose()
    try:
        with copy.execution_options(**sqlite.WRITES).begin() as connection:
            found = _format_in(connection, address)
            if found is not None and found < tables.FORMAT_VERSION:
                migrations.migrate(connection, found, tables.FORMAT_VERSION)
        sqlite.refuse_writes(copy)
    except BaseException:
        copy.dispose()
        raise
    return copy
