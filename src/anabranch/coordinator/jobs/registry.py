"""Holds the jobs that a coordinator serves, and takes the steps that advance them. Each step is stored before it takes
effect."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ParamSpec, TypeVar

import msgspec

from anabranch.coordinator.jobs import (
    draining,
    job_events,
    loading,
    next_deployment,
    offers,
    pauses,
    reports,
    seats,
    snapshots,
    standbys,
    status_view,
    transitions,
)
from anabranch.coordinator.jobs.long_polls import LongPolls
from anabranch.coordinator.jobs.next_deployment import NextDeployment
from anabranch.coordinator.jobs.parts import DeploymentTerms, Process, RunSettings
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.jobs.states import Transition, started, step
from anabranch.coordinator.jobs.transitions import Generation, NextGeneration
from anabranch.coordinator.jobs.troubles import Unread, isolated
from anabranch.coordinator.store import ContainerRecord, DeploymentRecord, Event, Store, stored_jobs
from anabranch.errors import ConflictError, StoreUnavailableError
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.graph import Graph
from anabranch.model.lane import Lane
from anabranch.model.naming import check_name
from anabranch.planning.transition import opening, rewind
from anabranch.protocol.deployment import StartRequest
from anabranch.protocol.drain import DrainProgress
from anabranch.protocol.status import JobStatus
from anabranch.views.events import EventKind
from anabranch.views.lane_times import MarkKind

__all__ = ["JobRegistry"]

P = ParamSpec("P")
T = TypeVar("T")


class JobRegistry:
    """The served jobs, by name. Most methods require that the job is locked, with :meth:`locked`.

    Args: see :class:`anabranch.coordinator.coordinator.Coordinator`.

    Attributes:
        leases: the lock for the data that every heartbeat changes, even a heartbeat that contains only metrics. Such a
            heartbeat waits for no other lock, so never hold ``leases`` for long.
        polls: the clients that wait for new orders.
        has_launcher: whether this coordinator's launcher starts the jobs' containers. Set this before you serve a job.
        owning: returns a context that keeps other processes from serving a job, even after ``with`` has ended, unless
            the body of ``with`` fails. Enter this context before the job is locked.
    """

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float],
        lease: float,
        now: Callable[[], float],
        grace: float | None,
        first: Callable[[], int],
    ) -> None:
        self.store = store
        self.clock = clock
        self.lease = lease
        self.now = now
        self.grace = grace
        self.jobs: dict[str, RunningJob] = {}
        self.unsure = False
        """Whether the connection to the store was lost during a step, so that the store may differ from memory. Always
        False if ``grace`` is None.
        """
        self.unread = Unread()
        self.leases = threading.Lock()
        self.polls = LongPolls()
        self._lock = threading.Condition()
        self._graphs: dict[str, tuple[int, Graph]] = {}
        self.first = first
        self.has_launcher = False
        self.owning: Callable[[str], AbstractContextManager[None]] = lambda job: nullcontext()

    @contextmanager
    def locked(self, job: str) -> Iterator[RunningJob]:
        """Lock all jobs that are served here, as :meth:`locked_all` does, and provide one of them.

        Raises:
            NotFoundError: there is no such job.
            ConflictError: this coordinator doesn't serve the job.
            NotLeadingError: as for :func:`loading.check_adopted`.
        """
        with self.locked_all() as jobs:
            if job not in jobs:
                stored = stored_jobs.deployment(self.store, job)
                loading.check_adopted(self, stored)
                what = f"job {job!r} is not running here; its last deployment was left {stored.state}"
                raise ConflictError(what, "start it: anabranch run JOB.py")
            yield jobs[job]

    @contextmanager
    def locked_all(self) -> Iterator[dict[str, RunningJob]]:
        """Lock all jobs that are served here. If it isn't known whether an earlier step was stored, read the jobs from
        the store first.
        """
        with self._lock:
            self._look_again()
            yield self.jobs

    @contextmanager
    def locked_as_seen(self) -> Iterator[dict[str, RunningJob]]:
        """Lock all jobs in their last known state, without looking up whether the last step was stored."""
        with self._lock:
            yield self.jobs

    def wait(self, seconds: float) -> None:
        """Unlock the jobs until one of them may have changed, for at most ``seconds``, and lock them again."""
        self._lock.wait(seconds)

    def create(self, plan: StartRequest) -> DeploymentRecord:
        """Store a deployment in the state PLANNED, and return it."""
        event = self.event("state", plan.graph.job, "user", f"planned deployment {plan.model.run_id}")
        self.write(self.store.create_deployment, plan, DeploymentState.PLANNED, event)
        return stored_jobs.deployment(self.store, plan.graph.job)

    def adopt(self, job: str) -> bool:
        """See :meth:`anabranch.coordinator.coordinator.Coordinator.adopt`."""
        stored = self.store.deployment(check_name("job", job))
        if stored is None or stored.program is None or not stored.state.active:
            return False
        running_job = loading.adopted(self, self.store, stored, self.jobs.get(job))
        with self.isolated(running_job):
            self.advance(running_job)
        self.jobs[job] = running_job
        self.announce()
        return True

    def serve(self, stored: DeploymentRecord, settings: Mapping[str, Any] | None = None) -> None:
        """Serve a stored deployment that is neither drained nor reset. The deployment gets the state STARTING. Its open
        lanes and the open lanes of former deployments run again.

        If the deployment has no program that contains the job's settings, ``settings`` must contain them.
        """
        job, stored = stored.job, msgspec.structs.replace(stored, error=None)
        transition = started(stored.state)
        model = self.store.model(job, stored.id, stored.generation)
        before = self.store.lanes(job)
        lanes = reports.all_restarted(before, stored.id)
        event = job_events.moved(job, self.now(), stored.state, transition.to, transition.why)
        self.write(
            self.store.resume_deployment,
            stored,
            transition.to,
            [lane for lane in lanes.values() if lane != before[lane.id]],
            job_events.STARTED_AGAIN,
            event,
        )
        stored = msgspec.structs.replace(stored, changed_at=event.at)
        self.jobs[job] = loading.loaded(self, stored, model, transition.to, lanes, settings)
        self.advance(self.jobs[job])
        self.announce()

    def write(self, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Store a step. If the connection to the store is lost meanwhile, it isn't known whether the step was stored.
        After such a loss, the next :meth:`locked_all` reads the jobs from the store again, unless ``grace`` is None.
        """
        try:
            return step(*args, **kwargs)
        except StoreUnavailableError:
            self.unsure = self.grace is not None
            raise

    def _look_again(self) -> None:
        """If it isn't known whether a step was stored, adopt all stored jobs again. Otherwise, adopt only the jobs that
        couldn't be adopted last time. Jobs that can't be adopted are no longer served."""
        for job in self.store.jobs() if self.unsure else self.unread.jobs:
            if not self.unread.adopted(job, self.adopt):
                self.jobs.pop(job, None)
        self.unsure = False

    def holder(self, container: str) -> tuple[RunningJob | None, Process | None]:
        running_job = self.jobs.get(container.partition(":")[0])
        process = None if running_job is None else running_job.seats.processes.get(container)
        return (None, None) if process is None else (running_job, process)

    def up_to_date(self, running_job: RunningJob) -> Generation:
        """Take all due steps of a job, and return the job's generation after these steps."""
        self.advance(running_job)
        return self.present(running_job)

    def present(self, running_job: RunningJob) -> Generation:
        """The current generation of a job. Its graph is read from the store once per deployment."""
        job, deployment = running_job.job, running_job.deployment
        known = self._graphs.get(job)
        if known is None or known[0] != deployment:
            known = self._graphs[job] = (deployment, self.store.graph(job, deployment))
        return Generation(known[1], running_job.model)

    def status(self, running_job: RunningJob, lost: Sequence[ContainerRecord] = ()) -> JobStatus:
        """The current status of a job. ``lost`` contains processes that no longer hold their seats."""
        return status_view.status(running_job, self.clock(), self.lease, lost)

    def advance(self, running_job: RunningJob, *, stop_wanted: bool = False) -> None:
        """Take all due steps of a job. If the state or an offer changes, wake the clients that wait."""
        self._place_stranded(running_job)
        if self._undo_spoilt(running_job):
            return
        while self._give_up(running_job) or self._open(running_job):
            pass
        self._measure_pause(running_job)
        moved = self._take_drain_on(running_job)
        while (transition := step(snapshots.taken(running_job, self.clock(), stop_wanted=stop_wanted))) is not None:
            self._move(running_job, transition)
            self._take_drain_on(running_job)
            moved = True
        standbys.prepare(running_job, self.clock(), self.lease)
        seats.be_patient(running_job, self.clock())
        if offers.renew(running_job) or moved:
            self.announce()

    def isolated(
        self, running_job: RunningJob, what: str = "the job can't be advanced"
    ) -> AbstractContextManager[None]:
        """See :func:`troubles.isolated`."""
        return isolated(self.store, running_job, what, self.now())

    def _measure_pause(self, running_job: RunningJob) -> None:
        if (found := pauses.measured(running_job, self.clock())) is not None:
            self.store.note([job_events.measured(running_job.job, self.now(), *found)])

    def _place_stranded(self, running_job: RunningJob) -> None:
        """If the job runs, move the closing lanes in :meth:`RunningJob.stranded` to one of the existing seats."""
        stranded = running_job.stranded()
        if not stranded or not running_job.state.runs:
            return
        seat = min(running_job.model_seats)
        what = f"seat {seat} has to close {', '.join(lane.id for lane in stranded)}"
        event = self.event("seat", running_job.job, "coordinator", what, "their seat no longer exists")
        placed = [msgspec.structs.replace(lane, seat=seat) for lane in stranded]
        stored = self.write(self.store.reseat, placed, event)
        running_job.known.update({lane.id: lane for lane in stored})
        for lane in stored:
            running_job.reports.pop(lane.id, None)

    def _undo_spoilt(self, running_job: RunningJob) -> bool:
        if running_job.state is not DeploymentState.CHANGING or not (spoilt := running_job.spoilt()):
            return False
        present, why = self.present(running_job), f"lane {spoilt[0].id} can't start: {spoilt[0].error}"
        if not transitions.is_cancellable(running_job, present):
            return False
        try:
            self.undo(running_job, present, "coordinator", why)
        except ConflictError as error:
            if running_job.progress.stays != (change := (running_job.deployment, running_job.generation)):
                self.store.note([job_events.stays(running_job.job, self.now(), error.what)])
                running_job.progress.stays = change
            return False
        return True

    def _give_up(self, running_job: RunningJob) -> bool:
        """If the job runs, close two kinds of lanes without running them: lanes that already have successors but can't
        start, and closing lanes that needn't run (see :meth:`RunningJob.needless`). Returns whether any were closed.
        """
        if not running_job.state.runs:
            return False
        void = [opening.never_begun(lane, lane.error or "") for lane in running_job.spoilt(followed=True)]
        void += [opening.never_begun(lane, "another deployment follows") for lane in running_job.needless()]
        self._put(running_job, void, "never began", "ended")
        return bool(void)

    def _open(self, running_job: RunningJob) -> bool:
        opened = [running_job.as_held(rewind.opened(lane, running_job.known)) for lane in running_job.opening()]
        self._put(running_job, opened, "has its start offsets")
        return bool(opened)

    def _put(self, running_job: RunningJob, lanes: Sequence[Lane], what: str, mark: MarkKind | None = None) -> None:
        if lanes:
            happened = [job_events.of_lane(lane, self.now(), what, mark=mark) for lane in lanes]
            self.write(self.store.put_lanes, lanes, happened)
            running_job.known.update({lane.id: lane for lane in lanes})

    def _move(self, running_job: RunningJob, transition: Transition) -> None:
        why, took = transition.error or transition.why, None
        if running_job.state is DeploymentState.CHANGING and transition.to is DeploymentState.RUNNING:
            took = running_job.progress.finished(self.clock())
            why = f"{why}, in {took:.1f} s"
        if transition.to is DeploymentState.DRAINED and running_job.progress.drains_since is not None:
            drained_in = self.clock() - running_job.progress.drains_since
            why = f"{why}; it took {drained_in:.1f} s, and {running_job.progress.drains_for:.1f} s was expected"
        job, deployment, to = running_job.job, running_job.deployment, transition.to
        event = job_events.moved(job, self.now(), running_job.state, to, why, error=transition.error, seconds=took)
        drain = None if to is DeploymentState.DRAINED else running_job.progress.drain
        self.write(self.store.move_deployment, job, deployment, to, transition.error, event, drain)
        running_job.progress.drain = drain
        running_job.state, running_job.error = to, transition.error
        running_job.progress.has_changed(event.at, self.clock())

    def change(self, running_job: RunningJob, planned: NextGeneration, now: bool = False) -> None:
        """Enter another generation. For ``now``, see :class:`anabranch.protocol.commands.ChangeRequest`. The value of
        ``now`` isn't stored, so another coordinator that takes over doesn't know it.
        """
        state, model = DeploymentState.CHANGING, planned.model
        event = job_events.began(running_job, planned, self.now(), now)
        result, foretold = pauses.foretold(running_job, planned.result, event.at, now)
        ending, lanes, noted = planned.ending, result.lanes, job_events.predicted(event.job, event.at, result)
        self.write(self.store.change_deployment, model, state, ending, lanes, event, noted)
        running_job.progress.watch(foretold, result.closing, running_job.reports, event.at)
        running_job.change(model, [*planned.ending, *planned.result.lanes], self.clock())
        running_job.progress.has_changed(event.at, self.clock())
        running_job.progress.hasty = now
        self.advance(running_job)
        self.announce()

    def put_drain(self, running_job: RunningJob, drain: DrainProgress | None, who: str, what: str, why: str) -> None:
        """Record that a drain was requested, has progressed, or was cancelled."""
        event = self.event("drain", running_job.job, who, what, why)
        self.write(self.store.put_drain, running_job.job, running_job.deployment, drain, event)
        running_job.progress.drain = drain

    def _take_drain_on(self, running_job: RunningJob) -> bool:
        moved = False
        while running_job.state is DeploymentState.DRAINING and running_job.progress.drain is not None:
            following = draining.following(running_job.progress.drain, running_job.lanes, running_job.reports)
            if following is None:
                break
            what = "everything is taken in: event time ends" if following.last else "the drain's end positions are set"
            where = ", ".join(f"{ssp} at {at}" for ssp, at in (following.until or {}).items())
            self.put_drain(running_job, following, "coordinator", what, where)
            moved = True
        return moved

    def undo(self, running_job: RunningJob, present: Generation, who: str, why: str) -> None:
        """Undo the change that is under way, which must be cancellable (see :func:`transitions.check_cancellable`).
        Raises ConflictError if the change can't be undone after all.
        """
        if running_job.follows:
            self.replace(running_job, next_deployment.undone(self.store, running_job, present, who, why))
            return
        before = self.store.model(running_job.job, running_job.deployment, present.generation - 1)
        self.change(running_job, transitions.undone(running_job, present, before, who, why))

    def hasten(self, running_job: RunningJob) -> None:
        """If a change is under way, break off the closing lanes' batches instead of waiting for these batches."""
        if running_job.state is DeploymentState.CHANGING and not running_job.progress.hasty:
            self.store.note([job_events.hastened(running_job.job, self.now(), "change", "change")])
            running_job.progress.hasty = True
            self.advance(running_job)

    def replace(self, running_job: RunningJob, planned: NextDeployment, now: bool = False) -> None:
        """Enter another deployment of a running job. For ``now``, see :meth:`change`."""
        state = DeploymentState.CHANGING
        event = job_events.began(running_job, planned, self.now(), now)
        result, foretold = pauses.foretold(running_job, planned.result, event.at, now)
        former, noted = DeploymentState.STOPPED, job_events.predicted(event.job, event.at, result)
        self.write(self.store.replace_deployment, planned.start, state, former, planned.ending, event, noted)
        start, settings = planned.start, {} if planned.start.program is None else planned.start.program.settings
        terms = DeploymentTerms(RunSettings.of(settings), start.until_caught_up, start.promises)
        running_job.progress.watch(foretold, result.closing, running_job.reports, event.at)
        running_job.replace(start, terms, planned.ending, self.clock())
        running_job.progress.has_changed(event.at, self.clock())
        running_job.progress.hasty = now
        running_job.seats.begun = self.clock()
        self.advance(running_job)
        self.announce()

    def expel(self, running_job: RunningJob, process: Process, who: str, why: str) -> None:
        left = [
            msgspec.structs.replace(reports.unheld(lane), unfenced=True, abandoned=True, begun=True)
            for lane in seats.may_write(running_job, process)
        ]
        with self.leases:
            # Even if the write below fails, the expulsion may be stored. So heartbeats must not renew the lease.
            process.doomed = True
        seats.expel(running_job, process, self.write(self.store.expel, process.record, left, why, self.now(), who))
        self.announce()

    def announce(self) -> None:
        """Wake the clients for which something may have changed."""
        self._lock.notify_all()
        self.polls.wake(self._has_news)

    def event(self, kind: EventKind, job: str, who: str, what: str, why: str = "") -> Event:
        return Event(kind=kind, job=job, at=self.now(), who=who, what=what, why=why)

    def _has_news(self, container: str, seen: int) -> bool:
        running_job, process = self.holder(container)
        return (
            running_job is None or process is None or process.doomed or offers.of(running_job, process).revision != seen
        )
