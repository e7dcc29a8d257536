"""The jobs that a coordinator serves, and the durable steps that take them on: each is stored before it counts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import msgspec

from anabranch.coordinator import autosizing, changing, draining, reading, replacing, reports
from anabranch.coordinator.changing import Generation, Wanted
from anabranch.coordinator.long_polls import LongPolls
from anabranch.coordinator.naming import check_name
from anabranch.coordinator.replacing import Replacement
from anabranch.coordinator.serving import Process, Serving
from anabranch.coordinator.states import DeploymentState, Snapshot, Transition, step
from anabranch.coordinator.store import ContainerRecord, DeploymentRecord, Event, Store
from anabranch.errors import ConflictError, StoreUnavailableError
from anabranch.messages import Drain, JobStatus
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane, LaneState
from anabranch.planning import changes, rewinding

__all__ = ["HASTE", "Served"]

HASTE = "without waiting: what is written at least once, or was given to foreach_batch, may be done twice"
_REQUESTS_KNOWN = 20
"""So many generations are looked through for a request that is said again."""

P = ParamSpec("P")
T = TypeVar("T")


class Served:
    """Jobs, by name. Whoever calls a method holds the ``lock``, and has called :meth:`look_again` since it took it.

    Args: see :class:`anabranch.coordinator.service.Coordinator`.

    Attributes:
        lock: of all that is here. It is notified when something has changed.
        leases: of what beats that bring figures only touch: they take no other, so it is never held for long.
        polls: who waits for news.
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
        self.jobs: dict[str, Serving] = {}
        self.unsure = False
        """Whether the store may hold something else than what is here."""
        self.lock = threading.Condition()
        self.leases = threading.Lock()
        self.polls = LongPolls()
        self._first = first

    def adopt(self, job: str) -> bool:
        """See :meth:`anabranch.coordinator.service.Coordinator.adopt`."""
        stored = self.store.deployment(check_name("job", job))
        if stored is None or stored.program is None or not DeploymentState(stored.state).active:
            return False
        model = self.store.model(job, stored.id, stored.generation)
        serving = self._serving_of(stored, model, DeploymentState(stored.state), self.store.lanes(job))
        serving.sure_from = self.clock() + self.lease
        for record in self.store.containers(job):
            process = Process(record=record, lease_ends=self.clock() + self.lease)
            process.offered = {
                lane.id for lane in serving.lanes if lane.seat == record.seat and lane.deployment == record.deployment
            }
            serving.processes[record.id] = process
        self.jobs[job] = serving
        self.advance(serving)
        self.announce()
        return True

    def serve(self, stored: DeploymentRecord, settings: dict[str, Any] | None = None) -> None:
        """Bring a stored deployment from whatever state to starting, with its lanes to do again.

        ``settings``: of one without a program.
        """
        job, stored = stored.job, msgspec.structs.replace(stored, error=None)
        transition = step(Snapshot(state=DeploymentState(stored.state), start_wanted=True))
        assert transition is not None
        model = self.store.model(job, stored.id, stored.generation)
        before = self.store.lanes(job)
        its = [lane for lane in before.values() if lane.deployment == stored.id or lane.state is not LaneState.CLOSED]
        over = {name for lane in its for name in lane.predecessors}
        over |= {lane.id for lane in its if lane.deployment != stored.id}
        lanes = before | {lane.id: reports.restarted(lane, lane.id in over) for lane in its}
        event = self.event(job, "coordinator", f"{stored.state} → {transition.to.value}", transition.why)
        self.write(
            self.store.resume_deployment,
            stored,
            transition.to.value,
            [lane for lane in lanes.values() if lane != before[lane.id]],
            "the job was started again",
            event,
        )
        stored = msgspec.structs.replace(stored, changed_at=event.at)
        self.jobs[job] = self._serving_of(stored, model, transition.to, lanes, settings)
        self.advance(self.jobs[job])
        self.announce()

    def write(self, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Take a durable step. If the store was lost in it, it may be stored or not: see :meth:`look_again`."""
        try:
            return step(*args, **kwargs)
        except StoreUnavailableError:
            self.unsure = self.grace is not None
            raise

    def look_again(self) -> None:
        """After a step of which nobody knows whether it is stored: serve what the store says, as one that adopts."""
        if self.unsure:
            for job in self.store.jobs():
                if not self.adopt(job):
                    self.jobs.pop(job, None)
            self.unsure = False

    def serving(self, job: str) -> Serving:
        if job in self.jobs:
            return self.jobs[job]
        state = reading.deployment(self.store, job).state
        raise ConflictError(
            f"job {job!r} is not running here; its last deployment was left {state}",
            "start it: anabranch run JOB.py",
        )

    def holder(self, container: str) -> tuple[Serving | None, Process | None]:
        serving = self.jobs.get(container.partition(":")[0])
        process = None if serving is None else serving.processes.get(container)
        return (None, None) if process is None else (serving, process)

    def at_present(self, job: str) -> tuple[Serving, Generation]:
        """A job that a user wants to change, as it is now. Raises as :meth:`serving`."""
        self.look_again()
        serving = self.serving(job)
        self.advance(serving)
        return serving, self.present(serving)

    def present(self, serving: Serving) -> Generation:
        job, deployment = serving.job, serving.deployment
        return Generation(self.store.graph(job, deployment), self.store.model(job, deployment, serving.generation))

    def is_known(self, job: str, request: str) -> bool:
        """Whether one of the last generations came of this request; of whatever deployment."""
        last = self.store.deployment(job) if request else None
        looked = 0
        while last is not None and looked < _REQUESTS_KNOWN:
            for number in range(last.generation, 0, -1):
                if self.store.model(job, last.id, number).request == request:
                    return True
                looked += 1
            last = self.store.deployment(job, last.id - 1) if last.id > 1 else None
        return False

    def status(self, serving: Serving, lost: Sequence[ContainerRecord] = ()) -> JobStatus:
        """A job as it is now. ``lost``: its last processes that have lost their seats."""
        return serving.status(self.clock(), self.lease, lost)

    def advance(self, serving: Serving, *, stop_wanted: bool = False) -> None:
        """Take every step that is due, then wake who waits for one."""
        self._place_stranded(serving)
        if self._undo_spoilt(serving):
            return
        while self._give_up(serving) or self._open(serving):
            pass
        self._measure_pause(serving)
        moved = self._take_drain_on(serving)
        while (transition := step(serving.snapshot(self.clock(), stop_wanted=stop_wanted))) is not None:
            self._move(serving, transition)
            self._take_drain_on(serving)
            moved = True
        serving.prepare_copies(self.clock(), self.lease)
        if serving.renew() or moved:
            self.announce()

    def _measure_pause(self, serving: Serving) -> None:
        """Note how long output stood still for the last change, once that is known."""
        if serving.pause is None:
            return
        serving.pause.hear(serving.known.values(), serving.reports)
        if serving.state is not DeploymentState.RUNNING:
            return
        watched = serving.pause
        measured = watched.measured(serving.known.values(), self.now() - serving.changed_at)
        if measured is None:
            return
        serving.pause = None
        what = f"output stood still for {measured:.1f} s" if measured else "nothing came to be read in the change"
        if measured:
            serving.shown = serving.shown.after(watched.foretold, measured, watched.state_bytes)
        self.store.note([self.event(serving.job, "coordinator", what, f"{watched.foretold:.1f} s was foretold")])

    def _place_stranded(self, serving: Serving) -> None:
        """Give lanes that must be closed, and whose seat is no more, to one that is."""
        stranded = serving.stranded()
        if not stranded or not serving.state.runs:
            return
        seat = min(serving.model_seats)
        what = f"seat {seat} closes {', '.join(lane.id for lane in stranded)}"
        event = self.event(serving.job, "coordinator", what, "nobody has its seat, which is no more")
        placed = [msgspec.structs.replace(lane, seat=seat) for lane in stranded]
        stored = self.write(self.store.reseat, placed, event)
        serving.known.update({lane.id: lane for lane in stored})
        for lane in stored:
            serving.reports.pop(lane.id, None)

    def _undo_spoilt(self, serving: Serving) -> bool:
        """Whether a change was cancelled as one of its lanes can't start."""
        if serving.state is not DeploymentState.CHANGING or not (spoilt := serving.spoilt()):
            return False
        present, why = self.present(serving), f"lane {spoilt[0].id} can't start: {spoilt[0].error}"
        if not changing.is_cancellable(serving, present):
            return False
        try:
            self.undo(serving, present, "coordinator", why)
        except ConflictError as error:
            self.store.note([self.event(serving.job, "coordinator", "the change can't be taken back", error.what)])
            return False
        return True

    def _give_up(self, serving: Serving) -> bool:
        """Close lanes that can't start, or that nobody was told of, and that others follow already; gives whether there
        were any."""
        if not serving.state.runs:
            return False
        void = [changes.never_begun(lane, lane.error or "") for lane in serving.spoilt(followed=True)]
        void += [changes.never_begun(lane, "another deployment follows") for lane in serving.needless()]
        self._put(serving, void, "never began")
        return bool(void)

    def _open(self, serving: Serving) -> bool:
        """Let lanes start whose predecessors have closed; gives whether there were any."""
        opened = [serving.held(rewinding.opened(lane, serving.known)) for lane in serving.opening()]
        self._put(serving, opened, "may start")
        return bool(opened)

    def _put(self, serving: Serving, lanes: Sequence[Lane], what: str) -> None:
        if lanes:
            happened = [self.event(serving.job, "coordinator", f"lane {lane.id} {what}") for lane in lanes]
            self.write(self.store.put_lanes, lanes, happened)
            serving.known.update({lane.id: lane for lane in lanes})

    def _move(self, serving: Serving, transition: Transition) -> None:
        what, why = f"{serving.state.value} → {transition.to.value}", transition.error or transition.why
        if serving.state is DeploymentState.CHANGING and transition.to is DeploymentState.RUNNING:
            why = f"{why}, in {serving.changed(self.clock()):.1f} s"
        if transition.to is DeploymentState.DRAINED and serving.drains_since:
            took = self.now() - serving.drains_since
            why = f"{why}; in {took:.1f} s, {serving.drains_for:.1f} s was foretold".removeprefix("; ")
        event = self.event(serving.job, "coordinator", what, why)
        job, deployment, to = serving.job, serving.deployment, transition.to
        drain = None if to is DeploymentState.DRAINED else serving.drain
        self.write(self.store.move_deployment, job, deployment, to.value, transition.error, event, drain)
        serving.drain = drain
        serving.state, serving.error, serving.changed_at = to, transition.error, event.at

    def change(self, serving: Serving, wanted: Wanted, now: bool = False) -> None:
        """Go into another generation. ``now``: see :class:`anabranch.messages.Scaling`; another coordinator that takes
        over knows nothing of it."""
        state, model = DeploymentState.CHANGING, wanted.model
        what = f"{serving.state.value} → {state.value}, generation {model.generation}"
        event = self.event(serving.job, wanted.who, what, _hastily(wanted.why, now))
        self.write(self.store.change_deployment, model, state.value, wanted.ending, wanted.told.lanes, event)
        serving.watch(wanted.told.pause, wanted.told.closing, event.at)
        serving.change(model, [*wanted.ending, *wanted.told.lanes], self.clock())
        serving.hasty = now
        self.advance(serving)
        self.announce()

    def put_drain(self, serving: Serving, drain: Drain | None, who: str, what: str, why: str = "") -> None:
        """A drain is wished for, has come so far, or is wished for no more."""
        event = self.event(serving.job, who, what, why)
        self.write(self.store.put_drain, serving.job, serving.deployment, drain, event)
        serving.drain = drain

    def _take_drain_on(self, serving: Serving) -> bool:
        """Take the steps of a drain that are due."""
        moved = False
        while serving.state is DeploymentState.DRAINING and serving.drain is not None:
            following = draining.following(serving.drain, serving.lanes, serving.reports)
            if following is None:
                break
            what = "all is taken in: time ends" if following.last else "the drain takes in all up to its positions"
            where = ", ".join(f"{ssp} at {at}" for ssp, at in (following.until or {}).items())
            self.put_drain(serving, following, "coordinator", what, where)
            moved = True
        return moved

    def undo(self, serving: Serving, present: Generation, who: str, why: str) -> None:
        """Go back to what the job was before the change that is under way. It must be one that can be undone."""
        if serving.follows:
            self.replace(serving, replacing.undone(self.store, serving, present, who, why))
            return
        before = self.store.model(serving.job, serving.deployment, present.generation - 1)
        self.change(serving, changing.undone(serving, present, before, who, why))

    def hasten(self, serving: Serving) -> None:
        """The change that is under way shall not wait for batches that write at least once."""
        if serving.state is DeploymentState.CHANGING and not serving.hasty:
            self.store.note([self.event(serving.job, "user", "the change is hastened", HASTE)])
            serving.hasty = True
            self.advance(serving)

    def replace(self, serving: Serving, wanted: Replacement, now: bool = False) -> None:
        """Go into another deployment of a job that runs. ``now`` as in :meth:`change`."""
        state = DeploymentState.CHANGING
        what = f"{serving.state.value} → {state.value}, {wanted.what}"
        event = self.event(serving.job, wanted.who, what, _hastily(wanted.why, now))
        former = DeploymentState.STOPPED.value
        self.write(self.store.replace_deployment, wanted.start, state.value, former, wanted.ending, event)
        settings = wanted.start.program.settings if wanted.start.program is not None else {}
        limits = autosizing.limits_of(settings)
        serving.watch(wanted.told.pause, wanted.told.closing, event.at)
        serving.replace(wanted.start, settings, limits, wanted.ending, self.clock())
        serving.changed_at, serving.hasty = event.at, now
        serving.begun = self.clock()
        self.advance(serving)
        self.announce()

    def expel(self, serving: Serving, process: Process, who: str, why: str) -> None:
        left = [
            msgspec.structs.replace(reports.unheld(lane), unfenced=True, abandoned=True, begun=True)
            for lane in serving.may_write(process)
        ]
        with self.leases:
            process.doomed = True  # whatever becomes of the write: a beat must not undo half of it
        serving.expel(process, self.write(self.store.expel, process.record, left, why, self.now(), who))
        self.announce()

    def announce(self) -> None:
        """Wake who waits for something that may have changed."""
        self.lock.notify_all()
        self.polls.wake(self._has_news)

    def event(self, job: str, who: str, what: str, why: str = "") -> Event:
        return Event(job=job, at=self.now(), who=who, what=what, why=why)

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
            expels=self.grace is not None,
            revision=self._first(),
            settings=settings,
            autoscale=autosizing.limits_of(settings),
            changed_at=stored.changed_at,
            changing_since=self.clock() - max(0.0, self.now() - stored.changed_at),
            promises=stored.promises,
            error=stored.error,
            drain=stored.drain,
            begun=self.clock(),
        )

    def _has_news(self, container: str, seen: int) -> bool:
        serving, process = self.holder(container)
        return serving is None or process is None or process.doomed or serving.offer(process).revision != seen


def _hastily(why: str, now: bool) -> str:
    return "; ".join(each for each in (why, HASTE if now else "") if each)
