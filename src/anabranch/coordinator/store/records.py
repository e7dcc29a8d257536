"""What the store returns, other than the documents in :mod:`anabranch.model`."""

from __future__ import annotations

from typing import Self

from anabranch.formats import Format
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.document import Document
from anabranch.protocol.container import Registration
from anabranch.protocol.deployment import Program
from anabranch.protocol.drain import DrainProgress
from anabranch.protocol.status import ContainerStatus

__all__ = ["ALL_EVENTS", "ContainerRecord", "DeploymentRecord", "Event", "EventRange", "LeaderRecord"]


class DeploymentRecord(Document, frozen=True, kw_only=True):
    """A stored deployment, without its graph. Times are seconds since 1970."""

    job: str
    id: int
    state: DeploymentState
    generation: int
    fingerprint: dict[str, str]
    promises: dict[str, str]
    formats: dict[str, Format]
    program: Program | None
    until_caught_up: bool
    error: str | None
    created_at: float
    changed_at: float
    drain: DrainProgress | None = None
    """The drain that is under way, if there is one."""


class ContainerRecord(Document, frozen=True, kw_only=True):
    """A process that has taken a seat."""

    id: str
    job: str
    seat: str
    deployment: int
    """The deployment whose code the process has."""
    epoch: int
    execution: str
    host: str
    pid: int
    instance: str
    rack: str | None
    registered_at: float
    gone: str | None
    """Why the process no longer holds the seat; None while the process holds the seat."""

    @classmethod
    def of(cls, registration: Registration, container: str, seat: str, epoch: int, at: float) -> Self:
        """The record of a process that takes a seat now. ``container`` is the container's id."""
        return cls(
            id=container,
            job=registration.job,
            seat=seat,
            deployment=registration.deployment,
            epoch=epoch,
            execution=registration.execution,
            host=registration.host,
            pid=registration.pid,
            instance=registration.instance,
            rack=registration.rack,
            registered_at=at,
            gone=None,
        )

    def is_of(self, registration: Registration) -> bool:
        """Whether a registration comes from this process."""
        its = self.execution, self.host, self.pid, self.instance
        return its == (registration.execution, registration.host, registration.pid, registration.instance)

    def status(self, alive: bool | None, lease: float | None = None) -> ContainerStatus:
        return ContainerStatus(
            container=self.id,
            seat=self.seat,
            deployment=self.deployment,
            epoch=self.epoch,
            host=self.host,
            pid=self.pid,
            rack=self.rack,
            alive=alive,
            lease=lease,
            gone=self.gone,
        )


class Event(Document, frozen=True, kw_only=True):
    """Something that happened to a job: ``who`` did it, ``what`` happened, and ``why``."""

    job: str
    at: float
    """Seconds since 1970."""
    who: str
    what: str
    why: str = ""
    id: int = 0
    """A number that rises with each event of the store; 0 if the event isn't stored yet."""


class EventRange(Document, frozen=True, kw_only=True):
    """Which events to return. None means no bound. Times are seconds since 1970."""

    after: int | None = None
    """Return only events with a higher id."""
    before: int | None = None
    """Return only events with a lower id."""
    since: float | None = None
    """Return only events from this time on."""
    until: float | None = None
    """Return only events before this time."""
    patterns: tuple[str, ...] = ()
    """SQL LIKE patterns, at least one of which an event's text must match; if empty, all events match."""


ALL_EVENTS = EventRange()


class LeaderRecord(Document, frozen=True, kw_only=True):
    """The coordinator that leads, or that led last."""

    epoch: int
    """The epoch under which the coordinator claimed the lead. It rises with each claim."""
    holder: str
    """The coordinator's URL."""
    beat: int
    """A number that rises while the coordinator leads; -1 if the coordinator has resigned."""

    @property
    def resigned(self) -> bool:
        return self.beat < 0
