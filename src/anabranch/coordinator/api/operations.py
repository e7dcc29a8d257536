"""The table of operations that a coordinator offers over HTTP. The server's routes, the client and the OpenAPI
description are derived from this table.

To add an operation, add a method with type annotations to :class:`Operations`. If users can change a job with this
operation, also add a command of the same name in :mod:`anabranch.coordinator.commands`. For any other operation, add a
method of the same name to :class:`anabranch.coordinator.coordinator.Coordinator`. An operation requires the role
``operate``, unless it has ``private=False``.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import Annotated, Any

from anabranch.coordinator.api.operation import Caller, Operation, Query, operation
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane
from anabranch.protocol.commands import (
    AssignRequest,
    ExpandRequest,
    RewindRequest,
    RewindResult,
    ScaleRequest,
    ScaleResult,
)
from anabranch.protocol.container import Heartbeat, HeartbeatResponse, Registration, RegistrationResponse
from anabranch.protocol.deployment import DeployRequest, DeployResult, RollbackRequest, RunningDeployment, StartRequest
from anabranch.protocol.drain import DrainAccepted, DrainNotification
from anabranch.protocol.status import Assignment, JobStatus, Sizing
from anabranch.views.about import CoordinatorInfo, DeploymentInfo, GraphView, Partitions, Placement
from anabranch.views.changes import ChangeRecord, Moves
from anabranch.views.dead_letters import DeadLetters
from anabranch.views.early_output import EarlyOutput
from anabranch.views.events import LoggedEvent
from anabranch.views.findings import Finding
from anabranch.views.history import History
from anabranch.views.lane_times import LaneTimes
from anabranch.views.live import Live
from anabranch.views.overview import Overview

__all__ = ["MAX_PLAN_BYTES", "OPERATIONS", "Operations", "Pages"]

MAX_ARTIFACT_BYTES = 50_000_000
"""The largest body with the code of a job, in bytes. It is the limit of :mod:`anabranch.job_code.artifact`, repeated
here because clients don't import that module.
"""
MAX_PLAN_BYTES = 100_000_000
"""The largest body with the plan of a job, in bytes. (A plan for 1,000 containers is about 30 MB.)"""


class Operations(Caller):
    """The operations of a coordinator in the same process or at a URL."""

    @operation("GET", "/jobs", field="jobs", private=False)
    def jobs(self) -> list[JobStatus]:
        """All jobs"""

    @operation("POST", "/jobs", field="deployment", changes=True, max_bytes=MAX_PLAN_BYTES)
    def start(self, plan: StartRequest) -> int:
        """Start a planned job"""

    @operation("GET", "/jobs/{job}", private=False)
    def status(self, job: str) -> JobStatus:
        """A job's current status"""

    @operation("GET", "/overview", fresh_for=1.0, private=False)
    def overview(self) -> Overview:
        """All jobs, with their most important metrics and the most severe finding about each"""

    @operation("GET", "/coordinator", private=False)
    def info(self) -> CoordinatorInfo:
        """Information about this coordinator, and which coordinator leads"""

    @operation("GET", "/jobs/{job}/live", fresh_for=1.0, private=False)
    def live(self, job: str) -> Live:
        """The current metrics of the job's open lanes and containers, as tables"""

    @operation("GET", "/jobs/{job}/findings", field="findings", fresh_for=1.0, private=False)
    def findings(self, job: str) -> list[Finding]:
        """What holds the job back; the most severe finding comes first"""

    @operation("GET", "/jobs/{job}/partitions", fresh_for=1.0, private=False)
    def partitions(
        self,
        job: str,
        stage: Annotated[str, Query(longest=200)] = "",
        lane: Annotated[str, Query(longest=200)] = "",
        sort: Annotated[str, Query(longest=40)] = "-lag",
        start: Annotated[int, Query("from")] = 0,
        limit: int = 100,
    ) -> Partitions:
        """The partitions that the job reads, sorted and limited, with each partition's lag, whether the partition holds
        event time back, and other metrics
        """

    @operation("GET", "/jobs/{job}/placement", by_generation=True, private=False)
    def placement(
        self,
        job: str,
        stage: Annotated[str, Query(longest=200)] = "",
        start: Annotated[int, Query("from")] = 0,
        limit: int = 10_000,
    ) -> Placement:
        """How many buckets of each partition of a stage each container has"""

    @operation("GET", "/jobs/{job}/changes", field="changes", fresh_for=1.0, private=False)
    def changes(self, job: str, limit: int = 50, before: int = 0) -> list[ChangeRecord]:
        """The job's latest changes, newest first, with predictions and measurements"""

    @operation("GET", "/jobs/{job}/moves", private=False)
    def moves(self, job: str, deployment: int = 0, generation: int = 0) -> Moves:
        """Which buckets moved to another container when a generation (by default, the last one) began"""

    @operation("GET", "/jobs/{job}/history", fresh_for=1.0, private=False)
    def history(
        self,
        job: str,
        series: Annotated[str, Query(longest=200)] = "lag,rows,arriving",
        by: Annotated[str, Query(longest=20)] = "stage",
        since: Annotated[float, Query("from")] = 0.0,
        until: Annotated[float, Query("to")] = 0.0,
    ) -> History:
        """The job's metrics over the last hours, as recorded by the leading coordinator"""

    @operation("GET", "/jobs/{job}/graph", private=False)
    def graph(self, job: str, deployment: int = 0) -> GraphView:
        """The job's operators, and the stages into which they are divided, in the given deployment or the latest one"""

    @operation("GET", "/jobs/{job}/deployments", field="deployments", private=False)
    def deployments(self, job: str) -> list[DeploymentInfo]:
        """The job's last deployments, newest first"""

    @operation("GET", "/jobs/{job}/model", by_generation=True, private=False)
    def model(self, job: str) -> JobModel:
        """The job model"""

    @operation("GET", "/jobs/{job}/running", by_leader=True)
    def running(self, job: str) -> RunningDeployment:
        """What containers need to run the job"""

    @operation("GET", "/jobs/{job}/lanes", field="lanes", private=False)
    def known_lanes(self, job: str, lane: Annotated[str, Query(longest=200)] = "") -> dict[str, Lane]:
        """All lanes that the job has ever had; or only the given lane, and the lanes that continue from it"""

    @operation("GET", "/jobs/{job}/lane-times", fresh_for=1.0, private=False)
    def lane_times(
        self,
        job: str,
        since: Annotated[float, Query("from")] = 0.0,
        until: Annotated[float, Query("to")] = 0.0,
    ) -> LaneTimes:
        """When the job's lanes ran, and what happened to them; by default in the last hour"""

    @operation("GET", "/jobs/{job}/events", field="events", waits="wait", private=False)
    def events(
        self,
        job: str,
        limit: int = 100,
        after: int = 0,
        before: int = 0,
        kind: Annotated[str, Query(longest=40)] = "",
        lane: Annotated[str, Query(longest=200)] = "",
        since: Annotated[float, Query("from")] = 0.0,
        until: Annotated[float, Query("to")] = 0.0,
        wait: float = 0.0,
    ) -> list[LoggedEvent]:
        """The job's events, oldest first: with after, the first ones after this id; otherwise, the latest ones. The
        parameters before, kind, lane, from and to select events. With wait=20, if there are no such events, wait up to
        20 seconds for one
        """

    @operation("GET", "/jobs/{job}/dead-letters", asks_systems=True)
    def dead_letters(
        self,
        job: str,
        stream: Annotated[str, Query(longest=300)] = "",
        partition: Annotated[str, Query(longest=20)] = "",
        before: int = 0,
        limit: int = 100,
    ) -> DeadLetters:
        """The newest dead letters in one of the job's dead-letter streams, newest first, optionally only those in one
        partition and before an offset
        """

    @operation("GET", "/jobs/{job}/early-output", asks_systems=True)
    def early_output(self, job: str, stream: Annotated[str, Query(longest=300)] = "", limit: int = 100) -> EarlyOutput:
        """The rows that a drain emitted before their windows were complete, newest first; only the newest records of
        one of the job's output streams are searched
        """

    @operation("POST", "/jobs/{job}/start", field="deployment", changes=True)
    def resume(self, job: str) -> int:
        """Continue the job's last deployment"""

    @operation("POST", "/jobs/{job}/stop", changes=True)
    def stop(self, job: str, at_once: Annotated[bool, Query("now")] = False) -> None:
        """Stop the job at a batch boundary or, with now=1, at once"""

    @operation("POST", "/jobs/{job}/scale", changes=True, asks_systems=True)
    def scale(self, job: str, request: ScaleRequest) -> ScaleResult:
        """Give the job another factor or number of containers; 409 if the job can't be changed now"""

    @operation("POST", "/jobs/{job}/rewind", changes=True, asks_systems=True)
    def rewind(self, job: str, request: RewindRequest) -> RewindResult:
        """Make the job read its source streams again; 409 if the job can't be changed now"""

    @operation("POST", "/jobs/{job}/expand", changes=True, asks_systems=True)
    def expand(self, job: str, request: ExpandRequest) -> ScaleResult:
        """Adapt the job to partitions that were added to its inputs; 409 if the job can't be changed now"""

    @operation("POST", "/jobs/{job}/assign", changes=True, asks_systems=True)
    def assign(self, job: str, request: AssignRequest) -> ScaleResult:
        """Move the job's tasks to the seats that suit the racks best; 409 if the job can't be changed now"""

    @operation("GET", "/jobs/{job}/assignment", asks_systems=True, by_leader=True, private=False)
    def assignment(self, job: str) -> Assignment:
        """Where the job's tasks are, where they should be, and why"""

    @operation("POST", "/jobs/{job}/deploy", changes=True, max_bytes=MAX_PLAN_BYTES)
    def deploy(self, job: str, request: DeployRequest) -> DeployResult:
        """Replace the job's version with another one that continues from the job's state and positions; 409 if that
        isn't possible now
        """

    @operation("POST", "/jobs/{job}/rollback", changes=True)
    def rollback(self, job: str, request: RollbackRequest) -> DeployResult:
        """Return to the previous version; 409 as for deploy"""

    @operation("POST", "/jobs/{job}/drain", changes=True, asks_systems=True)
    def drain(self, job: str, request: DrainNotification) -> DrainAccepted:
        """Let the job process everything that it should still read, emit all windows, fire all timers, and end; 409
        if the job can't drain now
        """

    @operation("GET", "/jobs/{job}/sizing", by_leader=True, private=False)
    def sizing(self, job: str) -> Sizing:
        """How well the job's lanes keep up, and which factor the job should have"""

    @operation("POST", "/jobs/{job}/cancel", changes=True)
    def cancel(self, job: str) -> None:
        """Undo the job's change or drain that is under way"""

    @operation("GET", "/artifacts/{sha256}")
    def artifact(self, sha256: str) -> bytes:
        """The code of a job"""

    @operation("PUT", "/artifacts/{sha256}", changes=True, max_bytes=MAX_ARTIFACT_BYTES)
    def put_artifact(self, sha256: str, content: bytes) -> None:
        """Store the code of a job"""

    @operation("POST", "/containers", changes=True)
    def register(self, registration: Registration) -> RegistrationResponse:
        """Take a seat"""

    @operation("POST", "/containers/{container}/heartbeat", changes=True, waits="wait")
    def heartbeat(self, beat: Heartbeat, wait: float = 0.0) -> HeartbeatResponse:
        """Report the state of lanes, and learn what should run. With wait=3, an answer without news is delayed
        until there is news, for up to 3 seconds, but at most half a lease
        """

    @operation("POST", "/containers/{container}/fence", changes=True)
    def fence(self, container: str, why: Annotated[str, Query(longest=200)] = "") -> None:
        """Take the container's seat away"""

    @operation("GET", "/containerHeartbeat", field="alive", by_leader=True, private=False)
    def holds_seat(
        self,
        execution: Annotated[str, Query("executionContainerId", example="$EXECUTION_ENV_CONTAINER_ID")],
    ) -> bool:
        """Whether the process with this EXECUTION_ENV_CONTAINER_ID has a seat"""


class Pages(Caller):
    """The operations for which clients need no methods: health, the OpenAPI description, and metrics."""

    @operation("GET", "/healthz", private=False)
    def healthz(self) -> dict[str, Any]:
        """Whether the coordinator listens"""

    @operation("GET", "/openapi.json", private=False)
    def openapi(self) -> dict[str, Any]:
        """This description"""

    @operation("GET", "/metrics", private=False)
    def metrics(self) -> str:
        """Metrics for Prometheus, in its text format"""


OPERATIONS: tuple[Operation[..., Any], ...] = tuple(
    each for table in (Pages, Operations) for each in vars(table).values() if isinstance(each, Operation)
)
