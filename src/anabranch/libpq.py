"""What connections to PostgreSQL have in common."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["options", "refusals"]

_HOST = re.compile(r"^- host: .*, port: .*, hostaddr: (?:'[^']*'|None): ", re.MULTILINE)
"""How psycopg begins a server's message if it tried several servers."""
_READ_ONLY = ("session is read-only", "server is in hot standby mode")


def options(settings: Mapping[str, str], given: str) -> str:
    """libpq's parameter ``options``: the ``settings`` of a connection, and the options ``given`` in its URL, which take
    precedence.
    """
    return " ".join([*(f"-c {name}={value}" for name, value in settings.items()), given]).strip()


def refusals(error: Exception) -> tuple[list[str], list[str]]:
    """Why no server could be connected to: the first line of each server's message. Those in the second list only say
    that the server can't be written, so it may be a healthy standby.
    """
    text = str(error).strip()
    found = [part.strip() for part in (_HOST.split(text)[1:] or [text])]
    lines = [part.splitlines()[0] if part else type(error).__name__ for part in found]
    read_only = [line for line in lines if any(sign in line for sign in _READ_ONLY)]
    return [line for line in lines if line not in read_only], read_only
