"""Results of the store that aren't documents of the model."""

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
    """A deployment's row without its graph. Times are in seconds since 1970. ``drain``: the drain that is under way, if
    any.
    """

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


class ContainerRecord(Document, frozen=True, kw_only=True):
    """A process that took a seat, with the code of a ``deployment``; ``gone`` says why it no longer holds the seat."""

    id: str
    job: str
    seat: str
    deployment: int
    epoch: int
    execution: str
    host: str
    pid: int
    instance: str
    rack: str | None
    registered_at: float
    gone: str | None

    @classmethod
    def of(cls, registration: Registration, container: str, seat: str, epoch: int, at: float) -> Self:
        """The record of a process that now takes a seat, as the container with this id."""
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
        """Whether this is the process that is registering."""
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
    """Something that happened to a job: ``who`` did ``what``, and ``why``. ``at``: seconds since 1970. ``id`` rises
    with each event of the store; 0: it isn't stored yet."""

    job: str
    at: float
    who: str
    what: str
    why: str = ""
    id: int = 0


class EventRange(Document, frozen=True, kw_only=True):
    """Which events to return: those ``after`` an id, ``before`` an id, and from ``since`` to before ``until``, in
    seconds since 1970. None means no bound. ``patterns``: SQL LIKE patterns, one of which the events' text must match.
    """

    after: int | None = None
    before: int | None = None
    since: float | None = None
    until: float | None = None
    patterns: tuple[str, ...] = ()


ALL_EVENTS = EventRange()


class LeaderRecord(Document, frozen=True, kw_only=True):
    """Which coordinator leads: ``holder`` is its URL; ``beat`` rises while it leads and is -1 when it has resigned."""

    epoch: int
    holder: str
    beat: int

    @property
    def resigned(self) -> bool:
        return self.beat < 0
