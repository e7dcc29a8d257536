"""A job as shown by the coordinator: status, sizing, assignment."""

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
    """A container as shown by ``status``."""

    container: str
    """The container's id."""
    seat: str
    epoch: int
    host: str
    pid: int
    rack: str | None = None
    alive: bool | None = True
    """Whether its lease is still valid; None: not known, as with ``lease``."""
    lease: float | None = None
    """The seconds until the lease runs out; None if no coordinator serves the job."""
    gone: str | None = None
    """Why the container has lost its seat."""
    deployment: int = 0
    """The deployment whose lanes it runs."""


class LaneStatus(Document, frozen=True, kw_only=True):
    """A lane as shown by ``status``."""

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
    """The containers that are running."""
    failures: int = 0
    """How many containers have failed in a row, since the last one that worked."""
    reason: str = ""
    """Why the last one failed."""
    gave_up: bool = False
    """Whether the launcher has given up, and starts no more containers."""
    logs: str = ""
    """The folder with the containers' logs."""


class JobStatus(Document, frozen=True, kw_only=True):
    """A job as shown by ``status``."""

    job: str
    deployment: int
    generation: int
    state: DeploymentState
    lanes: tuple[LaneStatus, ...] = ()
    containers: tuple[ContainerStatus, ...] = ()
    error: str | None = None
    served: bool = True
    """Whether a coordinator answered. If False, the status was read from the store."""
    promises: dict[str, str] = {}
    """The delivery guarantee of each output, by operator."""
    seats: int = 1
    """The number of containers that the job wants."""
    factor: int = 1
    """The elasticity factor."""
    tasks: dict[str, int] = {}
    """The number of tasks, by stage."""
    consumption: dict[str, float] = {}
    """The average number of containers that read an SSP, by stage."""
    rescale_seconds: float | None = None
    """How long the last change took, since this coordinator began to serve the job; None if there was none."""
    standing_by: int = 0
    """The number of processes that are waiting for a seat."""
    launching: LaunchStatus | None = None
    """The launcher's state; None if the coordinator doesn't start the job's containers."""
    inputs: dict[str, int] = {}
    """The partition counts that the job's input streams had when they were last checked, by ``system/stream``; 0: the
    stream no longer exists.
    """
    warnings: tuple[str, ...] = ()
    """Warnings of the coordinator; those of lanes are in their reports."""
    drain: DrainProgress | None = None
    """The running drain."""
    copies: tuple[StandbyStatus, ...] = ()
    """The standbys of lanes."""


class LaneSizing(Document, frozen=True, kw_only=True):
    """How well a lane keeps up with its load. For fields that aren't explained here, see
    :class:`anabranch.protocol.lane_report.LaneReport`.
    """

    lane: str
    stage: str
    seat: str
    tasks: tuple[str, ...]
    lag: int
    """The offsets that the lane is behind."""
    lags: dict[str, int]
    """The same figures by SSP."""
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
    """The seconds until there is no backlog; None if the backlog grows, or if this isn't known."""
    then: float | None = None
    """``catch_up`` with the proposed factor, including the pause of the change."""
    batch_progress: BatchProgress | None = None
    spent: dict[str, float] = {}
    """Where the time of the running batch, or of the last long one, is spent, in seconds by phase."""


class AutoscaleLimits(Document, frozen=True, kw_only=True):
    """The settings in ``[job.autoscale]``, with their defaults."""

    min: int
    max: int
    target_busy: float
    """The share of the time that functions may work on any bucket."""
    target_lag_seconds: float
    cooldown_seconds: float


class AutoscaleVerdict(Document, frozen=True, kw_only=True):
    """What the coordinator's autosizer concludes."""

    factor: int | None
    """The factor that the autosizer gives the job now; None if the job keeps its factor."""
    why: str
    lane: str = ""
    """The lane that needs the largest factor; empty if the figures don't tell yet."""
    load: float = 0.0
    """The records that this lane must process to have no backlog after the target lag, as a multiple of those that it
    can process with the present factor; 0 if unknown.
    """


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
    """What the coordinator's autosizer concludes, in words; empty if it is off."""
    limits: AutoscaleLimits | None = None
    """The limits of the autosizer; None if it is off."""
    verdict: AutoscaleVerdict | None = None
    """What the autosizer concludes; None if it is off."""
    proposed: int = 0
    """The factor that the present load requires, regardless of the autosizer's waiting times; 0 if unknown."""
    target_lag_seconds: float = 0.0
    """The lag that ``proposed`` aims at."""
    advice: tuple[str, ...] = ()
    """What would help if no factor does."""


class TaskAssignment(Document, frozen=True, kw_only=True):
    """Where a task is, and where it should be according to the present racks."""

    seat: str
    should: str
    """The seat that it should have."""
    why: str
    """Why it should have that seat."""


class Assignment(Document, frozen=True, kw_only=True):
    """The tasks of a job with their seats."""

    job: str
    strategy: str
    racks: dict[str, str | None]
    """The rack of each seat; None if it isn't known."""
    tasks: dict[str, dict[str, TaskAssignment]]
    """The tasks by stage and name."""
    cost: float = 0.0
    """The cost of the desired assignment: see :class:`anabranch.assignment.assignor.Seating`."""
    lower_bound: float = 0.0
    """The lowest cost that an assignment can have."""
    before: Traffic | None = None
    """The present traffic between racks."""
    after: Traffic | None = None
    """The traffic between racks in the desired assignment."""
    why_not: str = ""
    """Why racks aren't taken into account although the settings ask for it."""
