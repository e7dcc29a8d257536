"""The row in the store that names the leading coordinator."""

from __future__ import annotations

import sqlalchemy as sa

from anabranch.coordinator.store.records import LeaderRecord
from anabranch.coordinator.store.tables import leader
from anabranch.errors import NotLeadingError

__all__ = ["check", "read", "renew", "resign"]


def read(connection: sa.Connection) -> LeaderRecord | None:
    """The coordinator that leads, or that led last; None if no coordinator has ever led."""
    query = sa.select(leader.c.epoch, leader.c.holder, leader.c.beat)
    row = connection.execute(query).mappings().first()
    return None if row is None else LeaderRecord(**row)


def check(connection: sa.Connection, epoch: int) -> None:
    """Raises NotLeadingError if ``epoch`` isn't the epoch of the leader's row. From this call until the end of
    the transaction, no coordinator can claim the lead, and the leader can't resign.
    """
    held = connection.execute(sa.select(leader).with_for_update(read=True)).mappings().first()
    if held is None or held["epoch"] != epoch:
        raise _not_leading(held["holder"] if held is not None else None)


def renew(connection: sa.Connection, epoch: int | None) -> None:
    """Renew the lease of the coordinator that claimed the lead under ``epoch``. Raises NotLeadingError if ``epoch``
    isn't the epoch of the leader's row.
    """
    _beat(connection, epoch, leader.c.beat + 1)


def resign(connection: sa.Connection, epoch: int | None) -> None:
    """Let other coordinators claim the lead at once. Raises NotLeadingError if ``epoch`` isn't the epoch of the
    leader's row.
    """
    _beat(connection, epoch, -1)


def _beat(connection: sa.Connection, epoch: int | None, beat: sa.ColumnElement[int] | int) -> None:
    beaten = sa.update(leader).where(leader.c.epoch == epoch).values(beat=beat)
    if connection.execute(beaten).rowcount != 1:
        raise _not_leading(connection.execute(sa.select(leader.c.holder)).scalar())


def _not_leading(holder: str | None) -> NotLeadingError:
    if holder is None:
        return NotLeadingError("no coordinator leads", "try again in some seconds")
    return NotLeadingError(
        f"this coordinator doesn't lead; {holder} has claimed that last", "ask that one, or try again in some seconds"
    )
