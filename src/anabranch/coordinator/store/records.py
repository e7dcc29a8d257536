"""Records that the store returns, besides documents in :mod:`anabranch.model`, and the criteria by which it selects
events.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from anabranch.formats import Format
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.document import Document
from anabranch.protocol.container import Registration
from anabranch.protocol.deployment import Program
from anabranch.protocol.drain import DrainProgress
from anabranch.protocol.status import ContainerStatus
from anabranch.views.changes import ChangeKind, Outcome
from anabranch.views.events import EventKind, LoggedEvent
from anabranch.views.lane_times import MarkKind

__all__ = [
    "ALL_EVENTS",
    "ChangeStep",
    "ContainerRecord",
    "DeploymentRecord",
    "Event",
    "EventRange",
    "LeaderRecord",
    "seat_left",
    "seat_lost",
    "seat_taken",
]


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
    """What other processes need to become containers of the job; None if the process that serves the job is the only
    container.
    """
    until_caught_up: bool
    error: str | None
    created_at: float
    changed_at: float
    own_program: Program | None = None
    """If ``program`` is None: what another process would need to close the deployment's lanes, or None if an older
    version of anabranch stored the deployment.
    """
    drain: DrainProgress | None = None
    """The drain that is under way, if there is one."""

    @property
    def any_program(self) -> Program | None:
        """The ``program`` or the ``own_program``."""
        return self.program or self.own_program


class ContainerRecord(Document, frozen=True, kw_only=True):
    """A process that has taken a seat."""

    LEFT: ClassVar = "it gave its seat back"
    """The value of ``gone`` for a process that returned the seat of its own accord."""

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

    @property
    def has_left(self) -> bool:
        """Whether the process returned the seat of its own accord, rather than losing it."""
        return self.gone == self.LEFT

    @classmethod
    def of(cls, registration: Registration, container: str, seat: str, epoch: int, at: float) -> Self:
        """The record of a process that takes a seat now."""
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
            rack=registration.rack or None,  # older containers send an empty rack if their setting is empty
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


class ChangeStep(Document, frozen=True, kw_only=True):
    """What an event adds to the record of a change; see :class:`anabranch.views.changes.ChangeRecord`. Fields that
    have their defaults add nothing.
    """

    kind: ChangeKind | None = None
    """The kind of the change, if the event is the beginning of a change."""
    deployment: int = 0
    """The deployment to which the job changes, if the event is the beginning of a change; 0 if unknown."""
    undone_because: str = ""
    """If the event is the beginning of a change that undoes the preceding change, the reason for undoing the preceding
    change. Otherwise empty.
    """
    outcome: Outcome | None = None
    """The outcome of the change, if the event is the end of a change."""
    seconds: float | None = None
    closing: int | None = None
    starting: int | None = None
    predicted_pause: float | None = None
    measured_pause: float | None = None
    paused_lane: str | None = None


class Event(LoggedEvent, frozen=True, kw_only=True):
    """An event as it is stored, with the fields for the records of changes and the times of lanes."""

    kind: EventKind
    mark: MarkKind | None = None
    """What happened to the event's lane, if this helps to determine when the lane ran."""
    change: ChangeStep | None = None
    """What the event adds to the record of a change, if anything."""

    def logged(self) -> LoggedEvent:
        """The event as it is shown."""
        return LoggedEvent(**{name: getattr(self, name) for name in LoggedEvent.__struct_fields__ if name != "extra"})


def seat_taken(process: ContainerRecord, at: float) -> Event:
    """An event saying that a process has taken a seat."""
    what, why = f"took seat {process.seat}", f"process {process.pid} on {process.host}"
    return Event(kind="seat", job=process.job, at=at, who=process.id, container=process.id, what=what, why=why)


def seat_lost(process: ContainerRecord, at: float, who: str, why: str) -> Event:
    """An event saying that ``who`` has taken a seat away from a process."""
    what = f"{process.id} has lost its seat"
    return Event(kind="seat", job=process.job, at=at, who=who, container=process.id, what=what, why=why)


def seat_left(process: ContainerRecord, at: float) -> Event:
    """An event saying that a process has returned its seat."""
    what = f"left seat {process.seat}"
    return Event(kind="seat", job=process.job, at=at, who=process.id, container=process.id, what=what)


class EventRange(Document, frozen=True, kw_only=True):
    """Which events to return. None, or an empty string, means no restriction. Times are seconds since 1970."""

    after: int | None = None
    """Return only events with a higher id."""
    before: int | None = None
    """Return only events with a lower id."""
    since: float | None = None
    """Return only events from this time on."""
    until: float | None = None
    """Return only events before this time."""
    kind: str = ""
    """Return only events of this kind."""
    lane: str = ""
    """Return only events about this lane."""
    about: Literal["", "lanes", "changes"] = ""
    """With ``"lanes"``, return only events about lanes. With ``"changes"``, return only events that belong to the
    record of a change.
    """


ALL_EVENTS = EventRange()


class LeaderRecord(Document, frozen=True, kw_only=True):
    """The coordinator that leads, or that led last."""

    epoch: int
    """The epoch under which the coordinator claimed the lead, higher than the epochs of all earlier claims."""
    holder: str
    """The coordinator's URL."""
    beat: int
    """A number that rises while the coordinator leads. It is -1 if the coordinator has resigned, or if the coordinator
    has lost the lead because a newer anabranch migrated the store.
    """

    @property
    def resigned(self) -> bool:
        return self.beat < 0
