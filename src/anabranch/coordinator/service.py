"""The coordinator: what each job should run, told to its containers. Durable steps are stored first."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import msgspec

from anabranch import artifact
from anabranch.clocks import boottime
from anabranch.coordinator import plans, reading, reports, watching
from anabranch.coordinator.deployments import Deployments
from anabranch.coordinator.launching import Demand
from anabranch.coordinator.naming import check_container, check_name
from anabranch.coordinator.served import HASTE, Served
from anabranch.coordinator.serving import Process, Serving
from anabranch.coordinator.states import DeploymentState
from anabranch.coordinator.store import DeploymentRecord, Event, Store
from anabranch.coordinator.wishes import Wishes
from anabranch.errors import (
    ConflictError,
    FencedError,
    NotFoundError,
    NotLeadingError,
    OutOfTimeError,
    StoreUnavailableError,
)
from anabranch.formats import Format
from anabranch.messages import (
    Answer,
    Heartbeat,
    JobStatus,
    LaneReport,
    Launching,
    Registered,
    Registration,
    Running,
    Start,
)
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane, LaneState
from anabranch.planning import expansion
from anabranch.systems.systems import Systems

__all__ = ["Coordinator", "Fence"]

P = ParamSpec("P")
T = TypeVar("T")

_LOOK_AGAIN = 1.0
_SIZE_EVERY = 1.0
_REQUESTS_KNOWN = 20
"""So many generations are looked through for a request that is said again."""
_LOST_SHOWN = 5
"""So many processes that have lost their seats are shown."""


@dataclass(frozen=True)
class Fence:
    """A lane whose former process must be stopped for good at the outputs, under the lane's epoch."""

    lane: Lane
    settings: dict[str, Any]


class Coordinator:
    """Serves the jobs that are started on it. Thread-safe.

    Nobody else may serve the same job on the same store: see :class:`anabranch.coordinator.endpoint.RunLock`.

    Args:
        clock: seconds, for leases.
        lease: how long a process counts as alive after a beat, in seconds.
        now: seconds since 1970, for what is stored.
        grace: a process that isn't heard for so many seconds more than its lease loses its seat: its lanes are fenced
            (see :meth:`fences`), then others get them. None: it keeps its seat until another process takes it.
        first: where the revisions of a job begin each time that it is taken over: such that no other coordinator's are
            taken for them.
        systems: of the one job that runs in this process; None: those that jobs' settings name.
        counting: finds out how many partitions streams have; see :func:`watching.counted`.
        locating: finds out which racks they are in; see :func:`watching.located`.
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
        counting: watching.Counting = watching.counted,
        locating: watching.Locating = watching.located,
    ) -> None:
        self._store = store
        self._clock = clock
        self._lease = lease
        self._now = now
        self._grace = grace
        self._served = Served(store, clock, lease, now, grace, first)
        self._invalid = 0
        self.wishes = Wishes(self._served, systems, counting, locating)
        self.deployments = Deployments(self._served)

    # What a user asks for

    def start(self, start: Start) -> int:
        """Start a planned job, or go on with its last deployment if that is the same; gives its number.

        A deployment that goes on keeps its own lanes, whatever state it was left in; not those of ``start``. After one
        that was drained another one begins.

        Raises:
            ConflictError: it runs already, or is not the job that was started before; names what differs.
        """
        job = check_name("job", start.graph.job)
        with self._served.lock:
            self._served.look_again()
            if job in self._served.jobs:
                self._served.advance(self._served.jobs[job])
                if self._served.jobs[job].state.active:
                    raise ConflictError(f"job {job!r} is running already", f"anabranch stop {job}")
            stored = self._store.deployment(job)
            if stored is None:
                stored = self._create(plans.numbered(start, 1))
            elif stored.state == DeploymentState.DRAINED.value:
                stored = self._create(plans.after_drain(start, stored.id + 1, self._store.lanes(job)))
            else:
                plans.check_same(stored, start.fingerprint)
            stored = msgspec.structs.replace(stored, until_caught_up=start.until_caught_up, program=start.program)
            self._served.serve(stored, start.settings)
            if stored.drain is None:
                counts = expansion.partitions(start.graph, start.model)
                self.wishes.go_along(self._served.jobs[job], counts, begins=True)
            return stored.id

    def resume(self, job: str) -> int:
        """Go on with a job's last deployment as it was started last; gives its number.

        One that runs, and whose launcher has given up, gets containers again.

        Raises:
            NotFoundError: nobody knows the job.
            ConflictError: it runs already, or only the process that ran it has its code.
        """
        with self._served.lock:
            self._served.look_again()
            stored = reading.deployment(self._store, job)
            if job in self._served.jobs:
                self._served.advance(self._served.jobs[job])
                if self._served.jobs[job].try_again(self._clock()):
                    return stored.id
                if self._served.jobs[job].state.active:
                    raise ConflictError(f"job {job!r} is running already", f"anabranch stop {job}")
            if stored.program is None:
                raise ConflictError(f"the code of job {job!r} is not here", f"start it with its file: JOB.py for {job}")
            if stored.state == DeploymentState.DRAINED.value:
                graph, model = (self._store.graph(job, stored.id), reading.model(self._store, job))
                known = self._store.lanes(job)
                same = plans.again(stored, graph, model, known)
                stored = self._create(plans.after_drain(same, stored.id + 1, known))
            self._served.serve(stored)
            return stored.id

    def _create(self, plan: Start) -> DeploymentRecord:
        """Store a deployment."""
        event = self._served.event(plan.graph.job, "user", f"planned deployment {plan.model.run_id}")
        self._served.write(self._store.create_deployment, plan, DeploymentState.PLANNED.value, event)
        return reading.deployment(self._store, plan.graph.job)

    def adopt(self, job: str) -> bool:
        """Serve a job that another coordinator served, as it was left; its processes have a lease to be heard in.

        Gives whether there is anything to serve: a job that runs, or should, in processes of its own.
        """
        with self._served.lock:
            return self._served.adopt(job)

    def release(self, job: str) -> bool:
        """Serve a job no more if it has ended and nobody has a seat of it; gives whether it isn't served."""
        with self._served.lock:
            serving = self._served.jobs.get(job)
            if serving is not None and (serving.state.active or serving.processes):
                return False
            self._served.jobs.pop(job, None)
            return True

    def abandon(self) -> None:
        """Serve nothing any more: another coordinator does."""
        with self._served.lock:
            self._served.jobs.clear()
            self._served.unsure = False
            self._served.announce()

    def stop(self, job: str, at_once: bool = False) -> None:
        """Let a job's lanes end at a batch boundary; or ``at_once``: what they have begun is finished when they go on.
        Stopping twice is stopping once, and may be said at first without haste. Another coordinator that takes over
        knows nothing of haste.

        Raises:
            NotFoundError: nobody knows the job.
            ConflictError: it doesn't run.
        """
        with self._served.lock:
            self._served.look_again()
            serving = self._served.serving(job)
            self._served.advance(serving)
            if serving.state is DeploymentState.FAILED:
                raise ConflictError(f"job {job!r} is not running: it failed", f"anabranch status {job} says why")
            if at_once and not serving.at_once:
                self._store.note([self._served.event(job, "user", "the stop is hastened", HASTE)])
            serving.at_once = serving.at_once or at_once
            self._served.advance(serving, stop_wanted=True)

    def fence(self, container: str, why: str = "") -> None:
        """Take a container's seat away now: its lanes are fenced (see :meth:`fences`), then others get them.

        Raises:
            NotFoundError: nobody knows the container.
            ConflictError: it has no seat, or processes are never expelled here.
        """
        check_container(container)
        with self._served.lock:
            self._served.look_again()
            serving, process = self._served.holder(container)
            if serving is None or process is None:
                record = self._store.container(container)
                if record is None:
                    raise NotFoundError(
                        f"there is no container {container}", "anabranch status JOB lists those of a job"
                    )
                gone = record.gone or f"job {record.job!r} is not running here"
                raise ConflictError(f"container {container} has no seat: {gone}", f"anabranch status {record.job}")
            if self._grace is None:
                raise ConflictError(
                    f"container {container} is in one process with the coordinator of job {serving.job!r}",
                    f"anabranch stop {serving.job}",
                )
            self._served.expel(serving, process, "user", f"the user fenced it{f': {why}' if why else ''}")
            self._served.advance(serving)

    def wait_until(self, job: str, states: Collection[str], timeout: float | None = None) -> JobStatus:
        """Wait for a job to be in one of the states; gives its status then.

        Raises:
            OutOfTimeError: it wasn't, in ``timeout`` seconds.
        """
        end = None if timeout is None else time.monotonic() + timeout
        with self._served.lock:
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
                self._served.lock.wait(min(left, _LOOK_AGAIN))

    def jobs(self) -> list[JobStatus]:
        """All jobs of the store, by name."""
        return [self.status(job) for job in self._store.jobs()]

    def status(self, job: str) -> JobStatus:
        """A job as it is now; as it was left, if it isn't served here. NotFoundError if nobody knows it."""
        check_name("job", job)
        with self._served.lock:
            if job not in self._served.jobs:
                return reading.status(self._store, job)
            self._served.advance(self._served.jobs[job])
            lost = [] if self._grace is None else self._store.lost(job, _LOST_SHOWN)
            return self._served.status(self._served.jobs[job], lost)

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
        """A process takes a seat, under an epoch above all others of the job.

        Where processes are never expelled a former one is replaced; else only a free seat can be taken.

        Raises:
            NotFoundError: nobody knows the job, or it has no such seat.
            ConflictError: the job isn't served here.
            NotLeadingError: it will be, here or elsewhere.
            FencedError: the process had a seat, and lost it.
        """
        if registration.seat is not None:
            check_name("seat", registration.seat)
        with self._served.lock:
            self._served.look_again()
            if self._grace is not None and self._is_over(registration.job):
                return Registered(lease=self._lease, done=True)
            serving = self._served.serving(registration.job)
            held = next((one for one in serving.processes.values() if one.record.is_of(registration)), None)
            if held is not None:
                _check_certain(held)
                return self._registered(held)
            if self._grace is not None:
                if (former := self._store.former(registration)) is not None:
                    raise FencedError(f"container {former.id} must stop: {former.gone}", "start a new process")
                if self._expel_silent(serving):
                    self._served.advance(serving)
                if not serving.state.active:
                    return Registered(lease=self._lease, done=True)
            registration = msgspec.structs.replace(
                registration, deployment=registration.deployment or serving.deployment
            )
            if registration.deployment not in {serving.deployment, *map(serving.deployment_of, serving.seats)}:
                return Registered(lease=self._lease, done=True)
            seat = registration.seat
            if seat is not None and seat not in serving.seats:
                raise NotFoundError(
                    f"job {serving.job!r} has no seat {seat!r}",
                    f"its seats: {', '.join(sorted(serving.seats))}",
                )
            if seat is None or self._grace is not None:
                free = serving.free_seats(registration.deployment)
                if not free or (seat is not None and seat not in free):
                    if registration.deployment != serving.deployment or serving.program_due != serving.deployment:
                        done = registration.deployment != serving.program_due  # other code is what is missing
                        return Registered(lease=self._lease, done=done)
                    serving.stand_by(registration, self._clock())
                    if serving.follows:
                        self._served.advance(serving)  # the lanes before it may end
                    return Registered(lease=self._lease, copies=serving.copying.get(registration.execution, ()))
                seat = serving.nearest(free, registration.rack) if seat is None else seat
            lanes = [lane for lane in serving.lanes if lane.seat == seat and lane.state is not LaneState.CLOSED]
            unheld = map(reports.unheld, lanes)
            record, stored = self._served.write(self._store.register, registration, seat, list(unheld), self._now())
            now = self._clock()
            process = Process(record=record, lease_ends=now + self._lease)
            serving.seat(process, stored, now)
            self._served.advance(serving)
            self._served.announce()
            return self._registered(process)

    def heartbeat(self, beat: Heartbeat, wait: float = 0.0) -> Answer:
        """:meth:`hear` a beat; if there is no news, wait for some.

        Args:
            wait: seconds, of which half a lease count at most.

        Raises:
            As :meth:`hear`.
        """
        woken = threading.Event()
        with self.listening(beat, woken.set):
            answer = self.hear(beat)
            news = answer.same and woken.wait(self.patience(wait))
        return self.answer(beat) if news else answer

    def hear(self, beat: Heartbeat) -> Answer:
        """Take in what a container says, and say what it should run.

        One that reports lanes which aren't its own, or that it can't have, must stop.

        Raises:
            UsageError: it makes no sense.
            NotLeadingError: the job isn't served here now; whether the process may go on isn't known.
            StoreUnavailableError: as above.
        """
        check_container(beat.container)
        with self._served.lock:
            self._served.look_again()
            return self._routine(beat) or self._heard(beat)

    def hear_at_once(self, beat: Heartbeat) -> Answer | None:
        """:meth:`hear` a beat that brings nothing but figures; None if it must be heard so, as it may take its time.

        It waits for nothing that others do, nor for the store.
        """
        return None if self._served.unsure else self._routine(beat)

    def answer(self, beat: Heartbeat) -> Answer:
        """What there is to say now to a beat that was heard. Raises as :meth:`hear`."""
        with self._served.lock:
            self._served.look_again()
            serving, process = self._served.holder(beat.container)
            if serving is None or process is None:
                return self._refusal(beat)
            _check_certain(process)
            return serving.answer(process, beat.seen)

    def listening(self, beat: Heartbeat, wake: Callable[[], object]) -> AbstractContextManager[None]:
        """Inside ``with``, ``wake`` is called when :meth:`answer` has news; see :meth:`LongPolls.waiting`."""
        return self._served.polls.waiting(beat.container, beat.seen, wake)

    def patience(self, wait: float) -> float:
        """How long a poll that asks for so many seconds waits."""
        return max(0.0, min(wait, self._lease / 2))

    # What time brings

    def tick(self) -> None:
        """Look who wasn't heard for too long; to be called about every second.

        Raises:
            StoreUnavailableError: what must be stored can't be now; call it again.
        """
        with self._served.lock:
            self._served.look_again()
            for serving in self._served.jobs.values():
                self._expel_silent(serving)
                self._served.advance(serving)
                self.wishes.autosize(serving)

    def fences(self) -> list[Fence]:
        """The lanes to fence, now: whoever fences one says so to :meth:`fenced`. Fencing twice is fencing once."""
        with self._served.lock:
            found = []
            for serving in self._served.jobs.values():
                found += [Fence(lane, serving.settings) for lane in serving.lanes if lane.unfenced]
            return found

    def fenced(self, lane: Lane) -> None:
        """A lane was fenced at all its outputs under its epoch: others may go on with it."""
        with self._served.lock:
            self._served.look_again()
            serving = self._served.jobs.get(lane.job)
            held = None if serving is None else serving.known.get(lane.id)
            if serving is None or held is None or not held.unfenced or held.epoch != lane.epoch:
                return
            after = msgspec.structs.replace(held, unfenced=False)
            event = self._served.event(lane.job, "coordinator", f"lane {lane.id} is fenced", f"at epoch {lane.epoch}")
            self._served.write(self._store.put_lanes, [after], [event])
            serving.known[lane.id] = after
            self._served.advance(serving)
            self._served.announce()

    def unfenced(self, lane: Lane, why: str) -> None:
        """A lane can't be fenced yet; it is tried again."""
        self._store.note([self._served.event(lane.job, "coordinator", f"lane {lane.id} can't be fenced yet", why)])

    # What a launcher asks for, and says

    def demands(self, jobs: Collection[str]) -> list[Demand]:
        """What the jobs that are served here want of a launcher; and those of ``jobs`` that have ended."""
        with self._served.lock:
            self._served.look_again()
            found = [serving.demand(self._clock(), self._lease) for serving in self._served.jobs.values()]
            return found + [Demand(job=job, wanted=0, over=True) for job in jobs if self._has_ended(job)]

    def launched(self, job: str, launching: Launching, news: Sequence[tuple[str, str]]) -> None:
        """How its launcher fares with a job; ``news``: what happened, and why."""
        if news:
            self._store.note([self._served.event(job, "launcher", what, why) for what, why in news])
        with self._served.lock:
            if job in self._served.jobs:
                self._served.jobs[job].launching = launching

    # What containers in other processes ask for

    def running(self, job: str) -> Running:
        """What a container needs to run a job.

        Raises:
            NotFoundError: nobody knows it.
            ConflictError: its code isn't here.
        """
        with self._served.lock:
            serving = self._served.jobs.get(job)
            return reading.running(self._store, job, None if serving is None else serving.program_due)

    def put_artifact(self, sha256: str, content: bytes) -> None:
        """Keep the code of a job. UsageError if the hash isn't that of the content, or it is too large."""
        artifact.check(sha256, content)
        self._store.put_artifact(sha256, content)

    def artifact(self, sha256: str) -> bytes:
        """The code of a job. NotFoundError if there is none of that hash."""
        content = self._store.artifact(artifact.check_sha(sha256))
        if content is None:
            raise NotFoundError(f"there is no artifact {sha256}", "start the job again with its file")
        return content

    def holds_seat(self, execution: str) -> bool:
        """Whether the process with this EXECUTION_ENV_CONTAINER_ID holds a seat of a job served here."""
        with self._served.lock:
            self._served.look_again()
            holds = any(
                process.record.execution == execution
                for serving in self._served.jobs.values()
                for process in serving.processes.values()
            )
            self._invalid += not holds
            return holds

    @property
    def invalid_heartbeats(self) -> int:
        """How many beats there were of processes that have no seat, since this coordinator began."""
        return self._invalid

    # How

    def _registered(self, process: Process) -> Registered:
        process.lease_ends = self._clock() + self._lease
        record = process.record
        return Registered(container=record.id, epoch=record.epoch, seat=record.seat, lease=self._lease)

    def _expel_silent(self, serving: Serving) -> bool:
        """Whether any process was silent for too long."""
        if self._grace is None:
            return False
        before, end = len(serving.processes), self._clock() - self._grace
        for process in list(serving.processes.values()):
            if self._is_doomed(process, end):
                silent = self._clock() - process.lease_ends + self._lease
                self._served.expel(serving, process, "coordinator", f"it was not heard for {silent:.1f} s")
        return len(serving.processes) < before

    def _is_doomed(self, process: Process, end: float) -> bool:
        """Whether a process loses its seat as its lease ended before ``end``: then no beat saves it any more."""
        with self._served.leases:
            process.doomed = process.doomed or process.lease_ends <= end
            return process.doomed

    def _is_over(self, job: str) -> bool:
        """Whether a job that isn't served has come to its end; NotLeadingError if it should be served."""
        if job in self._served.jobs:
            return False
        its = reading.deployment(self._store, job)
        if its.program is not None and DeploymentState(its.state).active:
            raise NotLeadingError(f"this coordinator doesn't serve job {job!r} now", "ask again")
        return not DeploymentState(its.state).active

    def _has_ended(self, job: str) -> bool:
        stored = None if job in self._served.jobs else self._store.deployment(job)
        return stored is not None and not DeploymentState(stored.state).active

    def _routine(self, beat: Heartbeat) -> Answer | None:
        """Hear a beat after which nothing has to be decided, stored or told; else None, and only its lease is renewed:
        that counts from when a beat came, however long it waits to be heard."""
        serving, process = self._served.holder(beat.container)
        if self._grace is None:  # time alone may have changed something
            return None
        if serving is None or process is None or process.record.epoch != beat.epoch:
            return None
        with self._served.leases:
            if process.doomed:
                return None
            process.lease_ends = self._clock() + self._lease
            if not serving.is_told(process, beat.seen):
                return None
            if beat.number > process.heard:
                if beat.leaving or not serving.hear_figures(process, beat):
                    return None
                process.heard = beat.number
            return Answer(alive=True, revision=beat.seen, same=True)

    def _heard(self, beat: Heartbeat) -> Answer:
        serving, process = self._served.holder(beat.container)
        if serving is None or process is None or process.record.epoch != beat.epoch:
            return self._refusal(beat)
        _check_certain(process)
        process.lease_ends = self._clock() + self._lease
        if beat.number > process.heard:
            try:
                its = {report.lane: serving.lane_of(process, report.lane) for report in beat.lanes}
            except (NotFoundError, ConflictError) as error:
                return Answer(alive=False, revision=-1, reason=str(error))
            news = self._take_in(serving, process, beat, its)
            process.heard = max(process.heard, beat.number)
            if news or self._grace is None:  # without expulsion, time alone may have changed something
                self._served.advance(serving)
            if self._grace is None:
                self.wishes.autosize(serving)
            if beat.leaving and all(lane.state is LaneState.FAILED for lane in serving.may_write(process)):
                self._served.write(self._store.leave, process.record, self._now())
                serving.leave(process)
                self._served.announce()
                return Answer(alive=True, revision=serving.revision, done=True)
        return serving.answer(process, beat.seen)

    def _refusal(self, beat: Heartbeat) -> Answer:
        record = self._store.container(beat.container)
        holds = record is not None and record.epoch == beat.epoch and record.gone is None
        if record is not None and holds and self._grace is not None and self._is_over(record.job):
            return Answer(alive=True, revision=-1, done=True)
        if record is None:
            reason = f"nobody knows container {beat.container}"
        elif record.epoch != beat.epoch:
            reason = f"container {beat.container} has epoch {record.epoch}, not {beat.epoch}"
        else:
            reason = record.gone or f"job {record.job!r} is not running here"
        self._invalid += 1
        return Answer(alive=False, revision=-1, reason=reason)

    def _take_in(self, serving: Serving, process: Process, beat: Heartbeat, its: dict[str, Lane]) -> bool:
        """Whether a beat brought anything to decide on."""
        changed: dict[str, Lane] = {}
        happened: list[Event] = []
        news = [report for report in beat.lanes if serving.is_news(report)]
        for report in news:
            lane = its[report.lane]
            after = reports.applied(changed.get(lane.id, lane), report)
            if after is not lane:
                changed[lane.id] = after
            happened += self._lane_events(process, lane, after, report, serving.attempt(lane.id))
            long = serving.long_batches.take(report)
            if long:
                what = f"lane {lane.id} goes on with batch {report.batch + 1}"
                happened.append(self._served.event(lane.job, process.record.id, what, long))
            if reports.begins_to_wait(serving.reports.get(lane.id), report):
                what = f"lane {lane.id} waits to end"
                happened.append(self._served.event(lane.job, process.record.id, what, report.waits))
        if changed or happened:
            self._served.write(self._store.put_lanes, changed.values(), happened)
            serving.known.update(changed)
        return serving.hear(process, news, beat) or bool(news)

    def _lane_events(
        self, process: Process, before: Lane, after: Lane, report: LaneReport, attempt: int
    ) -> list[Event]:
        if report.attempt > attempt:
            where = "in a new process" if report.phase == "ended" else f"attempt {report.attempt}"
            what = f"lane {after.id} failed and is tried again, {where}"
            return [self._served.event(after.job, process.record.id, what, report.trouble)]
        if after is before or (before.state is after.state and report.phase not in reports.LAST_PHASES):
            return []
        what = f"lane {after.id} {'runs' if report.phase == 'running' else report.phase}"
        return [self._served.event(after.job, process.record.id, what, after.error or "")]


def _check_certain(process: Process) -> None:
    if process.doomed:
        raise StoreUnavailableError(f"whether {process.record.id} has lost its seat isn't known now", "ask again")
