"""The coordinator: what each job should run, told to its containers. Durable steps are stored first."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection

import msgspec

from anabranch.coordinator import plans, reading, reports
from anabranch.coordinator.naming import check_container, check_name
from anabranch.coordinator.serving import Process, Serving
from anabranch.coordinator.states import DeploymentState, Snapshot, step
from anabranch.coordinator.store import DeploymentRecord, Event, Store
from anabranch.errors import ConflictError, NotFoundError, OutOfTimeError
from anabranch.formats import Format
from anabranch.messages import Answer, Heartbeat, JobStatus, LaneReport, Registered, Registration, Start
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane, LaneState

__all__ = ["Coordinator", "boottime"]

_LOOK_AGAIN = 1.0


def boottime() -> float:
    """Seconds on a clock that goes on while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Coordinator:
    """Serves the jobs that are started on it. Thread-safe.

    Nobody else may serve the same job on the same store: see :class:`anabranch.coordinator.endpoint.RunLock`.

    Args:
        clock: seconds, for leases.
        lease: how long a process counts as alive after a beat, in seconds.
        now: seconds since 1970, for what is stored.
    """

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float] = boottime,
        lease: float = 10.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._clock = clock
        self._lease = lease
        self._now = now
        self._served: dict[str, Serving] = {}
        self._changed = threading.Condition()

    # What a user asks for

    def start(self, start: Start) -> int:
        """Start a planned job, or go on with its last deployment if that is the same; gives its number.

        A deployment that goes on keeps its own lanes, whatever state it was left in; not those of ``start``.

        Raises:
            ConflictError: it runs already, or is not the job that was started before; names what differs.
        """
        job = check_name("job", start.graph.job)
        with self._changed:
            if job in self._served:
                self._advance(self._served[job])
                if self._served[job].state.active:
                    raise ConflictError(f"job {job!r} is running already", f"anabranch stop {job}")
            stored = self._store.deployment(job)
            if stored is None:
                plan = plans.numbered(start, 1)
                event = self._event(job, "user", "planned deployment 1")
                self._store.create_deployment(plan, DeploymentState.PLANNED.value, event)
                stored = reading.deployment(self._store, job)
            else:
                plans.check_same(stored, start.fingerprint)
            self._serve(msgspec.structs.replace(stored, until_caught_up=start.until_caught_up))
            return stored.id

    def stop(self, job: str) -> None:
        """Let a job's lanes end at a batch boundary. Stopping twice is stopping once.

        Raises:
            NotFoundError: nobody knows the job.
            ConflictError: it doesn't run.
        """
        with self._changed:
            serving = self._serving(job)
            self._advance(serving)
            if serving.state is DeploymentState.FAILED:
                raise ConflictError(f"job {job!r} is not running: it failed", f"anabranch status {job} says why")
            self._advance(serving, stop_wanted=True)

    def wait_until(self, job: str, states: Collection[str], timeout: float | None = None) -> JobStatus:
        """Wait for a job to be in one of the states; gives its status then.

        Raises:
            OutOfTimeError: it wasn't, in ``timeout`` seconds.
        """
        end = None if timeout is None else time.monotonic() + timeout
        with self._changed:
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
                self._changed.wait(min(left, _LOOK_AGAIN))

    def jobs(self) -> list[JobStatus]:
        """All jobs of the store, by name."""
        return [self.status(job) for job in self._store.jobs()]

    def status(self, job: str) -> JobStatus:
        """A job as it is now; as it was left, if it isn't served here. NotFoundError if nobody knows it."""
        check_name("job", job)
        with self._changed:
            if job not in self._served:
                return reading.status(self._store, job)
            self._advance(self._served[job])
            return self._served[job].status(self._clock())

    def model(self, job: str) -> JobModel:
        """The present generation of the job's last deployment."""
        return reading.model(self._store, job)

    def events(self, job: str, limit: int = 100) -> list[Event]:
        """The last ``limit`` events of a job, oldest first."""
        return reading.events(self._store, job, limit)

    def known_formats(self, job: str) -> dict[str, Format]:
        """The formats that a job keeps, by stream; none for one that never ran."""
        return reading.known_formats(self._store, job)

    def known_lanes(self, job: str) -> dict[str, Lane]:
        """All lanes that a job ever had, by id; none for a job that never ran."""
        return reading.known_lanes(self._store, job)

    # What a container says

    def register(self, registration: Registration) -> Registered:
        """A process takes a seat, under an epoch above all others of the job; a former one is replaced.

        Raises:
            NotFoundError: nobody knows the job, or it has no such seat.
            ConflictError: the job isn't served here.
        """
        seat = check_name("seat", registration.seat)
        with self._changed:
            serving = self._serving(registration.job)
            if seat not in serving.seats:
                raise NotFoundError(
                    f"job {serving.job!r} has no seat {seat!r}",
                    f"its seats: {', '.join(sorted(serving.seats))}",
                )
            lanes = [lane for lane in serving.lanes if lane.seat == seat and lane.state is not LaneState.CLOSED]
            unheld = [
                msgspec.structs.replace(lane, state=LaneState.PLANNED) if lane.state is LaneState.RUNNING else lane
                for lane in lanes
            ]
            record, stored = self._store.register(registration, unheld, self._now())
            serving.seat(Process(record=record, lease_ends=self._clock() + self._lease), stored)
            self._advance(serving)
            self._changed.notify_all()
            return Registered(container=record.id, epoch=record.epoch, lease=self._lease)

    def heartbeat(self, beat: Heartbeat, wait: float = 0.0) -> Answer:
        """Take in what a container says, and say what it should run.

        Args:
            wait: seconds to wait (at most half a lease) for something that ``beat.seen`` hasn't seen.

        Raises:
            NotFoundError, ConflictError: it reports a lane that nobody knows, or of another seat.
        """
        check_container(beat.container)
        with self._changed:
            serving, process = self._holder(beat.container)
            if serving is None or process is None or process.record.epoch != beat.epoch:
                return self._refusal(beat)
            process.lease_ends = self._clock() + self._lease
            self._take_in(serving, process, beat)
            self._advance(serving)
            self._changed.wait_for(
                lambda: serving.revision != beat.seen or self._holder(beat.container)[1] is not process,
                timeout=max(0.0, min(wait, self._lease / 2)),
            )
            if self._holder(beat.container)[1] is not process:
                return self._refusal(beat)
            process.lease_ends = self._clock() + self._lease
            return serving.answer(process)

    def holds_seat(self, execution: str) -> bool:
        """Whether the process with this EXECUTION_ENV_CONTAINER_ID holds a seat of a job served here."""
        with self._changed:
            return any(
                process.record.execution == execution
                for serving in self._served.values()
                for process in serving.processes.values()
            )

    # How

    def _serve(self, stored: DeploymentRecord) -> None:
        """Bring a stored deployment from whatever state to starting, with its lanes to do again."""
        job = stored.job
        transition = step(Snapshot(state=DeploymentState(stored.state), start_wanted=True))
        assert transition is not None
        model = self._store.model(job, stored.id, stored.generation)
        before = self._store.lanes(job)
        lanes = {lane.id: reports.restarted(lane) if lane.deployment == stored.id else lane for lane in before.values()}
        self._store.resume_deployment(
            stored,
            transition.to.value,
            [lane for lane in lanes.values() if lane != before[lane.id]],
            "the job was started again",
            self._event(job, "coordinator", f"{stored.state} → {transition.to.value}", transition.why),
        )
        self._served[job] = Serving(
            job=job,
            deployment=stored.id,
            generation=stored.generation,
            seats=frozenset(container.seat for container in model.containers),
            state=transition.to,
            until_caught_up=stored.until_caught_up,
            known=lanes,
        )
        self._advance(self._served[job])
        self._changed.notify_all()

    def _serving(self, job: str) -> Serving:
        if job in self._served:
            return self._served[job]
        state = reading.deployment(self._store, job).state
        raise ConflictError(
            f"job {job!r} is not running here; its last deployment was left {state}",
            "start it: anabranch run JOB.py",
        )

    def _holder(self, container: str) -> tuple[Serving | None, Process | None]:
        for serving in self._served.values():
            if container in serving.processes:
                return serving, serving.processes[container]
        return None, None

    def _refusal(self, beat: Heartbeat) -> Answer:
        record = self._store.container(beat.container)
        if record is None:
            reason = f"nobody knows container {beat.container}"
        elif record.epoch != beat.epoch:
            reason = f"container {beat.container} has epoch {record.epoch}, not {beat.epoch}"
        else:
            reason = record.gone or f"job {record.job!r} is not running here"
        return Answer(alive=False, revision=-1, reason=reason)

    def _take_in(self, serving: Serving, process: Process, beat: Heartbeat) -> None:
        changed: dict[str, Lane] = {}
        happened: list[Event] = []
        news = [report for report in beat.lanes if serving.is_news(report)]
        for report in news:
            lane = serving.lane_of(process, report.lane)
            after = reports.applied(changed.get(lane.id, lane), report)
            if after is not lane:
                changed[lane.id] = after
                happened += self._lane_events(process, lane, after, report)
        if changed:
            self._store.put_lanes(changed.values(), happened)
            serving.known.update(changed)
        serving.hear(process, news, seen=beat.seen)

    def _lane_events(self, process: Process, before: Lane, after: Lane, report: LaneReport) -> list[Event]:
        if before.state is after.state and report.phase not in reports.LAST_PHASES:
            return []
        what = f"lane {after.id} {'runs' if report.phase == 'running' else report.phase}"
        return [self._event(after.job, process.record.id, what, after.error or "")]

    def _advance(self, serving: Serving, *, stop_wanted: bool = False) -> None:
        """Take every transition that is due, each stored before it counts; then wake who waits for it."""
        moved = False
        while (transition := step(serving.snapshot(self._clock(), stop_wanted=stop_wanted))) is not None:
            what = f"{serving.state.value} → {transition.to.value}"
            event = self._event(serving.job, "coordinator", what, transition.error or transition.why)
            self._store.move_deployment(serving.job, serving.deployment, transition.to.value, transition.error, event)
            serving.state, serving.error = transition.to, transition.error
            moved = True
        if serving.renew() or moved:
            self._changed.notify_all()

    def _event(self, job: str, who: str, what: str, why: str = "") -> Event:
        return Event(job=job, at=self._now(), who=who, what=what, why=why)
