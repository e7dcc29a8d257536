"""Standbys: copies of lanes' folders that a process keeps up to date."""

from __future__ import annotations

from typing import Literal

from anabranch.model.document import Document

__all__ = ["StandbyOrder", "StandbyReport", "StandbyStatus"]


class StandbyReport(Document, frozen=True, kw_only=True):
    """What a process says of a standby that it keeps: copy ``number`` of the folder that a lane has from ``epoch``.

    ``batch``: the last one that it has (-1: it isn't whole yet). ``error``: why it can't be brought up to date.
    """

    lane: str
    epoch: int
    number: int
    batch: int = -1
    error: str = ""


class StandbyOrder(Document, frozen=True, kw_only=True):
    """What a process should do with a standby; fields as in :class:`StandbyReport`. ``hold``: leave it as it is;
    ``remove`` it: nobody will need it. One that isn't named any more is another's: forget it."""

    lane: str
    epoch: int
    number: int
    to: Literal["refresh", "hold", "remove"] = "refresh"


class StandbyStatus(Document, frozen=True, kw_only=True):
    """A standby as ``status`` shows it: copy ``number`` of a lane's folder. ``container``: who keeps it; empty: one
    that stands by. ``behind``: by so many batches; None: it isn't whole yet."""

    lane: str
    number: int
    container: str
    rack: str | None = None
    batch: int = -1
    behind: int | None = None
    error: str = ""
