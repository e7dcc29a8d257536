"""The options and the error messages of connections to PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["READ_ONLY", "first_line", "options", "refusals"]

READ_ONLY = "25006"
"""The SQLSTATE of a write that was refused by a standby, or by a server on which writes are forbidden."""
_HOST = re.compile(r"^- host: .*, port: .*, hostaddr: (?:'[^']*'|None): ", re.MULTILINE)
"""How psycopg begins a server's message if it tried several servers."""
_READ_ONLY = ("session is read-only", "server is in hot standby mode")


def options(settings: Mapping[str, str], given: str) -> str:
    """libpq's parameter ``options``: the ``settings`` of a connection, and the options ``given`` in its URL, which take
    precedence.
    """
    return " ".join([*(f"-c {name}={value}" for name, value in settings.items()), given]).strip()


def refusals(error: Exception) -> tuple[list[str], list[str]]:
    """Why no connection could be made: the first line of each server's message, in two lists. The second list has the
    messages that say only that a server is read-only. Such a server may be a healthy standby.
    """
    text = str(error)
    lines = [_first(part, error) for part in (_HOST.split(text)[1:] or [text])]
    read_only = [line for line in lines if any(sign in line for sign in _READ_ONLY)]
    return [line for line in lines if line not in read_only], read_only


def first_line(error: BaseException | None) -> str:
    """The first line of an error's message; the error's type if it has no message."""
    return _first(str(error), error)


def _first(message: str, error: BaseException | None) -> str:
    message = message.strip()
    return message.splitlines()[0] if message else type(error).__name__
