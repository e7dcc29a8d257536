"""Notes which code was stored for deployments that aren't stored yet, so that such code isn't deleted. Several
processes can store the same code, and the code may be in the store already.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

import sqlalchemy as sa

from anabranch.coordinator.store.tables import meta

__all__ = ["finish", "pending", "start"]

_PREFIX = "upload "


def start(connection: sa.Connection, sha256: str) -> None:
    """Note that code was stored for a deployment that will be stored later. Each upload gets an id of its own."""
    finish(connection, [sha256])
    connection.execute(sa.insert(meta).values(key=f"{_PREFIX}{sha256}", value=uuid.uuid4().hex))


def finish(connection: sa.Connection, sha256s: Iterable[str]) -> None:
    """Forget the uploads of code, because a deployment with this code is stored, or because the code is deleted."""
    connection.execute(sa.delete(meta).where(meta.c.key.in_([f"{_PREFIX}{sha256}" for sha256 in sha256s])))


def pending(connection: sa.Connection) -> dict[str, str]:
    """The code that was stored for deployments that aren't stored yet, with the ids of the latest uploads."""
    noted = connection.execute(sa.select(meta.c.key, meta.c.value).where(meta.c.key.startswith(_PREFIX)))
    return {key.removeprefix(_PREFIX): value for key, value in noted.all()}
