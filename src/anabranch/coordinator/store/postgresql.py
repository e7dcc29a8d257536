"""A store in a PostgreSQL database: how it is reached, how long calls may take, and what its errors mean."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from anabranch import libpq
from anabranch.coordinator.store.address import Address
from anabranch.deadlines import answered_within, wait_until
from anabranch.errors import AnabranchError, ConfigError, StoreUnavailableError

__all__ = ["LIMITS", "engine", "explanation", "lock_for_schema"]

_SCHEMA_LOCK = 0x616E6162  # the lock under which tables are created and migrated
_MIGRATES_WITHIN = 300.0  # seconds
_LOOKS_EVERY = 0.1
CONNECTS_WITHIN = 5  # seconds
ANSWERS_WITHIN = 15.0
LIMITS = {
    "statement_timeout": "10s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "5s",  # how long a process that freezes during a write can block others
}
_CONNECTIONS = 5
_DEFAULTS = {
    "connect_timeout": CONNECTS_WITHIN,
    "application_name": "anabranch",
    "target_session_attrs": "read-write",  # of several servers, the one that isn't a standby
}

_RETRY = "try again when it answers; nothing was lost but perhaps the last write"
_RENEW = (
    "correct this on the server, or renew the value that [coordinator] store refers to, as in ${file:PATH}: it is read "
    "again for each attempt"
)
_SETTING = "set [coordinator] store, as in postgresql://user:${env:PGPASSWORD}@host:5432/database"
_REFUSED = {
    "authentication failed": "doesn't accept the login",
    "no password supplied": "wants a password",
    "no pg_hba.conf entry": "doesn't let this user or machine in",
    "does not support SSL": "doesn't speak TLS",
    "certificate verify failed": "shows a certificate that can't be trusted",
    "permission denied for database": "doesn't let this user into the database",
}
_FULL = ("too many connections", "too many clients", "remaining connection slots")
_AWAY = ("08", "53", "57P", "25P03", "25P04")  # connection, resources, shutting down or starting, too long idle
_HELD_UP = ("57014", "55P03", "40001", "40P01")  # timeouts of statements and locks, deadlocks

T = TypeVar("T")


class _Connection(psycopg.Connection[Any]):
    """A connection that is closed if the server takes too long to answer. The server's own limits don't help if the
    server is frozen.
    """

    patience = 0.0
    """How many seconds the server has for each answer in the current transaction. A value below
    :data:`ANSWERS_WITHIN` has no effect.
    """

    def commit(self) -> None:
        try:
            super().commit()
        finally:
            self.patience = 0.0

    def rollback(self) -> None:
        self.patience = 0.0
        super().rollback()

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **kwargs: Any) -> T:
        limit = max(ANSWERS_WITHIN, self.patience)

        def late() -> psycopg.OperationalError:
            self.close()
            return psycopg.OperationalError(f"no answer within {limit:g} s")

        return super().wait(answered_within(gen, limit, late), *args, **kwargs)


def engine(address: Address) -> sa.Engine:
    """An engine with a small pool of connections. Each connection is checked before use, so the store works again after
    a restart of PostgreSQL. If a server refuses a write because the server is read-only, all connections are replaced,
    so the store works again after a failover. References in the URL, such as ``${env:PGPASSWORD}``, are resolved for
    each new connection. After a first successful connection, a refused login raises StoreUnavailableError, because the
    cause may be temporary. For example, a password may have been changed on the server, but not yet in the file that
    contains it.
    """
    reached = False

    def connect() -> psycopg.Connection[Any]:
        nonlocal reached
        try:
            connection = connect_now()
        except ConfigError as error:
            if reached:
                raise StoreUnavailableError(error.what, _RENEW) from None
            raise
        reached = True
        return connection

    def connect_now() -> psycopg.Connection[Any]:
        arguments, given = made.dialect.create_connect_args(address.resolved())
        options = libpq.options(LIMITS, given.pop("options", ""))
        try:
            return _Connection.connect(*arguments, **{**_DEFAULTS, **given}, options=options)
        except psycopg.Error as error:
            raise _refused(error, address) from None  # because the error may contain the values of references

    made = sa.create_engine(
        "postgresql+psycopg://",
        creator=connect,
        pool_size=_CONNECTIONS,
        max_overflow=_CONNECTIONS,
        pool_timeout=ANSWERS_WITHIN,
        pool_pre_ping=True,
        use_native_hstore=False,
        hide_parameters=True,
    )

    @sa.event.listens_for(made, "handle_error")
    def leave_read_only_servers(context: sa.engine.ExceptionContext) -> None:
        if getattr(context.original_exception, "sqlstate", None) == libpq.READ_ONLY:
            context.is_disconnect = True  # so the pool makes all its connections anew

    return made


def lock_for_schema(connection: sa.Connection, where: str) -> None:
    """Keep other processes from creating or migrating tables until the transaction ends. The transaction's time limits,
    except the one for waiting for locks, are raised to five minutes.

    Raises:
        StoreUnavailableError: the lock wasn't free within five minutes.
    """

    def lock() -> bool | None:
        return connection.execute(sa.select(sa.func.pg_try_advisory_xact_lock(_SCHEMA_LOCK))).scalar_one() or None

    def late() -> StoreUnavailableError:
        return StoreUnavailableError(
            f"another process has been migrating the store {where} for more than {_MIGRATES_WITHIN:g} s", "try again"
        )

    wait_until(lock, _MIGRATES_WITHIN, late, _LOOKS_EVERY)
    for limit in ("statement_timeout", "idle_in_transaction_session_timeout"):
        connection.exec_driver_sql(f"SET LOCAL {limit} = '{_MIGRATES_WITHIN:g}s'")
    reached = connection.connection.driver_connection
    assert isinstance(reached, _Connection)
    reached.patience = _MIGRATES_WITHIN


def explanation(error: DBAPIError, where: str, has_written: bool) -> AnabranchError:
    """The error to raise for a failed statement on the store at ``where``.

    Args:
        has_written: whether this process has written to the store. If it has, a right that is missing now must have
            been taken away later, and may be given back. So the error for a missing right is a StoreUnavailableError.
    """
    state = getattr(error.orig, "sqlstate", None) or ""
    message = libpq.first_line(error.orig)
    if state == libpq.READ_ONLY:
        return _read_only(where, message)
    if state.startswith(_HELD_UP):
        return StoreUnavailableError(f"the store {where} is held up: {message}", _RETRY)
    lost = error.connection_invalidated or (not state and isinstance(error.orig, psycopg.OperationalError))
    if lost or state.startswith(_AWAY):
        return StoreUnavailableError(f"the connection to the store {where} was lost: {message}", _RETRY)
    if state in ("42501", "3F000"):
        denied = StoreUnavailableError if has_written else ConfigError
        return denied(
            f"the store {where} can't be read or written: {message}",
            "let this user own the database, or grant it CREATE on the schema and all rights on the tables",
        )
    return AnabranchError(f"the store {where} failed: {message}", "see the database's message")


def _read_only(where: str, message: str) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"the store {where} can only be read now: {message}",
        "after a fail-over of PostgreSQL, try again when it is over; otherwise, let [coordinator] store name a server "
        "that can be written, not a standby of it",
    )


def _refused(error: psycopg.Error, address: Address) -> AnabranchError:
    refusals, read_only = ([address.scrubbed(line) for line in lines] for lines in libpq.refusals(error))
    if isinstance(error, psycopg.ProgrammingError):  # from the client, before it has connected
        return _wrong_options(refusals[0], address.shown)
    for message in refusals:
        if (known := _known(message, address.shown)) is not None:
            return known
    if read_only:  # even if another one of several servers can't be reached
        return _read_only(address.shown, read_only[0])
    return StoreUnavailableError(
        f"the store {address.shown} can't be reached: {refusals[0]}",
        "see whether PostgreSQL runs there and takes connections, and whether [coordinator] store names it",
    )


def _known(message: str, where: str) -> AnabranchError | None:
    """The error for a server that refuses connections; None if ``message`` isn't a known message."""
    for sign, why in _REFUSED.items():
        if sign in message:
            return ConfigError(f"the store {where} {why}: {message}", _SETTING)
    if "does not exist" in message and "FATAL" in message:
        kind = "role" if 'role "' in message else "database"
        return ConfigError(
            f"the store {where} has no such {kind}: {message}",
            f"make it (create{'user' if kind == 'role' else 'db'}), or name another in [coordinator] store",
        )
    if "invalid" in message and "option" in message:
        return _wrong_options(message, where)
    if any(sign in message for sign in _FULL):
        return StoreUnavailableError(
            f"the store {where} takes no more connections: {message}",
            "end what else holds its connections, or raise max_connections, or the limit of the role or the database; "
            f"a coordinator takes up to {2 * _CONNECTIONS}",
        )
    return None


def _wrong_options(message: str, where: str) -> ConfigError:
    return ConfigError(f"the store {where} can't be reached with these options: {message}", _SETTING)
