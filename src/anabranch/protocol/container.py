"""The messages between a container and the coordinator."""

from __future__ import annotations

from typing import Annotated

import msgspec

from anabranch.model.document import Document
from anabranch.model.lane import Lane
from anabranch.protocol.drain import DrainOrder
from anabranch.protocol.lane_report import LaneReport
from anabranch.protocol.standby import StandbyOrder, StandbyReport

__all__ = ["NO_SEAT", "Heartbeat", "HeartbeatResponse", "Registration", "RegistrationResponse", "WantedLane"]

NO_SEAT = "none"
"""The name of a seat that no job has."""


class Registration(Document, frozen=True, kw_only=True):
    """A process's request for a seat. If a process that has a seat repeats the request, the answer names this seat."""

    job: str
    execution: str
    """The process's EXECUTION_ENV_CONTAINER_ID. A process that replaces another process can have the same value."""
    host: str
    pid: Annotated[int, msgspec.Meta(ge=0, le=2**62)]
    instance: str = ""
    """An id that no other process has."""
    seat: str | None = None
    """The requested seat; None if any free seat will do."""
    rack: str | None = None
    deployment: int = 0
    """The deployment whose code the process has; 0 for the current deployment."""
    copies: tuple[StandbyReport, ...] = ()
    """The standbys that the process maintains while it has no seat."""
    warm: bool = True
    """Whether the process's Spark session has finished its warm-up and is ready for lanes."""
    waits_for_slots: bool = False
    """Whether the process is still waiting for task slots of a Spark cluster. Such a process gets no seat yet. It asks
    for :data:`NO_SEAT`, so that an older coordinator, which doesn't know this field, gives it no seat, either.
    """


class RegistrationResponse(Document, frozen=True, kw_only=True):
    """The seat that a process gets, or what the process should do without a seat."""

    lease: float
    """The duration of the lease in seconds. Each heartbeat renews the lease."""
    seat: str | None = None
    """The seat; None if the process is ``done``, or if no seat is free now and the process should ask again."""
    container: str = ""
    """The container's id."""
    epoch: int = 0
    """The container's epoch."""
    done: bool = False
    """Whether the process should end, because it won't get a seat: the job isn't running, or needs no process with the
    code of the process's deployment.
    """
    copies: tuple[StandbyOrder, ...] = ()
    """The standbys that the process should maintain while it has no seat."""
    reads_parts: bool = False
    """Whether the coordinator understands the parts of :class:`LaneReport`. An older coordinator expects the fields of
    all parts directly in the report.
    """


class Heartbeat(Document, frozen=True, kw_only=True):
    """What a container reports, several times during a lease."""

    container: str
    epoch: int
    number: int
    """A number that rises with each heartbeat. If heartbeats arrive in the wrong order, an older heartbeat still renews
    the lease, but the coordinator ignores its reports.
    """
    seen: int = -1
    """The ``revision`` of the last response that the container has received; -1 for none. If the coordinator has
    another revision, it answers at once.
    """
    lanes: tuple[LaneReport, ...] = ()
    leaving: bool = False
    """Whether the container gives up its seat, because all of its lanes have ended."""
    returns: bool = False
    """Whether the container, when it gives up its seat, replaces itself with a new process, which will ask for a
    seat."""
    copies: tuple[StandbyReport, ...] = ()
    """The standbys that the container maintains."""
    prepared: tuple[str, ...] = ()
    """The lanes in :attr:`HeartbeatResponse.coming` whose preparation has ended, successfully or not."""


class BatchDecision(Document, frozen=True, kw_only=True):
    """Whether a closing lane is expected to break off its running batch. The predicted pause of the change is based on
    this.

    The lane normally follows this expectation, so that the prediction is right. The lane decides otherwise only if
    its own estimate clearly favors the other choice.
    """

    batch: int
    """The batch's number."""
    break_off: bool
    """Whether the batch is broken off. Otherwise, the lane finishes it."""


class WantedLane(Document, frozen=True, kw_only=True):
    """A lane that a container should run, drain or close."""

    lane: Lane
    upstream_ended: bool = False
    """Whether all lanes that write the lane's inputs have ended, in a drain or in a job that ends once it has caught
    up. If so, the lane can end as soon as it has read these inputs up to their end offsets.
    """
    closing: bool = False
    """Whether the lane must end at a batch boundary, after it has finished or broken off its running batch."""
    now: bool = False
    """Whether the closing lane breaks off its batch even if part of the batch's output is then written twice."""
    decision: BatchDecision | None = None
    """Whether the closing lane is expected to break off its running batch; None if that wasn't predicted."""
    deferred: bool = False
    """Whether the closing lane keeps running for now, with brief batches, because other containers are preparing its
    successors.
    """
    draining: DrainOrder | None = None
    """How the lane drains; None if it doesn't drain."""


class HeartbeatResponse(Document, frozen=True, kw_only=True):
    """What the container should run. The container stops all other lanes."""

    alive: bool
    """Whether the container still has its seat. If not, it stops everything, and exits with a code other than 0."""
    revision: int
    """A number that changes whenever the container's orders do; -1 if the coordinator has no orders for it."""
    wanted: tuple[WantedLane, ...] = ()
    coming: tuple[Lane, ...] = ()
    """Lanes that the container will run once their predecessors are closed. Until then, the container can prepare these
    lanes, but doesn't report them.
    """
    copies: tuple[StandbyOrder, ...] = ()
    """The standbys to maintain, or to remove."""
    until_caught_up: bool = False
    """Whether lanes end when they reach the end offsets that their inputs had when the lanes were started."""
    at_once: bool = False
    """Whether lanes that are no longer wanted break off their running batches. A lane finishes such a batch when it
    runs again.
    """
    done: bool = False
    """Whether nothing is left to run. If so, the container exits."""
    same: bool = False
    """Whether nothing has changed since the response with this ``revision``, which the container has already received.
    If so, the other fields are left empty, except ``watched``.
    """
    reason: str | None = None
    """Why the container isn't ``alive``."""
    watched: bool = False
    """Whether somebody is looking at partitions. If so, reports should contain the watermark of each SSP."""
