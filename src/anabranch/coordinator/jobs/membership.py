"""Gives seats to processes, handles their heartbeats, and expels processes that are silent for too long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial

import msgspec

from anabranch.coordinator.jobs import job_events, loading, offers, racks, reports, seats
from anabranch.coordinator.jobs.parts import Process
from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.store import ContainerRecord, Event, stored_jobs
from anabranch.errors import ConflictError, FencedError, NotFoundError, StoreUnavailableError
from anabranch.model.lane import Lane, LaneState
from anabranch.model.naming import check_container, check_name
from anabranch.planning.transition import rewind
from anabranch.protocol.container import Heartbeat, HeartbeatResponse, Registration, RegistrationResponse
from anabranch.protocol.deployment import RunningDeployment
from anabranch.protocol.lane_report import LanePhase, LaneReport
from anabranch.views.lane_times import MarkKind

__all__ = ["Membership"]

_MARKS: Mapping[str, MarkKind] = {
    LanePhase.RUNNING: "started",
    LanePhase.ENDED: "ended",
    LanePhase.FAILED: "failed",
}


class Membership:
    """Manages the processes that hold seats. Thread-safe, except for methods whose caller must hold the job's lock.

    Args:
        autoscale: gives a job the factor that its autosizer chooses. If processes are never expelled, this function is
            called after each heartbeat for the job; otherwise, the coordinator calls it periodically.
    """

    def __init__(self, registry: JobRegistry, autoscale: Callable[[str], object]) -> None:
        self._registry = registry
        self._autoscale = autoscale
        self._store = registry.store
        self._clock = registry.clock
        self._now = registry.now
        self._lease = registry.lease
        self._grace = registry.grace
        self._unseated_beats = 0
        self.leads: Callable[[], bool] = lambda: True
        """Returns whether this coordinator leads, and has led without a break since it adopted the jobs."""

    def register(self, registration: Registration) -> RegistrationResponse:
        """Give a process a seat, under an epoch that is higher than all earlier epochs of the job. A process that
        already has a seat keeps its seat and its epoch. A process that gets no seat is told to ask again, or to end if
        it isn't needed.

        A process can take only a free seat. But if processes are never expelled, a process can also request a seat that
        isn't free, and then replaces the seat's holder.

        Raises:
            NotFoundError: there is no such job, or it has no such seat.
            NotLeadingError: the job should run in separate processes, but isn't served here at the moment.
            ConflictError: this coordinator doesn't serve the job for another reason.
            FencedError: processes can be expelled, and this process has had a seat that it no longer holds.
            StoreUnavailableError: it isn't known at the moment whether the process has lost its seat.
            UsageError: the requested seat's name isn't valid.
        """
        if registration.seat is not None:
            check_name("seat", registration.seat)
        with self._registry.locked_all():
            if self._grace is not None and self.is_over(registration.job):
                return RegistrationResponse(lease=self._lease, done=True)
            with self._registry.locked(registration.job) as running_job:
                return self._register(running_job, registration)

    def running(self, job: str) -> RunningDeployment:
        """What a job's next container needs to run the job.

        Raises:
            NotFoundError: there is no such job.
            NotLeadingError: the job should run in separate processes, but isn't served here at the moment, so it isn't
                known which deployment needs a container.
            ConflictError: the job's code isn't available here, or only this process may run the job.
        """
        with self._registry.locked_as_seen() as jobs:
            if job in jobs:
                return stored_jobs.due(self._store, job, seats.program_due(jobs[job]))
            if self._grace is not None:
                self.is_over(job)
            return stored_jobs.running(self._store, job)

    def heartbeat(self, beat: Heartbeat, wait: float = 0.0) -> HeartbeatResponse:
        """Process a heartbeat like :meth:`hear`, but wait for new orders if the container has none. Raises the
        errors of :meth:`hear`.

        Args:
            wait: how many seconds to wait for new orders. The wait never lasts longer than half a lease.
        """
        woken = threading.Event()
        with self.listening(beat, woken.set):
            answer = self.hear(beat)
            news = answer.same and woken.wait(self.patience(wait))
        return self.answer(beat) if news else answer

    def hear(self, beat: Heartbeat) -> HeartbeatResponse:
        """Process what a container reports, and return what it should run.

        A container is told to stop if it holds no seat under the heartbeat's epoch. A container is also told to stop if
        it reports an unknown lane, or a lane of another seat or deployment. There are two exceptions, in which the
        container is told that it is done:

        - The container has returned its seat under this epoch. It may have sent this heartbeat before it left.
        - Processes can be expelled, the container's job has ended, and the container still holds its seat according to
          the store.

        Raises:
            UsageError: the container's id or its report isn't valid.
            NotLeadingError: the job isn't served here at the moment, so it isn't known whether the container may
                continue.
            StoreUnavailableError: the store isn't available, so it isn't known whether the container may continue.
        """
        check_container(beat.container)
        with self._registry.locked_all():
            answer = self._routine(beat) or self._heard(beat)
        if self._grace is None:  # then heartbeats are the only occasion for autoscaling
            self._autoscale(beat.container.partition(":")[0])
        return answer

    def hear_at_once(self, beat: Heartbeat) -> HeartbeatResponse | None:
        """Like :meth:`hear`, but only for a heartbeat that contains nothing but metrics, from a process that knows all
        of its orders. Returns None for any other heartbeat. Also returns None if processes are never expelled, or if it
        isn't known whether an earlier write succeeded. After None, pass the heartbeat to :meth:`hear`.

        Waits neither for other requests nor for the store.
        """
        return None if self._registry.unsure else self._routine(beat)

    def answer(self, beat: Heartbeat) -> HeartbeatResponse:
        """The current answer to a heartbeat that has already been processed.

        Raises:
            NotLeadingError: as in :meth:`hear`.
            StoreUnavailableError: as in :meth:`hear`.
        """
        with self._registry.locked_all():
            running_job, process = self._registry.holder(beat.container)
            if running_job is None or process is None:
                return self._refusal(beat)
            _check_certain(process)
            return offers.answer(running_job, process, beat.seen, self._clock())

    def listening(self, beat: Heartbeat, wake: Callable[[], object]) -> AbstractContextManager[None]:
        """A context in which ``wake`` is called when :meth:`answer` has new orders for the container; see
        :meth:`anabranch.coordinator.jobs.long_polls.LongPolls.waiting`.
        """
        return self._registry.polls.waiting(beat.container, beat.seen, wake)

    def patience(self, wait: float) -> float:
        """How many seconds a client that asks to wait for ``wait`` seconds is kept waiting. The wait lasts at most half
        a lease."""
        return max(0.0, min(wait, self._lease / 2))

    def holds_seat(self, execution: str) -> bool:
        """Whether the process with this EXECUTION_ENV_CONTAINER_ID holds a seat of a job that is served here. If the
        process neither holds such a seat nor stands by for such a seat, the call counts as an invalid heartbeat.
        """
        with self._registry.locked_all():
            served = [running_job.seats for running_job in self._registry.jobs.values()]
            holds = any(process.record.execution == execution for its in served for process in its.processes.values())
            since = self._clock() - self._lease
            self._unseated_beats += not holds and not any(execution in its.standing_by(since) for its in served)
            return holds

    @property
    def invalid_heartbeats(self) -> int:
        """How many invalid heartbeats have arrived since this coordinator started. A heartbeat is invalid if its
        process has no seat of a served job under the heartbeat's epoch, and isn't told that it is done. A call to
        :meth:`holds_seat` also counts as an invalid heartbeat if the process neither has a seat of a served job nor
        stands by for one.
        """
        return self._unseated_beats

    def _register(self, running_job: RunningJob, registration: Registration) -> RegistrationResponse:
        held = next((one for one in running_job.seats.processes.values() if one.record.is_of(registration)), None)
        if held is not None:
            _check_certain(held)
            return self._registered(held)
        if self._grace is not None:
            if (former := self._store.former(registration)) is not None:
                raise FencedError(f"container {former.id} must stop: {former.gone}", "start a new process")
            if self.expel_silent(running_job):
                self._registry.advance(running_job)
            if not running_job.state.active:
                return RegistrationResponse(lease=self._lease, done=True)
        deployment = registration.deployment or running_job.deployment
        registration = msgspec.structs.replace(registration, deployment=deployment)
        if deployment not in {running_job.deployment, *map(running_job.deployment_of, running_job.busy_seats)}:
            return RegistrationResponse(lease=self._lease, done=True)
        seat = None if registration.waits_for_slots else self._free_seat(running_job, registration)
        if seat is None:
            return self._without_seat(running_job, registration)
        lanes = [lane for lane in running_job.lanes if lane.seat == seat and lane.state is not LaneState.CLOSED]
        unheld = map(reports.unheld, lanes)
        record, stored = self._registry.write(self._store.register, registration, seat, list(unheld), self._now())
        now = self._clock()
        process = Process(record=record, lease_ends=now + self._lease)
        seats.take(running_job, process, stored, now)
        self._registry.advance(running_job)
        self._registry.announce()
        return self._registered(process)

    def _free_seat(self, running_job: RunningJob, registration: Registration) -> str | None:
        """The seat that a process can take; None if there is no such seat, or if the requested seat isn't free. (If
        processes are never expelled, a requested seat needn't be free.) Raises NotFoundError if the job doesn't have
        the requested seat.
        """
        seat = registration.seat
        if seat is not None and seat not in running_job.busy_seats:
            raise NotFoundError(
                f"job {running_job.job!r} has no seat {seat!r}",
                f"its seats: {', '.join(sorted(running_job.busy_seats))}",
            )
        if seat is not None and self._grace is None:
            return seat
        free = seats.free(running_job, registration.deployment)
        if seat is None and free:
            return racks.nearest(running_job, free, registration.rack)
        return seat if seat in free else None

    def _without_seat(self, running_job: RunningJob, registration: Registration) -> RegistrationResponse:
        """The answer that makes a process without a seat stand by, ask again, or end because its code isn't needed."""
        if (
            registration.deployment != running_job.deployment
            or seats.program_due(running_job) != running_job.deployment
        ):
            return RegistrationResponse(
                lease=self._lease, done=registration.deployment != seats.program_due(running_job)
            )
        running_job.seats.stand_by(registration, self._clock())
        if running_job.follows:
            self._registry.advance(running_job)  # with this process standing by, the former lanes may end
        return RegistrationResponse(
            lease=self._lease, copies=running_job.standbys.wanted.get(registration.execution, ())
        )

    def _registered(self, process: Process) -> RegistrationResponse:
        process.lease_ends = self._clock() + self._lease
        record = process.record
        return RegistrationResponse(
            container=record.id, epoch=record.epoch, seat=record.seat, lease=self._lease, reads_parts=True
        )

    def expel_silent(self, running_job: RunningJob) -> bool:
        """Expel the job's processes whose leases ended at least ``grace`` seconds ago, unless heartbeats may have been
        refused meanwhile. Returns whether any process was expelled. The caller holds the job's lock."""
        if self._grace is None:
            return False
        before, end = len(running_job.seats.processes), self._clock() - self._grace
        if not self.leads():  # asked after ``end`` was read, so that this process can't be frozen in between
            return False
        for process in list(running_job.seats.processes.values()):
            if self.is_doomed(process, end):
                silent = self._clock() - process.lease_ends + self._lease
                self._registry.expel(running_job, process, "coordinator", f"it sent no heartbeat for {silent:.1f} s")
        return len(running_job.seats.processes) < before

    def is_doomed(self, process: Process, end: float) -> bool:
        """Whether a process is certain to lose its seat. That is so if its lease ended at ``end`` or earlier. Once
        this method has returned True for a process, no heartbeat can prevent the loss.
        """
        with self._registry.leases:
            process.doomed = process.doomed or process.lease_ends <= end
            return process.doomed

    def is_over(self, job: str) -> bool:
        """Whether a job has ended, and therefore isn't served.

        Raises:
            NotFoundError: there is no such job.
            NotLeadingError: the job should run in separate processes, but isn't served here.
        """
        if job in self._registry.jobs:
            return False
        its = stored_jobs.deployment(self._store, job)
        loading.check_adopted(self._registry, its)
        return not its.state.active

    def _routine(self, beat: Heartbeat) -> HeartbeatResponse | None:
        """Process a heartbeat that requires no decision and no change to the store, from a process that knows all of
        its orders. Return None for any other heartbeat. If processes are never expelled, always return None.

        If processes can be expelled, even a heartbeat for which None is returned renews the process's lease. So the
        lease is normally renewed as soon as the heartbeat arrives, even if the heartbeat is processed later. The lease
        isn't renewed if the process is already being expelled, or has no seat under the heartbeat's epoch.
        """
        running_job, process = self._registry.holder(beat.container)
        if self._grace is None:  # a step may have become due, and only heartbeats advance the job
            return None
        if running_job is None or process is None or process.record.epoch != beat.epoch:
            return None
        with self._registry.leases:
            if process.doomed:
                return None
            process.lease_ends = self._clock() + self._lease
            if not offers.is_told(running_job, process, beat.seen):
                return None
            if beat.number > process.heard:
                if beat.leaving or not offers.hear_figures(running_job, process, beat):
                    return None
                process.heard = beat.number
            return offers.same(running_job, beat.seen, self._clock())

    def _heard(self, beat: Heartbeat) -> HeartbeatResponse:
        running_job, process = self._registry.holder(beat.container)
        if running_job is None or process is None or process.record.epoch != beat.epoch:
            return self._refusal(beat)
        _check_certain(process)
        process.lease_ends = self._clock() + self._lease
        if beat.number > process.heard:
            try:
                its = {report.lane: running_job.lane_of(process, report.lane) for report in beat.lanes}
            except (NotFoundError, ConflictError) as error:
                return HeartbeatResponse(alive=False, revision=-1, reason=str(error))
            news = self._take_in(running_job, process, beat, its)
            process.heard = max(process.heard, beat.number)
            if news or self._grace is None:  # if only heartbeats advance the job, news isn't required
                self._registry.advance(running_job)
            if beat.leaving and all(lane.state is LaneState.FAILED for lane in seats.may_write(running_job, process)):
                self._registry.write(self._store.leave, process.record, self._now())
                running_job.seats.leave(process, self._clock() if beat.returns else None)
                self._registry.announce()
                return HeartbeatResponse(alive=True, revision=running_job.seats.revision, done=True)
        return offers.answer(running_job, process, beat.seen, self._clock())

    def _refusal(self, beat: Heartbeat) -> HeartbeatResponse:
        record = self._store.container(beat.container)
        if record is not None and record.epoch == beat.epoch and self._is_finished(record):
            return HeartbeatResponse(alive=True, revision=-1, done=True)
        if record is None:
            reason = f"nobody knows container {beat.container}"
        elif record.epoch != beat.epoch:
            reason = f"container {beat.container} has epoch {record.epoch}, not {beat.epoch}"
        else:
            reason = record.gone or f"job {record.job!r} is not running here"
        self._unseated_beats += 1
        return HeartbeatResponse(alive=False, revision=-1, reason=reason)

    def _is_finished(self, record: ContainerRecord) -> bool:
        """Whether a process has returned its seat, or still holds it although its job has ended."""
        if record.gone is not None:
            return record.has_left
        return self._grace is not None and self.is_over(record.job)

    def _take_in(self, running_job: RunningJob, process: Process, beat: Heartbeat, its: dict[str, Lane]) -> bool:
        changed: dict[str, Lane] = {}
        happened: list[Event] = []
        news = [report for report in beat.lanes if running_job.is_news(report)]
        for report in news:
            lane = its[report.lane]
            after = reports.applied(changed.get(lane.id, lane), report)
            if after is not lane and after.state is LaneState.CLOSED and rewind.lacks_ends(after, running_job.lanes):
                after = msgspec.structs.replace(after, state=LaneState.CLOSING)
            if after is not lane:
                changed[lane.id] = after
            happened += self._lane_events(process, lane, after, report, running_job.attempt(lane.id))
            event = partial(job_events.of_lane, lane, self._now(), container=process.record.id)
            long = running_job.long_batches.take(report)
            if long:
                what = f"continues with batch {report.progress.batch + 1}"
                happened.append(event(what, long))
            if reports.awaits_otherwise(running_job.reports.get(lane.id), report):
                what = f"waits for {report.attempt.awaits}" if report.attempt.awaits else "no longer waits"
                happened.append(event(what, report.attempt.trouble))
            if reports.begins_to_wait(running_job.reports.get(lane.id), report):
                happened.append(event("waits to end", report.attempt.waits))
        if changed or happened:
            self._registry.write(self._store.put_lanes, changed.values(), happened)
            running_job.known.update(changed)
        return offers.hear(running_job, process, news, beat) or bool(news)

    def _lane_events(
        self, process: Process, before: Lane, after: Lane, report: LaneReport, attempt: int
    ) -> list[Event]:
        event = partial(job_events.of_lane, after, self._now(), container=process.record.id)
        if report.attempt.number > attempt:
            where = "in a new process" if report.phase == LanePhase.ENDED else f"attempt {report.attempt.number}"
            return [event(f"failed and is tried again, {where}", report.attempt.trouble, mark="retried")]
        if after is before or (before.state is after.state and report.phase not in reports.LAST_PHASES):
            return []
        what = "runs" if report.phase == LanePhase.RUNNING else report.phase
        return [event(what, after.error or "", mark=_MARKS.get(report.phase))]


def _check_certain(process: Process) -> None:
    if process.doomed:
        raise StoreUnavailableError(f"whether {process.record.id} has lost its seat isn't known now", "ask again")
