"""Connects tables to a PostgreSQL server, and turns the server's errors into anabranch's own."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import conninfo

from anabranch import libpq
from anabranch.config.secrets import hidden, put_back, resolved, without_login, without_passwords
from anabranch.deadlines import answered_within, wait_until
from anabranch.errors import AnabranchError, ConfigError, ConflictError, NotFoundError

__all__ = ["ANSWERS_WITHIN", "LIMITS", "connect", "told"]

_PATIENCE, _STEP = 60.0, 0.5
"""For how many seconds anabranch tries to connect, and how many seconds it waits between attempts."""
LIMITS = {
    "lock_timeout": "30s",
    "idle_in_transaction_session_timeout": "10s",  # how long a frozen process can keep its locks
    "statement_timeout": "600s",
    "timezone": "UTC",
}
_DURABLE = """
    select set_config('synchronous_commit', 'on', false) from pg_settings
    where name = 'synchronous_commit' and setting = 'off' and source <> 'client'
"""
"""Turns ``synchronous_commit`` on, unless the URL sets it to "off". With "off", a crash of the server can lose
committed batches.
"""
_FINAL = ("authentication", "does not exist", "no pg_hba")
"""Parts of messages after which another attempt to connect would be useless."""
ANSWERS_WITHIN = 630.0
"""How many seconds a server can take to answer. This is a little more than the server's own limit for statements. The
server's limit doesn't help if the server is frozen, or if the network loses the server's answers.
"""
_CANCELLED = "57014"
"""The SQLSTATE of a statement that took longer than ``statement_timeout``, or that somebody cancelled."""
_DEFAULTS = {
    "connect_timeout": 5,
    "application_name": "anabranch",
    "keepalives_idle": 30,  # these let a connection to a machine that is gone break off
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 120_000,  # in ms
    "target_session_attrs": "read-write",  # this passes over servers that can only be read
}
"""libpq's parameters (times in seconds, except where another unit is given). Parameters in the URL take precedence."""

_PORTS = re.compile(r"[\d,\s]*")
"""What libpq's parameter ``port`` can be: a number, or one for each host."""

T = TypeVar("T")


class _Connection(psycopg.Connection[Any]):
    """A connection that is closed if the server takes too long to answer."""

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **kwargs: Any) -> T:
        limit = ANSWERS_WITHIN

        def late() -> psycopg.OperationalError:
            self.close()
            return psycopg.OperationalError(f"no answer within {limit:g} s")

        return super().wait(answered_within(gen, limit, late), *args, **kwargs)


def connect(setting: str, url: str, where: str, autocommit: bool = False) -> psycopg.Connection[Any]:
    """Open a new connection. A failed attempt is repeated for up to a minute, unless the server refuses the login or
    has no such database. ``setting`` and ``where`` are for error messages: ``setting`` is the name of the setting that
    contains ``url``, and ``where`` is the table's name.

    Raises:
        AnabranchError: no connection could be made.
        ConfigError: a reference in ``url`` can't be resolved, or PostgreSQL's client doesn't accept ``url``.
    """
    parameters = _parameters(setting, url)
    why = ""

    def late() -> AnabranchError:
        return AnabranchError(
            f"{where} can't be reached: {why}",
            f"see whether PostgreSQL runs there and takes connections, and {setting}",
        )

    def look() -> psycopg.Connection[Any] | None:
        nonlocal why
        try:
            return _opened(parameters, autocommit)
        except psycopg.ProgrammingError as error:
            if error.sqlstate is not None:  # from the server
                raise
            raise _refused(setting, url) from None
        except psycopg.OperationalError as error:
            refusals, read_only = libpq.refusals(error)
            final = [line for line in refusals if any(sign in line for sign in _FINAL)]
            why = (final or refusals or read_only)[0]
            if final:
                raise late() from None  # the original error may contain resolved secrets
            return None

    return wait_until(look, _PATIENCE, late, _STEP)


def _parameters(setting: str, url: str) -> dict[str, Any]:
    """libpq's parameters for a connection. Raises ConfigError if the client can't parse ``url``, or would take a part
    of the password for the host or the port, which messages show.
    """
    try:
        given = conninfo.conninfo_to_dict(resolved(setting, url))
    except psycopg.ProgrammingError:
        raise _refused(setting, url) from None  # the original error may contain resolved secrets
    hosts, ports = str(given.get("host", "")), str(given.get("port", ""))
    if any("@" in host[1:] for host in hosts.split(",")) or not _PORTS.fullmatch(ports):
        raise _refused(setting, url)
    options = libpq.options(LIMITS, str(given.get("options", "")))
    return {**_DEFAULTS, **given, "client_encoding": "UTF8", "options": options}


def _refused(setting: str, url: str) -> ConfigError:
    """The error for a URL that PostgreSQL's client doesn't accept. The client's reason may quote a secret. So the error
    contains a reason only if the client also refuses the URL without its login and the values of its references.
    """
    shown, references = hidden(without_passwords(without_login(url)))
    why = ""
    try:
        conninfo.conninfo_to_dict(shown)
    except psycopg.ProgrammingError as error:
        why = f": {put_back(libpq.first_line(error), references)}"
    return ConfigError(
        f"{setting} isn't a URL that PostgreSQL's client accepts{why}",
        "write it as in postgresql://user:${env:PASSWORD}@host:5432/database; in the user and the password, also if "
        "they are references, write %, @, /, : and spaces as %25, %40, %2F, %3A and %20",
    )


def _opened(parameters: dict[str, Any], autocommit: bool) -> psycopg.Connection[Any]:
    made = _Connection.connect(autocommit=True, **parameters)  # so that a rollback doesn't undo the setting
    try:
        made.execute(_DURABLE)
        made.autocommit = autocommit
    except BaseException:
        made.close()
        raise
    return made


@contextmanager
def told(where: str) -> Iterator[None]:
    """Inside ``with``, PostgreSQL's errors are raised as anabranch's. ``where`` names the table in error messages."""
    try:
        yield
    except psycopg.Error as error:
        raise _meaning(error, where) from None


def _meaning(error: psycopg.Error, where: str) -> AnabranchError:
    state, message = error.sqlstate or "", libpq.first_line(error)
    if state == "42P01":
        return NotFoundError(f"{where} or a table beside it is gone: {message}", "restore it")
    if state == _CANCELLED:
        return AnabranchError(
            f"PostgreSQL cancelled a statement for {where}: {message}",
            f"if it took longer than statement_timeout ({LIMITS['statement_timeout']}, unless the output's url sets "
            "less), see which indexes and triggers of the table make writing slow, or make batches smaller; otherwise "
            "an administrator cancelled it; the batch is written again, and nothing is lost",
        )
    if state in ("55P03", "40P01"):
        return AnabranchError(
            f"{where} is locked by another program: {message}",
            "see pg_stat_activity for who holds it; the batch is written again, and nothing is lost",
        )
    if state.startswith("53"):
        return AnabranchError(
            f"{where} can't take more: {message}", "make room; the batch is written again, and nothing is lost"
        )
    if state == "42501":
        return ConfigError(
            f"{where} can't be written: {message}", "grant this user its rights on the schema and tables"
        )
    if state.startswith(("22", "23", "42")):
        return ConflictError(f"{where} doesn't take a row: {message}", "fix the job, or change the table")
    if state == libpq.READ_ONLY:
        return AnabranchError(
            f"{where} takes no writes now: {message}",
            "after a fail-over of PostgreSQL, the batch is written again, and nothing is lost; otherwise, let the "
            "output's url name a server that can be written, not a standby of it",
        )
    lost = not state and not isinstance(error, psycopg.ProgrammingError)  # this one is about the statement
    if lost or state.startswith(("08", "57P", "25P")):
        return AnabranchError(
            f"the connection to {where} was lost: {message}", "the batch is written again, and nothing is lost"
        )
    return AnabranchError(f"{where} failed: {message}", "see the database's message")
