"""A drain: the request, its progress, and the order to each lane. Offsets are by whole SSP in text form."""

from __future__ import annotations

import enum

from anabranch.model.document import Document

__all__ = ["DrainAccepted", "DrainMode", "DrainNotification", "DrainOrder", "DrainProgress"]


class DrainMode(enum.StrEnum):
    """What a job still takes in when it drains."""

    PLANNED = "planned"
    """The batches that its lanes have planned when the drain is accepted."""
    LATEST = "latest"
    """All records that its inputs have when the drain is accepted."""


class DrainNotification(Document, frozen=True, kw_only=True):
    """A request to drain a deployment."""

    uuid: str
    """The request's id: the same one, sent twice, is one drain."""
    run_id: int
    """The number of the deployment. SEP-31 calls it ``runId``."""
    mode: DrainMode = DrainMode.PLANNED
    dry: bool = False
    """Only find out what the drain would do."""


class DrainProgress(Document, frozen=True, kw_only=True):
    """The progress of a drain, as the store has it. Offsets are of the streams that the job doesn't write itself."""

    notification: DrainNotification
    ends: dict[str, int] = {}
    """With the mode "latest": where the streams ended when the drain was accepted."""
    until: dict[str, int] | None = None
    """Where each lane stops reading; None: the lanes haven't all reported that yet."""
    last: bool = False
    """All lanes have read up to there, and event time ends. From here on the drain can't be cancelled."""


class DrainAccepted(Document, frozen=True, kw_only=True):
    """The response to a request to drain."""

    deployment: int
    uuid: str
    """The drain that runs: an earlier one, if there was one."""
    mode: DrainMode = DrainMode.PLANNED
    ignored: str = ""
    """Why no drain runs."""
    stages: dict[str, tuple[str, ...]] = {}
    """The open lanes of each stage, in the order in which the stages drain."""
    seconds: float = 0.0
    """The expected duration, if nothing more arrives that must be taken in."""


class DrainOrder(Document, frozen=True, kw_only=True):
    """How a lane drains."""

    uuid: str = ""
    """The request's id."""
    until: dict[str, int] | None = None
    """Where the lane stops reading the streams that the job doesn't write itself. None: not known yet: the lane takes
    in only what it has planned, and reports where that ends."""
    last: bool = False
    """All lanes have read up to there: this one reads its other inputs to their ends, emits all windows, fires all
    timers, and ends.
    """
