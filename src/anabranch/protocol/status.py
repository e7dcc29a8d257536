"""A job as the coordinator shows it: status, sizing, assignment."""

from __future__ import annotations

from anabranch.model.deployment_state import DeploymentState
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


class ContainerStatus(Document, frozen=True, kw_only=True):
    """A container as ``status`` shows it."""

    container: str
    """The container's id."""
    seat: str
    epoch: int
    host: str
    pid: int
    rack: str | None = None
    alive: bool | None = True
    """Whether its lease lasts; None: not known, as with ``lease``."""
    lease: float | None = None
    """The seconds until the lease runs out; None: no coordinator serves the job."""
    gone: str | None = None
    """Why the container has lost its seat."""
    deployment: int = 0
    """The deployment whose lanes it runs."""


class LaneStatus(Document, frozen=True, kw_only=True):
    """A lane as ``status`` shows it."""

    lane: Lane
    """Its record in the store."""
    report: LaneReport | None = None
    """The last report of the container that runs it."""

    @property
    def lag(self) -> int:
        """Offsets between the lane's positions and its inputs' ends."""
        if self.report is None:
            return 0
        positions = self.report.progress.positions
        return sum(max(0, end - positions.get(ssp, 0)) for ssp, end in self.report.progress.ends.items())


class LaunchStatus(Document, frozen=True, kw_only=True):
    """The state of the coordinator's own launcher for a job's containers."""

    wanted: int
    """The containers that should run."""
    running: int
    """The containers that do."""
    failures: int = 0
    """The containers that failed in a row, since the last one that worked."""
    reason: str = ""
    """Why the last one failed."""
    gave_up: bool = False
    """No more containers are started."""
    logs: str = ""
    """The folder with the containers' logs."""


class JobStatus(Document, frozen=True, kw_only=True):
    """A job as ``status`` shows it."""

    job: str
    deployment: int
    generation: int
    state: DeploymentState
    lanes: tuple[LaneStatus, ...] = ()
    containers: tuple[ContainerStatus, ...] = ()
    error: str | None = None
    served: bool = True
    """Whether a coordinator answered. False: this was read from the store."""
    promises: dict[str, str] = {}
    """The delivery guarantee of each output, by operator."""
    seats: int = 1
    """The number of containers that the job wants."""
    factor: int = 1
    """The elasticity factor."""
    tasks: dict[str, int] = {}
    """The number of tasks, by stage."""
    consumption: dict[str, float] = {}
    """In how many containers an SSP is read, on average, by stage."""
    rescale_seconds: float | None = None
    """How long the last change took, since this coordinator began to serve the job; None: there was none."""
    standing_by: int = 0
    """The number of processes that wait for a seat."""
    launching: LaunchStatus | None = None
    """None: the coordinator doesn't start the job's containers."""
    inputs: dict[str, int] = {}
    """The last seen partition counts of the streams that the job reads, by ``system/stream``; 0: the stream no longer
    exists.
    """
    warnings: tuple[str, ...] = ()
    """Warnings of the coordinator; those of lanes are in their reports."""
    drain: DrainProgress | None = None
    """The drain that runs."""
    copies: tuple[StandbyStatus, ...] = ()
    """The standbys of lanes."""


class LaneSizing(Document, frozen=True, kw_only=True):
    """How well a lane keeps up with its load. Fields that aren't explained: see
    :class:`anabranch.protocol.lane_report.LaneReport`.
    """

    lane: str
    stage: str
    seat: str
    tasks: tuple[str, ...]
    lag: int
    """The offsets that the lane is behind."""
    lags: dict[str, int]
    """The same, by SSP."""
    arriving: float
    rows_per_second: float
    busy: float
    working: float
    batch_seconds: float
    """The duration of the last batch."""
    slowest: str
    slowest_seconds: float
    skew: float
    true_rate: float = 0.0
    """The records per second that the lane processes while it is busy."""
    needed_rate: float = 0.0
    """The records per second that it must process to have no backlog after the target lag."""
    catch_up: float | None = None
    """The seconds until there is no backlog; None: the backlog grows, or this isn't known."""
    then: float | None = None
    """``catch_up`` with the proposed factor, including the pause of the change."""
    batch_progress: BatchProgress | None = None
    spent: dict[str, float] = {}
    """Where the time of the running batch goes, or that of the last long one, in seconds by phase."""


class Sizing(Document, frozen=True, kw_only=True):
    """What determines a job's factor and number of containers."""

    job: str
    state: DeploymentState
    generation: int
    factor: int
    containers: int
    allowed: tuple[int, ...]
    """The possible factors."""
    lanes: tuple[LaneSizing, ...] = ()
    autoscale: str = ""
    """What the coordinator's autosizer concludes; empty: it is off."""
    proposed: int = 0
    """The factor that the present load requires, regardless of the autosizer's waiting times; 0: unknown."""
    target_lag_seconds: float = 0.0
    """The lag that ``proposed`` aims at."""
    advice: tuple[str, ...] = ()
    """What would help where no factor does."""


class TaskAssignment(Document, frozen=True, kw_only=True):
    """Where a task is, and where it should be according to the present racks."""

    seat: str
    should: str
    """The seat that it should have."""
    why: str
    """Why that one."""


class Assignment(Document, frozen=True, kw_only=True):
    """The tasks of a job with their seats."""

    job: str
    strategy: str
    racks: dict[str, str | None]
    """The rack of each seat; None: not known."""
    tasks: dict[str, dict[str, TaskAssignment]]
    """By stage and task."""
    cost: float = 0.0
    """The cost of the desired assignment: see :class:`anabranch.assignment.assignor.Seating`."""
    lower_bound: float = 0.0
    """The least cost that an assignment can have."""
    before: Traffic | None = None
    """The present traffic between racks."""
    after: Traffic | None = None
    """The traffic between racks in the desired assignment."""
    why_not: str = ""
    """Why racks aren't taken into account although the settings ask for it."""
