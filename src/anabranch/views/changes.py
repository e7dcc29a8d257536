"""The expected and the actual effects of a change."""

from __future__ import annotations

from typing import Literal

from anabranch.model.document import Document
from anabranch.model.moves import StageMoves

__all__ = ["ChangeKind", "ChangeRecord", "Moves", "Outcome"]

ChangeKind = Literal["scale", "assign", "expand", "rewind", "deploy", "rollback", "undo"]
Outcome = Literal["open", "done", "undone", "failed"]


class ChangeRecord(Document, frozen=True, kw_only=True):
    """A change to a job: ``who`` requested it, and ``why``. ``id``: the id of its event.

    ``generation``: the generation that it began; 1 for the first one of a ``deployment`` that followed another; 0:
    unknown. ``began`` and ``ended``: seconds since 1970. ``seconds``: how long it took until all lanes were running.
    ``closing`` and ``starting``: numbers of lanes. ``predicted_pause`` and ``measured_pause``: for how many seconds
    output paused; 0.0: nothing arrived; None: unknown, or not known yet. ``reason``: why it failed, or was undone.
    """

    id: int
    deployment: int
    generation: int
    kind: ChangeKind
    who: str
    why: str
    began: float
    outcome: Outcome = "open"
    ended: float | None = None
    seconds: float | None = None
    closing: int | None = None
    starting: int | None = None
    predicted_pause: float | None = None
    measured_pause: float | None = None
    reason: str = ""


class Moves(Document, frozen=True, kw_only=True):
    """Which buckets got another seat when a ``generation`` began. ``at``: seconds since 1970, on the coordinator's
    clock. ``former``: the deployment and generation before it.
    """

    at: float
    job: str
    deployment: int
    generation: int
    former: tuple[int, int]
    stages: tuple[StageMoves, ...]
