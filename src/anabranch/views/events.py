"""What happened to a job, as it is shown: each event with its kind, and the lane and container that it is about."""

from __future__ import annotations

from typing import Literal

from anabranch.model.document import Document

__all__ = ["KINDS", "EventKind", "LoggedEvent"]

EventKind = Literal["state", "change", "lane", "seat", "fence", "drain", "launcher", "autoscale", "input", "other"]
KINDS: tuple[EventKind, ...] = (
    "state",
    "change",
    "lane",
    "seat",
    "fence",
    "drain",
    "launcher",
    "autoscale",
    "input",
    "other",
)


class LoggedEvent(Document, frozen=True, kw_only=True):
    """``who`` did ``what``, and ``why``, ``at`` seconds since 1970. ``id`` rises with each event. ``lane`` and
    ``container``: what it is about; empty: nothing of the kind. ``generation``: the one that a change began, or 0."""

    id: int
    job: str
    at: float
    who: str
    what: str
    why: str = ""
    kind: EventKind = "other"
    lane: str = ""
    container: str = ""
    generation: int = 0
