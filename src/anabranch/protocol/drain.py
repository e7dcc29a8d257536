"""A drain: the request, the response, the progress as it is stored, and the order to each lane. Offsets are keyed by
whole SSPs such as ``kafka/flights/3``.
"""

from __future__ import annotations

import enum

from anabranch.model.document import Document

__all__ = ["DrainAccepted", "DrainMode", "DrainNotification", "DrainOrder", "DrainProgress"]


class DrainMode(enum.StrEnum):
    """Which records a job still reads when it drains."""

    PLANNED = "planned"
    """In each partition, only the records that at least one lane had already planned to read when it was told to
    drain."""
    LATEST = "latest"
    """At least all records that the job's inputs contain when the drain is accepted."""


class DrainNotification(Document, frozen=True, kw_only=True):
    """A request to drain a deployment."""

    uuid: str
    """The request's id. If the same id is sent twice, there is only one drain."""
    run_id: int
    """The number of the deployment. Samza's SEP-31 calls it ``runId``."""
    mode: DrainMode = DrainMode.PLANNED
    dry: bool = False
    """Only determine what the drain would do."""


class DrainProgress(Document, frozen=True, kw_only=True):
    """The progress of a drain, as it is stored. All offsets are in streams that the job doesn't write itself."""

    notification: DrainNotification
    ends: dict[str, int] = {}
    """The end offsets that the streams had when the drain was accepted. Set only in the mode "latest"."""
    until: dict[str, int] | None = None
    """The offsets at which the lanes stop reading; None as long as a lane that reads streams from outside the job
    hasn't reported its positions.
    """
    last: bool = False
    """Whether all lanes have read up to ``until``. Event time then ends, and the drain can't be cancelled any more."""


class DrainAccepted(Document, frozen=True, kw_only=True):
    """The response to a request to drain."""

    deployment: int
    uuid: str
    """The id of the running drain. This is the id of this request or, if an earlier request has started the drain, the
    id of the earlier request.
    """
    mode: DrainMode = DrainMode.PLANNED
    ignored: str = ""
    """Why the request was ignored; empty if it wasn't."""
    stages: dict[str, tuple[str, ...]] = {}
    """The open lanes of each stage, in the order in which the stages drain."""
    seconds: float = 0.0
    """The expected duration in seconds, if no further records arrive that must be read."""


class DrainOrder(Document, frozen=True, kw_only=True):
    """How a lane drains."""

    uuid: str = ""
    """The request's id."""
    until: dict[str, int] | None = None
    """The offsets at which the lane stops reading the streams that the job doesn't write itself. None if these offsets
    aren't known yet; the lane then finishes only the batches that it has already planned, and reports its positions.
    """
    last: bool = False
    """Whether all lanes have read up to ``until``. If so, the lane reads its other inputs up to their end offsets,
    emits all windows, fires all timers, and ends.
    """
