"""A container takes a seat and sends heartbeats; the coordinator answers with the lanes that it should run."""

from __future__ import annotations

from typing import Annotated

import msgspec

from anabranch.model.document import Document
from anabranch.model.lane import Lane
from anabranch.protocol.drain import DrainOrder
from anabranch.protocol.lane_report import LaneReport
from anabranch.protocol.standby import StandbyOrder, StandbyReport

__all__ = ["Heartbeat", "HeartbeatResponse", "Registration", "RegistrationResponse", "WantedLane"]


class Registration(Document, frozen=True, kw_only=True):
    """A process's request for a seat. The same registration, sent twice, gets the same seat."""

    job: str
    execution: str
    """The process's EXECUTION_ENV_CONTAINER_ID. A process that replaces another may have the same."""
    host: str
    pid: Annotated[int, msgspec.Meta(ge=0, le=2**62)]
    instance: str = ""
    """An id that no other process has."""
    seat: str | None = None
    """The requested seat; None: any free one."""
    rack: str | None = None
    deployment: int = 0
    """The deployment whose code the process has; 0: the present one."""
    copies: tuple[StandbyReport, ...] = ()
    """The standbys that a process without a seat maintains."""
    warm: bool = True
    """Whether its session has run everything that should run in it before lanes start."""


class RegistrationResponse(Document, frozen=True, kw_only=True):
    """The seat that a process gets, or what to do without one."""

    lease: float
    """The seconds that the lease lasts from each heartbeat."""
    seat: str | None = None
    """The seat; None: all seats are taken, so ask again."""
    container: str = ""
    """The container's id."""
    epoch: int = 0
    """The container's epoch."""
    done: bool = False
    """No seat will become free, because the job doesn't run, or because another deployment of it does."""
    copies: tuple[StandbyOrder, ...] = ()
    """The standbys to keep until then."""
    reads_parts: bool = False
    """Whether the coordinator knows the parts of :class:`LaneReport`. False: it is an older one, which reads reports
    whose fields are side by side.
    """


class Heartbeat(Document, frozen=True, kw_only=True):
    """What a container reports, several times during a lease."""

    container: str
    epoch: int
    number: int
    """Rises with each heartbeat. If a later heartbeat has overtaken this one, the coordinator ignores its lanes."""
    seen: int = -1
    """The ``revision`` of the last response. The coordinator answers at once if it has a newer one."""
    lanes: tuple[LaneReport, ...] = ()
    leaving: bool = False
    """Whether all lanes of the container have ended, and it returns its seat."""
    returns: bool = False
    """Whether the container that returns its seat replaces itself by a new process, which will ask for a seat."""
    copies: tuple[StandbyReport, ...] = ()
    """The standbys that the container maintains."""


class WantedLane(Document, frozen=True, kw_only=True):
    """A lane that a container should run, or end."""

    lane: Lane
    upstream_ended: bool = False
    """Whether all lanes that write its inputs have ended, so that it may end when it has read these to their ends."""
    closing: bool = False
    """Whether the lane must end at a batch boundary. It first finishes, or breaks off, the batch that it has
    started."""
    now: bool = False
    """A closing lane doesn't wait for a batch that would merely have to be repeated later."""
    draining: DrainOrder | None = None
    """How the lane drains; None: it doesn't drain."""


class HeartbeatResponse(Document, frozen=True, kw_only=True):
    """What the container should run. It stops all other lanes at a batch boundary."""

    alive: bool
    """False: the container has lost its seat: it stops everything and exits non-zero."""
    revision: int
    """Rises when the container's orders change."""
    wanted: tuple[WantedLane, ...] = ()
    coming: tuple[Lane, ...] = ()
    """Lanes that the container will run once their predecessors are closed. It may prepare them, and doesn't report
    them.
    """
    copies: tuple[StandbyOrder, ...] = ()
    """The standbys to keep, or to remove."""
    until_caught_up: bool = False
    """Lanes end when they reach those ends of their inputs that were noted at the start."""
    at_once: bool = False
    """Unwanted lanes abort the running batch. It is finished when they run again."""
    done: bool = False
    """Nothing is left to run: the container exits."""
    same: bool = False
    """Everything is the same as in the response with this ``revision``, which the container has seen, so it isn't
    repeated."""
    reason: str | None = None
    """Why the container isn't ``alive``."""
