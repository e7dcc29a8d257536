"""Messages about standbys: up-to-date copies of lanes' folders, with which processes can take over lanes quickly."""

from __future__ import annotations

import enum

from anabranch.model.document import Document

__all__ = ["StandbyAction", "StandbyOrder", "StandbyReport", "StandbyStatus"]


class StandbyAction(enum.StrEnum):
    """What a process does with a standby."""

    REFRESH = "refresh"
    """Keep the standby up to date."""
    HOLD = "hold"
    """Leave the standby as it is."""
    REMOVE = "remove"
    """Delete the standby, because no process will need it."""


class StandbyReport(Document, frozen=True, kw_only=True):
    """What a process reports about a standby that it maintains."""

    lane: str
    epoch: int
    """The epoch in the path of the folder that the standby is a copy of."""
    number: int
    """The number of this standby among the standbys of the folder."""
    batch: int = -1
    """The last batch in the standby; -1 if the standby isn't complete yet."""
    error: str = ""
    """Why the standby can't be brought up to date."""


class StandbyOrder(Document, frozen=True, kw_only=True):
    """What a process should do with a standby. If a process gets no order for a standby, it forgets the standby:
    normally, another process now maintains it.
    """

    lane: str
    epoch: int
    """For ``epoch`` and ``number``, see :class:`StandbyReport`."""
    number: int
    to: StandbyAction = StandbyAction.REFRESH


class StandbyStatus(Document, frozen=True, kw_only=True):
    """A standby as shown by ``status``."""

    lane: str
    number: int
    """The number of this standby among the standbys of the lane's folder."""
    container: str
    """The container that maintains the standby; empty if a process without a seat maintains it."""
    rack: str | None = None
    batch: int = -1
    """The last batch in the standby; -1 if the standby isn't complete yet."""
    behind: int | None = None
    """How many batches the standby is behind the lane; None if the standby isn't complete yet."""
    error: str = ""
    """Why the standby can't be brought up to date."""
