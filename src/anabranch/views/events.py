"""An event of a job, as it is shown."""

from __future__ import annotations

from typing import Literal, get_args

from anabranch.model.document import Document

__all__ = ["KINDS", "EventKind", "LoggedEvent"]

EventKind = Literal["state", "change", "lane", "seat", "fence", "drain", "launcher", "autoscale", "input", "other"]
KINDS: tuple[str, ...] = get_args(EventKind)


class LoggedEvent(Document, frozen=True, kw_only=True):
    """Something that happened to a job: ``who`` did it, ``what`` happened, and ``why``."""

    job: str
    at: float
    """Seconds since 1970."""
    who: str
    what: str
    why: str = ""
    id: int = 0
    """A number that rises with each event of the store; 0 if the event isn't stored yet."""
    kind: EventKind = "other"
    """The kind of event. Everything that the autosizer does has the kind ``autoscale``, even if it changes the job."""
    lane: str = ""
    """The lane that the event is about. Empty if the event isn't about a lane."""
    container: str = ""
    """The container that the event is about, or that reported the event. Empty if there is no such container."""
    generation: int = 0
    """The generation that a change within a deployment began; otherwise 0."""
