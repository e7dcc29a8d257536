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
    """Whether the container's lease is still valid; None (unknown) if no coordinator serves the job."""
    lease: float | None = None
    """The seconds until the lease runs out; None if the container has lost its seat, and None (unknown) if no
    coordinator serves the job.
    """
    gone: str | None = None
    """Why the container has lost its seat; None if the container still holds the seat."""
    deployment: int = 0
    """The deployment whose lanes the container runs."""


class LaneStatus(Document, frozen=True, kw_only=True):
    """A lane as shown by ``status``."""

    lane: Lane
    """The lane as it is stored."""
    report: LaneReport | None = None
    """The last report about the lane from the container that runs it."""

    @property
    def lag(self) -> int:
        """The number of offsets between the lane's positions and its inputs' end offsets; 0 without a report."""
        return 0 if self.report is None else self.report.progress.lag


class LaunchStatus(Document, frozen=True, kw_only=True):
    """What the coordinator's launcher does for a job."""

    wanted: int
    """How many containers should run."""
    running: int
    """How many containers are running."""
    failures: int = 0
    """How many containers have failed in a row."""
    reason: str = ""
    """Why the last container failed."""
    gave_up: bool = False
    """Whether the launcher has given up and starts no more containers."""
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
    """Whether the status comes from a coordinator that serves the job. If not, it comes from the store."""
    promises: dict[str, str] = {}
    """The promise of each output, by operator."""
    seats: int = 1
    """The number of containers that the job should have."""
    factor: int = 1
    """The job's factor: the number of buckets of each partition."""
    tasks: dict[str, int] = {}
    """The number of tasks, by stage."""
    consumption: dict[str, float] = {}
    """For each stage, the average number of containers that read the same SSP."""
    rescale_seconds: float | None = None
    """How many seconds the last change took; None if no change has ended since this coordinator began to serve the job.
    """
    standing_by: int = 0
    """The number of processes that are waiting for a seat."""
    warming_up: int = 0
    """How many of the processes in ``standing_by`` are still warming up. Meanwhile, they use CPU, and would be slow to
    take over lanes.
    """
    launching: LaunchStatus | None = None
    """What the launcher does for the job; None if the coordinator doesn't start the job's containers."""
    inputs: dict[str, int] = {}
    """The partition counts that the job's input streams had when they were last checked, by ``system/stream``; 0 if the
    stream no longer exists.
    """
    warnings: tuple[str, ...] = ()
    """Warnings of the coordinator. Warnings of lanes are in the lanes' reports."""
    drain: DrainProgress | None = None
    """The progress of the running drain, if there is one."""
    copies: tuple[StandbyStatus, ...] = ()
    """The standbys of lanes."""


class LaneSizing(Document, frozen=True, kw_only=True):
    """How well a lane keeps up with its load. For ``arriving``, ``busy``, ``working``, ``slowest``, ``slowest_seconds``
    and ``skew``, see :class:`anabranch.protocol.lane_report.LoadReport`.
    """

    lane: str
    stage: str
    seat: str
    tasks: tuple[str, ...]
    lag: int
    """How many offsets the lane is behind its inputs' end offsets."""
    lags: dict[str, int]
    """The lag by SSP."""
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
    """The records per second that the lane must process to work off its backlog within the target lag."""
    catch_up: float | None = None
    """The seconds until the backlog is worked off; None if the backlog grows, or if the time isn't known."""
    then: float | None = None
    """What ``catch_up`` would be, including the pause for the change, if the job changed to the factor that is proposed
    for it. If no other factor is proposed, the same as ``catch_up``.
    """
    batch_progress: BatchProgress | None = None
    spent: dict[str, float] = {}
    """The seconds that the running batch has spent in each phase so far. Between two batches, this field has the
    values of the last batch, if that batch was long.
    """


class FactorForecast(Document, frozen=True, kw_only=True):
    """How the job would cope with its current load if it had another factor."""

    factor: int
    lane: str
    """The lane that would limit the job at this factor. If more records are waiting than usual, this is the lane that
    would take longest to catch up; otherwise, it is the busiest lane.
    """
    utilisation: float
    """The share of its time that the busiest lane would spend on arriving records; above 1 if the lane couldn't keep up
    with them. Unless more records are waiting than usual, only the time spent in functions counts.
    """
    catch_up: float | None
    """The seconds until all backlogs would be worked off, including the pause for the factor change; None if a backlog
    would never be worked off.
    """


class AutoscaleLimits(Document, frozen=True, kw_only=True):
    """The settings in ``[job.autoscale]``, including defaults."""

    min: int
    max: int
    target_busy: float
    """Functions should work on any one bucket for at most this share of the time."""
    target_lag_seconds: float
    cooldown_seconds: float


class AutoscaleVerdict(Document, frozen=True, kw_only=True):
    """What the coordinator's autosizer concludes."""

    factor: int | None
    """The factor that the autosizer gives the job now; None if the job keeps its factor."""
    why: str
    lane: str = ""
    """The lane that needs the largest factor; empty as long as that lane isn't known."""
    load: float = 0.0
    """The rate that ``lane`` needs to work off its backlog within the target lag, divided by its rate at the current
    factor; 0 if unknown.
    """


class Sizing(Document, frozen=True, kw_only=True):
    """What determines a job's factor and number of containers."""

    job: str
    state: DeploymentState
    generation: int
    factor: int
    containers: int
    allowed: tuple[int, ...]
    """The factors that the job can have."""
    lanes: tuple[LaneSizing, ...] = ()
    autoscale: str = ""
    """The conclusion of the coordinator's autosizer in words; empty if the autosizer is off."""
    limits: AutoscaleLimits | None = None
    """The limits of the autosizer; None: the autosizer is off."""
    verdict: AutoscaleVerdict | None = None
    """The conclusion of the autosizer; None: the autosizer is off."""
    proposed: int = 0
    """The factor that the current load requires, regardless of the autosizer's waiting times; 0 if unknown."""
    target_lag_seconds: float = 0.0
    """The target lag, in seconds, with which ``proposed`` was computed."""
    forecasts: tuple[FactorForecast, ...] = ()
    """A forecast for each allowed factor; empty if the current metrics don't allow any conclusion."""
    advice: tuple[str, ...] = ()
    """What the user can do if no factor is sufficient."""


class TaskAssignment(Document, frozen=True, kw_only=True):
    """The seat that a task has, and the seat that it should have according to the current racks."""

    seat: str
    should: str
    """The seat that the task should have."""
    why: str
    """Why the task should have that seat."""


class Assignment(Document, frozen=True, kw_only=True):
    """The tasks of a job with their seats."""

    job: str
    strategy: str
    racks: dict[str, str | None]
    """The rack of each seat; None: unknown."""
    tasks: dict[str, dict[str, TaskAssignment]]
    """The tasks, by stage and name."""
    cost: float = 0.0
    """The cost of the desired assignment: see :class:`anabranch.planning.assignment.assignor.Seating`."""
    lower_bound: float = 0.0
    """A lower bound on the cost of the desired assignment: see
    :class:`anabranch.planning.assignment.assignor.Seating`."""
    before: Traffic | None = None
    """The current traffic between racks."""
    after: Traffic | None = None
    """The traffic between racks in the desired assignment."""
    why_not: str = ""
    """Why racks aren't taken into account, although the settings ask for this."""
