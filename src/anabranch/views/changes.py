"""The documents about changes, with their expected and their actual effects."""

from __future__ import annotations

from typing import Literal

from anabranch.model.document import Document
from anabranch.model.moves import StageMoves

__all__ = ["ChangeKind", "ChangeRecord", "Moves", "Outcome"]

ChangeKind = Literal["scale", "assign", "expand", "rewind", "deploy", "rollback", "undo"]
Outcome = Literal["open", "done", "undone", "failed"]


class ChangeRecord(Document, frozen=True, kw_only=True):
    """A change to a job: what was predicted, and how it ended. ``began`` and ``ended`` are seconds since 1970."""

    id: int
    """The id of the change's event."""
    deployment: int
    """The deployment to which the job changed; 0 if unknown."""
    generation: int
    """The number of the generation that began with the change. For a change that began a new deployment, this is 1."""
    kind: ChangeKind
    who: str
    """Who requested the change."""
    why: str
    """Why the change was requested."""
    began: float
    outcome: Outcome = "open"
    ended: float | None = None
    seconds: float | None = None
    """How many seconds passed until all new lanes were running, or until the change failed. None if the change is still
    open, or if another change undid it.
    """
    closing: int | None = None
    """How many lanes closed."""
    starting: int | None = None
    """How many lanes started."""
    predicted_pause: float | None = None
    """How many seconds output was expected to pause; None if unknown."""
    measured_pause: float | None = None
    """How many seconds output paused; 0.0 if no pause was seen, normally because no records arrived. None as
    long as the duration is unknown.
    """
    paused_lane: str | None = None
    """The new lane with the longest pause; None if it isn't known. The pause ended with this lane's first output.
    ``measured_pause`` is the length of the pause.
    """
    reason: str = ""
    """Why the change failed, or was undone."""


class Moves(Document, frozen=True, kw_only=True):
    """Which buckets moved to another seat when a generation began."""

    at: float
    """Seconds since 1970, on the coordinator's clock."""
    job: str
    deployment: int
    generation: int
    former: tuple[int, int]
    """The previous generation: its deployment and its number."""
    stages: tuple[StageMoves, ...]
