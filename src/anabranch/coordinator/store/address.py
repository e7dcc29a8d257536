"""The URL of a store: its parts, its form for messages, and the values of references such as ``${env:PGPASSWORD}``."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch import own_files
from anabranch.config import sqlite_urls
from anabranch.config.addresses import LAST_PORT
from anabranch.config.secrets import hidden, put_back, resolved
from anabranch.errors import ConfigError

if TYPE_CHECKING:  # importing sqlalchemy takes longer than most CLI commands run
    import sqlalchemy as sa

__all__ = ["CURE", "Address", "encodable", "is_on_server", "make_folder", "path_of", "shown"]

CURE = "set [coordinator] store to a place that can be written, as in sqlite:////home/me/coordinator.db"
_SETTING = "[coordinator] store"
_CURE = (
    "set [coordinator] store to a file, as in sqlite:////home/me/coordinator.db, or to a database of PostgreSQL's, "
    "as in postgresql://user:${env:PGPASSWORD}@host:5432/database"
)
_DRIVERS = ("sqlite", "postgresql", "postgresql+psycopg")


def path_of(url: str) -> Path | None:
    """The file of a store's database; None for a database in memory or on a server.

    Raises:
        ConfigError: ``url`` isn't a valid URL of an SQLite or PostgreSQL database.
    """
    return Address(url).path


def shown(url: str) -> str:
    """A store's URL for messages, without passwords."""
    return Address(url).shown


def is_on_server(url: str) -> bool:
    """Whether a store is in a PostgreSQL database, which several machines can use."""
    return Address(url).kind == "postgresql"


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, if the folder doesn't exist. New folders are readable only by their
    owner. Raises ConfigError on failure.
    """
    try:
        own_files.make_folder(folder)
    except OSError as error:
        raise ConfigError(f"the folder {folder} of the store can't be made: {error.strerror}", CURE) from error


def encodable(text: str) -> str:
    """``text`` with ``?`` in place of surrogates, which UTF-8 can't encode. They stand for bytes of a file name."""
    return text.encode(errors="replace").decode()


class Address:
    """The location of a store.

    Attributes:
        shown: the URL for messages, without passwords.

    Raises:
        ConfigError: ``url`` isn't a valid URL of an SQLite or PostgreSQL database.
    """

    def __init__(self, url: str) -> None:
        self._given = url
        self._text, self._references = hidden(url)
        self.kind = "sqlite" if url.startswith(sqlite_urls.SCHEME) else self._url.get_backend_name()
        if self.kind == "sqlite":
            self.shown = encodable(url)
            return
        if not self._url.database:
            raise ConfigError(f"{_outward(url)!r} names no database", _CURE)
        if "@" in (self._url.host or ""):
            raise ConfigError(f"{_outward(url)!r} has an @ in its password", "write it as %40, or use a reference")
        self.shown = self._put_back(self._url.set(query={}).render_as_string(hide_password=True))

    @cached_property
    def _url(self) -> sa.URL:
        return _parsed(self._text, self._given)

    @property
    def path(self) -> Path | None:
        """The SQLite file; None for a database in memory or on a server."""
        if self.kind != "sqlite":
            return None
        if self._given.startswith(sqlite_urls.SCHEME):
            return sqlite_urls.path_of(self._given)
        return Path(self._put_back(self._url.database)) if self._url.database else None

    def resolved(self) -> sa.URL:
        """The URL for connecting, with references resolved. Raises ConfigError if a reference can't be resolved."""
        import sqlalchemy as sa

        url = self._url
        query = {
            name: tuple(map(self._filled_text, value)) if isinstance(value, tuple) else self._filled_text(value)
            for name, value in url.query.items()
        }
        return sa.URL.create(
            url.drivername,
            username=self._filled(url.username),
            password=self._filled(url.password),
            host=self._filled(url.host),
            port=url.port,
            database=self._filled(url.database),
            query=query,
        )

    def scrubbed(self, message: str) -> str:
        """``message`` with ``***`` in place of the URL's passwords and the values of the URL's references."""
        url = self.resolved()
        secret = {resolved(_SETTING, reference) for reference in self._references.values()}
        secret |= {str(url.query[name]) for name in url.query if "password" in name}
        secret.add(str(url.password or ""))
        for value in sorted(secret - {""}, key=len, reverse=True):
            message = message.replace(value, "***")
        return message

    def _filled(self, text: str | None) -> str | None:
        return None if text is None else self._filled_text(text)

    def _filled_text(self, text: str) -> str:
        return resolved(_SETTING, self._put_back(text))

    def _put_back(self, text: str) -> str:
        return put_back(text, self._references)


def _parsed(text: str, url: str) -> sa.URL:
    import sqlalchemy as sa
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = sa.make_url(text)
        backend = parsed.get_backend_name()
    except (ArgumentError, ValueError):
        raise ConfigError(f"{_outward(url)!r} is not a database URL", _CURE) from None
    if parsed.drivername not in _DRIVERS:
        named = backend if backend not in _DRIVERS else parsed.drivername
        raise ConfigError(f"a store can't live in {named!r}, only in sqlite and postgresql", _CURE)
    if parsed.port is not None and not 1 <= parsed.port <= LAST_PORT:
        raise ConfigError(f"{_outward(url)!r} has port {parsed.port}: ports are from 1 to {LAST_PORT}", _CURE)
    return parsed


def _outward(url: str) -> str:
    """The part of a URL that may be shown even if the URL can't be parsed."""
    shown = re.sub(r"^.*@", "***@", url, flags=re.DOTALL)
    return re.sub(r"\?.*", "?***", shown, flags=re.DOTALL)
