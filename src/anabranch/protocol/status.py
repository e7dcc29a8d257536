"""A job as the coordinator shows it: status, sizing, assignment."""

from __future__ import annotations

from anabranch.model.document import Document
from anabranch.model.lane import Lane
from anabranch.model.traffic import Traffic
from anabranch.protocol.drain import DrainProgress
from anabranch.protocol.lane_report import BatchProgress, LaneReport
from anabranch.protocol.standby import StandbyStatus

__all__ = [
    "Assignment",
    "ContainerStatus",
    "JobStatus",
    "LaneSizing",
    "LaneStatus",
    "LaunchStatus",
    "Sizing",
    "TaskAssignment",
]


class TaskAssignment(Document, frozen=True, kw_only=True):
    """Where a task is, and where it should be by the racks as they are now; and ``why`` there."""

    seat: str
    should: str
    why: str


class Assignment(Document, frozen=True, kw_only=True):
    """The tasks of a job, by stage and name, with their seats; ``racks`` are those of the seats, None: not known.

    ``cost`` of what should be, and ``lower_bound``: see :class:`anabranch.assignment.seating.Seating`. ``before``,
    ``after`` and ``why_not`` as in :class:`anabranch.protocol.commands.ScaleResult`.
    """

    job: str
    strategy: str
    racks: dict[str, str | None]
    tasks: dict[str, dict[str, TaskAssignment]]
    cost: float = 0.0
    lower_bound: float = 0.0
    before: Traffic | None = None
    after: Traffic | None = None
    why_not: str = ""


class LaneSizing(Document, frozen=True, kw_only=True):
    """How a lane copes; see :class:`anabranch.protocol.lane_report.LaneReport`. ``lags``: by SSP, offsets that it is
    behind. ``spent``: where the time of the batch that runs goes, or that of the last long one, in seconds by phase.

    ``true_rate``: records a second that it does while it is busy; ``needed_rate``: those that it must do, so that no
    backlog is left after the target lag. ``catch_up``: seconds until none is left, and ``then`` with the proposed
    factor, the pause of the change included; None: it only grows, or it isn't known.
    """

    lane: str
    stage: str
    seat: str
    tasks: tuple[str, ...]
    lag: int
    lags: dict[str, int]
    arriving: float
    rows_per_second: float
    busy: float
    working: float
    batch_seconds: float
    slowest: str
    slowest_seconds: float
    skew: float
    true_rate: float = 0.0
    needed_rate: float = 0.0
    catch_up: float | None = None
    then: float | None = None
    batch_progress: BatchProgress | None = None
    spent: dict[str, float] = {}


class Sizing(Document, frozen=True, kw_only=True):
    """What decides on a job's factor and containers: how its lanes cope, and what could be. ``allowed``: factors.

    ``autoscale``: what the coordinator's own autosizer makes of it; empty if it is off. ``proposed``: the factor that
    the figures of now ask for, without the time that it waits until it changes anything; 0: they say nothing.
    ``target_lag_seconds`` is what that goes by. ``advice``: what would help where no factor does.
    """

    job: str
    state: str
    generation: int
    factor: int
    containers: int
    allowed: tuple[int, ...]
    lanes: tuple[LaneSizing, ...] = ()
    autoscale: str = ""
    proposed: int = 0
    target_lag_seconds: float = 0.0
    advice: tuple[str, ...] = ()


class ContainerStatus(Document, frozen=True, kw_only=True):
    """A container as ``status`` shows it. ``lease``: seconds until it ends, and ``alive``: whether it hasn't (None: who
    was asked doesn't serve the job, and can't know).

    ``deployment``: whose lanes it runs. ``gone``: why it has lost its seat.
    """

    container: str
    seat: str
    epoch: int
    host: str
    pid: int
    rack: str | None = None
    alive: bool | None = True
    lease: float | None = None
    gone: str | None = None
    deployment: int = 0


class LaneStatus(Document, frozen=True, kw_only=True):
    """A lane as ``status`` shows it: its record, and the last report of the container that runs it."""

    lane: Lane
    report: LaneReport | None = None

    @property
    def lag(self) -> int:
        """Offsets between the lane's positions and its inputs' ends."""
        if self.report is None:
            return 0
        held = self.report.positions
        return sum(max(0, end - held.get(ssp, 0)) for ssp, end in self.report.ends.items())


class LaunchStatus(Document, frozen=True, kw_only=True):
    """How the coordinator's own launcher fares with a job's containers: so many are wanted, so many run.

    ``failures`` in a row, the last for ``reason``. ``gave_up``: none is started any more. ``logs``: the folder with
    what they said.
    """

    wanted: int
    running: int
    failures: int = 0
    reason: str = ""
    gave_up: bool = False
    logs: str = ""


class JobStatus(Document, frozen=True, kw_only=True):
    """A job as ``status`` shows it. ``served``: a coordinator answered; else it was read from the store.

    ``promises``: what each output promises, by operator. ``seats``: how many containers it wants; ``factor``: its
    elasticity factor. ``tasks`` of each stage; ``consumption``: in how many containers each of its SSPs is read, on
    average. ``rescale_seconds``: how long the last change took since a coordinator serves the job (None: there was
    none).
    ``standing_by``: so many processes wait for a seat. ``launching`` None: others start its containers.
    ``inputs``: the partitions that the streams which it reads were last seen to have, by ``system/stream`` (0: it is
    gone); ``warnings`` are of the coordinator. ``drain``: the one that is under way. ``copies``: the standbys of lanes.
    """

    job: str
    deployment: int
    generation: int
    state: str
    lanes: tuple[LaneStatus, ...] = ()
    containers: tuple[ContainerStatus, ...] = ()
    error: str | None = None
    served: bool = True
    promises: dict[str, str] = {}
    seats: int = 1
    factor: int = 1
    tasks: dict[str, int] = {}
    consumption: dict[str, float] = {}
    rescale_seconds: float | None = None
    standing_by: int = 0
    launching: LaunchStatus | None = None
    inputs: dict[str, int] = {}
    warnings: tuple[str, ...] = ()
    drain: DrainProgress | None = None
    copies: tuple[StandbyStatus, ...] = ()
