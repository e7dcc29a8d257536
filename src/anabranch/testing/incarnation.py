"""Simulates one life of a job's process: a coordinator and a container, as in ``anabranch run``, without an HTTP
server."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from contextlib import closing

from pyspark.sql import SparkSession

from anabranch import crash_points
from anabranch.config import Settings
from anabranch.container.reconciler import Container
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store.store import Store
from anabranch.errors import JobFailedError, OutOfTimeError
from anabranch.launch import local_store, outputs, preparation
from anabranch.launch.loading import JobFile
from anabranch.launch.preparation import Prepared
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import open_lanes
from anabranch.planning.plan import Plan
from anabranch.protocol.commands import ExpandRequest, RewindRequest, ScaleRequest
from anabranch.protocol.container import Heartbeat, HeartbeatResponse, Registration, RegistrationResponse
from anabranch.protocol.drain import DrainMode, DrainNotification
from anabranch.protocol.lane_report import LanePhase
from anabranch.protocol.status import JobStatus
from anabranch.systems.systems import Systems
from anabranch.testing.killing import Kill, KilledError
from anabranch.testing.result import Pending

__all__ = ["Incarnation"]

_PERIOD = 0.03


class Incarnation:
    """One simulated process of a job. The next simulated process continues from the files that this one leaves behind.

    Every method that runs the job raises JobFailedError if a lane fails, and OutOfTimeError at the deadline. If
    ``anabranch run`` would refuse the job, the method raises the same AnabranchError as ``anabranch run``. ``deadline``
    is in seconds on the monotonic clock.
    """

    def __init__(self, spark: SparkSession, file: JobFile, settings: Settings, deadline: float) -> None:
        self._spark = spark
        self._file = file
        self._settings = settings
        self._deadline = deadline
        self._job = file.graph.job
        self._store = Store(settings.coordinator.store)
        self._coordinator = Coordinator(self._store, systems=Systems(settings, self._job))

    def run(self) -> None:
        """Run the job until it has caught up."""
        with closing(self._store):
            self._container(until_caught_up=True).run(self._registration())
            self._check()

    def run_and_kill(self) -> tuple[Pending, ...]:
        """Run the job until every lane has published its last batch or has nothing to process. Then kill the job before
        the published batches are committed (see :class:`Kill`), and return the pending batches.
        """
        with closing(self._store):
            container = self._container(until_caught_up=False)
            known = self._coordinator.known_lanes(self._job)
            lanes = {lane.id: lane for lane in open_lanes(known.values())}
            kill = Kill(self._spark, Systems(self._settings, self._job), self._settings.storage.root, lanes)
            self._coordination.kill = kill
            try:
                with crash_points.watched(kill.reached):
                    container.run(self._registration())
            except KilledError:
                return kill.pending
            self._check()
            return ()

    def run_and_change(self, wish: ScaleRequest | RewindRequest) -> None:
        """Run the job until it is at work, which means that it has processed some rows or has nothing to read. Then
        request a change, and stop the job when the change is complete. Raises AnabranchError if the job doesn't allow
        the change.
        """
        if isinstance(wish, ScaleRequest):
            self._run_and_change(lambda: self._coordinator.scale(self._job, wish))
        else:
            self._run_and_change(lambda: self._coordinator.rewind(self._job, wish))

    def run_and_drain(self) -> None:
        """Run the job until it is at work, and drain it up to the latest records."""

        def drain() -> None:
            number = self._coordinator.status(self._job).deployment
            said = DrainNotification(uuid=str(uuid.uuid4()), run_id=number, mode=DrainMode.LATEST)
            self._coordinator.drain(self._job, said)

        self._run_and_change(drain)

    def run_and_expand(self, widen: Callable[[], None]) -> None:
        """Run the job until it is at work, then call ``widen``, which adds partitions to some inputs. Stop the job when
        it is reading the new partitions.

        Raises:
            UsageError: a stream can't have the number of partitions that ``widen`` requests.
            ConflictError: the job can't adapt to the new partitions.
        """

        def expand() -> None:
            widen()
            self._coordinator.expand(self._job, ExpandRequest())

        self._run_and_change(expand)

    def _run_and_change(self, change: Callable[[], object]) -> None:
        with closing(self._store):
            container = self._container(until_caught_up=False)
            self._coordination.change = change
            container.run(self._registration())
            self._check()

    def _container(self, until_caught_up: bool) -> Container:
        file, settings, job = self._file, self._settings, self._job
        preparation.refuse_several(settings)
        model, drained = local_store.present_model(settings.coordinator.store, job)
        plan = preparation.plan(file, settings, model, model if drained else None)
        known = outputs.checked(plan, settings, self._store.lanes(job), drained)
        formats = preparation.formats(file, settings, {} if drained else self._coordinator.known_formats(job))
        schemas = preparation.resolved(file, formats, settings)
        if known is None:
            self._create(plan)
        prepared = Prepared(file, settings, plan, schemas, formats, known)
        self._coordinator.start(preparation.start_message(prepared, until_caught_up))
        self._coordination = _Watched(self._coordinator, job, self._deadline)
        return Container(
            prepared.loaded(self._spark),
            self._coordination,
            period=_PERIOD,
        )

    def _create(self, plan: Plan) -> None:
        """Create the job's output streams, which keep records of any age."""
        systems = Systems(self._settings, self._job)
        for output in plan.outputs:
            if output.stream is not None:
                systems.named(str(output.system)).create(output.stream, output.partitions, internal=True)

    def _registration(self) -> Registration:
        return Registration(job=self._job, seat="0", execution=uuid.uuid4().hex, host="localhost", pid=os.getpid())

    def _check(self) -> None:
        status = self._coordinator.status(self._job)
        if status.state == DeploymentState.FAILED:
            raise JobFailedError(f"job {self._job} failed: {status.error}")


class _Watched:
    """Passes the container's calls on to the coordinator. Each heartbeat also leads to three checks. If a lane has
    failed, the job is stopped. If the deadline has passed, an error is raised. If the job is ready for a kill or a
    change, the kill or the change is carried out."""

    def __init__(self, coordinator: Coordinator, job: str, deadline: float) -> None:
        self._coordinator = coordinator
        self._job = job
        self._deadline = deadline
        self.kill: Kill | None = None
        self.change: Callable[[], object] | None = None
        self._changed = False

    def register(self, registration: Registration) -> RegistrationResponse:
        return self._coordinator.register(registration)

    def heartbeat(self, beat: Heartbeat, wait: float = 0) -> HeartbeatResponse:
        if any(report.phase == LanePhase.FAILED for report in beat.lanes):
            self._coordinator.stop(self._job)  # the test fails anyway, so the other lanes needn't run on
        if self.kill is not None and self.kill.due(beat.lanes):
            self.kill.strike()
        if self.change is not None:
            self._make(self.change)
        if time.monotonic() > self._deadline:
            if self.kill is not None:
                self.kill.call_off()
            lanes = "; ".join(f"{lane.lane} {lane.phase}, batch {lane.progress.batch}" for lane in beat.lanes)
            raise OutOfTimeError(
                f"job {self._job!r} was not idle in time: {lanes}",
                "give run(..., timeout=) more seconds, or see what keeps it busy",
            )
        return self._coordinator.heartbeat(beat, wait)

    def _make(self, change: Callable[[], object]) -> None:
        """Request the change once the job is at work. After the change, stop the job once it runs again. This method is
        called at each heartbeat.
        """
        status = self._coordinator.status(self._job)
        if status.state != DeploymentState.RUNNING:
            return
        if self._changed:
            self._coordinator.stop(self._job)
        elif _is_at_work(status):
            change()
            self._changed = True


def _is_at_work(status: JobStatus) -> bool:
    reports = [each.report for each in status.lanes if each.report is not None]
    return any(report.progress.rows for report in reports) or (
        len(reports) == len(status.lanes)
        and all(report.progress.ends and not each.lag for each, report in zip(status.lanes, reports, strict=True))
    )
