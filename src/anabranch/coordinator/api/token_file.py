"""Stores the token that a coordinator creates. Only the coordinator's user can read the token's file, because whoever
has the token can operate the coordinator.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

from anabranch.config import CoordinatorSettings
from anabranch.coordinator.store import address
from anabranch.errors import ConfigError

__all__ = ["made", "of", "read", "sibling"]

_BYTES = 32
_LONGEST = 1000
_CURE = "set [coordinator] token_file to a path that this user can write, or [coordinator] token"


def of(settings: CoordinatorSettings) -> Path:
    """The file for the token that a coordinator with these settings creates. Raises ConfigError if no file is named."""
    if settings.token_file is None:
        raise ConfigError("no file is named for the token of the coordinator", _CURE)
    return settings.token_file


def sibling(token_file: Path, suffix: str) -> Path:
    """The path of another private file of the coordinator. It is the path of the token's file, with ``.token`` at the
    end replaced by ``suffix``. If the path doesn't end with ``.token``, ``suffix`` is appended.
    """
    return token_file.with_name(token_file.name.removesuffix(".token") + suffix)


def read(path: Path) -> str | None:
    """The token in a file; None if there is none yet, if the file can't be read, or if it is a symbolic link."""
    try:
        with _opened(path) as descriptor:
            return os.read(descriptor, _LONGEST).decode(errors="replace").strip() or None
    except OSError:
        return None


def made(path: Path) -> str:
    """The token in a file that only its owner can read. If there is no token yet, one is created. If users other than
    the owner have any permissions on the file, a file with a new token replaces it.

    Raises:
        ConfigError: the file can't be created. Also raised if the file belongs to another user, unless this process
            runs as root.
    """
    address.make_folder(path.parent)
    try:
        with contextlib.suppress(FileNotFoundError), _opened(path) as descriptor:
            found = os.fstat(descriptor)
            if os.geteuid() not in {0, found.st_uid}:
                raise ConfigError(f"the token file {path} belongs to another user", _CURE)
            if stat.S_ISREG(found.st_mode) and not found.st_mode & 0o077 and (token := read(path)):
                return token
            path.unlink()
        return _write(path)
    except OSError as error:
        raise ConfigError(f"the token file {path} can't be made: {error.strerror}", _CURE) from error


def _write(path: Path) -> str:
    """Write a new token, and return it. If another process has created the file first, return that file's token."""
    temporary = path.with_name(f".{uuid.uuid4().hex}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(f"{secrets.token_urlsafe(_BYTES)}\n")
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink()
    token = read(path)
    assert token is not None
    return token


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
