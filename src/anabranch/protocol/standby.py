"""Standbys: copies of lanes' folders that processes keep up to date, to take over the lanes quickly."""

from __future__ import annotations

import enum

from anabranch.model.document import Document

__all__ = ["StandbyAction", "StandbyOrder", "StandbyReport", "StandbyStatus"]


class StandbyAction(enum.StrEnum):
    """What a process does with a standby."""

    REFRESH = "refresh"
    """Bring it up to date repeatedly."""
    HOLD = "hold"
    """Leave it as it is."""
    REMOVE = "remove"
    """Delete it, because no process will need it."""


class StandbyReport(Document, frozen=True, kw_only=True):
    """What a process reports about a standby that it maintains."""

    lane: str
    epoch: int
    """The epoch of the lane's folder of which this is a copy."""
    number: int
    """Which of the folder's standbys this is."""
    batch: int = -1
    """The last batch in it; -1: it isn't complete yet."""
    error: str = ""
    """Why it can't be brought up to date."""


class StandbyOrder(Document, frozen=True, kw_only=True):
    """What a process should do with a standby. If no order names a standby, it belongs to another process, and this one
    forgets it."""

    lane: str
    epoch: int
    """The epoch, as in :class:`StandbyReport`; so is ``number``."""
    number: int
    to: StandbyAction = StandbyAction.REFRESH


class StandbyStatus(Document, frozen=True, kw_only=True):
    """A standby as shown by ``status``."""

    lane: str
    number: int
    """Which of the standbys of the lane's folder this is."""
    container: str
    """The container that maintains it; empty: a process without a seat does."""
    rack: str | None = None
    batch: int = -1
    """The last batch in it; -1: it isn't complete yet."""
    behind: int | None = None
    """How many batches it is behind the lane; None: it isn't complete yet."""
    error: str = ""
    """Why it can't be brought up to date."""
