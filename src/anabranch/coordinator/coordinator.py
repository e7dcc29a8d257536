"""The coordinator: decides what each job should run, stores the decision, and then tells the job's containers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import ParamSpec, TypeVar, cast

import msgspec

from anabranch.clocks import boottime
from anabranch.coordinator import commands
from anabranch.coordinator.api.operation import Operation
from anabranch.coordinator.api.operations import Operations
from anabranch.coordinator.commands import assign, autoscale, expand
from anabranch.coordinator.commands.context import Context
from anabranch.coordinator.jobs import fencing, job_events, reader_positions, seats
from anabranch.coordinator.jobs.fencing import Fence
from anabranch.coordinator.jobs.membership import Membership
from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.launcher.launch_policy import Demand
from anabranch.coordinator.store import EventRange, Store, stored_jobs
from anabranch.coordinator.store.sweep_schedule import Retain, SweepSchedule
from anabranch.coordinator.streams import input_monitor
from anabranch.coordinator.streams.dead_letters import DeadLetterReader, LetterRange
from anabranch.coordinator.streams.early_output import EarlyOutputReader
from anabranch.coordinator.views.reads import Reads
from anabranch.errors import NotFoundError, OutOfTimeError
from anabranch.formats import Format
from anabranch.job_code import artifact
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane
from anabranch.model.naming import check_name
from anabranch.protocol.container import Heartbeat, HeartbeatResponse, Registration, RegistrationResponse
from anabranch.protocol.deployment import RunningDeployment
from anabranch.protocol.status import Assignment, JobStatus, LaunchStatus, Sizing
from anabranch.systems.systems import Systems
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

__all__ = ["MOST_WAIT", "Coordinator"]

P = ParamSpec("P")
R = TypeVar("R")

MOST_WAIT = 30.0
"""The maximum number of seconds that :meth:`Coordinator.events` waits."""
_LAST_ID = 2**62
_LOOK_AGAIN = 1.0
_LOST_SHOWN = 5
"""The maximum number of former processes in a job's status: processes that have lost or returned their seats."""


class Coordinator(Operations):
    """Serves the jobs that are started on it or adopted from another coordinator. Thread-safe.

    Only one process at a time may serve a job: see :class:`anabranch.coordinator.leadership.endpoint.RunLock` and
    :class:`anabranch.coordinator.leadership.election.Election`.

    Args:
        clock: returns the current time in seconds, for leases.
        lease: how long a process counts as alive after a heartbeat, in seconds.
        now: returns the seconds since 1970, for stored times.
        grace: the seconds from the end of a silent process's lease until the process loses its seat. The process's
            lanes are then fenced (see :meth:`fences`) and given to other processes. If ``grace`` is None, a silent
            process keeps its seat until another process takes the seat.
        first: returns the number of the first revision of a job's offers on this coordinator. Different coordinators'
            numbers should be far apart; by default, the numbers are random.
        systems: the systems of the only job, which runs in this process; None for the systems that jobs' settings name.
        counting: looks up how many partitions streams have; see :func:`input_monitor.counted`.
        locating: looks up the racks of partitions; see :func:`input_monitor.located`.
        retain: how much history the store keeps.
        links: see :attr:`anabranch.config.CoordinatorSettings.links`.
    """

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float] = boottime,
        lease: float = 10.0,
        now: Callable[[], float] = time.time,
        grace: float | None = None,
        first: Callable[[], int] = lambda: random.getrandbits(40),
        systems: Systems | None = None,
        counting: input_monitor.Counting = input_monitor.counted,
        locating: input_monitor.Locating = input_monitor.located,
        retain: Retain | None = None,
        links: Mapping[str, str] | None = None,
    ) -> None:
        self.registry = JobRegistry(store, clock, lease, now, grace, first)
        self.membership = Membership(self.registry, lambda job: autoscale.autoscale(self._context, job))
        self.reads = Reads(self.registry, lambda: self.membership.invalid_heartbeats, links)
        self._store = store
        self._sweep_schedule = SweepSchedule(store, retain or Retain(), clock)
        self._dead_letters = DeadLetterReader(store, systems, now)
        self._early_output = EarlyOutputReader(store, systems, now)
        self._context = Context(self.registry, systems, counting, locating)
        self.reader_positions = reader_positions.ReaderPositions(self.registry, self._context.systems_of, clock)

    def call(self, operation: Operation[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Carry out an operation that isn't a method of this class, with the command of the same name."""
        return cast(R, commands.named(operation.name).run(self._context, *args, **kwargs))

    # Who serves which job

    def adopt(self, job: str) -> bool:
        """Serve a job in the state in which another coordinator left it. The leases of the job's processes begin anew.
        Returns whether there was something to serve: a job that runs, or should run, in separate processes.
        """
        with self.registry.locked_as_seen():
            return self.registry.adopt(job)

    def release(self, job: str) -> bool:
        """Stop serving a job if it has ended and no process has a seat. Returns whether the job is no longer served."""
        with self.registry.locked_as_seen() as jobs:
            running_job = jobs.get(job)
            if running_job is not None and (running_job.state.active or running_job.seats.processes):
                return False
            self.registry.jobs.pop(job, None)
            return True

    def abandon(self) -> None:
        """Stop serving all jobs, because another coordinator might be serving them now."""
        with self.registry.locked_as_seen():
            self.registry.jobs.clear()
            self.registry.unsure, self.registry.unread.jobs = False, {}
            self.registry.announce()

    # Requests from users

    def wait_until(self, job: str, states: Collection[str], timeout: float | None = None) -> JobStatus:
        """Wait until a job is in one of the states, and return its status.

        Raises:
            NotFoundError: there is no such job.
            OutOfTimeError: the job didn't reach any of the states within ``timeout`` seconds.
        """
        end = None if timeout is None else time.monotonic() + timeout
        with self.registry.locked_as_seen():
            while True:
                status = self.status(job)
                if status.state in states:
                    return status
                left = _LOOK_AGAIN if end is None else end - time.monotonic()
                if left <= 0:
                    raise OutOfTimeError(
                        f"job {job!r} is {status.state} after {timeout:g} s, not {' or '.join(states)}",
                        f"look with anabranch status {job}, or wait longer with --timeout",
                    )
                self.registry.wait(min(left, _LOOK_AGAIN))

    def jobs(self) -> list[JobStatus]:
        """The status of each job in the store, sorted by name; see :func:`stored_jobs.all_read`."""
        return stored_jobs.all_read(self._store, self.status, lambda unread: unread)

    def status(self, job: str) -> JobStatus:
        """A job's status; the last stored one if the job isn't served here. Raises NotFoundError for unknown jobs."""
        check_name("job", job)
        with self.registry.locked_as_seen():
            if (running_job := self.registry.jobs.get(job)) is None:
                return stored_jobs.status(self._store, job)
            with self.registry.isolated(running_job):
                self.registry.advance(running_job)
            lost = [] if self.registry.grace is None else self._store.lost(job, _LOST_SHOWN)
            return self.registry.status(running_job, lost)

    def overview(self) -> Overview:
        """See :meth:`Reads.overview`."""
        return self.reads.overview()

    def info(self) -> CoordinatorInfo:
        """See :meth:`Reads.info`."""
        return self.reads.info()

    def live(self, job: str) -> Live:
        """See :meth:`Reads.live`."""
        return self.reads.live(job)

    def findings(self, job: str) -> list[Finding]:
        """See :meth:`Reads.findings`."""
        return self.reads.findings(job)

    def partitions(
        self, job: str, stage: str = "", lane: str = "", sort: str = "-lag", start: int = 0, limit: int = 100
    ) -> Partitions:
        """See :meth:`Reads.partitions`."""
        return self.reads.partitions(job, stage, lane, sort, start, limit)

    def placement(self, job: str, stage: str = "", start: int = 0, limit: int = 10_000) -> Placement:
        """See :meth:`Reads.placement`."""
        return self.reads.placement(job, stage, start, limit)

    def changes(self, job: str, limit: int = 50, before: int = 0) -> list[ChangeRecord]:
        """See :meth:`Reads.changes`."""
        return self.reads.changes(job, limit, before)

    def moves(self, job: str, deployment: int = 0, generation: int = 0) -> Moves:
        """See :meth:`Reads.moves`."""
        return self.reads.moves(job, deployment, generation)

    def lane_times(self, job: str, since: float = 0.0, until: float = 0.0) -> LaneTimes:
        """See :meth:`Reads.lane_times`."""
        return self.reads.lane_times(job, since, until)

    def history(
        self, job: str, series: str = "lag,rows,arriving", by: str = "stage", since: float = 0.0, until: float = 0.0
    ) -> History:
        """See :meth:`Histories.history`."""
        return self.reads.histories.history(job, series, by, since, until)

    def graph(self, job: str, deployment: int = 0) -> GraphView:
        """See :meth:`Reads.graph`."""
        return self.reads.graph(job, deployment)

    def deployments(self, job: str) -> list[DeploymentInfo]:
        """See :meth:`Reads.deployments`."""
        return self.reads.deployments(job)

    def model(self, job: str) -> JobModel:
        """See :meth:`Reads.model`."""
        return self.reads.model(job)

    def events(
        self,
        job: str,
        limit: int = 100,
        after: int = 0,
        before: int = 0,
        kind: str = "",
        lane: str = "",
        since: float = 0.0,
        until: float = 0.0,
        wait: float = 0.0,
    ) -> list[LoggedEvent]:
        """See :meth:`Reads.events`. An ``after``, ``before``, ``since`` or ``until`` of 0 means no bound. If no
        event matches, waits up to ``wait`` seconds for one, and never longer than :data:`MOST_WAIT`."""
        above, below = min(after, _LAST_ID) or None, min(before, _LAST_ID) or None
        wanted = EventRange(after=above, before=below, since=since or None, until=until or None, kind=kind, lane=lane)
        end = time.monotonic() + min(wait, MOST_WAIT)
        while True:
            found = self.reads.events(job, limit, wanted)
            left = end - time.monotonic()
            if found or left <= 0:
                return found
            time.sleep(min(_LOOK_AGAIN / 4, left))

    def dead_letters(
        self, job: str, stream: str = "", partition: str = "", before: int = 0, limit: int = 100
    ) -> DeadLetters:
        """See :meth:`DeadLetterReader.newest`; an empty ``partition`` stands for all partitions."""
        return self._dead_letters.newest(job, stream, LetterRange.of(partition, before, limit))

    def early_output(self, job: str, stream: str = "", limit: int = 100) -> EarlyOutput:
        """See :meth:`EarlyOutputReader.newest`."""
        return self._early_output.newest(job, stream, limit)

    def known_formats(self, job: str) -> dict[str, Format]:
        """The stored formats of a job's streams, by stream; empty for an unknown job."""
        return stored_jobs.known_formats(self._store, job)

    def known_lanes(self, job: str, lane: str = "") -> dict[str, Lane]:
        """See :func:`stored_jobs.known_lanes`."""
        return stored_jobs.known_lanes(self._store, job, lane)

    def assignment(self, job: str) -> Assignment:
        """See :func:`anabranch.coordinator.commands.assign.explain`."""
        return assign.explain(self._context, job)

    def sizing(self, job: str) -> Sizing:
        """See :func:`anabranch.coordinator.commands.autoscale.explain`."""
        return autoscale.explain(self._context, job)

    # Requests from containers

    def register(self, registration: Registration) -> RegistrationResponse:
        """See :meth:`Membership.register`."""
        return self.membership.register(registration)

    def heartbeat(self, beat: Heartbeat, wait: float = 0.0) -> HeartbeatResponse:
        """See :meth:`Membership.heartbeat`."""
        return self.membership.heartbeat(beat, wait)

    def holds_seat(self, execution: str) -> bool:
        """See :meth:`Membership.holds_seat`."""
        return self.membership.holds_seat(execution)

    # Periodic checks

    def tick(self) -> None:
        """Expel silent processes, advance and autoscale the served jobs, sample metrics for histories, and delete old
        history. Call this several times a second. An error that concerns only one job is recorded, not raised.

        Raises:
            StoreUnavailableError: a step can't be stored at the moment; call this again.
        """
        with self.registry.locked_all() as jobs:
            served = list(jobs.values())
            for running_job in served:
                with self.registry.isolated(running_job):
                    self.membership.expel_silent(running_job)
                    self.registry.advance(running_job)
        for running_job in served:
            with self.registry.isolated(running_job, "the job can't be autoscaled"):
                autoscale.autoscale(self._context, running_job.job)
        self.reads.histories.sample()
        self._sweep_schedule.look()

    def look(self) -> None:
        """Check inputs (see :func:`expand.look`), store the offsets from which jobs still have to read (see
        :class:`reader_positions.ReaderPositions`), sample metrics, and delete old history."""
        self.reads.histories.sample()  # because nothing calls tick for a job in one process
        self._sweep_schedule.look()
        self.reader_positions.look()
        expand.look(self._context)

    def fences(self) -> list[Fence]:
        """The lanes that must be fenced now. Report each fenced lane to :meth:`fenced`. Fencing a lane twice is
        harmless.
        """
        found: list[Fence] = []
        with self.registry.locked_as_seen() as jobs:
            for running_job in jobs.values():
                with self.registry.isolated(running_job, "the job's lanes can't be fenced"):
                    found += fencing.due(self._store, running_job)
        return found

    def fenced(self, lane: Lane) -> None:
        """Record that a lane was fenced under its epoch, so that other processes can run the lane. Does nothing if the
        lane has another epoch by now, if the lane no longer needs to be fenced, or if its job is no longer served."""
        with self.registry.locked_all():
            running_job = self.registry.jobs.get(lane.job)
            held = None if running_job is None else running_job.known.get(lane.id)
            if running_job is None or held is None or not held.unfenced or held.epoch != lane.epoch:
                return
            after = msgspec.structs.replace(held, unfenced=False)
            what, why, now = "is fenced", f"at epoch {lane.epoch}", self.registry.now()
            event = job_events.of_lane(lane, now, what, why, kind="fence", mark="fenced")
            self.registry.write(self._store.put_lanes, [after], [event])
            running_job.known[lane.id] = after
            with self.registry.isolated(running_job):
                self.registry.advance(running_job)
            self.registry.announce()

    def fence_failed(self, lane: Lane, why: str) -> None:
        """Record that a lane can't be fenced yet. :meth:`fences` keeps returning the lane."""
        fencing.note_failure(self.registry, lane, why)

    # Requests from a launcher

    def demands(self, jobs: Collection[str]) -> list[Demand]:
        """What each served job needs from a launcher. Jobs in ``jobs`` that have ended are also included, with a demand
        for no containers."""
        with self.registry.locked_all() as served:
            found = [seats.demand(each, self.registry.clock(), self.registry.lease) for each in served.values()]
            return found + [Demand(job=job, wanted=0, over=True) for job in jobs if self._has_ended(job)]

    def isolated(self, job: str, what: str) -> AbstractContextManager[None]:
        """See :func:`troubles.isolated`. If the job isn't served, errors are raised."""
        running_job = self.registry.jobs.get(job)
        return nullcontext() if running_job is None else self.registry.isolated(running_job, what)

    def launched(self, job: str, launching: LaunchStatus, news: Sequence[tuple[str, str]]) -> None:
        """Record a launcher's state for a job. ``news`` contains pairs of what happened and why."""
        if news:
            self._store.note([self.registry.event("launcher", job, "launcher", what, why) for what, why in news])
        with self.registry.locked_as_seen():
            if job in self.registry.jobs:
                self.registry.jobs[job].seats.launching = launching

    # Requests from containers in other processes

    def running(self, job: str) -> RunningDeployment:
        """See :meth:`Membership.running`."""
        return self.membership.running(job)

    def put_artifact(self, sha256: str, content: bytes) -> None:
        """Store the code of a job. Raises UsageError if the hash doesn't match, or the code is too large."""
        artifact.check(sha256, content)
        self._store.put_artifact(sha256, content)

    def artifact(self, sha256: str) -> bytes:
        """The code of a job. Raises NotFoundError if there is none, and UsageError if ``sha256`` isn't a hash."""
        content = self._store.artifact(artifact.check_sha(sha256))
        if content is None:
            raise NotFoundError(f"there is no artifact {sha256}", "start the job again with its file")
        return content

    def _has_ended(self, job: str) -> bool:
        stored = None if job in self.registry.jobs else self._store.last_state(job)
        return stored is not None and not stored[-1].active
