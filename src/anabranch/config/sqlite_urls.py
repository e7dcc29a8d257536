"""URLs of SQLite files. The path in such a URL ends before a ``?``. Escapes in the path are decoded: for example,
``%41`` stands for ``A``. References in a path, such as ``${env:HOME}``, aren't resolved.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from anabranch.config.secrets import hidden, put_back

__all__ = ["SCHEME", "absolute", "path_of", "url_of"]

SCHEME = "sqlite:///"
_MEMORY = ":memory:"


def path_of(url: str) -> Path | None:
    """The path in a URL that begins with :data:`SCHEME`. None for a database in memory, and for all other URLs."""
    path, _ = _parts(url) if url.startswith(SCHEME) else ("", "")
    return Path(path) if path and path != _MEMORY else None


def url_of(path: Path) -> str:
    """The URL of an SQLite file: the inverse of :func:`path_of`."""
    text, references = hidden(str(path))
    return SCHEME + put_back(text.replace("%", "%25").replace("?", "%3F"), references)


def absolute(url: str, folder: Path) -> str:
    """``url`` with an absolute path in place of an SQLite file's relative path. Other URLs stay as they are."""
    if not url.startswith(SCHEME) or url.startswith(f"{SCHEME}/"):
        return url
    path, query = _parts(url)
    return url_of((folder / path.lstrip("/")).resolve()) + query


def _parts(url: str) -> tuple[str, str]:
    """The path and, with its ``?``, the query."""
    text, references = hidden(url.removeprefix(SCHEME))
    path, mark, query = text.partition("?")
    return put_back(unquote(path), references), put_back(mark + query, references)
