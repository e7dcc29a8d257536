"""The coordinator: what each job should run, told to its containers. Durable steps are stored first."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import msgspec

from anabranch import artifact
from anabranch.clocks import boottime
from anabranch.config import Settings
from anabranch.coordinator import autosizing, changing, plans, reading, reports, sizing, watching, whence
from anabranch.coordinator.autosizing import Verdict
from anabranch.coordinator.changing import Generation, Wanted
from anabranch.coordinator.launching import Demand
from anabranch.coordinator.naming import check_container, check_name
from anabranch.coordinator.polls import Polls
from anabranch.coordinator.serving import Process, Serving
from anabranch.coordinator.states import DeploymentState, Snapshot, step
from anabranch.coordinator.store import DeploymentRecord, Event, Store
from anabranch.errors import (
    AnabranchError,
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
    Expanding,
    Heartbeat,
    JobStatus,
    LaneReport,
    Launching,
    Registered,
    Registration,
    Rewinding,
    Rewound,
    Running,
    Scaled,
    Scaling,
    Sizing,
    Start,
)
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane, LaneState
from anabranch.planning import changes, expansion, rewinding
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
    ) -> None:
        self._store = store
        self._clock = clock
        self._lease = lease
        self._now = now
        self._grace = grace
        self._first = first
        self._systems = systems
        self._counting = counting
        self._served: dict[str, Serving] = {}
        self._invalid = 0
        self._unsure = False  # whether the store may hold something else than what is served
        self._changed = threading.Condition()
        self._leases = threading.Lock()  # never held for long: beats that bring figures only take no other
        self._polls = Polls()

    # What a user asks for

    def start(self, start: Start) -> int:
        """Start a planned job, or go on with its last deployment if that is the same; gives its number.

        A deployment that goes on keeps its own lanes, whatever state it was left in; not those of ``start``.

        Raises:
            ConflictError: it runs already, or is not the job that was started before; names what differs.
        """
        job = check_name("job", start.graph.job)
        with self._changed:
            self._look_again()
            if job in self._served:
                self._advance(self._served[job])
                if self._served[job].state.active:
                    raise ConflictError(f"job {job!r} is running already", f"anabranch stop {job}")
            stored = self._store.deployment(job)
            if stored is None:
                plan = plans.numbered(start, 1)
                event = self._event(job, "user", "planned deployment 1")
                self._write(self._store.create_deployment, plan, DeploymentState.PLANNED.value, event)
                stored = reading.deployment(self._store, job)
            else:
                plans.check_same(stored, start.fingerprint)
            stored = msgspec.structs.replace(stored, until_caught_up=start.until_caught_up, program=start.program)
            self._serve(stored, start.settings)
            self._go_along(self._served[job], expansion.partitions(start.graph, start.model), begins=True)
            return stored.id

    def resume(self, job: str) -> int:
        """Go on with a job's last deployment as it was started last; gives its number.

        One that runs, and whose launcher has given up, gets containers again.

        Raises:
            NotFoundError: nobody knows the job.
            ConflictError: it runs already, or only the process that ran it has its code.
        """
        with self._changed:
            self._look_again()
            stored = reading.deployment(self._store, job)
            if job in self._served:
                self._advance(self._served[job])
                if self._served[job].try_again(self._clock()):
                    return stored.id
                if self._served[job].state.active:
                    raise ConflictError(f"job {job!r} is running already", f"anabranch stop {job}")
            if stored.program is None:
                raise ConflictError(f"the code of job {job!r} is not here", f"start it with its file: JOB.py for {job}")
            self._serve(stored)
            return stored.id

    def adopt(self, job: str) -> bool:
        """Serve a job that another coordinator served, as it was left; its processes have a lease to be heard in.

        Gives whether there is anything to serve: a job that runs, or should, in processes of its own.
        """
        with self._changed:
            stored = self._store.deployment(check_name("job", job))
            if stored is None or stored.program is None or not DeploymentState(stored.state).active:
                return False
            model = self._store.model(job, stored.id, stored.generation)
            serving = self._serving_of(stored, model, DeploymentState(stored.state), self._store.lanes(job))
            serving.sure_from = self._clock() + self._lease
            for record in self._store.containers(job):
                process = Process(record=record, lease_ends=self._clock() + self._lease)
                process.offered = {lane.id for lane in serving.lanes if lane.seat == record.seat}
                serving.processes[record.id] = process
            self._served[job] = serving
            self._advance(serving)
            self._announce()
            return True

    def release(self, job: str) -> bool:
        """Serve a job no more if it has ended and nobody has a seat of it; gives whether it isn't served."""
        with self._changed:
            serving = self._served.get(job)
            if serving is not None and (serving.state.active or serving.processes):
                return False
            self._served.pop(job, None)
            return True

    def abandon(self) -> None:
        """Serve nothing any more: another coordinator does."""
        with self._changed:
            self._served.clear()
            self._unsure = False
            self._announce()

    def stop(self, job: str) -> None:
        """Let a job's lanes end at a batch boundary. Stopping twice is stopping once.

        Raises:
            NotFoundError: nobody knows the job.
            ConflictError: it doesn't run.
        """
        with self._changed:
            self._look_again()
            serving = self._serving(job)
            self._advance(serving)
            if serving.state is DeploymentState.FAILED:
                raise ConflictError(f"job {job!r} is not running: it failed", f"anabranch status {job} says why")
            self._advance(serving, stop_wanted=True)

    def fence(self, container: str, why: str = "") -> None:
        """Take a container's seat away now: its lanes are fenced (see :meth:`fences`), then others get them.

        Raises:
            NotFoundError: nobody knows the container.
            ConflictError: it has no seat, or processes are never expelled here.
        """
        check_container(container)
        with self._changed:
            self._look_again()
            serving, process = self._holder(container)
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
            self._expel(serving, process, "user", f"the user fenced it{f': {why}' if why else ''}")
            self._advance(serving)

    def scale(self, job: str, wish: Scaling) -> Scaled:
        """Give a running job another factor, or number of containers: some lanes are closed, others go on from them.

        It is changing until all of them run. Said twice with the same request, or when it is so already, nothing
        happens.

        Raises:
            NotFoundError: nobody knows the job.
            ConflictError: it doesn't run, or is being changed; or it can't be changed so while it runs.
            ConfigError: such a factor, or number of containers, can't be.
        """
        with self._changed:
            serving, present = self._at_present(job)
            known = self._is_known(serving, wish.request)
            wanted = None if known else changing.scaled(serving, present, wish, alone=self._grace is None)
            if wanted is None:
                return Scaled(generation=present.generation, factor=present.factor, containers=present.containers)
            if not wish.dry:
                self._change(serving, wanted)
            assert isinstance(wanted.told, Scaled)
            return wanted.told

    def rewind(self, job: str, wish: Rewinding) -> Rewound:
        """Let a running job read its source streams again from some place: lanes are closed, and those that go on from
        them begin there.

        It is changing until all of them run. Said twice with the same request, nothing more happens. A partition that
        wasn't read so far goes on where it is.

        Raises:
            NotFoundError: nobody knows the job, or it reads no such partition.
            ConflictError: it doesn't run, or is being changed.
            UsageError: no such place, or nothing is said of the state that the job keeps.
            AnabranchError: a system doesn't answer.
        """
        with self._changed:
            serving, present = self._at_present(job)
            if self._is_known(serving, wish.request):
                return Rewound(generation=present.generation)
            changing.check_changeable(serving)
            sources = rewinding.sources(present.graph, serving.lanes)
            systems = self._systems or Systems(Settings(**serving.settings), job)
        to = whence.offsets(wish.to, job, sources, systems)  # which may take long
        with self._changed:
            serving, present = self._at_present(job)
            if self._is_known(serving, wish.request):
                return Rewound(generation=present.generation)
            wanted = changing.rewound(serving, present, wish, to)
            if not wish.dry:
                self._change(serving, wanted)
            assert isinstance(wanted.told, Rewound)
            return wanted.told

    def expand(self, job: str, wish: Expanding) -> Scaled:
        """Let a running job go along with its inputs, whose partitions have become more. It is changing until all of
        its lanes run. Said twice with the same request, or when there are no more of them, nothing happens.

        Raises:
            NotFoundError: nobody knows the job.
            ConflictError: it doesn't run, or is being changed; or it can't go along: says which stream, and why.
            AnabranchError: a system doesn't answer.
        """
        with self._changed:
            self._look_again()
            serving = self._serving(job)
            inputs, settings = self._inputs(serving), serving.settings
        counts = self._counting(job, settings, inputs)
        with self._changed:
            serving, present = self._at_present(job)
            serving.counts = counts
            known = self._is_known(serving, wish.request)
            wanted = None if known else changing.expanded(serving, present, counts, "user", wish.request)
            if wanted is None:
                return Scaled(generation=present.generation, factor=present.factor, containers=present.containers)
            if not wish.dry:
                self._change(serving, wanted)
            assert isinstance(wanted.told, Scaled)
            return wanted.told

    def sizing(self, job: str) -> Sizing:
        """What decides on a job's factor and containers.

        Raises:
            NotFoundError: nobody knows the job.
            ConflictError: it isn't served here.
        """
        with self._changed:
            serving = self._serving(job)
            verdict = self._verdict(serving)
            scalable = changing.is_scalable(serving, self._present(serving))
            return sizing.of(self.status(job), scalable, verdict.why if verdict else "")

    def cancel(self, job: str) -> None:
        """Let a job that is being changed go back to what it was before.

        Raises:
            NotFoundError: nobody knows the job.
            ConflictError: it isn't being changed, or goes back already; a new lane has failed after it had begun; or
                it is rewound, and records are being processed again.
        """
        with self._changed:
            serving, present = self._at_present(job)
            changing.check_cancellable(serving, present)
            self._change(serving, self._undone(serving, present, "user", "the user cancelled it"))

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
            lost = [] if self._grace is None else self._store.lost(job, _LOST_SHOWN)
            return self._served[job].status(self._clock(), self._lease, lost)

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
        with self._changed:
            self._look_again()
            if self._grace is not None and self._is_over(registration.job):
                return Registered(lease=self._lease, done=True)
            serving = self._serving(registration.job)
            held = next((one for one in serving.processes.values() if one.record.is_of(registration)), None)
            if held is not None:
                _check_certain(held)
                return self._registered(held)
            if self._grace is not None:
                if (former := self._store.former(registration)) is not None:
                    raise FencedError(f"container {former.id} must stop: {former.gone}", "start a new process")
                if self._expel_silent(serving):
                    self._advance(serving)
                if not serving.state.active:
                    return Registered(lease=self._lease, done=True)
            seat = registration.seat
            if seat is not None and seat not in serving.seats:
                raise NotFoundError(
                    f"job {serving.job!r} has no seat {seat!r}",
                    f"its seats: {', '.join(sorted(serving.seats))}",
                )
            if seat is None or self._grace is not None:
                free = serving.free_seats()
                if not free or (seat is not None and seat not in free):
                    serving.stand_by(registration, self._clock())
                    return Registered(lease=self._lease)
                seat = min(free) if seat is None else seat
            lanes = [lane for lane in serving.lanes if lane.seat == seat and lane.state is not LaneState.CLOSED]
            unheld = map(reports.unheld, lanes)
            record, stored = self._write(self._store.register, registration, seat, list(unheld), self._now())
            process = Process(record=record, lease_ends=self._clock() + self._lease)
            serving.seat(process, stored)
            self._advance(serving)
            self._announce()
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
        with self._changed:
            self._look_again()
            return self._routine(beat) or self._heard(beat)

    def hear_at_once(self, beat: Heartbeat) -> Answer | None:
        """:meth:`hear` a beat that brings nothing but figures; None if it must be heard so, as it may take its time.

        It waits for nothing that others do, nor for the store.
        """
        return None if self._unsure else self._routine(beat)

    def answer(self, beat: Heartbeat) -> Answer:
        """What there is to say now to a beat that was heard. Raises as :meth:`hear`."""
        with self._changed:
            self._look_again()
            serving, process = self._holder(beat.container)
            if serving is None or process is None:
                return self._refusal(beat)
            _check_certain(process)
            return serving.answer(process, beat.seen)

    def listening(self, beat: Heartbeat, wake: Callable[[], object]) -> AbstractContextManager[None]:
        """Inside ``with``, ``wake`` is called when :meth:`answer` has news; see :meth:`Polls.waiting`."""
        return self._polls.waiting(beat.container, beat.seen, wake)

    def patience(self, wait: float) -> float:
        """How long a poll that asks for so many seconds waits."""
        return max(0.0, min(wait, self._lease / 2))

    # What time brings

    def tick(self) -> None:
        """Look who wasn't heard for too long; to be called about every second.

        Raises:
            StoreUnavailableError: what must be stored can't be now; call it again.
        """
        with self._changed:
            self._look_again()
            for serving in self._served.values():
                self._tick(serving)

    def look(self) -> None:
        """Look at the inputs of the jobs that run and for which it is time, and let them go along; to be called about
        every second. It takes as long as systems take to answer."""
        with self._changed:
            self._look_again()
            now = self._clock()
            due = [
                (serving, self._inputs(serving))
                for serving in self._served.values()
                if serving.state is DeploymentState.RUNNING and now >= serving.look_from
            ]
        for serving, inputs in due:
            counts, why = serving.counts, ""
            try:
                counts = self._counting(serving.job, serving.settings, inputs)
            except AnabranchError as error:
                why = f"how many partitions its inputs have isn't known: {error.what}"
            with self._changed:
                self._look_again()
                if self._served.get(serving.job) is not serving:
                    continue
                serving.look_from = self._clock() + serving.looks_every
                serving.counts, serving.warning = counts, why or serving.warning
                if not why and serving.state is DeploymentState.RUNNING:
                    self._go_along(serving, counts)

    def fences(self) -> list[Fence]:
        """The lanes to fence, now: whoever fences one says so to :meth:`fenced`. Fencing twice is fencing once."""
        with self._changed:
            found = []
            for serving in self._served.values():
                found += [Fence(lane, serving.settings) for lane in serving.lanes if lane.unfenced]
            return found

    def fenced(self, lane: Lane) -> None:
        """A lane was fenced at all its outputs under its epoch: others may go on with it."""
        with self._changed:
            self._look_again()
            serving = self._served.get(lane.job)
            held = None if serving is None else serving.known.get(lane.id)
            if serving is None or held is None or not held.unfenced or held.epoch != lane.epoch:
                return
            after = msgspec.structs.replace(held, unfenced=False)
            event = self._event(lane.job, "coordinator", f"lane {lane.id} is fenced", f"at epoch {lane.epoch}")
            self._write(self._store.put_lanes, [after], [event])
            serving.known[lane.id] = after
            self._advance(serving)
            self._announce()

    def unfenced(self, lane: Lane, why: str) -> None:
        """A lane can't be fenced yet; it is tried again."""
        self._store.note([self._event(lane.job, "coordinator", f"lane {lane.id} can't be fenced yet", why)])

    # What a launcher asks for, and says

    def demands(self, jobs: Collection[str]) -> list[Demand]:
        """What the jobs that are served here want of a launcher; and those of ``jobs`` that have ended."""
        with self._changed:
            self._look_again()
            found = [serving.demand(self._clock(), self._lease) for serving in self._served.values()]
            return found + [Demand(job=job, wanted=0, over=True) for job in jobs if self._has_ended(job)]

    def launched(self, job: str, launching: Launching, news: Sequence[tuple[str, str]]) -> None:
        """How its launcher fares with a job; ``news``: what happened, and why."""
        if news:
            self._store.note([self._event(job, "launcher", what, why) for what, why in news])
        with self._changed:
            if job in self._served:
                self._served[job].launching = launching

    # What containers in other processes ask for

    def running(self, job: str) -> Running:
        """What a container needs to run a job.

        Raises:
            NotFoundError: nobody knows it.
            ConflictError: its code isn't here.
        """
        return reading.running(self._store, job)

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
        with self._changed:
            self._look_again()
            holds = any(
                process.record.execution == execution
                for serving in self._served.values()
                for process in serving.processes.values()
            )
            self._invalid += not holds
            return holds

    @property
    def invalid_heartbeats(self) -> int:
        """How many beats there were of processes that have no seat, since this coordinator began."""
        return self._invalid

    # How

    def _write(self, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Take a durable step. If the store was lost in it, it may be stored or not: see :meth:`_look_again`."""
        try:
            return step(*args, **kwargs)
        except StoreUnavailableError:
            self._unsure = self._grace is not None
            raise

    def _look_again(self) -> None:
        """After a step of which nobody knows whether it is stored: serve what the store says, as one that adopts."""
        if self._unsure:
            for job in self._store.jobs():
                if not self.adopt(job):
                    self._served.pop(job, None)
            self._unsure = False

    def _serve(self, stored: DeploymentRecord, settings: dict[str, Any] | None = None) -> None:
        """Bring a stored deployment from whatever state to starting, with its lanes to do again.

        ``settings``: of one without a program.
        """
        job, stored = stored.job, msgspec.structs.replace(stored, error=None)
        transition = step(Snapshot(state=DeploymentState(stored.state), start_wanted=True))
        assert transition is not None
        model = self._store.model(job, stored.id, stored.generation)
        before = self._store.lanes(job)
        its = [lane for lane in before.values() if lane.deployment == stored.id]
        followed = {name for lane in its for name in lane.predecessors}
        lanes = before | {lane.id: reports.restarted(lane, lane.id in followed) for lane in its}
        event = self._event(job, "coordinator", f"{stored.state} → {transition.to.value}", transition.why)
        self._write(
            self._store.resume_deployment,
            stored,
            transition.to.value,
            [lane for lane in lanes.values() if lane != before[lane.id]],
            "the job was started again",
            event,
        )
        stored = msgspec.structs.replace(stored, changed_at=event.at)
        self._served[job] = self._serving_of(stored, model, transition.to, lanes, settings)
        self._advance(self._served[job])
        self._announce()

    def _serving_of(
        self,
        stored: DeploymentRecord,
        model: JobModel,
        state: DeploymentState,
        lanes: dict[str, Lane],
        settings: dict[str, Any] | None = None,
    ) -> Serving:
        settings = (settings or {}) if stored.program is None else stored.program.settings
        return Serving(
            job=stored.job,
            deployment=stored.id,
            model=model,
            state=state,
            until_caught_up=stored.until_caught_up,
            known=lanes,
            expels=self._grace is not None,
            revision=self._first(),
            settings=settings,
            autoscale=autosizing.limits_of(settings),
            changed_at=stored.changed_at,
            promises=stored.promises,
            error=stored.error,
            begun=self._clock(),
        )

    def _registered(self, process: Process) -> Registered:
        process.lease_ends = self._clock() + self._lease
        record = process.record
        return Registered(container=record.id, epoch=record.epoch, seat=record.seat, lease=self._lease)

    def _tick(self, serving: Serving) -> None:
        self._expel_silent(serving)
        self._advance(serving)
        self._autosize(serving)

    def _expel_silent(self, serving: Serving) -> bool:
        """Whether any process was silent for too long."""
        if self._grace is None:
            return False
        before, end = len(serving.processes), self._clock() - self._grace
        for process in list(serving.processes.values()):
            if self._is_doomed(process, end):
                silent = self._clock() - process.lease_ends + self._lease
                self._expel(serving, process, "coordinator", f"it was not heard for {silent:.1f} s")
        return len(serving.processes) < before

    def _is_doomed(self, process: Process, end: float) -> bool:
        """Whether a process loses its seat as its lease ended before ``end``: then no beat saves it any more."""
        with self._leases:
            process.doomed = process.doomed or process.lease_ends <= end
            return process.doomed

    def _expel(self, serving: Serving, process: Process, who: str, why: str) -> None:
        left = [
            msgspec.structs.replace(reports.unheld(lane), unfenced=True, abandoned=True, begun=True)
            for lane in serving.may_write(process)
        ]
        with self._leases:
            process.doomed = True  # whatever becomes of the write: a beat must not undo half of it
        serving.expel(process, self._write(self._store.expel, process.record, left, why, self._now(), who))
        self._announce()

    def _serving(self, job: str) -> Serving:
        if job in self._served:
            return self._served[job]
        state = reading.deployment(self._store, job).state
        raise ConflictError(
            f"job {job!r} is not running here; its last deployment was left {state}",
            "start it: anabranch run JOB.py",
        )

    def _is_over(self, job: str) -> bool:
        """Whether a job that isn't served has come to its end; NotLeadingError if it should be served."""
        if job in self._served:
            return False
        its = reading.deployment(self._store, job)
        if its.program is not None and DeploymentState(its.state).active:
            raise NotLeadingError(f"this coordinator doesn't serve job {job!r} now", "ask again")
        return not DeploymentState(its.state).active

    def _has_ended(self, job: str) -> bool:
        stored = None if job in self._served else self._store.deployment(job)
        return stored is not None and not DeploymentState(stored.state).active

    def _holder(self, container: str) -> tuple[Serving | None, Process | None]:
        serving = self._served.get(container.partition(":")[0])
        process = None if serving is None else serving.processes.get(container)
        return (None, None) if process is None else (serving, process)

    def _routine(self, beat: Heartbeat) -> Answer | None:
        """Hear a beat after which nothing has to be decided, stored or told; else None, and only its lease is renewed:
        that counts from when a beat came, however long it waits to be heard."""
        serving, process = self._holder(beat.container)
        if self._grace is None:  # time alone may have changed something
            return None
        if serving is None or process is None or process.record.epoch != beat.epoch:
            return None
        with self._leases:
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
        serving, process = self._holder(beat.container)
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
                self._advance(serving)
            if self._grace is None:
                self._autosize(serving)
            if beat.leaving and all(lane.state is LaneState.FAILED for lane in serving.may_write(process)):
                self._write(self._store.leave, process.record, self._now())
                serving.leave(process)
                self._announce()
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
        if changed or happened:
            self._write(self._store.put_lanes, changed.values(), happened)
            serving.known.update(changed)
        return serving.hear(process, news, seen=beat.seen) or bool(news)

    def _lane_events(
        self, process: Process, before: Lane, after: Lane, report: LaneReport, attempt: int
    ) -> list[Event]:
        if report.attempt > attempt:
            what = f"lane {after.id} failed and is tried again, attempt {report.attempt}"
            return [self._event(after.job, process.record.id, what, report.trouble)]
        if after is before or (before.state is after.state and report.phase not in reports.LAST_PHASES):
            return []
        what = f"lane {after.id} {'runs' if report.phase == 'running' else report.phase}"
        return [self._event(after.job, process.record.id, what, after.error or "")]

    def _advance(self, serving: Serving, *, stop_wanted: bool = False) -> None:
        """Take every transition that is due, each stored before it counts; then wake who waits for it."""
        moved = False
        stranded = serving.stranded()
        if stranded and serving.state.runs:
            seat = min(serving.model_seats)
            what = f"seat {seat} closes {', '.join(lane.id for lane in stranded)}"
            event = self._event(serving.job, "coordinator", what, "nobody has its seat, which is no more")
            placed = [msgspec.structs.replace(lane, seat=seat) for lane in stranded]
            stored = self._write(self._store.reseat, placed, event)
            serving.known.update({lane.id: lane for lane in stored})
            for lane in stored:
                serving.reports.pop(lane.id, None)
        if serving.state is DeploymentState.CHANGING and (spoilt := serving.spoilt()):
            present, why = self._present(serving), f"lane {spoilt[0].id} can't start: {spoilt[0].error}"
            if changing.is_cancellable(serving, present):
                self._change(serving, self._undone(serving, present, "coordinator", why))
                return
        if serving.state.runs and (over := serving.spoilt(followed=True)):
            void = [changes.never_begun(lane, lane.error or "") for lane in over]
            happened = [self._event(serving.job, "coordinator", f"lane {lane.id} never began") for lane in void]
            self._write(self._store.put_lanes, void, happened)
            serving.known.update({lane.id: lane for lane in void})
        opening = serving.opening()
        if opening:
            opened = [serving.held(rewinding.opened(lane, serving.known)) for lane in opening]
            happened = [self._event(serving.job, "coordinator", f"lane {lane.id} may start") for lane in opened]
            self._write(self._store.put_lanes, opened, happened)
            serving.known.update({lane.id: lane for lane in opened})
        while (transition := step(serving.snapshot(self._clock(), stop_wanted=stop_wanted))) is not None:
            what, why = f"{serving.state.value} → {transition.to.value}", transition.error or transition.why
            if serving.state is DeploymentState.CHANGING and transition.to is DeploymentState.RUNNING:
                why = f"{why}, in {serving.changed(self._clock()):.1f} s"
            event = self._event(serving.job, "coordinator", what, why)
            self._write(
                self._store.move_deployment,
                serving.job,
                serving.deployment,
                transition.to.value,
                transition.error,
                event,
            )
            serving.state, serving.error, serving.changed_at = transition.to, transition.error, event.at
            moved = True
        if serving.renew() or moved:
            self._announce()

    def _at_present(self, job: str) -> tuple[Serving, Generation]:
        """A job that a user wants to change, as it is now. Raises as :meth:`_serving`."""
        self._look_again()
        serving = self._serving(job)
        self._advance(serving)
        return serving, self._present(serving)

    def _present(self, serving: Serving) -> Generation:
        job, deployment = serving.job, serving.deployment
        return Generation(self._store.graph(job, deployment), self._store.model(job, deployment, serving.generation))

    def _is_known(self, serving: Serving, request: str) -> bool:
        """Whether one of the last generations came of this request."""
        last = range(serving.generation, max(0, serving.generation - _REQUESTS_KNOWN), -1)
        models = (self._store.model(serving.job, serving.deployment, number) for number in last)
        return bool(request) and any(model.request == request for model in models)

    def _inputs(self, serving: Serving) -> list[str]:
        """The streams that a job reads and others write."""
        present = self._present(serving)
        return list(expansion.partitions(present.graph, present.model))

    def _go_along(self, serving: Serving, counts: Mapping[str, int], begins: bool = False) -> None:
        """Let a job have as many partitions as its inputs, or say once why it doesn't."""
        before, serving.warning = serving.warning, ""
        try:
            wanted = changing.expanded(serving, self._present(serving), counts, "coordinator", begins=begins)
        except ConflictError as error:
            serving.warning = str(error)
            if serving.warning != before:
                what = "the job doesn't go along with its inputs"
                self._store.note([self._event(serving.job, "coordinator", what, error.what)])
            return
        if wanted is not None:
            self._change(serving, wanted)

    def _undone(self, serving: Serving, present: Generation, who: str, why: str) -> Wanted:
        before = self._store.model(serving.job, serving.deployment, present.generation - 1)
        return changing.undone(serving, present, before, who, why)

    def _change(self, serving: Serving, wanted: Wanted) -> None:
        """Go into another generation."""
        state, model = DeploymentState.CHANGING, wanted.model
        what = f"{serving.state.value} → {state.value}, generation {model.generation}"
        event = self._event(serving.job, wanted.who, what, wanted.why)
        self._write(self._store.change_deployment, model, state.value, wanted.ending, wanted.told.lanes, event)
        serving.change(model, [*wanted.ending, *wanted.told.lanes], self._clock())
        self._advance(serving)
        self._announce()

    def _verdict(self, serving: Serving) -> Verdict | None:
        """What the autosizer makes of a job; None if it is off."""
        if serving.autoscale is None:
            return None
        since, undone = self._now() - serving.changed_at, serving.model.undoes > 0
        return autosizing.decide(serving.autoscale, serving.status(self._clock(), self._lease), since, undone)

    def _autosize(self, serving: Serving) -> None:
        """Give a job the factor that the autosizer finds. One that it can't have is wished for once a generation."""
        if serving.autoscale is None or self._clock() < serving.sized_at + _SIZE_EVERY:
            return
        serving.sized_at = self._clock()
        verdict = self._verdict(serving)
        if verdict is None or verdict.factor is None or serving.generation == serving.refused:
            return
        wish, present = Scaling(factor=verdict.factor), self._present(serving)
        try:
            wanted = changing.scaled(serving, present, wish, self._grace is None, "autoscale", verdict.why)
        except AnabranchError as error:
            what = f"the factor stays {present.factor}, and should be {verdict.factor}"
            self._write(self._store.note, [self._event(serving.job, "autoscale", what, f"{verdict.why}; {error}")])
            serving.refused = serving.generation
            return
        if wanted is not None:
            self._change(serving, wanted)

    def _announce(self) -> None:
        """Wake who waits for something that may have changed."""
        self._changed.notify_all()
        self._polls.wake(self._has_news)

    def _has_news(self, container: str, seen: int) -> bool:
        serving, process = self._holder(container)
        return serving is None or process is None or process.doomed or serving.offer(process).revision != seen

    def _event(self, job: str, who: str, what: str, why: str = "") -> Event:
        return Event(job=job, at=self._now(), who=who, what=what, why=why)


def _check_certain(process: Process) -> None:
    if process.doomed:
        raise StoreUnavailableError(f"whether {process.record.id} has lost its seat isn't known now", "ask again")
